"""Sets made of released records: which records a set has, and how often.

A method whose release is itself a list of records (a private draw) has paid for their noise. A
second draw with replacement would add its variance once more, about that of the first, without any
benefit for privacy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def equally_often(records: int, rows: int, *, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the positions of `rows` records, each as often as any other to within one.

    With as many rows as records these are the records themselves in random order; with fewer, a
    random part of them without replacement.

    Args:
        records: Number of released records, at least 1.
        rows: Number of positions.
        rng: Generator for post-processing.

    >>> sorted(equally_often(3, 3, rng=np.random.default_rng(1)).tolist())
    [0, 1, 2]
    """
    return np.resize(rng.permutation(records), rows)
