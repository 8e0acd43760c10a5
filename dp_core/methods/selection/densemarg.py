"""DenseMarg: pairs of columns whose dependence exceeds the noise of measuring it.

The noisy dependence of every pair is released once (InDif); the choice uses only public numbers.
Zhang et al., PrivSyn, 2021, Sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.kernel.released import Measurement, tables_of
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.allocation import Allocation, normalise, weight
from dp_core.methods.selection.budget.balance import Problem, balance, posterior_mean
from dp_core.methods.selection.candidates.pairs import (
    ask_dependences,
    dependences,
    one_way_tables,
    pairs_up_to,
)
from dp_core.methods.selection.selector import Dependences, Selection, Selector

_USUAL = 0.15  # mean L1 distance of pairs from independence in typical files, part of all records
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

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask."""
        return ("indif",)

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return pairs_up_to(domain)

    def statistic(self, domain: Domain) -> InDif | None:
        return dependences(self.needs(domain))

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        measurements = tables_of(inputs.known)
        statistic = self.statistic(domain)
        pairs = statistic.pairs if statistic else ()
        pure = curator.currency.kind == "pure"
        noisy = np.zeros(0)
        stddev = 0.0
        asked: Dependences | None = None
        if statistic:
            asked = ask_dependences(curator, statistic, inputs.select_cost)
            noisy, stddev = np.array(asked.values, dtype=np.float64), asked.stddev
        noise = curator.count_noise(inputs.measure_cost)
        measured = {column for measurement in measurements for column in measurement.clique}
        if self.rule == "balance" and measured == set(domain.columns):
            chosen = self._balance_weights(
                domain, measurements, pairs, noisy, stddev, noise.stddev, pure
            )
        else:
            chosen = self._greedy(domain, pairs, noisy, noise.mean_absolute, pure)
        note = {
            "rule": self.rule,
            "noise_stddev": stddev,
            "indif": {" x ".join(pair): int(x) for pair, x in zip(pairs, noisy, strict=True)},
        }
        cliques, weights = zip(*chosen.items(), strict=True)
        return Selection(cliques=cliques, weights=normalise(weights), note=note, dependences=asked)

    def _balance_weights(
        self,
        domain: Domain,
        known: Sequence[Measurement],
        pairs: Sequence[tuple[str, str]],
        noisy: NDArray[np.float64],
        stddev: float,
        noise: float,
        pure: bool,
    ) -> dict[Clique, int]:
        """Return integer weights of the tables to measure, by the rule `balance`."""
        columns = one_way_tables(domain, known)
        rows = float(columns[0][0].sum())
        smaller = np.array([min(domain.project(pair).sizes) for pair in pairs], dtype=np.float64)
        most = 2 * rows * (1 - 1 / smaller)  # no pair of this many levels is further from it
        dependence = posterior_mean(noisy, stddev, usual=_USUAL * rows) if pairs else noisy
        share = balance(
            Problem(
                columns=[values for values, _ in columns],
                precision=np.array([precision for _, precision in columns]),
                pairs=np.array([domain.axes(pair) for pair in pairs], np.int64).reshape(-1, 2),
                dependence=np.minimum(dependence, np.maximum(most, 1e-9)),
                whole=noise**-2,
                exponent=2.0 if pure else 1.0,
            )
        )
        of_pair = dict(zip(pairs, share, strict=False))
        taken = [pair for pair in pairs if of_pair[pair] > 0]
        if not taken:
            # If noise hides the dependences, divide the budget by the number of cells only.
            return {
                (column,): weight(size, "epsilon" if pure else "rho")
                for column, size in zip(domain.columns, domain.sizes, strict=True)
            }
        part: dict[Clique, float] = dict.fromkeys(combine(taken, domain, self.gamma), 0.0)
        for pair in taken:
            # A joined table gets the sum of its pairs' shares; a pair in two tables counts in the
            # first.
            part[next(clique for clique in part if set(pair) <= set(clique))] += of_pair[pair]
        for column, value in zip(domain.columns, share[len(pairs) :], strict=True):
            if value > 0:
                part[(column,)] = float(value)
        return {clique: max(1, round(value * 10**6)) for clique, value in part.items()}

    def _greedy(
        self,
        domain: Domain,
        pairs: Sequence[tuple[str, str]],
        noisy: NDArray[np.float64],
        noise: float,
        pure: bool,
    ) -> dict[Clique, int]:
        """Return integer weights of the tables to measure, by Algorithms 1 and 2 of the paper."""
        allocation: Allocation = "epsilon" if pure else "rho"
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
