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

import numpy as np
from numpy.typing import NDArray

from dp_core.tables.dataset import Dataset

DEPTH = 6
"""Depth of the tree, as in SDNist."""
PERMUTATIONS = 3
"""Permutations of the labels for the ratio, with a fixed seed."""
_SEED = 20_261_124


def propensity_mse(real: Dataset, synthetic: Dataset, *, depth: int = DEPTH) -> float:
    """Return the propensity mean squared error of a synthetic file.

    Codes are taken in their order, as SDNist does, also those of nominal columns. A tie between
    splits goes to the first column and its lowest code; scikit-learn draws.

    Args:
        real: The real file, not empty.
        synthetic: The synthetic file of the same domain, not empty.
        depth: Depth of the tree; 6 by default.
    """
    codes, labels = _together(real, synthetic)
    return _mse(codes, labels, real.domain.sizes, depth)


def propensity_ratio(
    real: Dataset, synthetic: Dataset, *, mse: float | None = None
) -> float | None:
    """Return the pMSE relative to its mean when labels are permuted; None if that is 0.

    Args:
        real: The real file, not empty.
        synthetic: The synthetic file of the same domain, not empty.
        mse: The pMSE if it is known already.
    """
    codes, labels = _together(real, synthetic)
    rng = np.random.default_rng(_SEED)
    sizes = real.domain.sizes
    null = np.mean(
        [_mse(codes, rng.permutation(labels), sizes, DEPTH) for _ in range(PERMUTATIONS)]
    )
    if null <= 0:
        return None
    return (_mse(codes, labels, sizes, DEPTH) if mse is None else mse) / float(null)


def _together(real: Dataset, synthetic: Dataset) -> tuple[NDArray[np.uint16], NDArray[np.bool_]]:
    if real.domain != synthetic.domain:
        raise ValueError("Datasets of different domains cannot be compared.")
    if not (real.rows and synthetic.rows):
        raise ValueError("A propensity score needs records of both files.")
    codes = np.concatenate([real.codes, synthetic.codes], axis=1)
    return codes, np.arange(codes.shape[1]) >= real.rows


def _mse(
    codes: NDArray[np.uint16], labels: NDArray[np.bool_], sizes: tuple[int, ...], depth: int
) -> float:
    rows = labels.size
    centre = float(labels.mean())
    total, ahead = 0.0, [(codes, labels, depth)]
    while ahead:
        part, own, left = ahead.pop()
        synthetic = int(own.sum())
        split = _best_split(part, own, sizes) if left and 0 < synthetic < own.size else None
        if split is None:
            total += own.size * (synthetic / own.size - centre) ** 2
            continue
        axis, code = split
        lower = part[axis] <= code
        ahead += [(part[:, side], own[side], left - 1) for side in (lower, ~lower)]
    return total / rows


def _best_split(
    codes: NDArray[np.uint16], labels: NDArray[np.bool_], sizes: tuple[int, ...]
) -> tuple[int, int] | None:
    """Return the column and the last code of its lower part with the least Gini impurity."""
    rows, synthetic = labels.size, int(labels.sum())
    best, found = -np.inf, None
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        # One count for both labels: the code and the label together.
        joint = np.bincount(2 * codes[axis].astype(np.int64) + labels, minlength=2 * size)
        both = joint.reshape(size, 2).cumsum(axis=0)[:-1].astype(np.float64)
        lower, ones = both.sum(axis=1), both[:, 1]
        upper, more = rows - lower, synthetic - ones
        inside = (lower > 0) & (upper > 0)
        if not inside.any():
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            purity = (ones**2 + (lower - ones) ** 2) / lower + (
                more**2 + (upper - more) ** 2
            ) / upper
        purity[~inside] = -np.inf
        code = int(purity.argmax())
        if purity[code] > best:
            best, found = float(purity[code]), (axis, code)
    return found
