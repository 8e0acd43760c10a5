"""The Walsh-Hadamard transform between a table of binary columns and its parities.

Entry S of the transform of a table is the sum over its cells x of (-1)^(number of ones of x in S):
the number of records with an even number of ones in S minus the number with an odd one. Applying
the transform twice multiplies a table by its number of cells.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain


def walsh(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the transform of a table, same shape; every axis has one or two codes.

    The number of additions is cells times columns (Yates 1937).

    >>> walsh(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    if any(size > 2 for size in values.shape):
        raise ValueError("Only tables of binary columns have parities.")
    flat = np.array(values, dtype=np.float64, order="C").reshape(-1)
    _butterflies(flat)
    return flat.reshape(values.shape)


def parity_mask(domain: Domain, clique: Clique) -> int:
    """Return the index of a parity in the flat transform of the joint table.

    Its binary digits select the digits of a cell's flat index that the parity adds up. A column of
    one code has no digit, because its code is always 0.
    """
    mask, digit = 0, 1
    for name, size in zip(reversed(domain.columns), reversed(domain.sizes), strict=True):
        if size == 2:
            mask |= digit if name in clique else 0
            digit <<= 1
    return mask


@numba.njit(cache=True)
def _butterflies(values: NDArray[np.float64]) -> None:
    half = 1
    while half < values.size:
        for start in range(0, values.size, 2 * half):
            for index in range(start, start + half):
                one, two = values[index], values[index + half]
                values[index] = one + two
                values[index + half] = one - two
        half *= 2


@numba.njit(cache=True)
def even_mass(joint: NDArray[np.float64], mask: int) -> float:
    """Return the mass of a flat table's cells with an even number of ones in the mask."""
    total = 0.0
    for index in range(joint.size):
        if not _odd(index & mask):
            total += joint[index]
    return total


@numba.njit(cache=True)
def scale_even(joint: NDArray[np.float64], mask: int, factor: float, rest: float) -> None:
    """Multiply the cells with even parity by `factor` and the others by `rest`, in place."""
    for index in range(joint.size):
        joint[index] *= rest if _odd(index & mask) else factor


@numba.njit(cache=True)
def _odd(digits: int) -> bool:
    odd = False
    while digits:
        digits &= digits - 1
        odd = not odd
    return odd
