"""Noisy empirical distribution functions: cumulative counts from a tree, made monotone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.parametric.binned_tables import SeparateColumns, binned_domain, zeros_by_bins
from dp_core.methods.parametric.drawn_records import edges_of
from dp_core.methods.parametric.synthesizer import Ask, Synthesizer
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.released import Released, Table, Totals, tables_of
from dp_core.wall.statistics.binned_counts import BinnedCounts

BINS = 256
"""Default number of equal bins of a numeric column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyECDF(Synthesizer):
    """Draw each column from its noisy empirical distribution function.

    Wasserman & Zhou (2010; section 3.1.2 of Bowen & Liu 2020) draw a whole set by the exponential
    mechanism, with the largest distance of the distribution functions as the score. The survey
    calls that infeasible. Here the distribution function comes from noisy counts. Noise on the
    cumulative counts themselves would have scale K/epsilon for K bins, because a record is in up to
    K of them. Sums of noisy bins have a variance that grows with the number of bins. With counts of
    nested groups of bins (a tree), every cumulative count is a sum of few noisy counts (Hay et al.
    2010). They are combined by least squares, added up, made monotone by isotonic regression, and
    inverted.

    The columns are independent in the sets. Columns of levels have a single table. Missing is a
    level after the largest number.

    Attributes:
        bins: Number of equal public bins of each numeric column; fewer if it has fewer positions.
        branching: Number of bins, or of groups, that make up one group of the next larger size. If
            it is at least the number of bins, only the bins are measured.
    """

    bins: int = BINS
    branching: int = 8

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise ValueError(f"bins is a number from 1, not {self.bins}.")
        if self.branching < 2:
            raise ValueError(f"branching is a number from 2, not {self.branching}.")

    @property
    def by_bins(self) -> bool:
        return True

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        asks: list[Ask] = []
        for number, variable in enumerate(variables, start=1):
            levels = self._levels(variable)
            share = Fraction(1, len(variables) * len(levels))
            for depth, edges in enumerate(levels, start=1):
                what = BinnedCounts(
                    columns=(variable.name,), sizes=(variable.size,), edges=(edges,)
                )
                asks.append(Ask(f"column-{number}-level-{depth}", what, share))
        return tuple(asks)

    def fit(
        self,
        variables: Variables,
        released: Sequence[Released],
        *,
        rows: int | None,
        zeros: StructuralZeros,
    ) -> SeparateColumns:
        edges = edges_of(variables, self.bins)
        domain = binned_domain(variables, edges)
        known = zeros_by_bins(zeros, domain.columns, edges)
        totals = {item.of: item for item in released if isinstance(item, Totals)}
        found = []
        for variable in variables:
            levels = [
                totals[
                    BinnedCounts(columns=(variable.name,), sizes=(variable.size,), edges=(each,))
                ]
                for each in self._levels(variable)
            ]
            groups = [_starts(*pair) for pair in pairwise(self._levels(variable))]
            found.append(
                least_squares(
                    [level.values for level in levels], [level.variance for level in levels], groups
                )
            )
        total = _total(found, released, rows)
        columns = []
        for variable, (counts, _) in zip(variables, found, strict=True):
            one = domain.project((variable.name,))
            values = np.diff(monotone(np.cumsum(counts), float(total)), prepend=0.0)
            values[known.mask(one)] = 0.0
            if not values.any():
                values = (~known.mask(one)).astype(np.float64)
            columns.append(Table(one, values * total / max(values.sum(), 1e-300)))
        return SeparateColumns(variables, total, zeros, edges, tuple(columns))

    def _levels(self, variable: Variable) -> list[tuple[int, ...] | None]:
        """Return the edges of each level of a column's tree, the bins first."""
        (finest,) = edges_of(Variables((variable,)), self.bins)
        if finest is None:
            return [None]
        levels: list[tuple[int, ...]] = [finest]
        while len(levels[-1]) - 1 > self.branching:
            last = levels[-1]
            levels.append((*last[: -1 : self.branching], last[-1]))
        return [*levels]


def least_squares(
    levels: Sequence[NDArray[np.generic]],
    variances: Sequence[float],
    groups: Sequence[NDArray[np.int64]],
) -> tuple[NDArray[np.float64], float]:
    """Return the best unbiased counts of the finest level, and the variance of their sum.

    Args:
        levels: Independent noisy counts of each level, the finest first.
        variances: Noise variance of a count of each level.
        groups: For each level but the last, the first of its members in each group of the next.

    Estimates of a group from below and from itself are averaged by precision on the way up; on the
    way down the members take what is left in proportion to their variances (Hay et al. 2010).
    """
    best = np.asarray(levels[0], dtype=np.float64)
    spread = np.full(best.shape, variances[0])
    below: list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]] = []
    for values, variance, starts in zip(levels[1:], variances[1:], groups, strict=True):
        below.append((best, spread, starts))
        sums, sum_spread = np.add.reduceat(best, starts), np.add.reduceat(spread, starts)
        best = (np.asarray(values) * sum_spread + sums * variance) / (variance + sum_spread)
        spread = sum_spread * variance / (variance + sum_spread)
    total = float(spread.sum())
    for members, own, starts in reversed(below):
        slack = (best - np.add.reduceat(members, starts)) / np.add.reduceat(own, starts)
        sizes = np.diff(starts, append=len(members))
        best = members + np.repeat(slack, sizes) * own
    return best, total


def monotone(cumulative: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return the least-squares nondecreasing function from 0 to `total` that ends at `total`.

    >>> monotone(np.array([1.0, 4.0, 2.0, 9.0, 7.0]), 8.0).tolist()
    [1.0, 3.0, 3.0, 8.0, 8.0]
    """
    from scipy.optimize import isotonic_regression

    found = np.clip(isotonic_regression(cumulative).x, 0.0, total)
    found[-1] = total
    return np.asarray(found)


def _starts(fine: tuple[int, ...] | None, coarse: tuple[int, ...] | None) -> NDArray[np.int64]:
    """Return the first fine bin of every coarse bin."""
    assert fine is not None
    assert coarse is not None
    return np.searchsorted(fine, coarse[:-1])


def _total(
    found: Sequence[tuple[NDArray[np.float64], float]],
    released: Sequence[Released],
    rows: int | None,
) -> int:
    """Return the number of records, at least 1: public, or all estimates pooled by precision."""
    if rows is not None:
        return max(1, rows)
    estimates = [(float(counts.sum()), max(variance, 1e-12)) for counts, variance in found]
    estimates += [
        (float(item.values), item.variance) for item in tables_of(released) if not item.clique
    ]
    precision = sum(1 / variance for _, variance in estimates)
    return max(1, round(sum(value / variance for value, variance in estimates) / precision))


METHOD = NoisyECDF
