"""Error by subgroup: whether a synthetic file is as near to the real one for every level.

Within each level of the named column, the error is the TVD of every other column's distribution,
mean over these columns. A small group has a larger error by chance alone: of noise, which is the
same in every cell, and of drawing. So each level has the error that these predict beside its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.measures.table_errors import full_tables
from dp_core.metrics.marginal_error import tvd_by_row, within_limit

FEWEST = 30
"""Real records that a level needs to enter the ratio of the worst to the best."""


@dataclass(frozen=True, slots=True)
class LevelError:
    """Error within one level.

    Attributes:
        code: Code of the level.
        real: Real records.
        synthetic: Synthetic records.
        error: Mean TVD of the other columns within the level; 1 if only one file has the level.
        expected: The error that noise and sampling predict; sampling alone if no noise is known.
    """

    code: int
    real: int
    synthetic: int
    error: float
    expected: float

    @property
    def ratio(self) -> float | None:
        """Error divided by the expected one; None if that is 0."""
        return self.error / self.expected if self.expected > 0 else None


@dataclass(frozen=True, slots=True)
class Equity:
    """Errors by level of one column.

    Attributes:
        column: The column.
        levels: Levels that a file has, ascending by code.
        noise: Whether the expected errors include the noise of the release.
    """

    column: str
    levels: tuple[LevelError, ...]
    noise: bool

    @property
    def compared(self) -> tuple[LevelError, ...]:
        """Levels with enough real records to be compared."""
        return tuple(level for level in self.levels if level.real >= FEWEST)

    @property
    def worst(self) -> LevelError | None:
        """The level with the largest error among those compared; None if there is none."""
        return max(self.compared, key=lambda level: level.error, default=None)

    @property
    def spread(self) -> float | None:
        """Largest error over the smallest among the levels compared; None for fewer than two."""
        errors = [level.error for level in self.compared]
        return max(errors) / min(errors) if len(errors) > 1 and min(errors) > 0 else None

    @property
    def excess(self) -> float | None:
        """Largest error over prediction, among the levels compared; None if there is none."""
        ratios = [level.ratio for level in self.compared if level.ratio is not None]
        return max(ratios, default=None)


def subgroup_equity(
    real: Dataset,
    synthetic: Dataset,
    column: str,
    *,
    noise: Mapping[frozenset[str], float] | None = None,
) -> Equity:
    """Return the error within each level of a column.

    Noise of mean absolute size b in each cell moves the distribution of a column of k levels,
    within a level of n records, by a TVD of k b / (2 n); it is what a whole pair of columns is
    expected to have, times N / (n L) for L levels of the named one and N records. Drawing s records
    adds half the sum of sqrt(2 p (1 - p) / (pi s)) over the levels p.

    Args:
        real: The real file.
        synthetic: The synthetic file of the same domain.
        column: The column of the subgroups.
        noise: For each pair of columns the TVD that noise alone is expected to cause in its whole
            table; None (the default) if it is not known. A pair that is not among them has 0.
    """
    domain = real.domain
    others = [name for name in domain.columns if name != column]
    wanted, _ = within_limit(domain, [(column, name) for name in others])
    (size,) = domain.project((column,)).sizes
    own = [np.bincount(data.column(column), minlength=size) for data in (real, synthetic)]
    errors, predicted = np.zeros((2, size, max(len(wanted), 1)))
    for place, (pair, (true, drawn)) in enumerate(full_tables(wanted, (real, synthetic))):
        whole = (noise or {}).get(frozenset(pair), 0.0)
        errors[:, place] = tvd_by_row(true, drawn)
        predicted[:, place] = _predicted_tvd(true, own[1], whole * real.rows / size)
    levels = tuple(
        LevelError(
            code=code,
            real=int(own[0][code]),
            synthetic=int(own[1][code]),
            error=float(errors[code].mean()),
            expected=float(predicted[code].mean()),
        )
        for code in range(size)
        if own[0][code] or own[1][code]
    )
    return Equity(column, levels if wanted else (), noise is not None)


def _predicted_tvd(
    true: NDArray[np.int64], drawn: NDArray[np.int64], noise: float
) -> NDArray[np.float64]:
    """Return the TVD that noise and sampling predict within each level.

    Args:
        true: Real records by level, and by level of the other column.
        drawn: Synthetic records of each level.
        noise: Half the expected sum of absolute noise over a level's cells, records.
    """
    records = true.sum(axis=1)
    # A level without records in one of the files is at distance 1.
    shares = true / np.maximum(records, 1)[:, None]
    variances = 2 * shares * (1 - shares) / (math.pi * np.maximum(drawn, 1)[:, None])
    found = np.hypot(np.sqrt(variances).sum(axis=1) / 2, noise / np.maximum(records, 1))
    return np.where((records > 0) & (drawn > 0), np.minimum(found, 1.0), 1.0)
