"""Noisy values in households, from noisy whole numbers of shares. Public.

The ledger stores what was drawn: whole numbers of shares. The public side works with the same
values in households.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
