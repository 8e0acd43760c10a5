"""Which few columns tell most of each: the feature hash of Park & Ghosh (2013), chosen privately.

The choice by mutual information alone is not private. Here it is a choice by the exponential
mechanism for each place (SBHG+EM of Li, Karwa, Slavkovic & Steorts 2018, Remark 3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from dp_core.domain import Clique, Domain
from dp_core.scores import MutualInformation, RScore, Statistic

if TYPE_CHECKING:
    from dp_core.curator import Curator

Score: TypeAlias = Literal["auto", "mi", "r"]
"""Mutual information, which needs a public number of rows; the distance from independence; or the
first of them that can be."""

_GRID = 1 << 20  # mutual information is rounded to this part of a bit


def chosen_features(
    curator: Curator,
    domain: Domain,
    cost: Fraction,
    *,
    features: int,
    score: Score,
    rows: int,
    replicate: int,
) -> Mapping[str, Clique]:
    """Return the columns to hold besides each, in the domain's order; costs exactly `cost`.

    Args:
        curator: The wall.
        domain: At least two columns.
        cost: Budget of all choices, paid by the stage `select`.
        features: Columns to choose for each, fewer where there are fewer.
        score: By what.
        rows: Public number of rows, for mutual information.
        replicate: Which of the independent measurements this is.
    """
    times = min(features, len(domain) - 1)
    each = cost / (len(domain) * times)
    found: dict[str, Clique] = {}
    for place, name in enumerate(domain.columns, start=1):
        beside: Clique = ()
        for number in range(1, times + 1):
            left = [other for other in domain.columns if other != name and other not in beside]
            # privacy: p times R choices, each of them a part 1/(p R) of the budget.
            best = curator.choose(
                "select",
                f"column-{place}-{number}",
                _statistic(curator, domain, name, left, score, rows),
                each,
                replicate=replicate,
            )
            beside = (*beside, left[best])
        found[name] = beside
    return found


def given_features(given: Sequence[Sequence[str]], domain: Domain) -> Mapping[str, Clique]:
    """Return the columns to hold besides each from stated lists; a column without one is alone."""
    listed = {clique[0]: tuple(clique[1:]) for clique in given}
    return {name: listed.get(name, ()) for name in domain.columns}


def check_given(given: Sequence[Sequence[str]]) -> None:
    """Refuse lists that contradict one another.

    Raises:
        ValueError: naming the option.
    """
    first = [clique[0] for clique in given]
    if len(set(first)) != len(first):
        raise ValueError("given has two lists that begin with the same column.")
    if any(len(set(clique)) != len(clique) for clique in given):
        raise ValueError("given names a column twice in one list.")


def _statistic(
    curator: Curator, domain: Domain, name: str, others: Sequence[str], score: Score, rows: int
) -> Statistic:
    candidates = tuple((name, (other,)) for other in others)
    public = curator.neighbours == "replace-one"
    if score == "r" or (score == "auto" and not public):
        return RScore(candidates)
    binary = domain.size((name,)) <= 2 or all(domain.size((other,)) <= 2 for other in others)
    return MutualInformation(candidates, rows=rows, grid=_GRID, binary=binary)
