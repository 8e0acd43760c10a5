"""PrivBayes: a Bayesian network chosen step by step, and the table of each column and its parents.

Zhang, Cormode, Procopiuc, Srivastava and Xiao, SIGMOD 2014 and ACM TODS 2017. Each step chooses the
next column and its parents with the exponential mechanism, by a score of their dependence. The size
limit of their table depends on public numbers only.

A set of parents is a candidate if its table with the child is small enough to be useful, and no
column can be added to it (Zhang et al., ACM TODS 2017, Section 5, Algorithm 5). If there are more
candidates than a limit, a random part of them is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.f_score import FScore
from dp_core.kernel.extensions.indif import RScore
from dp_core.kernel.privacy import Neighbours, Stage
from dp_core.kernel.questions.statistic import TableStatistic
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.workload import shares
from dp_core.methods.selection.candidates.feature_choice import mutual_information
from dp_core.methods.selection.candidates.known_rows import number_of_rows
from dp_core.methods.selection.selector import Selection, Selector

if TYPE_CHECKING:
    from dp_core.client.curator import Curator


_COMPARED = 2000  # candidates of a step, which counts all their tables; of more, a random part
_MOST_COUNTED = 1 << 24  # total cells of the candidates of one step: 128 MB of exact counts
_THETA = 4.0
"""Least ratio of a table's average count to the mean absolute noise of a cell for the table to be a
candidate: the papers recommend 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivBayes(Selector):
    """Choose a Bayesian network by the exponential mechanism, and measure its tables.

    The tables have equal parts of the measuring budget, as in the paper.

    Attributes:
        score: Score of a child and its parents: `r`, the distance from independence; `mi`, mutual
            information (only if the number of rows is public, as under replace-one); `f`, the
            distance to the nearest table of maximum information (binary columns only).
    """

    chooses: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    # Of a table: more are far from useful in files of fewer than 10^6 records.
    max_cells: ClassVar[int] = 2**16

    score: Literal["r", "mi", "f"] = "r"

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
        Selector.check_basics(self, neighbours, measured)
        if self.score == "mi" and neighbours != "replace-one":
            raise BadInput(
                "Mutual information has a sensitivity only where the number of rows is public"
                " (replace-one, and one row per person); otherwise set select.score to r."
            )

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        rows = number_of_rows(inputs)
        cells = self._useful_cells(curator, domain, rows, inputs.measure_cost)
        first = domain.columns[int(inputs.rng.integers(len(domain)))]
        network: list[tuple[str, Clique]] = [(first, ())]
        for step in range(1, len(domain)):
            pairs = candidates(
                domain,
                [child for child, _ in network],
                cells=cells,
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
        cliques = tables(domain, network)
        return Selection(
            cliques=cliques,
            weights=shares([domain.size(clique) for clique in cliques], "equal"),
        )

    def _statistic(
        self, domain: Domain, pairs: tuple[tuple[str, Clique], ...], rows: float
    ) -> TableStatistic:
        if self.score == "r":
            return RScore(pairs)
        if self.score == "f":
            return FScore(pairs)
        return mutual_information(domain, pairs, round(rows))

    def _useful_cells(
        self, curator: Curator, domain: Domain, rows: float, measure_cost: Fraction
    ) -> int:
        """Return the largest number of cells of a table that is worth measuring (theta-usefulness).

        With n records, the average cell of a table of c cells has n / c. With binary columns and k
        parents, d - k tables share the budget, and k is the largest useful number (SIGMOD 2014,
        Section 4.3). Otherwise d tables share the budget (TODS 2017, Section 5.1).
        """

        def useful(count: int) -> float:
            """Return the cells of a useful table when `count` tables share the budget."""
            return rows / (_THETA * curator.count_noise(measure_cost / count).mean_absolute)

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


_VISITS = 20_000  # steps of an exhaustive search before sets are drawn at random instead
_TRIALS = 4  # draws per requested set


def maximal_sets(
    sizes: Mapping[str, int],
    *,
    cells: int,
    most: int,
    rng: np.random.Generator,
) -> tuple[Clique, ...]:
    """Return the maximal sets of columns within the limits.

    Args:
        sizes: Number of codes of each column.
        cells: Largest number of cells of a set's joint table.
        most: Number of sets up to which all are returned; of more, a random part is returned.
        rng: Generator of the random part.

    Returns:
        The sets, each with columns in the order of `sizes`; at least the empty set.

    >>> rng = np.random.default_rng(0)
    >>> maximal_sets({"a": 2, "b": 3, "c": 4}, cells=8, most=9, rng=rng)
    (('a', 'c'), ('a', 'b'))
    """
    order = sorted(sizes, key=lambda name: -sizes[name])
    found: list[set[str]] = []
    visits = 0

    def search(position: int, chosen: Clique, used: int, left_out: int) -> bool:
        """List the maximal sets that extend `chosen`; return False if there are too many.

        `left_out` is the size of the smallest column that was skipped, 0 for none.
        """
        nonlocal visits
        visits += 1
        if visits > _VISITS or len(found) > most:
            return False
        if position == len(order):
            if not left_out or used * left_out > cells:
                found.append(set(chosen))
            return True
        name = order[position]
        fits = used * sizes[name] <= cells
        if fits and not search(position + 1, (*chosen, name), used * sizes[name], left_out):
            return False
        if not fits:
            return search(position + 1, chosen, used, left_out)
        smallest = min(left_out or sizes[name], sizes[name])
        return search(position + 1, chosen, used, smallest)

    if not search(0, (), 1, 0):
        found = _draw_parents(sizes, cells, most, rng)
    return tuple(tuple(name for name in sizes if name in chosen) for chosen in found)


def candidates(
    domain: Domain,
    done: Sequence[str],
    *,
    cells: int,
    most: int,
    rng: np.random.Generator,
) -> tuple[tuple[str, Clique], ...]:
    """Return the possible next columns of a network, each with its possible sets of parents.

    Args:
        domain: All columns.
        done: Columns that are in the network already.
        cells: Largest number of cells of a child's table with its parents; a child that alone has
            more gets no parents.
        most: Approximate number of results; every remaining column has at least one.
        rng: Generator of the choice if there are more.
    """
    parents = {name: domain.project((name,)).size() for name in domain.columns if name in done}
    children = [name for name in domain.columns if name not in done]
    each = max(1, most // max(len(children), 1))
    by_cells: dict[int, tuple[Clique, ...]] = {}
    found: list[tuple[str, Clique]] = []
    for child in children:
        room = cells // domain.size((child,))
        if room not in by_cells:
            by_cells[room] = maximal_sets(parents, cells=room, most=most, rng=rng)
        sets = by_cells[room]
        if len(sets) > each:
            kept = np.sort(rng.choice(len(sets), size=each, replace=False))
            sets = tuple(sets[index] for index in kept)
        found += [(child, chosen) for chosen in sets]
    return tuple(found)


def _draw_parents(
    sizes: Mapping[str, int], cells: int, most: int, rng: np.random.Generator
) -> list[set[str]]:
    """Return some maximal sets, each filled with columns in a random order."""
    names = list(sizes)
    found: dict[frozenset[str], None] = {}
    for _ in range(_TRIALS * most):
        chosen: list[str] = []
        used = 1
        for index in rng.permutation(len(names)):
            size = sizes[names[index]]
            if used * size <= cells:
                chosen.append(names[index])
                used *= size
        found[frozenset(chosen)] = None
        if len(found) == most:
            break
    return [set(chosen) for chosen in found]


METHOD = PrivBayes
