"""Least squares over areas within areas, such as districts in counties: one part of all tables.

A part of `pooled_parts` is a vector for every area, and the vector of a larger area is the sum of
those of the smaller areas in it. A table with a column of areas observes the part in every area of
this level, with equal noise; a table without such a column observes the sum over all areas. Least
squares over all levels takes two passes in linear time (Hay et al. 2010, Boosting the accuracy of
differentially private histograms, PVLDB 3): upwards, each area's own observation is averaged with
the sum of its smaller areas, by inverse variance; downwards, what is left of the larger area's
estimate is divided among its smaller areas in proportion to their variances. Areas have different
numbers of smaller areas, so each area has its own weights.

A measured interaction with the column of areas observes the deviations from the mean over areas
only. It enters as a table whose mean tells nothing: its precision 1 / c in each of n areas, without
1 / (c n) in the sum over all areas, since the mean of any level is a multiple of this sum.

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
"""A relative precision that counts as none."""


@dataclass(slots=True, eq=False)
class Told:
    """What was observed of a part in the areas of one level.

    Attributes:
        precision: Inverse variance of each area's own observation; infinite if it is exact.
        sums: Mean of the observations times their precision, or the exact values, shape (areas, ...
            sizes of the part).
        without_mean: Precision, in the sum over all areas, of what observed deviations only.
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
        parents: For each level after the first: the place in the level above of each area.
        values: Estimates for each level that is determined, the sum over all areas first, shape
            (areas, ... sizes of the part).
        own: For each of these levels the variance of each area from its own observations and those
            of smaller areas, shape (areas,); of the first level from everything.
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
        """Return the same functionals by the areas of the first level that can express them.

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
            sums = _sums(found[0] * self.own[depth], self.parents[depth - 1])
            found.insert(0, sums * self.portions(depth))
        return found

    def portions(self, depth: int) -> Floats:
        """Return the inverse sum of the variances in each area of the level above; 0 if exact."""
        spread = _sums(self.own[depth], self.parents[depth - 1])
        return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)


def least_squares(parents: Sequence[NDArray[np.intp]], told: Sequence[Told]) -> AreaPart | None:
    """Return the estimates of a part in all areas; None if nothing was observed.

    Args:
        parents: For each level after the first: the place in the level above of each area. The
            first level is the sum over all areas. Every area above has areas in it.
        told: What was observed, for each level.
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
        spread, sums = _sums(own[0], parents[depth]), _added(values[0], parents[depth])
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
    """Return a number of each area with axes for the part."""
    return each.reshape(-1, *itertools.repeat(1, values.ndim - 1))


def _sums(weights: Floats, parents: NDArray[np.intp]) -> Floats:
    """Return the sums over the areas of each area above, on the last axis."""
    return np.moveaxis(_added(np.moveaxis(weights, -1, 0), parents), 0, -1)


def _added(values: Floats, parents: NDArray[np.intp]) -> Floats:
    """Return the sums over the areas of each area above, on the first axis."""
    order = np.argsort(parents, kind="stable")
    starts = np.searchsorted(parents[order], np.arange(int(parents.max()) + 1))
    return np.asarray(np.add.reduceat(values[order], starts, axis=0))
