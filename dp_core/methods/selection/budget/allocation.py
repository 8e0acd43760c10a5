"""Division of a measuring budget among tables that minimises their total error.

With noise of standard deviation proportional to `rho ** -1/2` the sum over tables of cells times
noise is least at shares proportional to `cells ** 2/3`; with noise proportional to `1 / epsilon`,
at shares proportional to `cells ** 1/2` (Lagrange multipliers; Zhang et al., PrivSyn, 2021,
Section 4.2). Shares are exact: roots are taken of integers, never of floats, so that they do not
depend on a machine's arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

Allocation = Literal["rho", "epsilon", "equal"]
"""The currency in which the division is the best one; `equal` gives every table the same."""

_DIGITS = 10**6  # roots keep six decimals: far finer than the noise notices


def shares(cells: Sequence[int], allocation: Allocation = "rho") -> tuple[Fraction, ...]:
    """Return the part of the budget of each table, summing to exactly 1.

    Args:
        cells: Number of cells of each table (or of those that matter), at least 1.
        allocation: `rho` for zCDP budgets, `epsilon` for pure ones, or `equal`.

    >>> shares([8, 27, 64])
    (Fraction(4, 29), Fraction(9, 29), Fraction(16, 29))
    """
    if any(count < 1 for count in cells):
        raise ValueError(f"Every table needs at least one cell, got {list(cells)}.")
    return normalise([weight(count, allocation) for count in cells])


def weight(cells: int, allocation: Allocation = "rho") -> int:
    """Return the relative weight of a table, a whole number (six decimals, scaled up).

    >>> weight(27), weight(25, "epsilon"), weight(25, "equal")
    (9000000, 5000000, 1000000)
    """
    if allocation == "rho":
        return _cube_root(cells**2 * _DIGITS**3)
    if allocation == "epsilon":
        return math.isqrt(cells * _DIGITS**2)
    return _DIGITS


def normalise(weights: Sequence[int]) -> tuple[Fraction, ...]:
    """Return whole weights as exact shares that sum to 1."""
    total = sum(weights)
    return tuple(Fraction(part, total) for part in weights)


def _cube_root(value: int) -> int:
    """Return the largest integer whose cube is at most `value`."""
    root = round(math.cbrt(value))
    while root**3 > value:
        root -= 1
    while (root + 1) ** 3 <= value:
        root += 1
    return root
