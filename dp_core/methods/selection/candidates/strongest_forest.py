"""A spanning forest of strongly dependent pairs of a wide file, chosen privately edge by edge.

A noisy vector of all scores has noise in proportion to the square root of their number. A wide file
has so many pairs that this noise hides every dependence. Private choices have a slack that grows
with the logarithm of their number. With exact scores, the result is the spanning forest of the
largest total score: the best pair that leaves a group of columns is always in it (Boruvka 1926).
Taking the smallest group first, each choice compares few pairs, and no pair is chosen twice.

In a graphical model whose pairs form a forest, two columns depend as far as every edge of the path
between them does. So an edge that is measured also serves the pairs whose path it is part of.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.table_distance import TableDistance
from dp_core.methods.selection.budget.chance import HALF_NORMAL
from dp_core.methods.selection.candidates.model_errors import table_distances

if TYPE_CHECKING:
    from dp_core.kernel.curator import Curator


def joined_columns(domain: Domain, max_cells: int) -> tuple[str, ...]:
    """Return the columns of at least one pair with at most `max_cells` cells, smallest first.

    The first is in such a pair with each of the others, so their forest has one edge less.

    >>> joined_columns(Domain(("a", "b", "c"), (9, 2, 3)), 18)
    ('b', 'c', 'a')
    """
    order = sorted(domain.columns, key=lambda name: domain.size((name,)))
    smallest = domain.size(order[:1])
    found = [name for name in order[1:] if smallest * domain.size((name,)) <= max_cells]
    return (order[0], *found) if found else ()


@dataclass(frozen=True, slots=True)
class Gains:
    """Scores of pairs: how far they are from independence, less what measuring leaves. Public.

    Attributes:
        rows: Estimated number of records.
        columns: Estimated one-way tables, in records, by column.
        noise: Standard deviation of the noise of each of their cells, in records, by column.
        left: Expected absolute error of a cell of a measured pair, in records.
    """

    rows: float
    columns: Mapping[str, NDArray[np.float64]]
    noise: Mapping[str, float]
    left: float
    _kept: dict[Clique, tuple[NDArray[np.int64], int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def expected(
        cls,
        domain: Domain,
        columns: Sequence[NDArray[np.float64]],
        variances: NDArray[np.float64],
        curator: Curator,
        measure_cost: Fraction,
    ) -> Gains:
        """Return the scores if columns get half of the measuring budget, and a forest the rest.

        Args:
            domain: All columns.
            columns: Estimated one-way tables, in records.
            variances: Noise variance of a cell of each, in records squared.
            curator: Knows the noise of a budget.
            measure_cost: Measuring budget.
        """
        names = domain.columns
        return cls(
            max(float(columns[0].sum()), 1.0),
            dict(zip(names, columns, strict=True)),
            dict(zip(names, np.sqrt(variances).tolist(), strict=True)),
            curator.count_noise(measure_cost / (2 * len(names))).mean_absolute,
        )

    def of(self, pairs: Sequence[Clique]) -> TableDistance:
        """Return the scores, of which a row changes each by 1 record at most (2 if replaced).

        They are kept, because choices compare most pairs several times.
        """
        new = [pair for pair in pairs if pair not in self._kept]
        scores = self._of(new)
        self._kept.update(zip(new, zip(scores.answers, scores.offsets, strict=True), strict=True))
        kept = [self._kept[pair] for pair in pairs]
        return dataclasses.replace(
            scores,
            cliques=tuple(pairs),
            answers=tuple(answer for answer, _ in kept),
            weights=(1,) * len(kept),
            offsets=tuple(offset for _, offset in kept),
        )

    def _of(self, pairs: Sequence[Clique]) -> TableDistance:
        tables = [self.product(pair) for pair in pairs]
        # The estimated columns are not the file's, which looks like dependence as well.
        apart = {name: self.apart(name) for name in {name for pair in pairs for name in pair}}
        extra = [math.hypot(apart[one], apart[two]) for one, two in pairs]
        return table_distances(pairs, tables, noise=self.left, drawn_in=True, extra=extra)

    def product(self, pair: Clique) -> NDArray[np.float64]:
        """Return the table of a pair if its columns were independent, in records."""
        one, two = pair
        return np.multiply.outer(self.columns[one] / self.rows, self.columns[two])

    def apart(self, name: str) -> float:
        """Return the expected L1 distance of a column's estimate from its table, in records."""
        noise = HALF_NORMAL * self.noise[name]
        return float(np.minimum(noise, self.columns[name]).sum())


def strongest_forest(
    curator: Curator, domain: Domain, gains: Gains, cost: Fraction, *, max_cells: int
) -> tuple[Clique, ...]:
    """Return the edges of a spanning forest with large scores, in the order of the choices.

    Args:
        curator: Chooses each edge, charged to the stage `select`.
        domain: All columns.
        gains: Scores of the pairs.
        cost: Budget of all choices together, in the release's currency; spent exactly if there is
            a pair.
        max_cells: Largest number of cells of a pair.

    Returns:
        Pairs in the order of the domain's columns; one less than `joined_columns`, or none.
    """
    place = {name: at for at, name in enumerate(domain.columns)}
    sizes = dict(zip(domain.columns, domain.sizes, strict=True))
    names = sorted(joined_columns(domain, max_cells), key=place.__getitem__)
    groups = [(1, at, [name]) for at, name in enumerate(names)]
    edges: list[Clique] = []
    rounds = len(names) - 1
    for number in range(1, rounds + 1):
        _, _, group = heapq.heappop(groups)  # the oldest of the smallest
        inside = set(group)
        pairs = [
            (one, two) if place[one] < place[two] else (two, one)
            for one in group
            for two in names
            if two not in inside and sizes[one] * sizes[two] <= max_cells
        ]
        chosen = curator.choose("select", f"edge {number}", gains.of(pairs), cost / rounds)
        edge = pairs[chosen]
        edges.append(edge)
        at = next(at for at, (_, _, other) in enumerate(groups) if {*edge} & {*other})
        group += groups.pop(at)[2]
        heapq.heapify(groups)
        heapq.heappush(groups, (len(group), len(names) + number, group))
    return tuple(edges)


def reach(forest: Mapping[Clique, float], rows: float) -> dict[Clique, float]:
    """Return how many times its own deviation each edge of a forest serves, at least 1.

    Along a path, dependences relative to the number of records multiply, as correlations of a chain
    do. Each edge of a path has an equal part in the pair at the ends of it.

    Args:
        forest: L1 distance from independence of each edge, in records, positive; no two paths lead
            from one column to another.
        rows: Number of records.

    >>> reach({("a", "b"): 50, ("b", "c"): 80}, 100)
    {('a', 'b'): 1.4, ('b', 'c'): 1.25}
    """
    columns = sorted({column for edge in forest for column in edge})
    place = {column: at for at, column in enumerate(columns)}
    ends = [(place[one], place[two]) for one, two in forest]
    dependence = np.array([*forest.values()], dtype=np.float64)
    strength = np.minimum(dependence / rows, 1.0)
    together, length = np.eye(len(columns)), np.zeros((len(columns), len(columns)))
    group = {at: [at] for at in range(len(columns))}
    for (one, two), own in zip(ends, strength.tolist(), strict=True):
        left, right = group[one], group[two]
        product = own * np.multiply.outer(together[left, one], together[two, right])
        steps = 1 + np.add.outer(length[left, one], length[two, right])
        for table, found in ((together, product), (length, steps)):
            table[np.ix_(left, right)] = found
            table[np.ix_(right, left)] = found.T
        group.update(dict.fromkeys(left + right, left + right))
    part = np.divide(together, length, out=np.zeros_like(together), where=length > 0)
    found = []
    for one, two in ends:
        # Columns of another group are equally far from both ends, by 0.
        nearer = length[one] - length[two]
        sides = part[np.ix_(nearer < 0, nearer > 0)]
        found.append(float(sides.sum()))
    times = np.maximum(np.array(found) / np.maximum(strength, 1e-12), 1.0)
    return dict(zip(forest, times.tolist(), strict=True))
