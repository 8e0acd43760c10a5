"""Random range queries: the number of records with several columns within intervals.

A task of PrivSyn's evaluation (average error over random ranges). An interval is one of codes, in
the schema's order of levels; for columns without an order it is an arbitrary subset of levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_core.tables.codes import Codes
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain

NUMBER = 1000
"""Number of queries."""
WAYS = 3
"""Number of columns of a query."""
_SEED = 20_261_102
_CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class RangeQueries:
    """Queries over one domain; counts of pieces of a file add up.

    Attributes:
        domain: All columns.
        axes: Column numbers of each query, shape (queries, columns).
        low, high: First and last code of each interval, both included, same shape.
    """

    domain: Domain
    axes: NDArray[np.int64]
    low: Codes
    high: Codes

    def count(self, data: Dataset) -> NDArray[np.int64]:
        """Return the number of records in each range, shape (queries,).

        Raises:
            ValueError: if the data have another domain.
        """
        if data.domain != self.domain:
            raise ValueError("The data must have the domain of the range queries.")
        counts = np.zeros(len(self.axes), dtype=np.int64)
        for start in range(0, data.rows, _CHUNK_ROWS):
            codes = np.ascontiguousarray(data.codes[:, start : start + _CHUNK_ROWS])
            for query, axes in enumerate(self.axes):
                within = np.ones(codes.shape[1], dtype=bool)
                for axis, low, high in zip(axes, self.low[query], self.high[query], strict=True):
                    # Unsigned: what is below `low` wraps around to a large number.
                    within &= codes[axis] - low <= high - low
                counts[query] += int(np.count_nonzero(within))
        return counts


def random_range_queries(domain: Domain) -> RangeQueries:
    """Return random queries, the same for every method on one domain.

    Each is over three columns, or all if there are fewer, drawn without replacement. Both ends of
    an interval are uniform codes, sorted.
    """
    rng = np.random.default_rng(_SEED)
    ways = min(WAYS, len(domain))
    axes = np.array(
        [np.sort(rng.choice(len(domain), size=ways, replace=False)) for _ in range(NUMBER)],
        dtype=np.int64,
    )
    sizes = np.array(domain.sizes, dtype=np.int64)[axes]
    ends = np.sort(rng.integers(0, sizes, size=(2, NUMBER, ways)), axis=0).astype(domain.code_type)
    return RangeQueries(domain, axes, ends[0], ends[1])


def mean_range_error(
    first: ArrayLike, second: ArrayLike, *, first_rows: int, second_rows: int
) -> float:
    """Return the average absolute difference of the queries' proportions.

    Args:
        first: Counts of the queries on one file.
        second: Counts of the same queries on another file.
        first_rows: Records of the first file; an empty file has proportions of 0.
        second_rows: Records of the second file.

    >>> mean_range_error([1, 2], [4, 4], first_rows=4, second_rows=8)
    0.125
    """
    a = np.asarray(first, dtype=np.float64) / max(first_rows, 1)
    b = np.asarray(second, dtype=np.float64) / max(second_rows, 1)
    return float(np.abs(a - b).mean()) if a.size else 0.0
