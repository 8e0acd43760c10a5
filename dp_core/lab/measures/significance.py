"""Sign and statistical significance (SSS): whether a synthetic file gives the same conclusion.

Eugenio and Liu (CIPHER, 2021), Section 3 and Table 1. Each estimate from the confidential file is
compared with that from the synthetic sets: whether the signs match, and whether each is
significant. Of the eight combinations, `Best` contains two (the signs match, and both or neither
are significant), so that there are seven outcomes. (The printed table has two entries in each cell
of that column. With this reading, an analysis of pure noise is `Best` half of the time if the data
show no effect, which is what the paper reports for its weakest method.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
