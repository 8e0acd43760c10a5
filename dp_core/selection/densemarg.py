"""DenseMarg: pairs of columns whose dependence is worth the noise of measuring it.

The dependence of every pair is asked for once, with noise (InDif); the rest is arithmetic on
public numbers. Zhang et al., PrivSyn, 2021, Sections 3 and 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dp_core.domain import Clique, Domain
from dp_core.marginals import Measurement
from dp_core.selection.allocation import Allocation, shares, weight
from dp_core.selection.base import Selection

if TYPE_CHECKING:
    from dp_core.curator import Curator


_MOST_CLIQUES = 200_000  # a dense graph of many columns has more than can be listed


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMarg:
    """Choose pairs by noisy dependence, then join them where their union is small.

    Attributes:
        max_cells: Pairs with more cells are never measured, nor asked about.
        gamma: Cliques of pairs are joined into one table of at most this many cells; 0: never.
    """

    max_cells: int = 2**20
    gamma: int = 0

    @property
    def adaptive(self) -> bool:
        return True

    def planned(self, domain: Domain) -> Selection | None:  # noqa: ARG002
        return None

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return tuple(
            pair
            for pair in itertools.combinations(domain.columns, 2)
            if domain.size(pair) <= self.max_cells
        )

    def scores(self, domain: Domain) -> int:
        return len(self.needs(domain))

    def select(
        self,
        curator: Curator,
        known: Sequence[Measurement],  # noqa: ARG002
        *,
        domain: Domain,
        cost: Fraction,
        measure_cost: Fraction,
    ) -> Selection:
        from dp_core.scores import InDif

        pairs = tuple((one, two) for one, two in self.needs(domain))
        allocation: Allocation = "epsilon" if curator.currency.kind == "pure" else "rho"
        cliques: tuple[Clique, ...] = ()
        if pairs:
            noisy = curator.perturb("select", "indif", InDif(pairs), cost)
            order, _ = greedy(
                noisy.astype(np.float64),
                [domain.size(pair) for pair in pairs],
                lambda part: curator.count_noise(measure_cost * part).mean_absolute,
                allocation,
            )
            cliques = combine([pairs[index] for index in order], domain, self.gamma)
        covered = {column for clique in cliques for column in clique}
        cliques += tuple((column,) for column in domain.columns if column not in covered)
        return Selection(
            cliques=cliques,
            weights=shares([domain.size(clique) for clique in cliques], allocation),
        )


def greedy(
    dependence: NDArray[np.float64],
    cells: Sequence[int],
    mean_noise: Callable[[Fraction], float],
    allocation: Allocation = "rho",
) -> tuple[list[int], list[float]]:
    """Return the pairs to measure in the order of choice, and the total error before and after.

    The error of a pair that is measured is its cells times their mean absolute noise, the budget
    being divided anew among those chosen so far; of one that is not, its dependence. Each step
    takes the pair that lowers the sum most, as long as one does (Algorithm 1, whose first
    comparison is off by one).

    Args:
        dependence: Noisy distance from independence of each pair, records.
        cells: Cells of each pair.
        mean_noise: Mean absolute noise of one cell, records, of a table that gets this part of
            the measuring budget.
        allocation: How the budget is divided.
    """
    weights = [weight(count, allocation) for count in cells]
    # Noise goes as a power of the cost, so one look at the whole budget gives all others.
    whole = mean_noise(Fraction(1))
    power = 1.0 if allocation == "epsilon" else 0.5
    relative = np.array(weights, dtype=np.float64)
    sizes = np.array(cells, dtype=np.float64)
    left = np.ones(len(cells), dtype=bool)
    chosen: list[int] = []
    errors = [float(dependence.sum())]
    weight_sum = noise_sum = 0.0
    while left.any():
        noise = (noise_sum + sizes * relative**-power) * (weight_sum + relative) ** power * whole
        total = noise + dependence[left].sum() - dependence
        total[~left] = np.inf
        best = int(np.argmin(total))
        if total[best] >= errors[-1]:
            break
        chosen.append(best)
        errors.append(float(total[best]))
        left[best] = False
        weight_sum += relative[best]
        noise_sum += sizes[best] * relative[best] ** -power
    return chosen, errors


def combine(pairs: Sequence[Clique], domain: Domain, gamma: int) -> tuple[Clique, ...]:
    """Return tables that hold all the pairs, joining pairs that are all there among few columns.

    Cliques of the graph of pairs are visited from large to small; one becomes a table when it has
    at most `gamma` cells and at most two columns that tables taken before hold (Algorithm 2).
    Pairs that no table holds are kept, which the printed algorithm forgets.

    Args:
        pairs: Pairs of columns, in the domain's order of columns.
        domain: All columns.
        gamma: Largest joined table, cells.
    """
    import networkx

    order = {name: axis for axis, name in enumerate(domain.columns)}
    taken: list[Clique] = []
    if gamma > 0:
        graph = networkx.Graph()
        graph.add_edges_from(pairs)
        smallest = sorted(domain.project(graph.nodes).sizes)
        widest = sum(1 for size in np.cumprod(np.array(smallest, dtype=float)) if size <= gamma)
        groups: dict[int, list[Clique]] = {}
        for seen, group in enumerate(networkx.enumerate_all_cliques(graph)):
            if len(group) > widest or seen > _MOST_CLIQUES:
                break
            if len(group) > 2 and domain.size(group) <= gamma:
                clique = tuple(sorted(group, key=order.__getitem__))
                groups.setdefault(len(group), []).append(clique)
        held: set[str] = set()
        for size in sorted(groups, reverse=True):
            for clique in sorted(groups[size], key=lambda c: [order[name] for name in c]):
                if len(held & set(clique)) <= 2:
                    taken.append(clique)
                    held |= set(clique)
    rest = [pair for pair in pairs if not any(set(pair) <= set(clique) for clique in taken)]
    return (*taken, *rest)


METHOD = DenseMarg
