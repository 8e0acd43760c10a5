"""Noisy values in households, from noisy whole numbers of shares, and back. Public.

The ledger stores what was drawn: whole numbers of shares. The public side works with the same
values in households.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 2**51
"""Whole numbers of shares below this in size are recovered exactly from values in households."""


LARGEST_NOISE = LARGEST // 64
"""Largest scale of noise in shares; noise exceeds 64 times its scale less than once in 10^27."""


def in_households(values: NDArray[np.int64], shares: int) -> NDArray[Any]:
    """Return noisy whole numbers of shares in units of households (records).

    Args:
        values: Noisy whole numbers, any shape.
        shares: Shares of a unit.

    Returns:
        Floats, each the nearest to value/shares; `values` itself if a unit has one share.
    """
    return values if shares == 1 else values / shares


def scale_in_households(scale: Fraction, shares: int) -> float:
    """Return the scale of noise in households from that in shares, as the nearest float."""
    return float(scale / shares)


def stored_shares(values: NDArray[Any], shares: int) -> NDArray[np.int64]:
    """Return the whole numbers of shares that `in_households` turned into values.

    A float k/S has a relative error of at most 2^-53, and its product with S adds at most another
    2^-53. So the product is within |k| 2^-52 (1 + 2^-54) of k, which is less than one half for
    |k| < `LARGEST`.

    Args:
        values: Values in households, any shape.
        shares: Shares of a unit.

    Raises:
        ValueError: if a value is not the result of `in_households`, or too large to be found again.

    >>> stored_shares(in_households(np.array([-7, 0, 25]), 12), 12)
    array([-7,  0, 25])
    """
    if shares == 1:
        if values.dtype != np.int64:
            raise ValueError(f"Noisy values are whole numbers, not {values.dtype}.")
        return values
    found = np.rint(np.asarray(values, dtype=np.float64) * shares)
    if not (np.abs(found) < LARGEST).all():
        raise ValueError("A noisy value is too large to be a whole number of shares.")
    whole = found.astype(np.int64)
    if not np.array_equal(in_households(whole, shares), values):
        raise ValueError("A noisy value is not a whole number of shares.")
    return whole
