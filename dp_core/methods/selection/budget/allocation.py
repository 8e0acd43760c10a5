"""Division of a measuring budget among tables that minimises their total error.

The total error is the sum over tables of cells times noise. If the standard deviation of the noise
is proportional to `rho ** -1/2`, it is minimal for shares proportional to `cells ** 2/3`; if
proportional to `1 / epsilon`, for shares proportional to `cells ** 1/2` (Lagrange multipliers;
Zhang et al., PrivSyn, 2021, Section 4.2). Roots are computed with integers, so that shares are
exact and equal on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

Allocation = Literal["rho", "epsilon", "equal"]
"""The currency for which the division is optimal; `equal` gives every table the same share."""

_DIGITS = 10**6  # roots have six decimals, which is far more than accuracy requires


def shares(cells: Sequence[int], allocation: Allocation = "rho") -> tuple[Fraction, ...]:
    """Return each table's part of the budget; the parts sum to exactly 1.

    Args:
        cells: Number of (relevant) cells of each table, at least 1.
        allocation: `rho` for zCDP budgets, `epsilon` for pure ones, or `equal`.

    >>> shares([8, 27, 64])
    (Fraction(4, 29), Fraction(9, 29), Fraction(16, 29))
    """
    if any(count < 1 for count in cells):
        raise ValueError(f"Every table needs at least one cell, got {list(cells)}.")
    return normalise([weight(count, allocation) for count in cells])


def weight(cells: int, allocation: Allocation = "rho") -> int:
    """Return the relative weight of a table as an integer, in units of 1e-6.

    >>> weight(27), weight(25, "epsilon"), weight(25, "equal")
    (9000000, 5000000, 1000000)
    """
    if allocation == "rho":
        return _cube_root(cells**2 * _DIGITS**3)
    if allocation == "epsilon":
        return math.isqrt(cells * _DIGITS**2)
    return _DIGITS


def normalise(weights: Sequence[int]) -> tuple[Fraction, ...]:
    """Return integer weights as exact shares that sum to 1."""
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
