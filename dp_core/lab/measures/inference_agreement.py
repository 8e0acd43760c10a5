"""Compares an analysis of the synthetic sets with the same analysis of the real file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_core.lab.measures.interval_overlap import interval_overlap
from dp_core.lab.measures.significance import Outcome, outcome


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
