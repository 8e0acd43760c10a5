"""Agreement of an analysis of synthetic sets with that of the file: conclusions and intervals.

Sign and statistical significance (SSS): Eugenio and Liu (CIPHER, 2021), Section 3 and Table 1. Each
estimate from the confidential file is compared with that from the synthetic sets: whether the signs
match, and whether each is significant. Of the eight combinations, `Best` contains two (the signs
match, and both or neither are significant), so that there are seven outcomes. (The printed table
has two entries in each cell of that column. With this reading, an analysis of pure noise is `Best`
half of the time if the data show no effect, which is what the paper reports for its weakest
method.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcomes of Table 1, from the best to the worst."""

    BEST = "Best"
    NEUTRAL = "Neutral"
    TYPE_2_SAME = "II+"
    TYPE_1_SAME = "I+"
    TYPE_2_OPPOSITE = "II-"
    TYPE_1_OPPOSITE = "I-"
    WORST = "Worst"


MEANING: Mapping[Outcome, str] = {
    Outcome.BEST: "same sign, and significant in both or in neither",
    Outcome.NEUTRAL: "another sign, significant in neither",
    Outcome.TYPE_2_SAME: "same sign, significance lost",
    Outcome.TYPE_1_SAME: "same sign, significance where there was none",
    Outcome.TYPE_2_OPPOSITE: "another sign, significance lost",
    Outcome.TYPE_1_OPPOSITE: "another sign, significance where there was none",
    Outcome.WORST: "another sign, significant in both",
}
"""Each outcome in words."""


def outcome(
    before: float, after: float, *, significant_before: bool, significant_after: bool
) -> Outcome:
    """Return the outcome of one estimate.

    Signs differ if one estimate is above the null value and the other below; an estimate of
    exactly the null value contradicts neither sign.

    Args:
        before: Estimate from the confidential file minus the null value (0 for a regression
            coefficient).
        after: Estimate from the synthetic sets minus the null value.
        significant_before: Whether `before` differs significantly from 0.
        significant_after: Whether `after` differs significantly from 0.

    Raises:
        ValueError: if an estimate is not a number.

    >>> outcome(0.8, 0.3, significant_before=True, significant_after=False)
    <Outcome.TYPE_2_SAME: 'II+'>
    """
    if before != before or after != after:
        raise ValueError("An estimate that is not a number has no sign.")
    opposite = (before > 0 > after) or (before < 0 < after)
    if significant_before and significant_after:
        return Outcome.WORST if opposite else Outcome.BEST
    if significant_before:
        return Outcome.TYPE_2_OPPOSITE if opposite else Outcome.TYPE_2_SAME
    if significant_after:
        return Outcome.TYPE_1_OPPOSITE if opposite else Outcome.TYPE_1_SAME
    return Outcome.NEUTRAL if opposite else Outcome.BEST


def shares(outcomes: Iterable[Outcome]) -> dict[Outcome, float]:
    """Return the share of each outcome, all seven in the order of Table 1; zeros if there is none.

    >>> found = shares([Outcome.BEST, Outcome.BEST, Outcome.WORST, Outcome.NEUTRAL])
    >>> found[Outcome.BEST], found[Outcome.TYPE_1_SAME]
    (0.5, 0.0)
    """
    listed = list(outcomes)
    return {kind: listed.count(kind) / len(listed) if listed else 0.0 for kind in Outcome}


def interval_overlap(first: tuple[float, float], second: tuple[float, float]) -> float:
    """Return the overlap of two intervals: 1 if they are equal, 0 if they only touch.

    Karr, Kohnen, Oganian, Reiter and Sanil (The American Statistician 60, 2006, Section 3): with
    the length u of the common part, (u / length of the first + u / length of the second) / 2. One
    interval within another has at least 1/2, however much wider the other is, so that the overlap
    does not tell a very wide synthetic interval from a moderately wide one: look at both lengths.

    For disjoint intervals, the formula treats their distance as a negative length, as in Snoke,
    Raab, Nowok, Dibben and Slavkovic, JRSS A 2018, and the package synthpop. This distinguishes
    close from distant intervals, but a single coefficient can dominate an average.

    An interval of length 0 counts as covered if its point is in the other one. Otherwise the
    distance is infinitely many times its length, and the overlap minus infinity. Of an infinite
    (or half-infinite) and a finite interval, the common part is all of the finite one and none of
    the infinite one.

    Args:
        first: Lower and upper end of one interval.
        second: Lower and upper end of the other.

    Returns:
        At most 1.

    Raises:
        ValueError: if an end is not a number, an upper end is below its lower one, or both
            intervals are infinite.

    >>> interval_overlap((0, 2), (1, 3)), interval_overlap((0, 4), (1, 2))
    (0.5, 0.625)
    >>> interval_overlap((0, 1), (2, 4))
    -0.75
    """
    for low, high in (first, second):
        if not low <= high:
            raise ValueError(f"[{low}, {high}] is not an interval.")
    lengths = first[1] - first[0], second[1] - second[0]
    if all(math.isinf(length) for length in lengths):
        raise ValueError("Two infinite intervals have no overlap that can be compared.")
    common = min(first[1], second[1]) - max(first[0], second[0])
    return (_part(common, lengths[0]) + _part(common, lengths[1])) / 2


def _part(common: float, length: float) -> float:
    if length > 0:
        return 0.0 if math.isinf(length) else common / length
    return 1.0 if common >= 0 else -math.inf


@dataclass(frozen=True, slots=True)
class Coefficient:
    """Estimate and confidence interval of one parameter.

    Attributes:
        name: Name of the parameter in the analysis.
        estimate: Estimate, in the parameter's own units.
        low: Lower end of its confidence interval.
        high: Upper end.
    """

    name: str
    estimate: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether it differs from 0 at the level of the interval (5 % for one of 95 %)."""
        return not self.low <= 0 <= self.high

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Pair:
    """One parameter in both analyses.

    Attributes:
        real: From the file itself.
        synthetic: From the synthetic sets, combined by their rule.
    """

    real: Coefficient
    synthetic: Coefficient

    @property
    def name(self) -> str:
        """The parameter."""
        return self.real.name

    @property
    def outcome(self) -> Outcome:
        """Agreement of sign and significance (CIPHER, Table 1)."""
        return outcome(
            self.real.estimate,
            self.synthetic.estimate,
            significant_before=self.real.significant,
            significant_after=self.synthetic.significant,
        )

    @property
    def overlap(self) -> float:
        """Overlap of the intervals; negative for disjoint intervals, by their distance."""
        return interval_overlap(
            (self.real.low, self.real.high), (self.synthetic.low, self.synthetic.high)
        )

    @property
    def width_ratio(self) -> float:
        """Length of the synthetic interval divided by that of the real one; NaN if that is 0."""
        return self.synthetic.width / self.real.width if self.real.width else math.nan


@dataclass(frozen=True, slots=True)
class Agreement:
    """One analysis of the real file and of the synthetic sets.

    Attributes:
        formula: Formula that was fitted.
        pairs: Parameters that both analyses have, in the order of the real one.
        lost: Parameters that only the analysis of the real file has, for instance of a level that
            no synthetic record has.
        gained: Parameters that only the synthetic sets have.
        problem: Reason why no comparison was possible; empty otherwise.
    """

    formula: str
    pairs: tuple[Pair, ...] = ()
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()
    problem: str = ""

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Outcome of every pair but the intercept."""
        return tuple(pair.outcome for pair in self.slopes)

    @property
    def slopes(self) -> tuple[Pair, ...]:
        """All pairs but intercepts, or all if there is nothing else."""
        found = tuple(pair for pair in self.pairs if "intercept" not in pair.name.lower())
        return found or self.pairs

    def mean_overlap(self) -> float:
        """Return the average overlap of the slopes, disjoint intervals as 0; NaN without any."""
        overlaps = [max(pair.overlap, 0.0) for pair in self.slopes]
        return math.fsum(overlaps) / len(overlaps) if overlaps else math.nan


def agree(formula: str, real: Sequence[Coefficient], synthetic: Sequence[Coefficient]) -> Agreement:
    """Return two analyses side by side, parameter by parameter.

    Args:
        formula: Formula that was fitted.
        real: From the file itself.
        synthetic: From the synthetic sets, combined.
    """
    found = {coefficient.name: coefficient for coefficient in synthetic}
    names = {coefficient.name for coefficient in real}
    return Agreement(
        formula,
        tuple(Pair(one, found[one.name]) for one in real if one.name in found),
        tuple(one.name for one in real if one.name not in found),
        tuple(one.name for one in synthetic if one.name not in names),
    )
