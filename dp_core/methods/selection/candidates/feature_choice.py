"""The few columns that predict each column best, chosen privately (Park & Ghosh 2013).

A direct choice by mutual information is not private. Here the exponential mechanism makes one
choice per feature (SBHG+EM of Li, Karwa, Slavkovic & Steorts 2018, Remark 3.2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import RScore
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.questions.statistic import TableStatistic
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.candidates.known_rows import number_of_rows

if TYPE_CHECKING:
    from dp_core.client.curator import Curator

_GRID = 1 << 20  # mutual information is rounded to this part of a bit, or a finer one


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureChoice:
    """Options and behaviour of methods that keep a few other columns with each column.

    Attributes:
        features: Number of other columns kept with each column (R), or all if there are fewer.
        given: Stated features, from public knowledge, instead of a choice: lists of a column
            followed by its features. A column without a list has no features. The selection then
            needs no share.
    """

    features: int = 1
    given: tuple[tuple[str, ...], ...] = ()

    needs_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.features < 1:
            raise ValueError(f"features is a number of columns from 1, not {self.features}.")
        _check_given(self.given)

    @property
    def adaptive(self) -> bool:
        """Whether columns are chosen rather than given."""
        return not self.given

    @property
    def scores(self) -> tuple[str, ...]:
        """Names of the scores by which it may choose, extensions of the kernel."""
        return ("mutual-information", "r-score") if self.adaptive else ()

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        """Return the cliques that the choice asks about: all pairs, and the number of rows."""
        return ((), *itertools.combinations(domain.columns, 2)) if self.adaptive else ()

    def choices(self, domain: Domain) -> int:
        """Return one choice for each column, or 0 if all are given."""
        return len(domain) if self.adaptive else 0

    def most_cells(self, domain: Domain) -> int:
        """Return the largest possible number of cells of a column's table with its features."""
        if self.adaptive:
            return math.prod(sorted(domain.sizes, reverse=True)[: self.features + 1])
        return max(domain.size(clique) for clique in self.given_tables(domain))

    def given_tables(self, domain: Domain) -> tuple[Clique, ...]:
        """Return each column, in the domain's order, with its given features.

        A column without a list is alone.
        """
        listed = {clique[0]: clique[1:] for clique in self.given}
        return tuple((name, *listed.get(name, ())) for name in domain.columns)

    def tables_of_each(self, inputs: MethodInputs) -> tuple[Clique, ...]:
        """Return each column, in the domain's order, with its features.

        The choice costs exactly `select_cost`.
        """
        curator, domain = inputs.curator, inputs.domain
        if not self.adaptive:
            return self.given_tables(domain)
        rows = round(number_of_rows(inputs))
        times = min(self.features, len(domain) - 1)
        each = inputs.select_cost / (len(domain) * times)
        found: list[Clique] = []
        for place, name in enumerate(domain.columns, start=1):
            clique: Clique = (name,)
            for number in range(1, times + 1):
                left = [other for other in domain.columns if other not in clique]
                # privacy: p times R choices, each with 1/(p R) of the budget.
                best = curator.choose(
                    "select",
                    f"column-{place}-{number}",
                    _statistic(curator, domain, name, left, rows),
                    each,
                    replicate=inputs.replicate,
                )
                clique = (*clique, left[best])
            found.append(clique)
        return tuple(found)


def _check_given(given: Sequence[Sequence[str]]) -> None:
    """Check that the lists of `given` do not contradict each other.

    Raises:
        ValueError: if two lists have the same first column, or a list repeats a column.
    """
    first = [clique[0] for clique in given]
    if len(set(first)) != len(first):
        raise ValueError("given has two lists that begin with the same column.")
    if any(len(set(clique)) != len(clique) for clique in given):
        raise ValueError("given names a column twice in one list.")


def _statistic(
    curator: Curator, domain: Domain, name: str, others: Sequence[str], rows: int
) -> TableStatistic:
    candidates = tuple((name, (other,)) for other in others)
    if curator.neighbours != "replace-one":
        # The sensitivity of mutual information is known for a public number of rows only.
        return RScore(candidates)
    return mutual_information(domain, candidates, rows)


def mutual_information(
    domain: Domain, candidates: tuple[tuple[str, Clique], ...], rows: int
) -> MutualInformation:
    """Return the mutual information of each child with its parents, for a public number of rows."""
    binary = all(
        domain.size((child,)) <= 2 or domain.size(parents) <= 2 for child, parents in candidates
    )
    return MutualInformation(candidates, rows=rows, grid=max(_GRID, 64 * rows), binary=binary)
