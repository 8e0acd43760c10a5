"""Random bits from the operating system, and nothing between the system and the sampler.

Every call reads fresh bytes of the system's generator (`getrandom` on Linux). No generator of this
process is seeded, so nothing is repeated after a fork, or when a stopped machine is restored from a
snapshot: what a generator of the process would give next is in its memory, and here there is none.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 64
"""Bits of a word."""
LARGEST_RANGE = 1 << 63
"""Largest number of values that `below` draws among."""


def words(number: int) -> NDArray[np.uint64]:
    """Return independent uniform words of 64 bits, shape (number,)."""
    return np.frombuffer(os.urandom(8 * number), dtype=np.uint64)


def below(end: int, number: int) -> NDArray[np.int64]:
    """Return independent whole numbers, each uniform from 0 to end - 1, shape (number,).

    Exact: words that would make small numbers more likely are drawn again.

    Args:
        end: Number of values, 1 to `LARGEST_RANGE`.
        number: How many to draw.

    Raises:
        ValueError: if `end` is out of range.
    """
    if not 1 <= end <= LARGEST_RANGE:
        raise ValueError(f"There are 1 to 2**63 values to draw among, not {end}.")
    found = words(number)
    excess = (1 << WORD_BITS) % end
    if excess:
        last = np.uint64((1 << WORD_BITS) - excess - 1)
        found = found.copy()
        while len(again := np.flatnonzero(found > last)):
            found[again] = words(len(again))
    return (found % np.uint64(end)).astype(np.int64)
