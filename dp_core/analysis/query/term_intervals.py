"""Estimates and intervals of sums of counts, of ratios of two, and of differences of these."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.answer_notes import Undetermined, why_undetermined
from dp_core.analysis.query.asked_counts import Asked, Counted
from dp_core.analysis.query.bin_errors import BinErrors, bin_errors
from dp_core.analysis.query.set_counts import BinCounts, Estimates
from dp_core.analysis.query.sources import Sources
from dp_core.inference.count_intervals import difference_of, fieller
from dp_core.inference.questions.question import Condition
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

Ends = tuple[Floats, Floats, Floats]
"""Estimates, and the lower and upper ends of their intervals; shape (groups,) each."""


class Answers(NamedTuple):
    """The answers to a question, in the order of `Asked.labels()`.

    Attributes:
        plain: The answers.
        without_bins: The same with intervals without the error of bins.
        of_sets: Which answers the sets have a weight in, shape (groups,).
    """

    plain: Ends
    without_bins: Ends
    of_sets: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A sum of counts, or a ratio of two.

    Attributes:
        top: Numerator.
        bottom: Denominator; None (the default) for a sum by itself.
        asked: Of a mean or total, the question, or its part about one wave; None (the default) for
            others, such as the counts that a quantile or measure of spread needs.
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
        about: The estimate before it was made possible, with its error by noise and sampling.
        bins: Its errors because of bins; None if they do not matter.
    """

    ends: Ends
    parts: Parts
    about: Estimates
    bins: BinErrors | None

    @property
    def variance(self) -> Floats:
        """Variance of its whole error, shape (...)."""
        return self.about.variance + _bin_variance(self.bins)


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
        found = why_undetermined(self.sources, [each for own in needed for each in own], counted)
        if found is not None or not self.sampling:
            return found
        products = [one.times(other) for own in needed for one in own for other in own]
        found = why_undetermined(self.sources, products, counted)
        if found is None:
            return None
        sentence = f"--sampling needs more tables than the answer itself. {found.sentence}"
        return replace(found, sentence=sentence)

    def answer(self, terms: Sequence[Term], *, bins: bool = True) -> tuple[Ends, NDArray[np.bool_]]:
        """Return estimates of a term, or of a difference of two, and the ends of intervals.

        Args:
            terms: The one or two terms.
            bins: Whether the intervals cover the error of bins; True by default.

        Returns:
            The estimates with the ends, in the order of `Asked.labels()`, and which of them the
            sets have a weight in.
        """
        sums = iter(self._sums([s for term in terms if term.bottom for s in term.sums]))
        found = []
        for term in terms:
            error = self._sum_errors(term) if bins else None
            if term.bottom is None:
                found.append(self._count(term, error))
            else:
                found.append(self._ratio(term, (next(sums), next(sums)), error))
        weight = np.asarray(sum(each.about.weight for each in found))
        ends = found[0].ends if len(found) == 1 else self._difference(*found)
        values, lows, highs, weights = map(np.ravel, np.broadcast_arrays(*ends, weight))
        return (values, lows, highs), weights > 0

    def _difference(self, one: _Found, other: _Found) -> Ends:
        """Return the difference of two terms with its interval."""
        common = self.parts_covariance(one.parts, other.parts) + _bin_covariance(
            one.bins, other.bins
        )
        if self.sources.set_counts is not None:
            # What the sets do not have of the noise is not common to both.
            noise = self.noise.parts_covariance(one.parts, other.parts)
            common = common - (1 - one.about.passed * other.about.passed) * noise
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

    def set_bin_counts(
        self, asked: Asked | None, group: Sequence[Condition] = ()
    ) -> BinCounts | None:
        """Return the counts of a question's number by bin in the sets; None if they do not tell it.

        Args:
            asked: The question, or its part about one wave; None if it is not about a number.
            group: Conditions of one group of a difference; none by default.
        """
        sets = self.sources.set_counts
        if asked is None or sets is None:
            return None
        cells = asked.by_bin(group)
        if unobserved(self.sources.pooled, cells):
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
        top, found = term.top, self.sums(term.top)
        margin = found.half_width
        if not self.sampling:
            margin = half_widths(self.sources.pooled, top, self.level)
        counts = self.set_bin_counts(term.asked, term.group)
        if counts is not None and term.values is not None:
            found = counts.with_tables(term.values, found)
            margin = found.half_width
        if error is not None:
            margin = np.hypot(margin, found.quantile * np.sqrt(error.variance))
        empty = impossible(top, self.possible)
        value, margin = np.where(empty, 0.0, found.values), np.where(empty, 0.0, margin)
        if all((each == np.rint(each)).all() for each in top.weights):
            value = np.where(margin == 0, np.rint(value), value)  # exact, but for rounding
        return _Found((value, value - margin, value + margin), [(1.0, (top,))], found, error)

    def _ratio(self, term: Term, sums: tuple[Sum, Sum], error: BinErrors | None) -> _Found:
        """Return ratios of sums with their errors."""
        over, under = (self.sums(*each) for each in sums)
        value, whole = np.broadcast_arrays(over.values, under.values)
        quantile = np.maximum(over.quantile, under.quantile)
        variance = over.variance + _bin_variance(error)
        both = self.covariance(*sums)
        low, high = fieller(value, whole, variance, under.variance, both, quantile)
        own = ratio = value / np.where(whole > 0, whole, np.nan)
        errors = None if error is None else error.over(whole)
        counts, few, known = self.set_bin_counts(term.asked, term.group), None, np.isfinite(low)
        if counts is not None and term.values is not None:
            own, clear = (_mean(each, term.values) for each in (counts.records, counts.clear))
            known &= ~np.isnan(own)
            own = np.where(known, own, ratio)
            few = np.nan_to_num(own - clear, nan=math.inf)
        parts = _parts_of_ratio(own, whole, *sums)
        spread = self.parts_covariance(parts, parts)
        noise = self.noise.parts_covariance(parts, parts) if self.sampling else spread
        found = Estimates(ratio, spread, noise, quantile)
        if counts is not None and term.values is not None:
            size = np.where(known, whole, np.nan)
            weights = (term.values - own[..., None]) / size[..., None]
            found = counts.with_tables(weights, found, own, few)
            # As in Fieller's interval, the number of records is uncertain too.
            wider = 1 - np.square(quantile) * under.variance / np.square(size)
            margin = quantile * np.sqrt((found.variance + _bin_variance(errors)) / wider)
            low = np.where(known, found.values - margin, low)
            high = np.where(known, found.values + margin, high)
        return _Found((found.values, low, high), parts, found, errors)

    def parts_covariance(self, one: Parts, other: Parts) -> Floats:
        """Return the covariance of two weighted sums of sums of counts."""
        pairs = itertools.product(one, other)
        with np.errstate(invalid="ignore"):  # not a number without records
            return np.asarray(sum(a * b * self.covariance(x, y) for (a, x), (b, y) in pairs))

    def sums(self, *asked: Functionals) -> Estimates:
        """Return estimates of sums of parts from the tables."""
        fourths = [fourth_cumulant(self.sources.pooled, each) for each in asked]
        # A fourth cumulant is a sum of fourth powers of weights, so its root is a norm of them,
        # and the norm of a sum is at most the sum of the norms.
        fourth = fourths[0] if len(fourths) == 1 else sum(each**0.25 for each in fourths) ** 4
        variance = noise = np.maximum(self.covariance(asked, asked), 0.0)
        if self.sampling:
            noise = np.maximum(self.noise.covariance(asked, asked), 0.0)
        quantile = central_quantile(self.level, effective_draws(variance, fourth))
        return Estimates(self._estimate(asked), variance, noise, quantile)

    def _estimate(self, asked: Sum) -> Floats:
        return np.asarray(sum(estimate(self.sources.pooled, each) for each in asked))

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


def _mean(counts: Floats, values: Floats) -> Floats:
    """Return the means of values with counts, shape (...); NaN without records."""
    records = counts.sum(axis=-1)
    return np.asarray(counts @ values / np.where(records > 0, records, np.nan))


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
