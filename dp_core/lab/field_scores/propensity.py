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

import numpy as np
from numpy.typing import NDArray

from dp_core.tables.dataset import Dataset

DEPTH = 6
"""Depth of the tree, as in SDNist."""
PERMUTATIONS = 3
"""Permutations of the labels for the ratio, with a fixed seed."""
_SEED = 20_261_124


def propensity(real: Dataset, synthetic: Dataset) -> tuple[float, float | None]:
    """Return the pMSE of a synthetic file, and its ratio to the mean when labels are permuted.

    Codes are taken in their order, as SDNist does, also those of nominal columns.

    Args:
        real: The real file, not empty.
        synthetic: The synthetic file of the same domain, not empty.

    Returns:
        The ratio is None if the mean is 0.

    Raises:
        ValueError: if the domains differ, or a file is empty.
    """
    if real.domain != synthetic.domain:
        raise ValueError("Datasets of different domains cannot be compared.")
    if not (real.rows and synthetic.rows):
        raise ValueError("A propensity score needs records of both files.")
    codes = np.concatenate([real.codes.T, synthetic.codes.T]).astype(np.float32)
    labels, rng = np.arange(len(codes)) >= real.rows, np.random.default_rng(_SEED)
    found = _mse(codes, labels)
    null = np.mean([_mse(codes, rng.permutation(labels)) for _ in range(PERMUTATIONS)])
    return found, found / float(null) if null > 0 else None


def _mse(codes: NDArray[np.float32], labels: NDArray[np.bool_]) -> float:
    from sklearn.tree import DecisionTreeClassifier

    tree: Any = DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(codes, labels)
    return float(np.mean((tree.predict_proba(codes)[:, 1] - labels.mean()) ** 2))
