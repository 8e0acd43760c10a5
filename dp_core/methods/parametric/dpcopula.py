"""DPCopula: noisy one-way tables joined by a Gaussian copula with noisy correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, Released, Totals, tables_of
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear_questions import BinnedCounts
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.binned_tables import (
    as_measurement,
    binned_domain,
    one_way,
    zeros_by_bins,
)
from dp_core.methods.parametric.drawn_records import edges_of
from dp_core.methods.parametric.general_location import positive_definite
from dp_core.methods.parametric.synthesizer import Ask, Edges, ParametricModel, Synthesizer, release
from dp_core.methods.reconstruction.estimates.consistency import column_tables, norm_sub
from dp_core.schema.variables import Variables

_LARGEST = 0.995
"""Largest correlation of a pair."""
_STEPS = 399  # correlations at which the expected rank correlation is computed
_NODES = 32  # of the integral of the normal distribution function


def correlation_of(
    table: NDArray[np.float64],
    rows: NDArray[np.float64],
    columns: NDArray[np.float64],
    *,
    variance: float = 0.0,
) -> float:
    """Return the normal correlation that gives the rank correlation of a table of groups.

    The rank correlation is the mean product of the groups' ranks (Spearman's, with the middle rank
    of each group). It is linear in the table, so noise of mean 0 leaves it unbiased. For two by two
    groups the solution is the same as for Kendall's tau, and is called the tetrachoric correlation.

    Args:
        table: Noisy proportions, shape (rows, columns); they need not sum to 1.
        rows: Proportion of each row's group, nonnegative, summing to 1.
        columns: Proportion of each column's group, in the same way.
        variance: Noise variance of each proportion of the table. The rank correlation is multiplied
            by the part of its square that is not expected from noise (at least 0). By default it is
            not changed.

    >>> half = np.array([0.5, 0.5])
    >>> round(correlation_of(np.array([[1 / 3, 1 / 6], [1 / 6, 1 / 3]]), half, half), 3)
    0.5
    """
    first, second = _ranks(rows), _ranks(columns)
    wanted = float(first @ table @ second)
    noise = variance * float((first**2).sum() * (second**2).sum())
    if noise:
        wanted *= max(0.0, 1.0 - noise / wanted**2) if wanted else 0.0
    correlations = np.sin(np.linspace(-1, 1, _STEPS) * np.arcsin(_LARGEST))
    joint = _normal(_limits(rows), _limits(columns), correlations)
    cells = np.diff(np.diff(joint, axis=1), axis=2)
    expected = np.einsum("r,crs,s->c", first, cells, second)
    if expected[-1] - expected[0] < 1e-9:
        # A column whose records are all in one group has no information.
        return 0.0
    return float(np.interp(wanted, np.maximum.accumulate(expected), correlations))


def _ranks(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the middle rank of each group, from -1 to 1, with mean 0."""
    return np.asarray(2 * np.cumsum(parts) - parts - parts.sum())


def _limits(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the normal quantiles that divide the groups, with both ends."""
    from scipy.special import ndtri

    inner = np.clip(np.cumsum(parts)[:-1], 0.0, 1.0)
    return np.asarray(np.clip(ndtri(np.concatenate([[0.0], inner, [1.0]])), -40.0, 40.0))


def _normal(
    first: NDArray[np.float64], second: NDArray[np.float64], correlations: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the bivariate normal distribution function.

    With r = sin(t), its derivative in t is exp(-(x^2 + y^2 - 2 x y sin t)/(2 cos^2 t))/(2 pi)
    (Drezner & Wesolowsky 1990).

    Returns:
        Shape (correlations, first, second).
    """
    from scipy.special import ndtr

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    angle = np.arcsin(correlations)[:, None, None, None]
    turn = angle * (nodes + 1) / 2
    x, y = first[None, :, None, None], second[None, None, :, None]
    power = (x**2 + y**2 - 2 * x * y * np.sin(turn)) / (2 * np.cos(turn) ** 2)
    added = (np.exp(-power) @ weights) * angle[..., 0] / (4 * np.pi)
    return np.asarray(np.outer(ndtr(first), ndtr(second)) + added)


MOST_COLUMNS = 60
"""Largest number of columns; p columns have p (p - 1)/2 pairs to pay for."""
MARGINS = Fraction(1, 2)
"""Part of the budget for the one-way tables, in equal parts; the pairs get the rest, in equal
parts. The paper has 8/9, which leaves mostly noise in the correlations."""
GROUPS = 2
"""Groups of each column in the tables of pairs. More have less sampling error but more noise."""
_CHUNK = 2**18  # records drawn at a time


@dataclass(frozen=True, slots=True, eq=False)
class GaussianCopula(ParametricModel):
    """One-way tables joined by a Gaussian copula.

    Attributes:
        edges: Bin edges of each column; None for a column of levels.
        margins: Nonnegative counts of each column's bins.
        correlation: Correlation matrix of the copula, positive definite, shape (columns, columns).
    """

    edges: Edges
    margins: tuple[NDArray[np.float64], ...]
    correlation: NDArray[np.float64]

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        from scipy.special import ndtr

        codes = np.empty((len(self.variables), rows), dtype=self.domain.code_type)
        root = np.linalg.cholesky(self.correlation).T
        limits = [np.cumsum(margin)[:-1] / margin.sum() for margin in self.margins]
        for first in range(0, rows, _CHUNK):
            part = slice(first, min(rows, first + _CHUNK))
            uniform = ndtr(rng.standard_normal((part.stop - first, len(limits))) @ root)
            for axis, limit in enumerate(limits):
                codes[axis, part] = np.searchsorted(limit, uniform[:, axis], side="right")
        return self.within_bins(codes, self.edges, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCopula(Synthesizer):
    """Join noisy one-way tables by a Gaussian copula (DPCopula; Li, Xiong & Jiang 2014).

    The method measures the table of each column, then, for each pair of columns, the table of the
    columns in a few groups that the noisy one-way tables divide about evenly. Records are drawn
    from a multivariate normal distribution with the noisy correlations, made positive definite, and
    brought to the noisy one-way tables by their inverse distribution functions.

    The paper adds noise of scale 4/((n + 1) epsilon) to Kendall's tau, which is not private if the
    number n of records is not public. Here the rank correlation is computed from a noisy table of
    groups, in which a record is counted once: with two groups it is Kendall's tau of the columns
    cut at their medians, with half of the paper's noise. The estimated correlation is that of the
    normal distribution which, cut at the same points, has the noisy rank correlation.

    Levels count as ordered as in the schema, and missing as the last. Relations that are not
    monotone are lost.

    Noisy rank correlations are multiplied by the part of their squares that is not expected from
    noise. The paper does not change them, so that many columns seem related by noise alone.
    """

    by_bins: ClassVar[bool] = True

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        """Raise BadInput if there are more than `MOST_COLUMNS` columns."""
        if len(variables) > MOST_COLUMNS:
            raise BadInput(
                f"dpcopula takes at most {MOST_COLUMNS} columns and these are {len(variables)}; use"
                " a method that chooses which pairs it measures, such as auto."
            )

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        """Return what is measured; evenly spaced groups stand for those that are not known yet."""
        edges = edges_of(variables)
        sizes = binned_domain(variables, edges).sizes
        return self._asks(variables, edges, [np.ones(size) for size in sizes])

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        edges = edges_of(variables)
        one = release(inputs, self.asks(variables)[: len(variables)], inputs.measure_cost)
        # The groups depend only on what was released, so choosing them costs nothing.
        counts = [
            norm_sub(each.values, total=max(1.0, float(each.values.sum())))
            for each in one
            if isinstance(each, Totals)
        ]
        pairs = self._asks(variables, edges, counts)[len(variables) :]
        return (*one, *release(inputs, pairs, inputs.measure_cost))

    def model_of(self, variables: Variables, inputs: FitInputs) -> GaussianCopula:
        released, rows, zeros = inputs.released, inputs.rows, inputs.zeros
        edges = edges_of(variables)
        domain = binned_domain(variables, edges)
        tables = [as_measurement(item) for item in released if isinstance(item, Totals)]
        measured = [each for each in tables if len(each.clique) == 1]
        measured += [each for each in tables_of(released) if not each.clique]
        known = zeros_by_bins(zeros, domain.columns, edges)
        fitted, total = column_tables(domain, measured, rows=rows, zeros=known)
        margins = {table.clique[0]: table.values for table in fitted}
        correlation = np.eye(len(variables))
        for item in released:
            if isinstance(item, Totals) and len(item.of.clique) == 2:
                one, two = domain.axes(item.of.clique)
                correlation[one, two] = correlation[two, one] = _of_pair(
                    item,
                    margins,
                    dict(zip(domain.columns, edges, strict=True)),
                    total,
                    item.variance,
                )
        return GaussianCopula(
            variables,
            total,
            zeros,
            edges,
            tuple(margins[name] for name in domain.columns),
            positive_definite(correlation),
        )

    def _asks(
        self, variables: Variables, edges: Edges, counts: Sequence[NDArray[np.float64]]
    ) -> tuple[Ask, ...]:
        """Return the one-way tables, then the pairs, with groups by the counts of bins."""
        cuts = [
            _groups(one, each, variable.size)
            for one, each, variable in zip(counts, edges, variables, strict=True)
        ]
        able = [axis for axis, each in enumerate(cuts) if len(each) > 2]
        pairs = list(combinations(able, 2))
        part = MARGINS if pairs else Fraction(1)
        asks = [
            Ask(f"margin-{number}", what, part / len(variables))
            for number, what in enumerate(one_way(variables, edges), start=1)
        ]
        for one, two in pairs:
            both = (variables[one], variables[two])
            what = BinnedCounts(
                columns=tuple(variable.name for variable in both),
                sizes=tuple(variable.size for variable in both),
                edges=(cuts[one], cuts[two]),
            )
            asks.append(Ask(f"pair-{one + 1}-{two + 1}", what, (1 - part) / len(pairs)))
        return tuple(asks)


def _groups(counts: NDArray[np.float64], edges: Sequence[int] | None, size: int) -> tuple[int, ...]:
    """Return the first codes of groups of neighbouring bins with about equal counts, and the end.

    There are `GROUPS` of them, or as many as there are bins.
    """
    starts = range(size + 1) if edges is None else edges
    bins = len(counts)
    number = min(GROUPS, bins)
    below = np.cumsum(counts) / counts.sum()
    found = [0]
    for group in range(1, number):
        # Every group keeps at least one bin.
        low, high = found[-1] + 1, bins - (number - group)
        places = np.arange(low, high + 1)
        found.append(int(places[np.argmin(np.abs(below[places - 1] - group / number))]))
    return (*(starts[place] for place in found), size)


def _of_pair(
    pair: Totals,
    margins: dict[str, NDArray[np.float64]],
    edges: dict[str, tuple[int, ...] | None],
    total: float,
    variance: float,
) -> float:
    """Return the correlation of a pair from its noisy table of groups and the one-way tables."""
    table: Measurement = as_measurement(pair)
    assert isinstance(pair.of, BinnedCounts)
    parts = []
    for name, cuts in zip(pair.of.columns, pair.of.edges, strict=True):
        assert cuts is not None
        own = edges[name]
        starts = cuts[:-1] if own is None else np.searchsorted(own, cuts[:-1])
        parts.append(np.add.reduceat(margins[name], np.asarray(starts)) / total)
    return correlation_of(table.values / total, parts[0], parts[1], variance=variance / total**2)


METHOD = DPCopula
