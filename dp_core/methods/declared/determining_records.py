"""Model records that determine every coefficient of a declared regression. Public.

A synthetic set may lack a level that the file has, or its predictors may be collinear. Such a set
says nothing about some coefficients, although the noisy sums do. Records with independent
predictors are then added to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.questions.regressions.features import Levels
from dp_core.methods.declared.declared_moments import Moments
from dp_core.methods.declared.declared_regression import Codes, DeclaredRegression, Floats, sizes_of

_COLLINEAR = 1e-9  # smallest eigenvalue of the correlations at which coefficients are determined
_LEAST = 8  # number of added records of each level


def determining_records(regression: DeclaredRegression, codes: Codes, moments: Moments) -> Codes:
    """Return model records that determine every coefficient: the given ones, with more if needed.

    The added records have the outcomes of the given ones. Their predictors are independent of each
    other. A level that no given record has is added about as often as the moments say that the file
    has it, and every other level a few times. Numbers are permuted, or drawn uniformly from their
    grid if all given records have the same one. The same records and moments always get the same
    additions.

    Args:
        regression: The regression.
        codes: Records without missing values, shape (records, columns), at least one.
        moments: Estimated moments of the file.
    """
    if _determined(regression.x(codes)):
        return codes
    rng = np.random.default_rng(0)
    sizes = sizes_of(regression)[:-1]
    wanted, first = [], 1
    for place, feature in enumerate(regression.features.all):
        counts = np.zeros(0, dtype=np.int64)
        if isinstance(feature, Levels):
            others = moments.x[0, first : first + feature.width] / moments.x[0, 0]
            counts = _to_add(codes[:, place], np.array([1 - others.sum(), *others]))
        wanted.append(np.repeat(np.arange(len(counts)), counts))
        first += feature.width
    more = max(_LEAST, *map(len, wanted))
    added = codes[np.arange(more) * len(codes) // more].copy()
    for place, levels in enumerate(wanted):
        if len(levels):
            added[:, place] = rng.permutation(np.resize(levels, more))
        elif (codes[:, place] == codes[0, place]).all():
            added[:, place] = rng.integers(0, sizes[place], more)
        else:
            added[:, place] = rng.permutation(added[:, place])
    return np.concatenate([codes, added])


def _to_add(codes: NDArray[np.integer[Any]], parts: Floats) -> NDArray[np.int64]:
    """Return how many records of each level to add.

    Args:
        codes: Levels of the given records.
        parts: Estimated part of the file's records with each level; may be negative.
    """
    records = len(codes)
    lacking = np.bincount(codes, minlength=len(parts)) == 0
    usual = np.rint(np.clip(parts * records, _LEAST, max(_LEAST, records // 2)))
    return np.asarray(np.where(lacking, usual, _LEAST), dtype=np.int64)


def _determined(x: Floats) -> bool:
    length = np.sqrt((x**2).mean(axis=0))
    if not length.all():
        return False
    scaled = x / length
    return bool(np.linalg.eigvalsh(scaled.T @ scaled / len(x))[0] > _COLLINEAR)
