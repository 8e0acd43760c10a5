"""Private looks at pairs: by their distances from products, and in wide files by a forest.

A noisy vector of all scores has noise in proportion to the square root of their number. A wide file
has so many pairs that this noise hides every dependence. Private choices have a slack that grows
with the logarithm of their number. With exact scores, the result is the spanning forest of the
largest total score: the best pair that leaves a group of columns is always in it (Boruvka 1926).
Taking the smallest group first, each choice compares few pairs, and no pair is chosen twice.

*Distances from products.* InDif compares a pair with the product of its own exact columns, so one
record moves it by up to 4. The product of noisy one-way tables is public. One record moves the
distance from it by 1 only, so the noise is a quarter (under replace-one, a third). In return, the
noise of the one-way tables looks like dependence. Its expected size is known.

*Wide files* have too many pairs to score each of them well. First, some pairs of columns are scored
that nothing singles out. If they depend, many pairs do, and scores of all pairs tell more than
their noise hides. Otherwise few pairs can depend strongly. Then a forest of them is chosen
privately, and only its edges are scored.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.questions.table_distance import TableDistance
from dp_core.methods.reconstruction.estimates.raking import without_dependence
from dp_core.methods.selection.budget.chance import HALF_NORMAL, Chance
from dp_core.methods.selection.budget.dependence import expected_near_products, usual
from dp_core.methods.selection.candidates.model_errors import GRID, table_distances
from dp_core.methods.selection.candidates.pairs import (
    DISTANCES,
    Look,
    ask_dependences,
    dependences,
    look,
    most_dependent,
)
from dp_core.methods.selection.selector import Dependences
from dp_core.schema.structure.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from dp_core.client.curator import Curator


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
        domain: All columns.
        zeros: Impossible cells, which are no dependence.
    """

    rows: float
    columns: Mapping[str, NDArray[np.float64]]
    noise: Mapping[str, float]
    left: float
    domain: Domain
    zeros: StructuralZeros
    _kept: dict[Clique, tuple[NDArray[np.int64], int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def expect(
        cls,
        domain: Domain,
        columns: Sequence[NDArray[np.float64]],
        variances: NDArray[np.float64],
        curator: Curator,
        measure_cost: Fraction,
        zeros: StructuralZeros,
    ) -> Gains:
        """Return the scores if columns get half of the measuring budget, and a forest the rest.

        Args:
            domain: All columns.
            columns: Estimated one-way tables, in records.
            variances: Noise variance of a cell of each, in records squared.
            curator: Knows the noise of a budget.
            measure_cost: Measuring budget.
            zeros: Impossible cells.
        """
        names = domain.columns
        return cls(
            max(float(columns[0].sum()), 1.0),
            dict(zip(names, columns, strict=True)),
            dict(zip(names, np.sqrt(variances).tolist(), strict=True)),
            curator.count_noise(measure_cost / (2 * len(names))).mean_absolute,
            domain,
            zeros.with_implied_pairs(domain),
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
        """Return the table of a pair if only impossible cells made it dependent, in records."""
        one, two = (self.columns[name] for name in pair)
        return without_dependence(self.domain, pair, one, two, zeros=self.zeros)

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


CHOICES = Fraction(9, 20)
"""Part of the budget that chooses the forest, if one is chosen."""
SCORES = Fraction(9, 10)
"""Part of the budget of the scores of all pairs, if these are asked for; the rest is the first."""
_CLEAR = 2.5  # standard errors by which usual pairs must depend more than by chance


def look_at_wide(
    curator: Curator,
    domain: Domain,
    every: InDif,
    gains: Gains,
    chance: Chance,
    cost: Fraction,
    *,
    max_cells: int,
    many_depend: Callable[[float], bool],
) -> Look:
    """Return the expected dependences of all pairs, or of a forest of strongly dependent ones.

    Args:
        curator: The only way to ask about the data.
        domain: All columns.
        every: Scores of all pairs.
        gains: Scores by which a forest is chosen.
        chance: Sampling deviations of the file.
        cost: Budget, in the release's currency; spent exactly.
        max_cells: Largest number of cells of a pair.
        many_depend: Returns whether all pairs are worth scoring if they depend as much as usual
            pairs do, in records.
    """
    rows = gains.rows
    usual = dependences(matched_columns(domain, max_cells))
    typical, left, clear = 0.0, cost, False
    if usual is not None:
        left = SCORES * cost
        first = ask_dependences(curator, usual, cost - left, step="usual pairs")
        mean = max(float(np.mean(first.values)), 0.0)
        by_chance = float(np.mean([chance.pair(pair) for pair in usual.pairs]))
        typical = math.sqrt(max(mean**2 - by_chance**2, 0.0))
        clear = mean > by_chance + _CLEAR * first.stddev / math.sqrt(len(first.values))
    if clear and many_depend(typical):
        return look(curator, domain, every, left, rows)
    choices = CHOICES * cost
    forest = strongest_forest(curator, domain, gains, choices, max_cells=max_cells)
    found = look(curator, domain, dependences(forest), left - choices, rows)
    return dataclasses.replace(found, typical=typical)


def matched_columns(domain: Domain, max_cells: int) -> tuple[Clique, ...]:
    """Return pairs of columns half of the file apart, of which no two have a column in common.

    Nothing singles them out, while neighbours in a file often belong together.

    >>> matched_columns(Domain(tuple("abcde"), (2, 3, 2, 90, 2)), 100)
    (('a', 'c'),)
    """
    half = len(domain) // 2
    pairs = zip(domain.columns[:half], domain.columns[half:], strict=False)
    return tuple(pair for pair in pairs if domain.size(pair) <= max_cells)


_MOST_CELLS = 2**24  # of all pairs together, whose products are held in memory
_TELLING = 2.0  # largest noise of a score, relative to the usual dependence of pairs
_SCATTER = math.sqrt(math.pi / 2 - 1)  # standard deviation of |z|, relative to its mean


def look_at_products(
    curator: Curator, domain: Domain, pairs: Sequence[Clique], gains: Gains, cost: Fraction
) -> Look | None:
    """Return the expected dependences of pairs, whose noisy distances `select` pays for.

    Args:
        curator: The only way to ask about the data.
        domain: All columns.
        pairs: The pairs.
        gains: The estimated one-way tables.
        cost: Budget of all distances together, in the release's currency; spent exactly if the
            result is not None.

    Returns:
        None, and nothing is asked, if noise would hide the usual dependence of pairs, or if the
        products have too many cells for memory.
    """
    if not pairs or sum(domain.size(pair) for pair in pairs) > _MOST_CELLS:
        return None
    distances = table_distances(pairs, [gains.product(pair) for pair in pairs])
    stddev = curator.statistic_noise(distances, cost).stddev
    if stddev > _TELLING * usual(gains.rows) * GRID:
        return None
    noisy = curator.perturb("select", DISTANCES, distances, cost)
    added, scatter = np.array([_noise_of_columns(gains, pair) for pair in pairs]).T
    found = expected_near_products(
        noisy / GRID,
        np.hypot(stddev / GRID, scatter),
        gains.rows,
        added=added,
        most=most_dependent(domain, pairs, gains.rows),
    )
    asked = Dependences(
        tuple(pairs), tuple(noisy.tolist()), stddev, unit=GRID, added=tuple(added.tolist())
    )
    return Look(dict(zip(pairs, found.tolist(), strict=True)), asked)


def _noise_of_columns(gains: Gains, pair: Clique) -> tuple[float, float]:
    """Return what the noise of the columns adds to an independent pair: mean and deviation.

    The noise of a column of p levels has p - 1 independent parts.
    """
    parts = [gains.apart(name) for name in pair]
    free = [max(gains.columns[name].size - 1, 1) for name in pair]
    mean = math.hypot(*parts)
    squares = math.hypot(*(part**2 / math.sqrt(its) for part, its in zip(parts, free, strict=True)))
    return mean, _SCATTER * squares / mean if mean else 0.0
