"""PrivBayes: a Bayesian network chosen step by step, and the table of each column and its parents.

Zhang, Cormode, Procopiuc, Srivastava and Xiao, SIGMOD 2014 and ACM TODS 2017. Each step chooses the
next column and its parents with the exponential mechanism, by a score of their dependence. The size
limit of their table depends on public numbers only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.f_score import FScore
from dp_core.kernel.extensions.mutual_information import MutualInformation
from dp_core.kernel.extensions.r_score import RScore
from dp_core.kernel.privacy import Neighbours, Stage
from dp_core.kernel.questions.statistic import TableStatistic
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.allocation import shares
from dp_core.methods.selection.candidates.known_rows import (
    number_of_rows,
    require_public_rows,
    require_rows,
)
from dp_core.methods.selection.candidates.parent_sets import candidates
from dp_core.methods.selection.selector import Selection, Selector

if TYPE_CHECKING:
    from dp_core.kernel.curator import Curator

_COMPARED = 2000  # candidates of a step, which counts all their tables; of more, a random part
_MOST_COUNTED = 1 << 24  # total cells of the candidates of one step: 128 MB of exact counts
_GRID = 1 << 20  # mutual information is rounded to this part of a bit, or a finer one


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivBayes(Selector):
    """Choose a Bayesian network by the exponential mechanism, and measure its tables.

    The tables have equal parts of the measuring budget, as in the paper.

    Attributes:
        score: Score of a child and its parents: `r`, the distance from independence; `mi`, mutual
            information (only if the number of rows is public, as under replace-one); `f`, the
            distance to the nearest table of maximum information (binary columns only).
        theta: Smallest ratio of a table's average count to the mean absolute noise of a cell for
            the table to be a candidate (the paper's theta-usefulness).
        degree: Largest number of parents; None (the default) lets `theta` decide.
    """

    chooses: ClassVar[bool] = True
    # Of a table: more are far from useful in files of fewer than 10^6 records.
    max_cells: ClassVar[int] = 2**16

    score: Literal["r", "mi", "f"] = "r"
    theta: float = 4.0
    degree: int | None = None

    def __post_init__(self) -> None:
        if self.theta <= 0:
            raise ValueError(f"theta is positive, not {self.theta}.")
        if self.degree is not None and self.degree < 0:
            raise ValueError(f"degree is at least 0, not {self.degree}.")

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask."""
        return ({"mi": "mutual-information", "r": "r-score", "f": "f-score"}[self.score],)

    def check(self, domain: Domain) -> None:
        """Raise BadInput for the score `f` if a column is not binary: it then has no bound."""
        wide = [name for name in domain.columns if domain.size((name,)) > 2]
        if self.score == "f" and wide:
            raise BadInput(
                f"The score f is for binary columns, and {wide[0]!r} has more than two codes;"
                " set select.score to r."
            )

    def largest_choice(self, domain: Domain) -> Fraction:
        """One over the number of choices: all measurements follow the last one."""
        return Fraction(1, max(len(domain) - 1, 1))

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:
        if self._looks_at_rows:
            require_rows(neighbours, measured)
        if self.score == "mi":
            require_public_rows(neighbours, "Mutual information")

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        rows = number_of_rows(inputs) if self._looks_at_rows else None
        cells = self._useful_cells(curator, domain, rows, inputs.measure_cost)
        first = domain.columns[int(inputs.rng.integers(len(domain)))]
        network: list[tuple[str, Clique]] = [(first, ())]
        compared: list[int] = []
        for step in range(1, len(domain)):
            pairs = candidates(
                domain,
                [child for child, _ in network],
                cells=cells,
                degree=self.degree,
                most=max(1, min(_COMPARED, _MOST_COUNTED // cells)),
                rng=inputs.rng,
            )
            # privacy: d - 1 choices, each with 1/(d - 1) of the selection's budget.
            chosen = curator.choose(
                "select",
                f"column-{step}",
                self._statistic(domain, pairs, rows),
                inputs.select_cost / (len(domain) - 1),
                replicate=inputs.replicate,
            )
            network.append(pairs[chosen])
            compared.append(len(pairs))
        cliques = tables(domain, network)
        return Selection(
            cliques=cliques,
            weights=shares([domain.size(clique) for clique in cliques], "equal"),
            note={
                "network": [[child, list(parents)] for child, parents in network],
                "useful_cells": cells,
                "compared": compared,
            },
        )

    @property
    def _looks_at_rows(self) -> bool:
        return self.degree is None or self.score == "mi"

    def _statistic(
        self, domain: Domain, pairs: tuple[tuple[str, Clique], ...], rows: float | None
    ) -> TableStatistic:
        if self.score == "r":
            return RScore(pairs)
        if self.score == "f":
            return FScore(pairs)
        assert rows is not None
        small = all(
            domain.size((child,)) <= 2 or domain.size(parents) <= 2 for child, parents in pairs
        )
        whole = round(rows)
        return MutualInformation(pairs, rows=whole, grid=max(_GRID, 64 * whole), binary=small)

    def _useful_cells(
        self, curator: Curator, domain: Domain, rows: float | None, measure_cost: Fraction
    ) -> int:
        """Return the largest number of cells of a table that is worth measuring (theta-usefulness).

        With n records, the average cell of a table of c cells has n / c. With binary columns and k
        parents, d - k tables share the budget, and k is the largest useful number (SIGMOD 2014,
        Section 4.3). Otherwise d tables share the budget (TODS 2017, Section 5.1).
        """
        if self.degree is not None:
            return self.max_cells
        assert rows is not None

        def useful(count: int) -> float:
            """Return the cells of a useful table when `count` tables share the budget."""
            return rows / (self.theta * curator.count_noise(measure_cost / count).mean_absolute)

        d = len(domain)
        if set(domain.sizes) != {2}:
            most = useful(d)
        else:
            most = 2.0
            for parents in range(1, d):
                if 2 ** (parents + 1) <= useful(d - parents):
                    most = 2.0 ** (parents + 1)
        return int(min(max(most, 1.0), self.max_cells))


def tables(domain: Domain, network: Sequence[tuple[str, Clique]]) -> tuple[Clique, ...]:
    """Return the tables to measure, in the order of the network.

    A table whose columns are all in the next table is not measured: in a network of degree k, the
    tables of the first columns are contained in that of the column after them (SIGMOD 2014,
    Algorithm 1).

    Args:
        domain: All columns.
        network: Each column with its parents, in the order of the network.
    """
    found: list[Clique] = []
    for child, parents in network:
        clique = tuple(name for name in domain.columns if name == child or name in parents)
        while found and set(found[-1]) <= set(clique):
            found.pop()
        found.append(clique)
    return tuple(found)


METHOD = PrivBayes
