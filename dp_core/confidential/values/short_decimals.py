"""Restores decimals that a column once stored as binary32.

Binary32 stores 0.7 as 0.69999998807..., and this number stays if the column becomes binary64, for
example because of a value in another row. A stored number that is the binary32 of an edge, a bound
or a missing code counts as that edge, bound or code, whatever the column's type. So it lies in the
same bin however it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_LOW_BITS = np.uint64((1 << 29) - 1)
"""Bits of the fraction of a binary64 that a binary32 does not have."""
_TABLE_BITS = 16


class ShortDecimals:
    """Restores public numbers that were stored as binary32.

    >>> short = ShortDecimals([0.7, 12.5, 2**24 + 1])
    >>> short.restored(np.array([np.float32(0.7), 0.5, 2**24], dtype=np.float64)).tolist()
    [0.7, 0.5, 16777216.0]

    Args:
        numbers: The public numbers. Those that have another shortest decimal in binary32, such as
            whole numbers beyond 2^24, are never restored.
    """

    def __init__(self, numbers: Iterable[float]) -> None:
        exact = np.array(sorted({float(number) for number in numbers}), dtype=np.float64)
        with np.errstate(over="ignore", under="ignore"):
            short = exact.astype(np.float32)
        written = np.array([float(str(number)) for number in short], dtype=np.float64)
        own = (written == exact) & (short.astype(np.float64) != exact)
        self._short, self._exact = short[own].astype(np.float64), exact[own]
        self._possible = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._possible[_high_bits(self._short.view(np.uint64))] = True

    def restored(self, data: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numbers with the binary32 of each public number replaced by it.

        Args:
            data: Numbers, shape (rows,); not changed.
        """
        if not self._short.size:
            return data
        bits = data.view(np.uint64)
        places = np.flatnonzero((bits & _LOW_BITS) == 0)
        if places.size:
            places = places[self._possible.take(_high_bits(bits[places]))]
        if not places.size:
            return data
        found = np.searchsorted(self._short, data[places])
        found = np.minimum(found, self._short.size - 1)
        same = self._short[found] == data[places]
        restored = data.copy()
        restored[places[same]] = self._exact[found[same]]
        return restored


def _high_bits(bits: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the last bits of a binary32's fraction, which differ between most numbers."""
    return ((bits >> np.uint64(29)) & np.uint64((1 << _TABLE_BITS) - 1)).astype(np.intp)
