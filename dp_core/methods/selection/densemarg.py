"""DenseMarg: pairs of columns whose dependence exceeds the noise of measuring it.

The noisy dependence of every pair is released once (InDif); the choice uses only public numbers.
Zhang et al., PrivSyn, 2021, Sections 3 and 4.

DenseMarg either measures a pair or not, and counts the noise of every cell in full. But most cells
of a large table are nearly empty, and a reconstruction shrinks them, so that such a table has less
error than its size suggests. Here the remaining error of each pair is a smooth, decreasing function
of its share of the budget, and the shares minimise the sum over all pairs. Pairs with a share of 0
are not measured; their budget goes to other pairs or to single columns.

With zCDP costs the sum is convex in the shares. All inputs are public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement, tables_of
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.chance import BINS, HALF_NORMAL, bin_widths
from dp_core.methods.selection.budget.dependence import exponential_under_noise
from dp_core.methods.selection.budget.workload import Allocation, normalise, weight
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

    extensions: ClassVar[tuple[str, ...]] = ("indif",)

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
        cliques, weights = zip(*chosen.items(), strict=True)
        return Selection(cliques=cliques, weights=normalise(weights), dependences=asked)

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


_POWER = 0.3  # assumed deviation of a cell from its expected count E is proportional to E ** _POWER
_PAIRS_WEIGHT = 1.4  # above 1 because a measured pair also improves other pairs of its columns
_COLUMNS_WEIGHT = 0.7  # below 1 because errors of columns partly cancel with the pair's own
_WORTH = 0.03  # smallest relative reduction of the error for which pairs are measured
_STEPS = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The inputs of the division of the budget.

    Attributes:
        columns: Estimated one-way tables, in records, one per column.
        precision: Precision of each column's cells before measuring, in 1 / records squared.
        pairs: Positions of each pair's columns, shape (pairs, 2).
        dependence: Expected L1 distance of each pair from independence, in records, positive.
        whole: Precision of a cell of a table that gets the whole measuring budget.
        exponent: Exponent of the share in the precision: 1 for zCDP, 2 for pure epsilon.
    """

    columns: Sequence[NDArray[np.float64]]
    precision: NDArray[np.float64]
    pairs: NDArray[np.int64]
    dependence: NDArray[np.float64]
    whole: float
    exponent: float


def balance(problem: Problem) -> NDArray[np.float64]:
    """Return the share of each pair, then of each column; they sum to 1, and many are 0.

    Multiplicative steps equalise the gain of all positive shares. Then the smallest shares are set
    to 0, and the rest is balanced again. With pure epsilon the sum is not convex, because a very
    small share has almost no effect. There the steps start from fewer and fewer pairs, and the best
    result is used. If pairs reduce the error very little, columns get the whole budget.
    """
    error = _Error(problem)
    pairs, columns = len(problem.pairs), len(problem.columns)
    even = np.concatenate([np.full(pairs, 0.8 / max(pairs, 1)), np.full(columns, 0.2 / columns)])
    best = error.descend(even, _STEPS)
    if problem.exponent > 1:
        order = np.argsort(-best[:pairs], kind="stable")
        for part in (0.7, 0.5, 0.35, 0.25, 0.15, 0.07):
            start = even.copy()
            start[order[round(part * pairs) :]] = 0.0
            other = error.descend(start, _STEPS // 2)
            if error.value(other) < error.value(best):
                best = other
    alone = even.copy()
    alone[:pairs] = 0.0
    alone = error.descend(alone, _STEPS // 2)
    if error.value(best) > (1 - _WORTH) * error.value(alone):
        return alone
    return best


def posterior_mean(
    noisy: NDArray[np.float64], stddev: float, *, usual: float
) -> NDArray[np.float64]:
    """Return the posterior mean of each pair's dependence given the noisy ones; all are positive.

    The prior is exponential; without it every pair with much noise would look dependent. The mean
    of the prior is estimated by the mean of the noisy values (which is unbiased, because they are
    not clipped), combined with the typical value according to its precision.

    Args:
        noisy: Noisy dependences, in records; may be negative.
        stddev: Standard deviation of the noise of each, in records.
        usual: Mean dependence of pairs in typical files, in records, positive.
    """
    average = np.array([noisy.mean()])
    mean = float(_posterior(average, stddev / math.sqrt(noisy.size), usual)[0])
    return _posterior(noisy, stddev, mean)


def _posterior(noisy: NDArray[np.float64], stddev: float, mean: float) -> NDArray[np.float64]:
    """Return the posterior means if the true values are exponential with that mean."""
    if stddev <= 0:
        return np.maximum(noisy, 1e-9)
    return np.asarray(exponential_under_noise(noisy, stddev, np.asarray(mean))[1])


class _Error:
    """Expected L1 error summed over all pairs, as a function of the shares."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sizes = np.array([column.size for column in problem.columns], dtype=np.float64)
        self.counts = np.zeros((len(problem.pairs), BINS))
        self.widths = np.zeros((len(problem.pairs), BINS))
        total = max(float(np.mean([column.sum() for column in problem.columns])), 1.0)
        for index, (one, two) in enumerate(problem.pairs):
            self.counts[index], self.widths[index] = bin_widths(
                [problem.columns[one], problem.columns[two]], total, _POWER
            )
        # In a small table only a part of a cell's noise is beyond the columns' tables: with 2 x 2
        # cells a quarter.
        one, two = problem.pairs[:, 0], problem.pairs[:, 1]
        free = (1 - 1 / self.sizes[one]) * (1 - 1 / self.sizes[two])
        self.inner = 1 / np.maximum(free, 0.25)
        spread = HALF_NORMAL * (self.counts * self.widths).sum(axis=1)
        self.widths *= (_PAIRS_WEIGHT * problem.dependence / spread)[:, None]
        self.column_weight = _COLUMNS_WEIGHT * max(len(problem.columns) - 1, 1)

    def descend(self, share: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """Return improved shares; shares of 0 stay 0."""
        share = share / share.sum()
        for count in (steps, steps // 3):
            for _ in range(count):
                share *= np.sqrt(self.gain(share))
                share /= share.sum()
            share[share < 0.2 / share.size] = 0.0
            share /= share.sum()
        return share

    def value(self, share: NDArray[np.float64]) -> float:
        """Return the summed error, in records."""
        precision, known = self._precisions(share)
        left = HALF_NORMAL * self.counts * self.widths
        inner = (precision * self.inner)[:, None]
        total = float((left / np.sqrt(1 + inner * self.widths**2)).sum())
        for cells, at in zip(self.problem.columns, known, strict=True):
            column = float((cells / np.sqrt(1 + at * cells**2)).sum())
            total += self.column_weight * HALF_NORMAL * column
        return total

    def _precisions(
        self, share: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the precision of a cell of each pair and, from all tables, of each column."""
        problem = self.problem
        pairs = len(problem.pairs)
        one, two = problem.pairs[:, 0], problem.pairs[:, 1]
        precision = problem.whole * share[:pairs] ** problem.exponent
        known = problem.precision + problem.whole * share[pairs:] ** problem.exponent
        np.add.at(known, one, precision / self.sizes[two])
        np.add.at(known, two, precision / self.sizes[one])
        return precision, known

    def gain(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the negative derivative of the summed error in each share, all positive."""
        problem = self.problem
        one, two = problem.pairs[:, 0], problem.pairs[:, 1]
        precision, known = self._precisions(share)
        # d/dx of  w / sqrt(1 + p w^2)  is  -w^3 (1 + p w^2)^(-3/2) / 2  times dp/dx.
        slope = problem.whole * problem.exponent * share ** (problem.exponent - 1)
        fall = 0.5 * HALF_NORMAL * self.counts * self.widths**3
        inner = (precision * self.inner)[:, None]
        by_pair = self.inner * (fall * (1 + inner * self.widths**2) ** -1.5).sum(axis=1)
        by_column = np.array(
            [
                0.5 * HALF_NORMAL * float((cells**3 * (1 + at * cells**2) ** -1.5).sum())
                for cells, at in zip(problem.columns, known, strict=True)
            ]
        )
        by_column *= self.column_weight
        by_pair += by_column[one] / self.sizes[two] + by_column[two] / self.sizes[one]
        slopes: NDArray[np.float64] = np.concatenate([by_pair, by_column]) * slope
        return np.maximum(slopes, 1e-300)


METHOD = DenseMarg
