"""Least squares for one part of all tables, over areas within areas such as districts in counties.

A part of `pooled_parts` is a vector for every area, and the vector of a larger area is the sum of
those of the smaller areas in it. A table with a column of areas observes the part in every area of
this level, with equal noise. A table without such a column observes the sum over all areas. Least
squares over all levels takes two passes in linear time (Hay et al. 2010, Boosting the accuracy of
differentially private histograms, PVLDB 3). The upward pass averages each area's own observation
with the sum of its smaller areas, weighted by inverse variance. The downward pass divides the
difference between a larger area's estimate and the sum of its smaller areas among these, in
proportion to their variances. Areas have different numbers of smaller areas, so each area has its
own weights.

A measured interaction with the column of areas observes only the deviations from the mean over
areas. It enters as a table whose mean carries no information. Its precision is 1 / c in each of n
areas, and 1 / (c n) is subtracted from the precision of the sum over all areas. One subtraction is
enough, because the mean of any level is a multiple of this sum.

An exact number, such as a public total, is an observation of infinite precision.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
_NOTHING = 1e-9
"""Relative size up to which a number counts as 0."""


@dataclass(slots=True, eq=False)
class Told:
    """What was observed of a part in the areas of one level.

    Attributes:
        precision: Inverse variance of each area's own observation; infinite if it is exact.
        sums: Mean of the observations times their precision, or the exact values, shape (areas, ...
            sizes of the part).
        without_mean: Precision to subtract from that of the sum over all areas, because some
            observations are deviations only.
    """

    precision: float = 0.0
    sums: Floats = field(default_factory=lambda: np.zeros(()))
    without_mean: float = 0.0

    def add(self, precision: float, values: Floats, *, deviations: bool = False) -> None:
        """Add an observation.

        Args:
            precision: Inverse variance of each coordinate; infinite for exact values.
            values: Observed values, shape (areas, ... sizes of the part).
            deviations: Whether the mean over areas was not observed; False by default.
        """
        if math.isinf(self.precision):
            return
        if math.isinf(precision):
            self.precision, self.sums = precision, values
            return
        self.precision += precision
        self.sums = self.sums + precision * values
        self.without_mean += precision / len(values) if deviations else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class AreaPart:
    """Estimates of a part in all areas, and their covariance.

    Attributes:
        parents: For each level after the first, the position of each area's larger area in the
            level above.
        values: Estimates for each level that is determined, the sum over all areas first, shape
            (areas, ... sizes of the part).
        own: For each of these levels, the variance of each area given its own observations and
            those of smaller areas, shape (areas,). For the first level these are all observations.
        total: Whether the sum over all areas is determined, not only deviations.
        told: Whether each of these levels has observations of its own.
    """

    parents: tuple[NDArray[np.intp], ...]
    values: tuple[Floats, ...]
    own: tuple[Floats, ...]
    total: bool
    told: tuple[bool, ...]

    @property
    def levels(self) -> int:
        """Number of levels that are determined."""
        return len(self.values)

    def coarsest(self, weights: Floats, level: int) -> tuple[Floats, int]:
        """Return the same functionals in the largest areas that can express them, and their level.

        Args:
            weights: Weight of each area, shape (rows, areas).
            level: Level of these areas.
        """
        while level:
            above = self.parents[level - 1]
            first = weights[:, np.unique(above, return_index=True)[1]]
            if not np.array_equal(first[:, above], weights):
                break
            weights, level = first, level - 1
        return weights, level

    def determines(self, weights: Floats, level: int) -> bool:
        """Return whether functionals of the areas of a level can be estimated."""
        if level >= self.levels:
            return False
        whole = self._upwards(weights, level)[0]
        return self.total or bool(np.abs(whole).max() <= _NOTHING * max(np.abs(weights).max(), 1.0))

    def covariance(self, one: Floats, other: Floats, level: int) -> Floats:
        """Return the covariance of two families of functionals, row by row; rows are broadcast."""
        ones, others = self._upwards(one, level), self._upwards(other, level)
        found = (ones[0] * others[0] * self.own[0]).sum(axis=1)
        for depth in range(1, level + 1):
            above = self.parents[depth - 1]
            mine, theirs = (each[depth] - each[depth - 1][:, above] for each in (ones, others))
            found = found + (mine * theirs * self.own[depth]).sum(axis=1)
        return np.asarray(found)

    def with_areas(self, weights: Floats, level: int) -> list[Floats]:
        """Return the covariance of functionals with every area, by level, shape (rows, areas)."""
        mine = self._upwards(weights, level)
        found = [mine[0] * self.own[0]]
        for depth in range(1, self.levels):
            above = self.parents[depth - 1]
            each = (self.portions(depth) * found[-1])[:, above] * self.own[depth]
            if depth <= level:
                each = each + (mine[depth] - mine[depth - 1][:, above]) * self.own[depth]
            found.append(each)
        return found

    def variance(self, level: int) -> Floats:
        """Return the variance of each area's estimate, shape (areas,)."""
        found = self.own[0]
        for depth in range(1, level + 1):
            above, own = self.parents[depth - 1], self.own[depth]
            portions = self.portions(depth)[above] * own
            found = portions**2 * found[above] + own * (1 - portions)
        return found

    def _upwards(self, weights: Floats, level: int) -> list[Floats]:
        """Return the functionals' weights at every level up to theirs, given what is below."""
        found = [weights]
        for depth in range(level, 0, -1):
            sums = summed(found[0] * self.own[depth], self.parents[depth - 1], axis=-1)
            found.insert(0, sums * self.portions(depth))
        return found

    def portions(self, depth: int) -> Floats:
        """Return 1 / (sum of the smaller areas' variances) by larger area; 0 if they are exact."""
        spread = summed(self.own[depth], self.parents[depth - 1], axis=-1)
        return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)


def least_squares(parents: Sequence[NDArray[np.intp]], told: Sequence[Told]) -> AreaPart | None:
    """Return the estimates of a part in all areas; None if nothing was observed.

    Args:
        parents: For each level after the first, the position of each area's larger area in the
            level above. The first level is the sum over all areas. Every larger area has smaller
            areas in it.
        told: Observations of each level.
    """
    deepest = max((depth for depth, each in enumerate(told) if each.precision), default=None)
    if deepest is None:
        return None
    whole = told[deepest]
    exact = math.isinf(whole.precision)
    values = [whole.sums if exact else whole.sums / whole.precision]
    own, below = [np.full(len(whole.sums), 1 / whole.precision)], list[Floats]()
    total = True
    for depth in range(deepest - 1, -1, -1):
        spread, sums = (summed(each[0], parents[depth], axis=0) for each in (own, values))
        below.insert(0, sums)
        seen = told[depth]
        if math.isinf(seen.precision):
            own.insert(0, np.zeros_like(spread))
            values.insert(0, seen.sums)
            continue
        without = 0.0 if depth else math.fsum(each.without_mean for each in told)
        scale = 1 + spread * (seen.precision - without)
        if not depth and float(scale[0]) <= _NOTHING:
            own.insert(0, np.zeros(1))
            values.insert(0, np.zeros_like(sums))
            total = False
            continue
        own.insert(0, spread / scale)
        added = sums + _spread(spread, sums) * seen.sums if seen.precision else sums
        values.insert(0, added / _spread(scale, sums))
    seen_at = tuple(each.precision > 0 for each in told[: deepest + 1])
    found = AreaPart(tuple(parents), tuple(values), tuple(own), total, seen_at)
    for depth in range(1, deepest + 1):
        above = parents[depth - 1]
        portions = found.portions(depth)[above] * own[depth]
        gap = values[depth - 1] - below[depth - 1]
        values[depth] = values[depth] + _spread(portions, values[depth]) * gap[above]
    return replace(found, values=tuple(values))


def _spread(each: Floats, values: Floats) -> Floats:
    """Return one number for each area, with an axis of length 1 for each axis of the part."""
    return each.reshape(-1, *itertools.repeat(1, values.ndim - 1))


def summed(values: Floats, parents: NDArray[np.intp], *, axis: int) -> Floats:
    """Return the sums over the smaller areas of each larger area.

    Args:
        values: Table with the smaller areas on an axis.
        parents: Larger area of each smaller one; each has one.
        axis: The axis.
    """
    order = np.argsort(parents, kind="stable")
    starts = np.searchsorted(parents[order], np.arange(int(parents.max()) + 1))
    return np.asarray(np.add.reduceat(np.take(values, order, axis=axis), starts, axis=axis))
