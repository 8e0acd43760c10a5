"""Answers a question: estimates from all noisy tables, and their intervals.

Estimates are generalised least squares over everything that was measured, without bounds, so they
are unbiased and may be negative. The intervals include the noise; with `sampling` they also
include the error of the file as a simple random sample of a large population. The interval of a sum
follows from the distribution of its own noise (`dp_core.metrics.noise_quantiles`). Shares and means
have Fieller's interval, and their differences combine two of these.

The tables do not show where in its bin a value is. They only bound a mean or total: every value is
at least the smallest of its bin and at most the largest. The interval begins where that of the
smallest possible answer begins, and ends where that of the largest possible answer ends. Each end
is wrong with a probability of at most (1 - level)/2, so the interval contains the file's value with
at least the stated probability, wherever the values are (Horowitz & Manski 2000, J. Amer. Statist.
Assoc. 95). The shorter interval of Imbens & Manski (2004, Econometrica 72) requires that the
distance of the bounds is known almost without error. Here this distance follows from noisy counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.answer_notes import notes_of, unused_sentence
from dp_core.analysis.query.asked_counts import Asked, Counted
from dp_core.analysis.query.declared.declared_sums import answer_declared
from dp_core.analysis.query.drawn_shares import NOTE, asked_groups
from dp_core.analysis.query.question import Question
from dp_core.analysis.query.question_grammar import read_question
from dp_core.analysis.query.sources import Sources, sources_of
from dp_core.analysis.query.undetermined import Undetermined, undetermined
from dp_core.bundle.reading import Bundle
from dp_core.errors import BadInput
from dp_core.inference.ratio_intervals import difference_of, fieller
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

AnsweredFrom = Literal["tables", "declared"]
"""What an answer is computed from."""


@dataclass(frozen=True, slots=True)
class QueryCell:
    """One answer.

    Attributes:
        codes: Codes of its group, one for each of `QueryResult.columns`.
        estimate: Estimate: records (count), a share or ratio, or the unit of the column (mean,
            total; day ordinals of a date). None if it is not determined at this noise.
        low, high: Ends of its interval; None if it is not determined at this noise.
        margin_without_bins: Half of the width that the interval would have if the mean value of
            each bin were known. None if bins do not matter, or if it is not determined.
    """

    codes: tuple[int, ...]
    estimate: float | None
    low: float | None
    high: float | None
    margin_without_bins: float | None = None

    @property
    def determined(self) -> bool:
        """Whether the interval is bounded."""
        return self.low is not None

    @property
    def margin(self) -> float | None:
        """Distance from the estimate to the farther end of the interval; None if unbounded."""
        if self.estimate is None or self.low is None or self.high is None:
            return None
        return max(self.high - self.estimate, self.estimate - self.low)

    @property
    def from_bins(self) -> float:
        """Part of the interval's width that comes from bins, from 0 to 1."""
        if self.margin_without_bins is None or self.low is None or self.high is None:
            return 0.0
        width = self.high - self.low
        return max(1 - 2 * self.margin_without_bins / width, 0.0) if width > 0 else 0.0


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to a question.

    Attributes:
        question: The question as it was understood.
        columns: Columns that name the groups.
        cells: One answer for each group, in the order of the levels.
        level: Confidence level of the intervals.
        sampling: Whether they include the sampling error of the file.
        in_bins: Whether they include the error of bins, as for a mean or total over bins of
            several values.
        notes: What the reader must know, in sentences.
        undetermined: Why there is no answer; None if there is one.
        counted: What is counted: `records` (the default) or, of linked tables, `households` or
            `persons`.
        answered_from: `tables` (the default), or `declared` for the sums of a declared statistic.
    """

    question: Question
    columns: tuple[str, ...]
    cells: tuple[QueryCell, ...]
    level: float
    sampling: bool
    in_bins: bool = False
    notes: tuple[str, ...] = ()
    undetermined: Undetermined | None = None
    counted: Counted = "records"
    answered_from: AnsweredFrom = "tables"


def query(bundle: Bundle, text: str, *, level: float = 0.95, sampling: bool = False) -> QueryResult:
    """Return the answer to a question about the file of a release, with its margin of error.

    For several questions it is quicker to call `sources_of(bundle)` once, then `ask` for each.

    Args:
        bundle: The release, as `dp_core.bundle.reading.read_bundle` returns it.
        text: The question (`dp_core.analysis.query.question_grammar`).
        level: Confidence level of the intervals; 0.95 by default.
        sampling: Whether intervals also include the error of the file as a simple random sample;
            False by default.

    Returns:
        The answer. If the tables do not determine it, `undetermined` says why.

    Raises:
        BadInput: if the text is not a question about this release.
    """
    return ask(sources_of(bundle), text, level=level, sampling=sampling)


def ask(sources: Sources, text: str, *, level: float = 0.95, sampling: bool = False) -> QueryResult:
    """Return the answer to a question; arguments as for `query`."""
    if not 0 < level < 1:
        raise BadInput(f"The level must be between 0 and 1, such as 0.95, not {level}.")
    question = read_question(text, sources.schema)
    asked = Asked(question, sources.schema)
    asked.check_groups()
    if sampling and asked.counts_persons:
        raise BadInput(
            "--sampling is not available for a question about persons, because the file is a sample"
            " of households; leave it out."
        )
    if (declared := _from_declared(sources, question, level, sampling)) is not None:
        return declared
    work = _Intervals(sources, level, sampling)
    parts = _all_parts(asked)
    absent = work.absent(parts, asked.counted)
    if absent is not None:
        if (drawn := _from_draws(sources, question, level, sampling)) is not None:
            return drawn
        return QueryResult(
            question,
            question.groups,
            (),
            level,
            sampling,
            asked.in_bins,
            undetermined=absent,
            counted=asked.counted,
        )
    values, lows, highs = work.answer(parts[0])
    margins = np.full(values.shape, np.nan)
    if asked.in_bins:
        margins = (highs - lows) / 2
        # Because of noise, an estimate may lie outside these ends.
        lows = np.minimum(work.answer(parts[1])[1], values)
        highs = np.maximum(work.answer(parts[2])[2], values)
    ends = (values.ravel(), lows.ravel(), highs.ravel(), margins.ravel())
    cells = tuple(
        QueryCell(codes, *_plain(*numbers))
        for codes, *numbers in sorted(zip(asked.labels(), *ends, strict=True))
    )
    counted = question.between is None and question.measure in ("count", "share", "ratio")
    notes = notes_of(
        sources,
        asked,
        unbounded=not all(cell.determined for cell in cells),
        negative=counted and any((cell.estimate or 0.0) < 0 for cell in cells),
        exact=all(cell.margin == 0 for cell in cells) and not asked.in_bins,
        sampling=sampling,
        from_bins=[cell.from_bins for cell in cells if cell.determined] if asked.in_bins else [],
    )
    return QueryResult(
        question,
        question.groups,
        cells,
        level,
        sampling,
        asked.in_bins,
        notes,
        counted=asked.counted,
    )


def _from_declared(
    sources: Sources, question: Question, level: float, sampling: bool
) -> QueryResult | None:
    """Return an answer from the sums of a declared statistic; None if there is none."""
    if sampling or not sources.declared:
        return None
    found = answer_declared(sources.declared, question, sources.schema, sources.pooled, level=level)
    if found is None:
        return None
    nothing = np.full(found.values.shape, np.nan)
    ends = (found.values, found.lows, found.highs, nothing)
    cells = tuple(
        QueryCell(codes, *_plain(*numbers))
        for codes, *numbers in zip(found.labels, *ends, strict=True)
    )
    return QueryResult(
        question,
        question.groups,
        cells,
        level,
        sampling,
        notes=found.notes,
        answered_from="declared",
    )


def _from_draws(
    sources: Sources, question: Question, level: float, sampling: bool
) -> QueryResult | None:
    """Return an answer from sets that consist of private draws; None if there is none."""
    asked = asked_groups(question, sources.schema)
    if sources.drawn is None or asked is None:
        return None
    column, groups = asked
    cells = []
    for codes in groups:
        found = sources.drawn.posterior(column, codes)
        if found is None:
            return None
        value = found.in_population if sampling else found.in_file
        own = codes if question.groups else ()
        cells.append(QueryCell(own, *value(level, count=question.measure == "count")))
    return QueryResult(question, question.groups, tuple(cells), level, sampling, notes=(NOTE,))


def _all_parts(asked: Asked) -> list[list[Pair]]:
    """Return the terms of the answer and, if bins matter, those of the smallest and largest."""
    found = [_parts(asked)]
    if asked.in_bins:
        low, high = asked.bounds
        found += [_parts(asked, (low, high)), _parts(asked, (high, low))]
    return found


Pair = tuple[Functionals, Functionals | None]
"""Numerator and denominator of a term; None for a sum of counts by itself."""


def _parts(asked: Asked, values: tuple[Floats, Floats] | None = None) -> list[Pair]:
    """Return the terms of the answer: one, or the two of a difference.

    Args:
        asked: The question on the measured columns.
        values: For a mean or total: the value of each code in the first term, and in the second.
            Defaults to the mean value of each bin.
    """
    question = asked.question
    groups = question.between or ((),)
    found: list[Pair] = []
    for place, group in enumerate(groups):
        match question.measure:
            case "count":
                found.append((asked.counts((*question.of, *group)), None))
            case "total":
                own = asked.values if values is None else values[place]
                found.append((asked.counts(group, values=np.nan_to_num(own)), None))
            case "mean":
                own = asked.values if values is None else values[place]
                known = (~np.isnan(asked.values)).astype(np.float64)
                found.append(
                    (
                        asked.counts(group, values=np.nan_to_num(own)),
                        asked.counts(group, values=known),
                    )
                )
            case "ratio":
                found.append((asked.counts(question.of), asked.counts(question.to)))
            case "share":
                # `share by a` divides the whole; `share of a by b` divides each group of b.
                inside = question.by if question.of or question.levels_of else ()
                found.append(
                    (
                        asked.counts((*question.of, *group)),
                        asked.counts(group, by=inside),
                    )
                )
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
    return undetermined(
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


def _plain(
    value: float, low: float, high: float, margin: float
) -> tuple[float | None, float | None, float | None, float | None]:
    if not (math.isfinite(low) and math.isfinite(high)):
        return None, None, None, None
    return float(value), float(low), float(high), None if math.isnan(margin) else float(margin)


@dataclass(frozen=True)
class _Intervals:
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

    def answer(self, parts: Sequence[Pair]) -> tuple[Floats, Floats, Floats]:
        """Return estimates of a term, or of a difference of two, and the ends of intervals."""
        found = [self.one(*pair) for pair in parts]
        return self.difference(parts, found) if len(found) == 2 else found[0]

    def one(self, top: Functionals, bottom: Functionals | None) -> tuple[Floats, Floats, Floats]:
        """Return estimates and the ends of their intervals, shape `top.shape`."""
        value, variance, quantile = self._sum(top)
        empty = impossible(self.sources.schema.zeros, top)
        if bottom is None:
            margin = self._margin(top, variance, quantile)
            value, margin = np.where(empty, 0.0, value), np.where(empty, 0.0, margin)
            if all((each == np.rint(each)).all() for each in top.weights):
                value = np.where(margin == 0, np.rint(value), value)  # exact, but for rounding
            return value, value - margin, value + margin
        whole, whole_variance, whole_quantile = self._sum(bottom)
        value, whole = np.broadcast_arrays(value, whole)
        low, high = fieller(
            value,
            whole,
            variance,
            whole_variance,
            self._covariance(top, bottom),
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

    def difference(
        self, parts: Sequence[Pair], found: Sequence[tuple[Floats, Floats, Floats]]
    ) -> tuple[Floats, Floats, Floats]:
        """Return the difference of two terms, first minus second, and its interval."""
        (top, bottom), (other_top, other_bottom) = parts
        (one, low, high), (two, other_low, other_high) = found
        if bottom is None or other_bottom is None:
            _, first, quantile = self._sum(top)
            _, second, other_quantile = self._sum(other_top)
            variance = first + second - 2 * self._covariance(top, other_top)
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
            self._covariance(top, other_top)
            - ratio * self._covariance(bottom, other_top)
            - other * self._covariance(top, other_bottom)
            + ratio * other * self._covariance(bottom, other_bottom)
        )

    def _sum(self, asked: Functionals) -> tuple[Floats, Floats, NDArray[np.float64]]:
        """Return estimates of sums, their variance, and the quantile of their error."""
        pooled = self.sources.pooled
        variance = self._covariance(asked, asked)
        draws = effective_draws(variance, fourth_cumulant(pooled, asked))
        return estimate(pooled, asked), variance, central_quantile(self.level, draws)

    def _margin(self, asked: Functionals, variance: Floats, quantile: Floats) -> Floats:
        """Return margins of sums."""
        if not self.sampling:
            return half_widths(self.sources.pooled, asked, self.level)
        return np.asarray(quantile * np.sqrt(np.maximum(variance, 0.0)))

    def _covariance(self, one: Functionals, other: Functionals) -> Floats:
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
