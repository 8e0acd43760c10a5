"""The change of an answer between two releases, with its interval.

The noise of two releases is independent. So the change of a count or total has the sum of the two
variances and of the two fourth cumulants, which give the quantile of its noise. The interval of the
change of a share, mean, ratio or difference follows from the two intervals (MOVER with correlation
0: Zou & Donner 2008).

The position of values within bins is not random. So the lower end of the change of a mean or total
in bins is that of the smallest possible later answer minus the largest possible earlier one. The
upper end is that of the largest possible later answer minus the smallest possible earlier one.

An interval of a quantile has a coverage of at least its level, but it is a set of whole bins, and
its ends are not those of an estimate with an error of a known distribution. So both intervals have
half of the error probability (Bonferroni), and the ends of the interval of the change are the
differences of their opposite ends. This needs no independence. With independent noise, 1 -
sqrt(level) would be enough, which is hardly more than half: .0253 instead of .025.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dp_core.analysis.query.answering import flat, terms_of
from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.possible_answers import (
    Ends,
    PossibleAnswers,
    moved_to,
    possible_answers,
)
from dp_core.analysis.query.quantile_answers import quantile_answers
from dp_core.analysis.query.sources import Sources
from dp_core.analysis.query.term_intervals import Intervals
from dp_core.inference.quantile_intervals import rounded_up
from dp_core.inference.ratio_intervals import difference_of
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.methods.reconstruction.estimates.functional_noise import (
    errors_are_whole,
    fourth_cumulant,
)
from dp_core.metrics.noise_quantiles import central_quantile, effective_draws


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The answers of one release; arrays with one entry for each group.

    Attributes:
        answer: Answers with intervals for the noise and, if asked for, sampling. Values within bins
            are assumed to follow the density.
        noise: The same with intervals for the noise only.
        least, most: The smallest and largest answers that bins allow, as `answer`; equal to it
            where bins do not matter.
        possible: The smallest and the largest possible answers.
        variance, noise_variance, fourth: Variance of a sum with and without sampling, and fourth
            cumulant of its noise; None for other measures.
        counts: Whether the answers are numbers of records.
        whole: Whether their errors are whole numbers.
        quantiles: Whether the answers are quantiles. Then `answer` has half of the error
            probability, and so has `noise` if bins do not matter.
        in_bins: Whether bins matter.
    """

    answer: Ends
    noise: Ends
    least: Ends
    most: Ends
    possible: PossibleAnswers
    variance: Floats | None = None
    noise_variance: Floats | None = None
    fourth: Floats | None = None
    counts: bool = False
    whole: bool = False
    quantiles: bool = False
    in_bins: bool = False

    @property
    def values(self) -> Floats:
        """The estimates of `answer`, cut to the possible ones."""
        return self.possible.cut(self.answer)[0]

    def at(self, places: tuple[int, ...]) -> Side:
        """Return the answers of some groups."""
        index = np.array(places, dtype=np.intp)

        def some(each: Ends) -> Ends:
            return each[0][index], each[1][index], each[2][index]

        def one(each: Floats | None) -> Floats | None:
            return None if each is None else each[index]

        return replace(
            self,
            answer=some(self.answer),
            noise=some(self.noise),
            least=some(self.least),
            most=some(self.most),
            possible=self.possible.at(places),
            variance=one(self.variance),
            noise_variance=one(self.noise_variance),
            fourth=one(self.fourth),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Changes, later minus earlier; arrays with one entry for each group.

    Attributes:
        values: Changes of the estimates.
        lows, highs: Ends of their intervals; infinite where one of the answers is not determined.
        noise_lows, noise_highs: Ends of their intervals for the noise only.
    """

    values: Floats
    lows: Floats
    highs: Floats
    noise_lows: Floats
    noise_highs: Floats


def side_of(sources: Sources, asked: Asked, *, level: float, sampling: bool) -> Side:
    """Return the answers of one release, in the order of `asked.labels()`.

    Args:
        sources: What the release answers from.
        asked: The question, which the tables determine.
        level: Confidence level of the interval of the change.
        sampling: Whether it includes the sampling error of the file.
    """
    noise, work = Intervals(sources, level, sampling=False), Intervals(sources, level, sampling)
    parts = terms_of(asked)
    possible = possible_answers(asked, parts)
    if asked.question.measure == "quantile":
        half = (1 + level) / 2
        found = quantile_answers(Intervals(sources, half, sampling), asked)
        plain = quantile_answers(noise if asked.in_bins else Intervals(sources, half, False), asked)
        answer = (found.values, found.lows, found.highs)
        own = (plain.values, plain.plain_lows, plain.plain_highs)
        return Side(answer, own, answer, answer, possible, quantiles=True, in_bins=asked.in_bins)
    answer, own = flat(work.answer(parts[0])), flat(noise.answer(parts[0]))
    if asked.in_bins:
        least, most = flat(work.answer(parts[1])), flat(work.answer(parts[2]))
        return Side(answer, own, least, most, possible, in_bins=True)
    (top, bottom), *others = parts[0]
    if bottom is not None or others:
        return Side(answer, own, answer, answer, possible)
    # Where the margin is 0, the sum is known exactly: an impossible group, or a public number.
    exact = own[1] == own[2]
    variance, alone = (
        np.where(exact & (found[1] == found[2]), 0.0, np.broadcast_to(each, top.shape).ravel())
        for each, found in ((work.sums(top)[1], answer), (noise.sums(top)[1], own))
    )
    fourth = np.broadcast_to(fourth_cumulant(sources.pooled, top), top.shape).ravel()
    return Side(
        *(answer, own, answer, answer, possible),
        variance=np.maximum(variance, 0.0),
        noise_variance=np.maximum(alone, 0.0),
        fourth=np.where(exact, 0.0, fourth),
        counts=asked.question.measure == "count",
        whole=errors_are_whole(sources.pooled),
    )


def changes_of(later: Side, earlier: Side, *, level: float) -> Changes:
    """Return the changes between the same groups of two releases.

    Args:
        later: Answers of the later release, group by group.
        earlier: Answers of the earlier one for the same groups.
        level: Confidence level of the intervals.
    """
    found = _unrestricted(later, earlier, level)
    values = np.asarray(later.values - earlier.values)
    possible = later.possible.minus(earlier.possible)
    moved = possible.cut((found.values, found.lows, found.highs), values)
    noise = moved_to(values, (found.values, found.noise_lows, found.noise_highs))
    return Changes(*moved, *noise[1:])


def _unrestricted(later: Side, earlier: Side, level: float) -> Changes:
    """Return the changes before they are cut to the possible ones; arguments as `changes_of`."""
    values = np.asarray(later.answer[0] - earlier.answer[0])
    if later.variance is not None and earlier.variance is not None:
        half, alone = (_half_width(later, earlier, level, noise=each) for each in (False, True))
        return Changes(values, values - half, values + half, values - alone, values + alone)
    if later.quantiles:
        lows, highs = _farthest(later.answer, earlier.answer)
        binned = later.in_bins or earlier.in_bins
        own = (
            _apart(later.noise, earlier.noise) if binned else _farthest(later.noise, earlier.noise)
        )
        return Changes(values, lows, highs, *own)
    lows = np.minimum(_apart(later.least, earlier.most)[0], _apart(later.answer, earlier.answer)[0])
    highs = np.maximum(
        _apart(later.most, earlier.least)[1], _apart(later.answer, earlier.answer)[1]
    )
    return Changes(values, lows, highs, *_apart(later.noise, earlier.noise))


def _apart(later: Ends, earlier: Ends) -> tuple[Floats, Floats]:
    """Return the interval of the difference of two independent estimates."""
    return difference_of(
        (later[0], earlier[0]), (later[1], earlier[1]), (later[2], earlier[2]), 0.0
    )


def _farthest(later: Ends, earlier: Ends) -> tuple[Floats, Floats]:
    """Return the differences of opposite ends of two intervals."""
    return np.asarray(later[1] - earlier[2]), np.asarray(later[2] - earlier[1])


def _half_width(later: Side, earlier: Side, level: float, *, noise: bool) -> Floats:
    """Return half of the width of the interval of the change of a sum.

    Args:
        later: Answers of the later release.
        earlier: Answers of the earlier one.
        level: Confidence level.
        noise: Whether to leave the sampling error out.
    """
    each = (later, earlier)
    variances = [side.noise_variance if noise else side.variance for side in each]
    assert variances[0] is not None
    assert variances[1] is not None
    assert later.fourth is not None
    assert earlier.fourth is not None
    variance = variances[0] + variances[1]
    draws = effective_draws(variance, later.fourth + earlier.fourth)
    half = np.asarray(central_quantile(level, draws) * np.sqrt(variance))
    if not later.counts:
        return half
    if later.whole and earlier.whole:
        # The error is a whole number, as if the continuous one were rounded.
        return np.asarray(np.maximum(half, np.ceil(half - 0.5)))
    return rounded_up(half, variance)
