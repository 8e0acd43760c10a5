"""Accuracy on real records of a classifier that was trained on synthetic records.

Two learners of scikit-learn: gradient-boosted trees, a strong learner, and a linear support vector
machine, which the papers of this field use. The seed is fixed, so the same records give the same
figure.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset

MOST_CLASSES = 50
"""Largest number of codes of a column that is predicted."""
_MOST_NATIVE = 255
"""Largest number of levels that the trees treat as categories; larger columns are numeric."""


def misclassification(
    train: Dataset, test: Dataset, target: str, *, nominal: Collection[str] = ()
) -> float:
    """Return the share of test records whose class gradient-boosted trees predict wrongly.

    Args:
        train: Training records (synthetic).
        test: Test records (real), of the same domain.
        target: Column to predict from all others.
        nominal: Columns whose codes have no order; none by default.

    Raises:
        ValueError: if the domains differ, or a file is empty.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    domain = train.domain
    others = [name for name in domain.columns if name != target]
    sizes = domain.project(others).sizes
    categories = [
        name in nominal and size <= _MOST_NATIVE for name, size in zip(others, sizes, strict=True)
    ]

    def prepare(data: Dataset) -> NDArray[np.float64]:
        return np.stack([data.column(name) for name in others], axis=1).astype(np.float64)

    learner = HistGradientBoostingClassifier(
        # Deterministic: no early stopping, whose validation rows would be drawn at random.
        early_stopping=False,
        categorical_features=categories if any(categories) else None,
        random_state=0,
    )
    return 1.0 - _accuracy(learner, train, test, target, prepare)


def svm_accuracy(
    train: Dataset, test: Dataset, target: str, *, nominal: Collection[str] = ()
) -> float:
    """Return the share of test records whose class a linear support vector machine predicts.

    A column without an order becomes one indicator per level, any other a number from 0 to 1.
    Arguments and errors are those of `misclassification`.
    """
    from sklearn.svm import LinearSVC

    domain = train.domain

    def prepare(data: Dataset) -> Any:
        from scipy import sparse

        parts = []
        for name, size in zip(domain.columns, domain.sizes, strict=True):
            if name == target:
                continue
            codes = data.column(name)
            if name in nominal and size > 2:
                # The solver accepts 32-bit indices only.
                ends = np.arange(data.rows + 1, dtype=np.int32)
                levels = (np.ones(data.rows), codes.astype(np.int32), ends)
                parts.append(sparse.csr_array(levels, shape=(data.rows, size)))
            else:
                parts.append(sparse.csr_array((codes / max(size - 1, 1))[:, None]))
        return sparse.hstack(parts, format="csr")

    # Primal (there are more records than features): its solver uses no random numbers.
    learner = LinearSVC(dual=False, random_state=0)
    return _accuracy(learner, train, test, target, prepare)


def _accuracy(learner: Any, train: Dataset, test: Dataset, target: str, prepared: Any) -> float:
    if train.domain != test.domain:
        raise ValueError("Training and test records must have the same domain.")
    if not (train.rows and test.rows):
        raise ValueError("A classifier needs training records and test records.")
    known, truth = train.column(target), test.column(target)
    classes = np.unique(known)
    if classes.size == 1 or len(train.domain) == 1:
        # With one class or one column, the most frequent class is predicted.
        return float(np.mean(truth == np.bincount(known).argmax()))
    with warnings.catch_warnings():
        # A learner that did not converge still predicts; the warning is not needed.
        warnings.simplefilter("ignore")
        learner.fit(prepared(train), known)
        return float(np.mean(learner.predict(prepared(test)) == truth))
