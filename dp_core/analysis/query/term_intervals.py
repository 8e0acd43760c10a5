"""Estimates and intervals of sums of counts, of ratios and of quantiles, or why there are none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.answer_notes import unused_sentence
from dp_core.analysis.query.asked_counts import MOST_ANSWERS, Asked, Counted
from dp_core.analysis.query.bin_errors import BinErrors, bin_errors, place_errors
from dp_core.analysis.query.set_counts import BinCounts
from dp_core.analysis.query.sources import Sources
from dp_core.client.noise_scale import noise_for
from dp_core.errors import BadInput
from dp_core.inference.count_intervals import (
    QuantileBins,
    cut_weights,
    difference_of,
    fieller,
    quantile_bins,
    rounded_up,
)
from dp_core.inference.questions.question import Condition
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_l1, count_l2_squared
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.privacy import Relation
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_noise import fourth_cumulant, half_widths
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.methods.reconstruction.estimates.pooled_functionals import (
    covariance,
    estimate,
    unobserved,
)
from dp_core.methods.reconstruction.estimates.possible_cells import (
    impossible,
    meeting,
    over_possible,
)
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws
from dp_core.schema.bin_values import BinValues

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
        noise = noise_for(
            currency,
            SHARE * currency.limit,
            l1=count_l1(relation),
            l2_squared=count_l2_squared(relation),
        )
    except (ValueError, BadInput):
        return None
    return NeededTable(needed, domain.size(needed), float(SHARE), noise.half_width)


Ends = tuple[Floats, Floats, Floats]
"""Estimates, and the lower and upper ends of their intervals; shape (groups,) each."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A sum of counts, or a ratio of two.

    Attributes:
        top: Numerator.
        bottom: Denominator; None (the default) for a sum by itself.
        asked: Of a mean or total, the question, or its part about one wave; otherwise None.
        group: Of these, the conditions of one group of a difference; none by default.
        values: Of these, the value of each bin in the numerator, shape (bins,).
        in_bins: Whether the numerator has the error of bins; False (the default) for bins of one
            value, and for values at an end of their bins.
    """

    top: Functionals
    bottom: Functionals | None = None
    asked: Asked | None = None
    group: tuple[Condition, ...] = ()
    values: Floats | None = None
    in_bins: bool = False

    @property
    def sums(self) -> list[Functionals]:
        """The numerator, and the denominator if there is one."""
        return [self.top] if self.bottom is None else [self.top, self.bottom]


Sum: TypeAlias = tuple[Functionals, ...]
"""Sums of counts that add up: the parts of a sum in boxes of possible cells."""
Parts: TypeAlias = Sequence[tuple[Floats | float, Sum]]
"""Weighted sums of counts, by group: the error of an estimate, to first order."""
MOST_PAIRS = 1024
"""Most pairs of parts with a covariance; with more, the impossible cells are not left out."""


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """An estimate of a term.

    Attributes:
        ends: The estimate and the ends of its interval.
        parts: Its error by noise and sampling.
        variance: Variance of its whole error, shape (...).
        passed: Part of the tables' noise that it has, as a standard deviation, shape (...) or ().
        bins: Its errors because of bins; None if they do not matter.
    """

    ends: Ends
    parts: Parts
    variance: Floats
    passed: Floats
    bins: BinErrors | None


@dataclass(frozen=True)
class Intervals:
    """Intervals of sums, of ratios and of their differences.

    Both sums of a ratio are over the possible cells, so that shares of them add up to 1. Their
    errors are linear in the same noise as those of all cells, with a known covariance.

    Attributes:
        sources: What the question is answered from.
        level: Confidence level.
        sampling: Whether intervals also include the error of the file as a simple random sample.
        possible: The possible cells of the question's columns (`Asked.possible`).
    """

    sources: Sources
    level: float
    sampling: bool
    possible: Sum

    def absent(self, parts: Sequence[Sequence[Term]], counted: Counted) -> Undetermined | None:
        """Return why the terms of some answers are not determined; None if all are."""
        needed = [[each for term in terms for each in term.sums] for terms in parts]
        found = _absent(self.sources, [each for own in needed for each in own], counted)
        if found is not None or not self.sampling:
            return found
        products = [one.times(other) for own in needed for one in own for other in own]
        found = _absent(self.sources, products, counted)
        if found is None:
            return None
        sentence = f"--sampling needs more tables than the answer itself. {found.sentence}"
        return Undetermined(found.missing, found.needed, sentence)

    def answer(self, terms: Sequence[Term], *, bins: bool = True) -> Ends:
        """Return estimates of a term, or of a difference of two, and the ends of intervals.

        Args:
            terms: The one or two terms.
            bins: Whether the intervals cover the error of bins; True by default.
        """
        sums = iter(self._sums([s for term in terms if term.bottom for s in term.sums]))
        found = []
        for term in terms:
            error = self._sum_errors(term) if bins else None
            if term.bottom is None:
                found.append(self._count(term, error))
            else:
                found.append(self._ratio(term, (next(sums), next(sums)), error))
        if len(found) == 1:
            return found[0].ends
        one, other = found
        common = self.parts_covariance(one.parts, other.parts) + _bin_covariance(
            one.bins, other.bins
        )
        if self.sources.set_counts is not None:
            # What the sets do not have of the noise is not common to both.
            noise = self.noise.parts_covariance(one.parts, other.parts)
            common = common - (1 - one.passed * other.passed) * noise
        with np.errstate(divide="ignore", invalid="ignore"):
            correlation = np.nan_to_num(common / np.sqrt(one.variance * other.variance))
        estimates, lows, highs = zip(one.ends, other.ends, strict=True)
        return (estimates[0] - estimates[1], *difference_of(estimates, lows, highs, correlation))

    def bin_errors(self, term: Term) -> BinErrors | None:
        """Return the errors of a term because of bins, by group; None if they do not matter."""
        found = self._sum_errors(term)
        if found is not None and term.bottom is not None:
            found = found.over(np.broadcast_to(self._estimate((term.bottom,)), found.own.shape))
        return None if found is None else found.flat()

    def set_bin_counts(self, asked: Asked, group: Sequence[Condition] = ()) -> BinCounts | None:
        """Return the counts of a question's number by bin in the sets; None if they do not tell it.

        Args:
            asked: The question, or its part about one wave.
            group: Conditions of one group of a difference; none by default.
        """
        cells, sets = asked.by_bin(group), self.sources.set_counts
        if sets is None or unobserved(self.sources.pooled, cells):
            return None
        records, whole = sets.sums(cells), sets.sums(asked.all_by_bin())
        if records is None or whole is None:
            return None
        by_bin = asked.with_last_axis(records, asked.number_column.bins)
        return BinCounts(by_bin, self.table_bin_counts(asked, group)[1], whole, sets.share)

    def table_bin_counts(
        self, asked: Asked, group: Sequence[Condition] = ()
    ) -> tuple[Floats, Floats]:
        """Return the counts of a question's number by bin in the tables, and their deviations.

        Args:
            asked: The question, or its part about one wave.
            group: Conditions of one group of a difference; none by default.
        """
        cells, pooled = asked.by_bin(group), self.sources.pooled
        found = estimate(pooled, cells)
        deviations = np.sqrt(np.maximum(covariance(pooled, cells, cells), 0.0))
        deviations = np.broadcast_to(deviations, found.shape)
        bins = asked.number_column.bins
        return asked.with_last_axis(found, bins), asked.with_last_axis(deviations, bins)

    @property
    def noise(self) -> Intervals:
        """The same without the error of the file as a sample."""
        return replace(self, sampling=False)

    def _sum_errors(self, term: Term) -> BinErrors | None:
        """Return the errors of a term's numerator because of bins; None if they do not matter."""
        if term.asked is None or not term.in_bins:
            return None
        return bin_errors(self.sources, term.asked, term.group, sampling=self.sampling)

    def _sums(self, asked: Sequence[Functionals]) -> list[Sum]:
        """Return sums over the possible cells; over all if the tables do not determine these."""
        found = [over_possible(each, self.possible) for each in asked]
        kept = [each for each in found if each is not None]
        parts = [part for each in kept for part in each]
        if self.sampling:
            parts += [one.times(other) for one, other in _meeting(parts, parts)]
        if (
            len(kept) < len(found)
            or max((len(_meeting(each, each)) for each in kept), default=0) > MOST_PAIRS
            or any(unobserved(self.sources.pooled, each) for each in parts)
        ):
            return [(each,) for each in asked]
        return kept

    def _count(self, term: Term, error: BinErrors | None) -> _Found:
        """Return sums, not cut and over all cells, with their errors."""
        top, parts = term.top, [(1.0, (term.top,))]
        value, variance, quantile = self.sums(top)
        margin, passed = self.margins(top, variance, quantile), np.ones(())
        counts = None if term.asked is None else self.set_bin_counts(term.asked, term.group)
        if counts is not None and term.values is not None:
            noise = self.noise.sums(top)[1]
            told = counts.with_tables(term.values, value, noise)
            value, passed = told.values, told.passed
            variance = told.variance + np.maximum(variance - noise, 0.0)
            margin = quantile * np.sqrt(variance)
        if error is not None:
            margin = np.hypot(margin, quantile * np.sqrt(error.variance))
        empty = impossible(top, self.possible)
        value, margin = np.where(empty, 0.0, value), np.where(empty, 0.0, margin)
        if all((each == np.rint(each)).all() for each in top.weights):
            value = np.where(margin == 0, np.rint(value), value)  # exact, but for rounding
        ends = value, value - margin, value + margin
        return _Found(ends, parts, variance + _bin_variance(error), passed, error)

    def _ratio(self, term: Term, sums: tuple[Sum, Sum], error: BinErrors | None) -> _Found:
        """Return ratios of sums with their errors."""
        top, bottom = sums
        value, variance, quantile = self.sums(*top)
        whole, whole_variance, whole_quantile = self.sums(*bottom)
        value, whole = np.broadcast_arrays(value, whole)
        quantile = np.maximum(quantile, whole_quantile)
        low, high = fieller(
            value,
            whole,
            variance + _bin_variance(error),
            whole_variance,
            self.covariance(top, bottom),
            quantile,
        )
        ratio, passed = np.full(value.shape, np.nan), np.ones(())
        np.divide(value, whole, out=ratio, where=whole > 0)
        errors = None if error is None else error.over(whole)
        parts = _parts_of_ratio(ratio, whole, top, bottom)
        spread = self.parts_covariance(parts, parts)
        counts = None if term.asked is None else self.set_bin_counts(term.asked, term.group)
        if counts is not None and term.values is not None:
            records = counts.records.sum(axis=-1)
            known = (records > 0) & np.isfinite(low)
            own = np.where(
                known, counts.records @ term.values / np.where(known, records, 1.0), ratio
            )
            parts = _parts_of_ratio(own, whole, top, bottom)
            noise, spread = (each.parts_covariance(parts, parts) for each in (self.noise, self))
            weights = (term.values - own[..., None]) / np.where(known, whole, np.nan)[..., None]
            clear = counts.clear
            several = clear.sum(axis=-1)
            few = own - clear @ term.values / np.where(several > 0, several, np.nan)
            few = np.nan_to_num(few, nan=math.inf)
            told = counts.with_tables(weights, ratio, noise, own, few)
            spread = told.variance + np.maximum(spread - noise, 0.0)
            # As in Fieller's interval, the number of records is uncertain too.
            wider = 1 - np.square(quantile) * whole_variance / np.where(known, whole**2, np.nan)
            margin = quantile * np.sqrt((spread + _bin_variance(errors)) / wider)
            ratio, passed = np.where(known, told.values, ratio), np.where(known, told.passed, 1.0)
            low, high = np.where(known, ratio - margin, low), np.where(known, ratio + margin, high)
        return _Found((ratio, low, high), parts, spread + _bin_variance(errors), passed, errors)

    def parts_covariance(self, one: Parts, other: Parts) -> Floats:
        """Return the covariance of two weighted sums of sums of counts."""
        pairs = itertools.product(one, other)
        with np.errstate(invalid="ignore"):  # not a number without records
            return np.asarray(sum(a * b * self.covariance(x, y) for (a, x), (b, y) in pairs))

    def sums(self, *asked: Functionals) -> tuple[Floats, Floats, NDArray[np.float64]]:
        """Return estimates of sums of parts, their variance, and the quantile of their error."""
        fourths = [fourth_cumulant(self.sources.pooled, each) for each in asked]
        # A fourth cumulant is a sum of fourth powers of weights, so its root is a norm of them,
        # and the norm of a sum is at most the sum of the norms.
        fourth = fourths[0] if len(fourths) == 1 else sum(each**0.25 for each in fourths) ** 4
        variance = self.covariance(asked, asked)
        draws = effective_draws(variance, fourth)
        return self._estimate(asked), variance, central_quantile(self.level, draws)

    def _estimate(self, asked: Sum) -> Floats:
        return np.asarray(sum(estimate(self.sources.pooled, each) for each in asked))

    def margins(self, asked: Functionals, variance: Floats, quantile: Floats) -> Floats:
        """Return margins of sums."""
        if not self.sampling:
            return half_widths(self.sources.pooled, asked, self.level)
        return np.asarray(quantile * np.sqrt(np.maximum(variance, 0.0)))

    def covariance(self, one: Sum, other: Sum) -> Floats:
        """Return the covariance of two sums: of the noise, and of sampling if asked for.

        A simple random sample of n records from a large population: sums of x and y over the
        records have the covariance sum of x y - (sum of x) (sum of y) / n.
        """
        pooled, pairs = self.sources.pooled, _meeting(one, other) or [(one[0], other[0])]
        found = sum(covariance(pooled, mine, its) for mine, its in pairs)
        if self.sampling:
            nothing = Functionals((), ())
            records = max(float(estimate(pooled, nothing)), 1.0)
            product = self._estimate(tuple(mine.times(its) for mine, its in pairs))
            drawn = product - self._estimate(one) * self._estimate(other) / records
            same = one is other
            found = found + (np.maximum(drawn, 0.0) if same else drawn)
        return np.asarray(found)


def _parts_of_ratio(ratio: Floats, whole: Floats, top: Sum, bottom: Sum) -> Parts:
    """Return the error of a ratio: that of the top less ratio times that of the bottom, / whole."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return [(1 / whole, top), (-ratio / whole, bottom)]


def _bin_variance(error: BinErrors | None) -> Floats:
    """Return the variance of sums by bins; 0 if bins do not matter."""
    return np.zeros(()) if error is None else error.variance


def _bin_covariance(one: BinErrors | None, other: BinErrors | None) -> Floats:
    """Return the covariance of the sums of two terms by bins; 0 if bins do not matter."""
    return np.zeros(()) if one is None or other is None else one.covariance(other)


def _meeting(
    one: Sequence[Functionals], other: Sequence[Functionals]
) -> list[tuple[Functionals, Functionals]]:
    """Return the pairs of parts that some sum has both of; the others have no covariance."""
    pairs = itertools.product(one, other)
    return [pair for pair in pairs if meeting(*pair)]


def _absent(
    sources: Sources, needed: Sequence[Functionals], counted: Counted
) -> Undetermined | None:
    """Return why some sums are not determined; None if all are."""
    parts = list(dict.fromkeys(p for each in needed for p in unobserved(sources.pooled, each)))
    if not parts:
        return None
    weights = (pair for each in needed for pair in zip(each.columns, each.weights, strict=True))
    columns = {name for name, each in weights if (each != each[:, :1]).any()}
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


MOST_EDGES = 20 * MOST_ANSWERS
"""Largest number of edges in all groups of a question together."""
_AT_ONCE = 16
"""Edges whose noise is computed at once: few enough that the distribution of each is exact."""


def check_size(asked: Asked, edges: int) -> None:
    """Refuse a question with too many edges or cells of bins in all groups together.

    Args:
        asked: The question.
        edges: Number of edges or cells in each group.

    Raises:
        BadInput: if they are more than `MOST_EDGES`.
    """
    groups = math.prod(len(rows) for rows in asked.groups)
    if groups * edges > MOST_EDGES:
        raise BadInput(
            f"The question has {groups:,} groups with {edges:,} edges each, more than"
            f" {MOST_EDGES:,} edges: name fewer columns after `by`, or restrict them with `where`."
        )


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
    column = asked.number_column
    if column.levels:
        values, lows, highs = (
            each.astype(np.float64) for each in (found.place, found.first, found.last)
        )
        lows_without, highs_without = lows, highs
    else:
        density, (low, high) = BinValues.of(column), asked.bounds

        def within(codes: NDArray[np.intp], part: Floats) -> Floats:
            value = np.asarray(density.quantile(codes, part) / density.steps, dtype=np.float64)
            return np.clip(value, low[codes], high[codes])

        values = within(found.place, found.part)
        lows, lows_without = (
            np.minimum(within(found.first, each), values)
            for each in (found.low_part, found.low_part_without_bins)
        )
        highs, highs_without = (
            np.maximum(within(found.last, each), values)
            for each in (found.high_part, found.high_part_without_bins)
        )
    unknown = ~found.determined
    below, above = (
        [np.where(unknown, end, each) for each in ends]
        for end, ends in ((-math.inf, (lows, lows_without)), (math.inf, (highs, highs_without)))
    )
    return (values, below[0], above[0]), (values, below[1], above[1])


def _bins(work: Intervals, asked: Asked) -> QuantileBins:
    """Return the bins of the interval of each group."""
    edges = asked.number_column.bins + 1
    check_size(asked, edges)
    parts = []
    for first in range(0, edges, _AT_ONCE):
        cuts = asked.cuts(first, first + _AT_ONCE)
        values, variances, quantiles = work.sums(cuts)
        noise = work.noise.sums(cuts)[1] if work.sampling else variances
        each = (np.broadcast_to(one, values.shape) for one in (values, variances, quantiles, noise))
        found = [asked.with_last_axis(one, min(_AT_ONCE, edges - first)) for one in each]
        parts.append(found)
    values, variances, quantiles, noise = (
        np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)
    )
    counts = work.set_bin_counts(asked)
    if counts is not None:
        weights = cut_weights(edges - 1, float(asked.question.quantile or 0))
        several = counts.clear.sum(axis=-1, keepdims=True)
        clear = counts.clear * counts.records.sum(axis=-1, keepdims=True)
        clear = clear / np.where(several > 0, several, np.nan)
        told = []
        for edge, each in enumerate(weights):
            few = np.nan_to_num((counts.records - clear) @ each, nan=math.inf)
            at = values[..., edge], noise[..., edge]
            told.append(counts.with_tables(each, *at, few=few))
        values, own = (np.stack([each[place] for each in told], axis=-1) for place in (0, 1))
        variances = own + np.maximum(variances - noise, 0.0)
    variances = np.maximum(variances, 0.0)
    half = rounded_up(quantiles * np.sqrt(variances), variances)
    deviations, half_widths = (each.reshape(-1, edges) for each in (values, half))
    errors = place_errors(work.sources, asked, work.level) if asked.in_bins else None
    return quantile_bins(deviations, half_widths, errors)
