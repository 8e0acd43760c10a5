"""Compiled loops of a decision tree on codes: counts of two labels by level, and the best split."""

from __future__ import annotations

from typing import Any

import numba


@numba.njit(nogil=True, cache=True)
def count_labels(codes: Any, labels: Any, records: Any, starts: Any, counts: Any) -> None:
    """Add records to the counts of each level of each column.

    Args:
        codes: Codes of all records, shape (records, columns): those of one record side by side.
        labels: Label of every record, 0 or 1.
        records: Numbers of the records to add.
        starts: For each column, the row of its first level in `counts`, and the end of the last.
        counts: Counts by level and label, shape (levels, 2); changed in place.
    """
    for place in range(records.size):
        record = records[place]
        label = labels[record]
        for column in range(codes.shape[1]):
            counts[starts[column] + codes[record, column], label] += 1


@numba.njit(nogil=True, cache=True)
def best_split(counts: Any, starts: Any) -> tuple[int, int]:
    """Return the column and the last code of its lower part with the least Gini impurity.

    A tie goes to the first column and its lowest code. Without a split the column is -1.

    Args:
        counts: Counts by level and label, shape (levels, 2).
        starts: For each column, the row of its first level in `counts`, and the end of the last.
    """
    rows = 0.0
    synthetic = 0.0
    for level in range(starts[0], starts[1]):
        rows += counts[level, 0] + counts[level, 1]
        synthetic += counts[level, 1]
    best, axis, code = 0.0, -1, -1
    for column in range(starts.size - 1):
        lower = 0.0
        ones = 0.0
        for level in range(starts[column], starts[column + 1] - 1):
            lower += counts[level, 0] + counts[level, 1]
            ones += counts[level, 1]
            upper, more = rows - lower, synthetic - ones
            if lower == 0 or upper == 0:
                continue
            purity = (ones * ones + (lower - ones) * (lower - ones)) / lower + (
                more * more + (upper - more) * (upper - more)
            ) / upper
            # Any split is purer than 0, the value of none.
            if purity > best:
                best, axis, code = purity, column, level - starts[column]
    return axis, code
