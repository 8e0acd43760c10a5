"""Principal components of the real file, and how the synthetic records lie along them.

SDNist shows scatter plots of the first five components: the axes are those of the real file, and
each file is standardised by its own means and deviations (SDNist 2.4, `sdnist/metrics/pca.py`). It
has no figure; here each axis has two: the variance along it in both files, and the distance of
Kolmogorov and Smirnov between the two distributions of scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.field_scores.code_values import CodeValues

COMPONENTS = 5
"""Number of components, as in SDNist."""


@dataclass(frozen=True, slots=True)
class ComponentError:
    """One principal component of the real file.

    Attributes:
        real_variance: Share of the variance along it, real file.
        synthetic_variance: The same share of the synthetic file, along the same axis.
        distance: Largest difference of the two distribution functions of scores, 0 to 1.
        columns: The columns with the largest weights, at most five, with these weights.
    """

    real_variance: float
    synthetic_variance: float
    distance: float
    columns: tuple[tuple[str, float], ...]


def component_errors(
    real: Dataset, synthetic: Dataset, values: CodeValues
) -> tuple[ComponentError, ...]:
    """Return the components in the order of their variance; empty for fewer than two columns.

    Ordered columns and columns of two levels are used, except constant ones. A missing value stands
    for the mean.

    Args:
        real: The real file, not empty.
        synthetic: The synthetic file of the same domain, not empty.
        values: The ordered columns and their numbers.
    """
    names, files = [], []
    for name in real.domain.columns:
        one, other = (_standardise(data, name, values) for data in (real, synthetic))
        if one is not None and other is not None:
            names.append(name)
            files.append((one, other))
    if len(names) < 2:
        return ()
    true, drawn = (np.stack([pair[side] for pair in files], axis=1) for side in (0, 1))
    variances, axes = np.linalg.eigh(true.T @ true / true.shape[0])
    found = []
    for axis in np.argsort(-variances, kind="stable")[:COMPONENTS]:
        weights = axes[:, axis]
        weights = weights * (np.sign(weights[np.abs(weights).argmax()]) or 1.0)
        scores = drawn @ weights
        heaviest = np.argsort(-np.abs(weights), kind="stable")[:5]
        found.append(
            ComponentError(
                real_variance=float(variances[axis]) / len(names),
                synthetic_variance=float(scores @ scores) / scores.size / len(names),
                distance=distribution_distance(true @ weights, scores),
                columns=tuple((names[column], float(weights[column])) for column in heaviest),
            )
        )
    return tuple(found)


def distribution_distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the largest difference of two empirical distribution functions.

    Values that differ by less than 1e-9 of the range are equal.

    >>> distribution_distance(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.5
    """
    both = np.concatenate([first, second])
    span = float(both.max() - both.min())
    if span <= 0:
        return 0.0
    # Equal records get scores that differ in their last digits.
    grid = span * 1e-9
    first, second = (np.sort(np.round(part / grid)) for part in (first, second))
    places = np.unique(np.concatenate([first, second]))
    below = [np.searchsorted(part, places, side="right") / part.size for part in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


def _standardise(data: Dataset, name: str, values: CodeValues) -> NDArray[np.float64] | None:
    """Return a column with mean 0 and deviation 1; None if it has no order or is constant."""
    (size,) = data.domain.project((name,)).sizes
    if name in values.values:
        numbers = values.values[name]
    elif size == 2:
        numbers = np.arange(2.0)
    else:
        return None
    column = numbers[data.column(name)]
    known = ~np.isnan(column)
    if not known.any():
        return None
    mean = float(column[known].mean())
    centred = np.where(known, column - mean, 0.0)
    deviation = float(np.sqrt(np.mean(centred**2)))
    return centred / deviation if deviation > 1e-12 else None
