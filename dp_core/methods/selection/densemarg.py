"""DenseMarg: pairs of columns whose dependence exceeds the noise of measuring it.

The noisy dependence of every pair is released once (InDif); the choice uses only public numbers.
Zhang et al., PrivSyn, 2021, Sections 3 and 4.

DenseMarg either measures a pair or not, and counts the noise of every cell in full. But most cells
of a large table are nearly empty, and a reconstruction shrinks them, so that such a table has less
error than its size suggests. By default the budget is therefore divided by the expected error after
shrinkage (`residual_balance`). Pairs with a share of 0 are not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import tables_of
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.costs import Costs
from dp_core.methods.selection.budget.measurable_parts import measurable_parts
from dp_core.methods.selection.budget.residual_balance import balance
from dp_core.methods.selection.budget.workload import Allocation, normalise, weight
from dp_core.methods.selection.candidates.pairs import (
    ask_dependences,
    dependences,
    look,
    one_way_tables,
    pairs_up_to,
)
from dp_core.methods.selection.selector import Dependences, Selection, Selector

_MOST_CLIQUES = 200_000  # a dense graph of many columns has more than can be listed


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMarg(Selector):
    """Choose pairs by their noisy dependence, and join them if their union has few cells.

    Attributes:
        rule: `balance` minimises the expected error after shrinkage over the division of the
            budget, and measures the pairs with a positive share. `greedy` is the paper's
            Algorithm 1, which counts the noise of every cell in full; it is always used without
            one-way tables.
        gamma: Largest number of cells of a table that joins a clique of pairs; 0 for no joining.
    """

    rule: Literal["balance", "greedy"] = "balance"
    gamma: int = 0

    extensions: ClassVar[tuple[str, ...]] = ("indif",)

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return pairs_up_to(domain)

    def statistic(self, domain: Domain) -> InDif | None:
        return dependences(self.needs(domain))

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        known, statistic = tables_of(inputs.known), self.statistic(domain)
        measured = {column for measurement in known for column in measurement.clique}
        if self.rule == "balance" and measured == set(domain.columns):
            columns = one_way_tables(domain, known)
            rows = float(columns[0][0].sum())
            found = look(curator, domain, statistic, inputs.select_cost, rows)
            chosen, asked = self._balanced(inputs, columns, found.dependence), found.asked
        else:
            asked = ask_dependences(curator, statistic, inputs.select_cost) if statistic else None
            noise = curator.count_noise(inputs.measure_cost).mean_absolute
            chosen = self._greedy(domain, asked, noise, curator.currency.kind == "pure")
        cliques, weights = zip(*chosen.items(), strict=True)
        return Selection(cliques=cliques, weights=normalise(weights), dependences=asked)

    def _balanced(
        self,
        inputs: MethodInputs,
        columns: Sequence[tuple[NDArray[np.float64], float]],
        dependence: Mapping[Clique, float],
    ) -> dict[Clique, int]:
        """Return integer weights of the tables to measure, by the rule `balance`.

        Args:
            inputs: Whom to ask about the noise of a budget.
            columns: Estimated one-way tables, and the precision of their cells.
            dependence: Expected distance of each pair from independence, in records.
        """
        curator, domain = inputs.curator, inputs.domain
        costs = Costs(curator.currency, curator.relation, inputs.measure_cost, whole=True)
        variances = np.array([1 / precision for _, precision in columns])
        tables = [values for values, _ in columns]
        parts, cliques, _ = measurable_parts(domain, tables, variances, dependence, costs, order=2)
        share = dict(zip(cliques, balance(parts).tolist(), strict=True))
        taken = [clique for clique in cliques if len(clique) == 2 and share[clique] > 0]
        part: dict[Clique, float] = dict.fromkeys(combine(taken, domain, self.gamma), 0.0)
        for pair in taken:
            # A joined table gets the sum of its pairs' shares; a pair in two tables counts in the
            # first.
            part[next(clique for clique in part if set(pair) <= set(clique))] += share[pair]
        part |= {clique: share[clique] for clique in cliques if len(clique) == 1 and share[clique]}
        return {clique: max(1, round(value * 10**6)) for clique, value in part.items()}

    def _greedy(
        self,
        domain: Domain,
        asked: Dependences | None,
        noise: float,
        pure: bool,
    ) -> dict[Clique, int]:
        """Return integer weights of the tables to measure, by Algorithms 1 and 2 of the paper."""
        allocation: Allocation = "epsilon" if pure else "rho"
        pairs = asked.pairs if asked else ()
        noisy = np.array(asked.values if asked else (), dtype=np.float64)
        sizes = [domain.size(pair) for pair in pairs]
        order, _ = greedy(noisy, sizes, noise, allocation)
        cliques = combine([pairs[index] for index in order], domain, self.gamma)
        # Columns in no chosen pair are measured (again) with the rest of the budget. Without any
        # chosen pair this is the `independent` method.
        covered = {column for clique in cliques for column in clique}
        cliques += tuple((column,) for column in domain.columns if column not in covered)
        return {clique: weight(domain.size(clique), allocation) for clique in cliques}


def greedy(
    dependence: NDArray[np.float64],
    cells: Sequence[int],
    noise: float,
    allocation: Allocation = "rho",
) -> tuple[list[int], list[float]]:
    """Return the pairs to measure, in order of choice, and the total error before and after.

    The error of a measured pair is its number of cells times their mean absolute noise, where the
    budget is divided among the pairs chosen so far. The error of an unmeasured pair is its
    dependence. Each step chooses the pair that reduces the sum most and ends if none does
    (Algorithm 1, whose first comparison is off by one).

    Args:
        dependence: Noisy distance from independence of each pair, in records.
        cells: Number of cells of each pair.
        noise: Mean absolute noise of one cell of a table that gets the whole measuring budget,
            in records.
        allocation: Rule that divides the budget.
    """
    weights = [weight(count, allocation) for count in cells]
    power = 1.0 if allocation == "epsilon" else 0.5
    relative = np.array(weights, dtype=np.float64)
    sizes = np.array(cells, dtype=np.float64)
    left = np.ones(len(cells), dtype=bool)
    chosen: list[int] = []
    errors = [float(dependence.sum())]
    weight_sum = noise_sum = 0.0
    while left.any():
        spread = (noise_sum + sizes * relative**-power) * (weight_sum + relative) ** power
        total = noise * spread + dependence[left].sum() - dependence
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
    """Return tables that cover all pairs, joining pairs that form cliques of few cells.

    Cliques of the graph of pairs are visited from large to small. A clique becomes a table if it
    has at most `gamma` cells and shares at most two columns with earlier tables (Algorithm 2).
    Pairs that no table contains are kept as tables; the printed algorithm omits them.

    Args:
        pairs: Pairs of columns, in the domain's order of columns.
        domain: All columns.
        gamma: Largest number of cells of a joined table.
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
