"""What a classifier learns from synthetic records: trained on them, tested on real ones.

The test is a fixed fifth of the real rows, which is not in the data that any method is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset

TARGETS: Mapping[str, str] = {"adult": "income", "nltcs": "outside"}
PARTS = 5
SEED = 20_261_122


def split(data: Dataset) -> tuple[Dataset, Dataset]:
    """Return the rows that methods are given, and the fifth that they are not."""
    order = np.random.default_rng(SEED).permutation(data.rows)
    held = data.rows // PARTS
    return (
        Dataset(data.domain, np.ascontiguousarray(data.codes[:, np.sort(order[held:])])),
        Dataset(data.domain, np.ascontiguousarray(data.codes[:, np.sort(order[:held])])),
    )


def misclassified(train: Dataset, test: Dataset, target: str) -> dict[str, float]:
    """Return the parts of test rows that two learners get wrong, from codes taken as numbers.

    `boosted` is scikit-learn's GradientBoostingClassifier, `histogram` its
    HistGradientBoostingClassifier, both with their defaults and a fixed seed.
    """
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

    learners: dict[str, Any] = {
        "boosted": GradientBoostingClassifier(random_state=0),
        "histogram": HistGradientBoostingClassifier(random_state=0),
    }
    others = [axis for axis, name in enumerate(train.domain.columns) if name != target]

    def features(data: Dataset) -> NDArray[np.float64]:
        return data.codes[others].T.astype(np.float64)

    known, truth = train.column(target), test.column(target)
    if np.unique(known).size == 1:  # nothing to learn: the commonest class it is
        return dict.fromkeys(learners, float(np.mean(truth != known[0])))
    found = {}
    for name, learner in learners.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.fit(features(train), known)
            found[name] = float(np.mean(learner.predict(features(test)) != truth))
    return found
