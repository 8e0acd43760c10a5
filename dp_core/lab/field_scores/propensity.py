"""Propensity mean squared error: whether a decision tree tells synthetic records from real ones.

Both files are put together, n_s of N records being synthetic, and a tree of depth 6 is fitted that
predicts which are. With p_i the predicted probability of record i and c = n_s / N,

    pMSE = (1/N) sum_i (p_i - c)^2,

0 if the tree finds no difference, c (1 - c) if it tells every record: .25 for files of equal size.

Sources: Snoke, Raab, Nowok, Dibben & Slavkovic (2018), JRSS A 181(3), Section 2.1; SDNist 2.4,
`sdnist/metrics/propensity.py`, which has the same tree (scikit-learn, Gini, `max_depth=6`). The
ratio to the mean under permuted labels is Snoke et al.'s Section 2.3: about 1 if the files are
draws from the same population, because a tree also fits chance.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset

DEPTH = 6
"""Depth of the tree, as in SDNist."""
PERMUTATIONS = 3
"""Permutations of the labels for the ratio, with a fixed seed."""
_SEED = 20_261_124


def propensity(
    real: Dataset, synthetic: Dataset, *, depth: int = DEPTH
) -> tuple[float, float | None]:
    """Return the pMSE of a synthetic file, and its ratio to the mean when labels are permuted.

    Codes are taken in their order, as SDNist does, also those of nominal columns. A tie between
    splits goes to the first column and its lowest code; scikit-learn draws.

    Args:
        real: The real file, not empty.
        synthetic: The synthetic file of the same domain, not empty.
        depth: Depth of the tree; 6 by default.

    Returns:
        The ratio is None if the mean is 0.

    Raises:
        ValueError: if the domains differ, or a file is empty.
    """
    if real.domain != synthetic.domain:
        raise ValueError("Datasets of different domains cannot be compared.")
    if not (real.rows and synthetic.rows):
        raise ValueError("A propensity score needs records of both files.")
    codes = np.ascontiguousarray(np.concatenate([real.codes.T, synthetic.codes.T]))
    labels = (np.arange(codes.shape[0]) >= real.rows).astype(np.uint8)
    # Where the levels of each column begin if all are numbered, and their number.
    starts = np.cumsum([0, *real.domain.sizes], dtype=np.int64)
    found, rng = _mse(codes, labels, starts, depth), np.random.default_rng(_SEED)
    null = np.mean(
        [_mse(codes, rng.permutation(labels), starts, depth) for _ in range(PERMUTATIONS)]
    )
    return found, found / float(null) if null > 0 else None


def _mse(codes: Codes, labels: NDArray[np.uint8], starts: NDArray[np.int64], depth: int) -> float:
    def labels_in(records: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = np.zeros((starts[-1], 2), dtype=np.int64)
        count_labels(codes, labels, records, starts, counts)
        return counts

    centre, every = float(labels.mean()), np.arange(labels.size)
    # A part that is not split any further needs no counts.
    total, ahead = 0.0, [(every, labels_in(every) if depth else None, depth)]
    while ahead:
        records, counts, left = ahead.pop()
        synthetic = int(labels[records].sum())
        axis = -1
        if counts is not None and 0 < synthetic < records.size:
            axis, code = best_split(counts, starts)
        if counts is None or axis < 0:
            total += records.size * (synthetic / records.size - centre) ** 2
            continue
        below = codes[records, axis] <= code
        parts = [records[below], records[~below]]
        if left == 1:
            ahead += [(part, None, 0) for part in parts]
            continue
        # The larger part has the counts that the smaller one leaves.
        small = int(parts[1].size < parts[0].size)
        own = labels_in(parts[small])
        sides = [own, counts - own] if small == 0 else [counts - own, own]
        ahead += [(part, side, left - 1) for part, side in zip(parts, sides, strict=True)]
    return total / labels.size


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
