"""Estimates and intervals of sums of counts, of ratios and of quantiles, or why there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.answer_notes import unused_sentence
from dp_core.analysis.query.asked_counts import MOST_ANSWERS, Asked, Counted
from dp_core.analysis.query.sources import Sources
from dp_core.errors import BadInput
from dp_core.inference.count_intervals import (
    QuantileBins,
    difference_of,
    fieller,
    quantile_bins,
    rounded_up,
)
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_noise import fourth_cumulant, half_widths
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.methods.reconstruction.estimates.pooled_functionals import (
    covariance,
    estimate,
    impossible,
    unobserved,
)
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws
from dp_core.schema.bin_values import BinValues
from dp_core.schema.privacy import Relation
from dp_core.tables.domain import Clique, Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.sensitivity import count_l1, count_l2_squared

SHARE = Fraction(1, 10)
"""Share of a release's budget for which the margin of a missing table is stated."""


@dataclass(frozen=True, slots=True)
class NeededTable:
    """A table that would determine the answer.

    Attributes:
        columns: Columns of the table.
        cells: Number of its cells.
        share: Share of the release's budget for which the noise is stated.
        margin: 95 % margin of error of one of its counts at that share, in records; of linked
            tables, in households.
    """

    columns: Clique
    cells: int
    share: float
    margin: float


@dataclass(frozen=True, slots=True)
class Undetermined:
    """Why a question has no answer in the published tables.

    Attributes:
        missing: The smallest groups of columns that no table has together.
        needed: The table that would answer the question; None if its noise cannot be stated.
        sentence: All this in words.
    """

    missing: tuple[Clique, ...]
    needed: NeededTable | None
    sentence: str


def why_undetermined(
    domain: Domain,
    parts: Sequence[Clique],
    needed: Clique,
    *,
    relation: Relation,
    currency: Currency | None,
    has_sets: bool = True,
    more: str = "",
    counted: str = "records",
) -> Undetermined:
    """Return why a question is not determined.

    Args:
        domain: All measured columns.
        parts: Parts that no measurement observed, at least one.
        needed: Columns of a table that would determine the answer.
        relation: Neighbouring relation of the release.
        currency: Currency of the release with its total; None if unknown.
        has_sets: Whether the release has synthetic sets; True by default.
        more: A further sentence; empty by default.
        counted: What the question counts; `records` by default.
    """
    least = tuple(
        part for part in parts if not any({*other} < {*part} for other in parts if other != part)
    )
    table = _needed_table(domain, needed, relation, currency) if needed else None
    unit = "records" if counted == "records" else "households"
    words = [_unmeasured_words(part, unit) for part in least[:3]]
    if len(least) > 3:
        words.append(f"and {len(least) - 3} more groups of columns are missing")
    sentence = f"Not determined: {'; '.join(words)}."
    if needed:
        named = " x ".join(needed)
        sentence += f" The question needs a table of {named}"
        if table is not None:
            margin = f"{table.margin:,.0f}" if table.margin >= 10 else f"{table.margin:.2g}"
            sentence += (
                f" ({table.cells:,} cells): with a tenth of this release's budget, each of its"
                f" counts would have a margin of ±{margin} {unit} (95 %)"
            )
        sentence += "."
        if has_sets and counted == "persons":
            sentence += (
                " The synthetic sets have what was measured of these columns; how it differs by the"
                " size of the household is the model's assumption."
            )
        elif has_sets:
            sentence += (
                " The synthetic sets do not answer it either: there they follow the model's"
                " assumption."
            )
    return Undetermined(least, table, f"{sentence} {more}".rstrip())


def _unmeasured_words(part: Clique, unit: str) -> str:
    if not part:
        return f"no published table gives the number of {unit}"
    if len(part) == 1:
        return f"no published table counts {part[0]} (it was not measured)"
    return (
        f"no published table has {', '.join(part[:-1])} and {part[-1]} together (they were not"
        " measured)"
    )


def _needed_table(
    domain: Domain, needed: Clique, relation: Relation, currency: Currency | None
) -> NeededTable | None:
    if currency is None:
        return None
    try:
        noise = currency.noise(
            SHARE * currency.limit, l1=count_l1(relation), l2_squared=count_l2_squared(relation)
        )
    except (ValueError, BadInput):
        return None
    return NeededTable(needed, domain.size(needed), float(SHARE), noise.half_width)


Ends = tuple[Floats, Floats, Floats]
"""Estimates, and the lower and upper ends of their intervals; shape (groups,) each."""
Pair = tuple[Functionals, Functionals | None]
"""Numerator and denominator of a term; None for a sum of counts by itself."""


@dataclass(frozen=True)
class Intervals:
    """Intervals of sums, of ratios and of their differences."""

    sources: Sources
    level: float
    sampling: bool

    def absent(self, parts: Sequence[Sequence[Pair]], counted: Counted) -> Undetermined | None:
        """Return why the terms of some answers are not determined; None if all are."""
        needed = [[each for pair in pairs for each in pair if each is not None] for pairs in parts]
        found = _absent(self.sources, [each for own in needed for each in own], counted)
        if found is not None or not self.sampling:
            return found
        products = [one.times(other) for own in needed for one in own for other in own]
        found = _absent(self.sources, products, counted)
        if found is None:
            return None
        sentence = f"--sampling needs more tables than the answer itself. {found.sentence}"
        return Undetermined(found.missing, found.needed, sentence)

    def answer(self, parts: Sequence[Pair]) -> Ends:
        """Return estimates of a term, or of a difference of two, and the ends of intervals."""
        found = [self.one(*pair) for pair in parts]
        return self.difference(parts, found) if len(found) == 2 else found[0]

    def one(self, top: Functionals, bottom: Functionals | None) -> Ends:
        """Return estimates and the ends of their intervals, shape `top.shape`."""
        value, variance, quantile = self.sums(top)
        empty = impossible(self.sources.schema.zeros, top)
        if bottom is None:
            margin = self.margins(top, variance, quantile)
            value, margin = np.where(empty, 0.0, value), np.where(empty, 0.0, margin)
            if all((each == np.rint(each)).all() for each in top.weights):
                value = np.where(margin == 0, np.rint(value), value)  # exact, but for rounding
            return value, value - margin, value + margin
        whole, whole_variance, whole_quantile = self.sums(bottom)
        value, whole = np.broadcast_arrays(value, whole)
        low, high = fieller(
            value,
            whole,
            variance,
            whole_variance,
            self.covariance(top, bottom),
            np.maximum(quantile, whole_quantile),
        )
        ratio = np.full(value.shape, np.nan)
        np.divide(value, whole, out=ratio, where=whole > 0)
        bounded = np.isfinite(low)
        zero = empty & bounded
        return (
            np.where(zero, 0.0, ratio),
            np.where(zero, 0.0, low),
            np.where(zero, 0.0, high),
        )

    def difference(self, parts: Sequence[Pair], found: Sequence[Ends]) -> Ends:
        """Return the difference of two terms, first minus second, and its interval."""
        (top, bottom), (other_top, other_bottom) = parts
        (one, low, high), (two, other_low, other_high) = found
        if bottom is None or other_bottom is None:
            _, first, quantile = self.sums(top)
            _, second, other_quantile = self.sums(other_top)
            variance = first + second - 2 * self.covariance(top, other_top)
            margin = np.maximum(quantile, other_quantile) * np.sqrt(np.maximum(variance, 0.0))
            return one - two, one - two - margin, one - two + margin
        # Errors of ratios, to first order: (error of top - ratio * error of bottom) / bottom.
        terms = [(top, bottom, one), (other_top, other_bottom, two)]
        cross = self._ratio_covariance(terms[0], terms[1])
        spread = [self._ratio_covariance(term, term) for term in terms]
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = np.nan_to_num(cross / np.sqrt(spread[0] * spread[1]))
        low, high = difference_of((one, two), (low, other_low), (high, other_high), correlation)
        return one - two, low, high

    def _ratio_covariance(
        self,
        first: tuple[Functionals, Functionals, Floats],
        second: tuple[Functionals, Functionals, Floats],
    ) -> Floats:
        """Return the covariance of two ratios times the product of their denominators."""
        (top, bottom, ratio), (other_top, other_bottom, other) = first, second
        return np.asarray(
            self.covariance(top, other_top)
            - ratio * self.covariance(bottom, other_top)
            - other * self.covariance(top, other_bottom)
            + ratio * other * self.covariance(bottom, other_bottom)
        )

    def sums(self, asked: Functionals) -> tuple[Floats, Floats, NDArray[np.float64]]:
        """Return estimates of sums, their variance, and the quantile of their error."""
        pooled = self.sources.pooled
        variance = self.covariance(asked, asked)
        draws = effective_draws(variance, fourth_cumulant(pooled, asked))
        return estimate(pooled, asked), variance, central_quantile(self.level, draws)

    def margins(self, asked: Functionals, variance: Floats, quantile: Floats) -> Floats:
        """Return margins of sums."""
        if not self.sampling:
            return half_widths(self.sources.pooled, asked, self.level)
        return np.asarray(quantile * np.sqrt(np.maximum(variance, 0.0)))

    def covariance(self, one: Functionals, other: Functionals) -> Floats:
        """Return the covariance of two sums: of the noise, and of sampling if asked for.

        A simple random sample of n records from a large population: sums of x and y over the
        records have the covariance sum of x y - (sum of x) (sum of y) / n.
        """
        pooled = self.sources.pooled
        found = covariance(pooled, one, other)
        if self.sampling:
            nothing = Functionals((), ())
            records = max(float(estimate(pooled, nothing)), 1.0)
            product = estimate(pooled, one.times(other))
            drawn = product - estimate(pooled, one) * estimate(pooled, other) / records
            same = one is other
            found = found + (np.maximum(drawn, 0.0) if same else drawn)
        return found


def _absent(
    sources: Sources, needed: Sequence[Functionals], counted: Counted
) -> Undetermined | None:
    """Return why some sums are not determined; None if all are."""
    parts = list(dict.fromkeys(p for each in needed for p in unobserved(sources.pooled, each)))
    if not parts:
        return None
    columns = {name for each in needed for name in _varying(each)}
    domain = sources.schema.domain
    return why_undetermined(
        domain,
        parts,
        tuple(name for name in domain.columns if name in columns),
        relation=sources.relation,
        currency=sources.currency,
        has_sets=sources.has_sets,
        more=unused_sentence(sources),
        counted=counted,
    )


def _varying(asked: Functionals) -> list[str]:
    return [
        name
        for name, each in zip(asked.columns, asked.weights, strict=True)
        if bool((each != each[:, :1]).any())
    ]


MOST_EDGES = 20 * MOST_ANSWERS
"""Largest number of edges in all groups of a question together."""
_AT_ONCE = 16
"""Edges whose noise is computed at once: few enough that the distribution of each is exact."""


def quantile_answers(work: Intervals, asked: Asked) -> tuple[Ends, Ends]:
    """Return quantiles with their intervals, in the order of `asked.labels()`.

    Args:
        work: What is known of sums of counts.
        asked: A question about a quantile.

    Returns:
        Values of the column, or codes of the levels of an ordinal, with the ends of their
        intervals, which are infinite where the number of records cannot be distinguished from 0.
        Then the same with the ends if values within each bin follow the column's density.

    Raises:
        BadInput: if there are too many edges in all groups together.
    """
    found = _bins(work, asked)
    column = asked.schema.column(str(asked.question.number))
    if column.levels:
        values, lows, highs = (
            each.astype(np.float64) for each in (found.place, found.first, found.last)
        )
        least, most = lows, highs
    else:
        density, (low, high) = BinValues.of(column), asked.bounds
        lows, highs = low[found.first], high[found.last]

        def within(codes: NDArray[np.intp], part: Floats) -> Floats:
            value = np.asarray(density.quantile(codes, part) / density.steps, dtype=np.float64)
            return np.clip(value, low[codes], high[codes])

        values = within(found.place, found.part)
        least = np.minimum(within(found.first, found.low_part), values)
        most = np.maximum(within(found.last, found.high_part), values)
    unknown = ~found.determined
    below, above = (
        [np.where(unknown, end, each) for each in ends]
        for end, ends in ((-math.inf, (lows, least)), (math.inf, (highs, most)))
    )
    return (values, below[0], above[0]), (values, below[1], above[1])


def _bins(work: Intervals, asked: Asked) -> QuantileBins:
    """Return the bins of the interval of each group."""
    edges = asked.schema.column(str(asked.question.number)).bins + 1
    groups, axis = [len(rows) for rows in asked.groups], asked.number_axis
    if math.prod(groups) * edges > MOST_EDGES:
        raise BadInput(
            f"The question has {math.prod(groups):,} groups with {edges:,} edges each, more than"
            f" {MOST_EDGES:,} edges: name fewer columns after `by`, or restrict them with `where`."
        )
    parts = []
    for first in range(0, edges, _AT_ONCE):
        cuts = asked.cuts(first, first + _AT_ONCE)
        values, variances, quantiles = work.sums(cuts)
        variances = np.maximum(variances, 0.0)
        half = np.broadcast_to(quantiles * np.sqrt(variances), values.shape)
        half = rounded_up(half, np.broadcast_to(variances, values.shape))
        # The rows of the column's axis are those of its groups times the edges.
        apart = (*groups[:axis], groups[axis], -1, *groups[axis + 1 :])
        parts.append([np.moveaxis(each.reshape(apart), axis + 1, -1) for each in (values, half)])
    deviations, half_widths = (
        np.concatenate([each[place] for each in parts], axis=-1).reshape(-1, edges)
        for place in (0, 1)
    )
    return quantile_bins(deviations, half_widths)
