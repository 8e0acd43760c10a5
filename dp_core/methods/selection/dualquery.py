"""DualQuery: makes records one by one, each answering the queries with the largest errors.

Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query: Practical Private Query Release for High
Dimensional Data", ICML 2014, Algorithm 1. The algorithm keeps a distribution over queries instead
of one over records. It samples queries by the exponential mechanism, which is the only access to
the data. The record that answers a sample best is computed from public values. The records are the
release.

Each query asks whether a record is in a given cell of a table, or whether it is not. Codes that no
query and no rule distinguishes are merged into one level, which keeps the search small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import ReleasedKind
from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.candidates.known_rows import column_weights, number_of_rows
from dp_core.methods.selection.selector import Selection, Selector
from dp_core.schema.structure.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from dp_core.kernel.privacy import Stage


SAMPLES = 25
"""Queries chosen in each round. More of them find a record that is good for more queries, but each
choice has less of the budget."""
_MOST_COUNTED = 1 << 22  # cells of all tables with queries: 32 MB of exact counts
_MOST_QUERIED = 2000  # cells in queries; a choice compares all, "a few thousand" in the paper
_TRIALS = 20  # largest number of draws per requested cell
_RECORDS = (10, 200)  # smallest and largest default number of records


@dataclass(frozen=True, slots=True, kw_only=True)
class DualQuery(Selector):
    """Make one record per round: the best answer to a private sample of queries.

    Attributes:
        records: Number of records, which is the number of rounds; at least 2. By default (None) the
            largest number from 10 to 200 with a learning rate of at least 1; with more records
            the choices would be mostly noise. The first round draws its queries uniformly and
            costs nothing.
        orders: Numbers of columns of the tables whose cells are queries.
            Each cell gives two queries, "in this cell" and "not in this cell". Of more than 2,000
            cells a random part is used, drawn in proportion to the columns' noisy tables if these
            were measured.
    """

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    gives: ClassVar[frozenset[ReleasedKind]] = frozenset({"records"})

    records: int | None = None
    orders: tuple[int, ...] = (3,)

    def __post_init__(self) -> None:
        if self.records is not None and self.records < 2:
            raise ValueError(f"records is at least 2, not {self.records}.")
        if not self.orders or min(self.orders) < 1:
            raise ValueError(f"orders are whole numbers from 1, not {list(self.orders)}.")

    def check(self, domain: Domain) -> None:
        """Raise BadInput if every table of these orders is too large to be counted."""
        if not any(
            domain.size(clique) <= _MOST_COUNTED
            for order in self._orders(domain)
            for clique in itertools.combinations(domain.columns, order)
        ):
            raise BadInput(
                f"Every table of select.orders has more than {_MOST_COUNTED:,} cells; lower"
                " select.orders."
            )

    def choices(self, domain: Domain) -> int:  # noqa: ARG002
        """Return the number of samples of all rounds but the first; by default of 100 rounds."""
        return ((self.records or 100) - 1) * SAMPLES

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        from dp_core.kernel.questions.query_scores import SignedQueries

        rows = number_of_rows(inputs)
        weights = column_weights(inputs)
        cells = self._pool(domain, weights, inputs.rng)
        # Each cell gives two queries: whether a record is in it, and whether it is not.
        queries = Cells((*cells.of, *cells.of), (*cells.codes, *cells.codes))
        signs = np.repeat(np.array([1, -1], dtype=np.int64), cells.length)
        payers = self._payers(inputs.select_cost, inputs.measure_cost)
        power = 1 if curator.currency.kind == "pure" else 2
        records = self.records or self._most_records(
            rows, float(inputs.select_cost + inputs.measure_cost), power
        )
        parts = sum(done**power for done in range(1, records))
        codes = np.empty((len(domain), records), dtype=domain.code_type)
        answers = np.zeros(cells.length, dtype=np.int64)  # records in each cell, of those made
        for done in range(records):
            chosen: list[int] = []
            if done == 0:
                chosen = inputs.rng.integers(queries.length, size=SAMPLES).tolist()
            for stage, budget, samples in payers if done else ():
                # The log-weight of a query is eta (done q(data) - sum of q(record)); times
                # n / eta it is done * count - n * answers, whose noise has the scale n / eta.
                offsets = np.rint(rows * answers).astype(np.int64)
                statistic = SignedQueries(queries, done, np.concatenate([offsets, -offsets]), signs)
                # privacy: the budget of round t is proportional to t (t^2 under zCDP), divided
                # equally among the round's samples; the sum over all rounds is exactly the budget.
                each = budget * Fraction(done**power, parts * samples)
                chosen += curator.choose_several(
                    stage, f"round-{done}", statistic, [each] * samples, replicate=inputs.replicate
                )
            wishes = [
                Wish(queries.of[index], queries.codes[index], inside=bool(signs[index] > 0))
                for index in chosen
            ]
            record, _ = best_record(
                domain, wishes, zeros=inputs.zeros, weights=weights, rng=inputs.rng
            )
            codes[:, done] = record
            answers += _inside(domain, cells, record)
        return Selection(records=Dataset(domain, codes))

    def _most_records(self, rows: float, budget: float, power: int) -> int:
        """Return the largest number of records that leaves a learning rate of at least 1.

        With T records and s samples the total budget is eta T (T - 1) s / n (Theorem 3.1). Under
        zCDP it is the sum of (2 eta t / n)^2 / 8 over s samples of t = 1..T - 1.
        """
        least, most = _RECORDS
        for records in range(most, least, -1):
            parts = sum(done**power for done in range(1, records))
            # The cost of a sample in round t at the learning rate 1, divided by t^power.
            one = 2 / rows if power == 1 else (2 / rows) ** 2 / 8
            if SAMPLES * parts * one <= budget:
                return records
        return least

    def _payers(self, cost: Fraction, measure_cost: Fraction) -> list[tuple[Stage, Fraction, int]]:
        """Return each paying stage with its number of samples per round and its budget."""
        if not measure_cost:
            return [("select", cost, SAMPLES)]
        if not cost:
            return [("measure", measure_cost, SAMPLES)]
        first = max(1, min(SAMPLES - 1, round(SAMPLES * cost / (cost + measure_cost))))
        rest = max(1, SAMPLES - first)
        return [("select", cost, first), ("measure", measure_cost, rest)]

    def _orders(self, domain: Domain) -> tuple[int, ...]:
        """Return the orders that exist in the domain; a small domain has fewer columns."""
        return tuple(sorted({min(order, len(domain)) for order in self.orders}))

    def _pool(
        self,
        domain: Domain,
        weights: Mapping[str, NDArray[np.float64]],
        rng: np.random.Generator,
    ) -> Cells:
        """Return the cells of the queries: all, or a random part. Public."""
        cliques = [
            clique
            for order in self._orders(domain)
            for clique in itertools.combinations(domain.columns, order)
            if domain.size(clique) <= _MOST_COUNTED
        ]
        if sum(domain.size(clique) for clique in cliques) <= _MOST_QUERIED:
            pairs = [
                (clique, cell)
                for clique in cliques
                for cell in itertools.product(*map(range, domain.project(clique).sizes))
            ]
            return Cells(tuple(clique for clique, _ in pairs), tuple(cell for _, cell in pairs))
        counted, used = [], 0
        for index in rng.permutation(len(cliques)):
            if used + domain.size(cliques[index]) <= _MOST_COUNTED:
                counted.append(cliques[index])
                used += domain.size(cliques[index])
        found: dict[tuple[Clique, tuple[int, ...]], None] = {}
        for _ in range(_TRIALS * _MOST_QUERIED):
            clique = counted[int(rng.integers(len(counted)))]
            cell = tuple(int(rng.choice(weights[name].size, p=weights[name])) for name in clique)
            found[clique, cell] = None
            if len(found) == _MOST_QUERIED:
                break
        return Cells(tuple(clique for clique, _ in found), tuple(cell for _, cell in found))


def _inside(domain: Domain, cells: Cells, record: Codes) -> NDArray[np.int64]:
    """Return 1 for each cell that contains the record, 0 for the others."""
    code = dict(zip(domain.columns, record.tolist(), strict=True))
    return np.array(
        [
            all(code[name] == value for name, value in zip(clique, cell, strict=True))
            for clique, cell in zip(cells.of, cells.codes, strict=True)
        ],
        dtype=np.int64,
    )


_TRIED = 1 << 21  # largest number of records times queries for an exhaustive search
_NODES = 2000  # limit of branch and bound; a time limit would make the record irreproducible
_STARTS = 20
_SWEEPS = 20


@dataclass(frozen=True, slots=True)
class Wish:
    """One query of the sample.

    Attributes:
        clique: Columns of the table.
        cell: Codes of the cell, one per column.
        inside: Whether records in the cell satisfy the query; otherwise records outside it do.
    """

    clique: Clique
    cell: tuple[int, ...]
    inside: bool


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """The queries in terms of levels.

    Attributes:
        columns: Columns that occur in a query or rule.
        levels: For each of these columns, its groups of codes.
        conditions: For each query, its columns (by position in `columns`) with their level.
        inside: For each query, whether records in the cell satisfy it.
        rules: For each rule, its columns with the levels concerned; a record with such a level in
            all of the rule's columns is impossible.
    """

    columns: Clique
    levels: tuple[tuple[NDArray[np.int64], ...], ...]
    conditions: tuple[tuple[tuple[int, int], ...], ...]
    inside: NDArray[np.bool_]
    rules: tuple[tuple[tuple[int, NDArray[np.bool_]], ...], ...]

    @classmethod
    def build(cls, domain: Domain, wishes: Sequence[Wish], zeros: StructuralZeros) -> Problem:
        """Return the problem of some queries over a domain."""
        ruled = {name for rule in zeros.rules for name in rule.columns}
        named: dict[str, set[int]] = {}
        for wish in wishes:
            for name, code in zip(wish.clique, wish.cell, strict=True):
                named.setdefault(name, set()).add(code)
        columns = tuple(name for name in domain.columns if name in named or name in ruled)
        levels = []
        for name in columns:
            size = domain.size((name,))
            alone = set(range(size)) if name in ruled else named[name]
            rest = [code for code in range(size) if code not in alone]
            groups = [np.array([code]) for code in sorted(alone)]
            levels.append((*groups, np.array(rest)) if rest else tuple(groups))
        position = {name: index for index, name in enumerate(columns)}
        level_of = [
            {int(code): index for index, group in enumerate(groups) for code in group}
            for groups in levels
        ]
        conditions = tuple(
            tuple(
                (position[name], level_of[position[name]][code])
                for name, code in zip(wish.clique, wish.cell, strict=True)
            )
            for wish in wishes
        )
        rules = tuple(
            tuple(
                (position[name], np.isin(np.arange(domain.size((name,))), codes))
                for name, codes in zip(rule.columns, rule.codes, strict=True)
            )
            for rule in zeros.rules
        )
        inside = np.array([wish.inside for wish in wishes], dtype=bool)
        return cls(columns, tuple(levels), conditions, inside, rules)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of each column."""
        return tuple(len(groups) for groups in self.levels)

    def score(self, states: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of queries that each state satisfies; -1 if a rule forbids it.

        Args:
            states: Levels of the states, shape (columns, states).
        """
        found = np.zeros(states.shape[1], dtype=np.int64)
        for condition, inside in zip(self.conditions, self.inside, strict=True):
            held = np.ones(states.shape[1], dtype=bool)
            for column, level in condition:
                held &= states[column] == level
            found += held == inside
        for rule in self.rules:
            broken = np.ones(states.shape[1], dtype=bool)
            for column, levels in rule:
                broken &= levels[states[column]]
            found[broken] = -1
        return found


def best_record(
    domain: Domain,
    wishes: Sequence[Wish],
    *,
    zeros: StructuralZeros,
    weights: Mapping[str, NDArray[np.float64]],
    rng: np.random.Generator,
) -> tuple[Codes, int]:
    """Return a record that satisfies as many queries as possible, and their number.

    Args:
        domain: All columns.
        wishes: The queries; repeated ones count repeatedly.
        zeros: Impossible cells; the record avoids them if any record does.
        weights: For each column, the probabilities of codes that no query distinguishes.
        rng: Generator of the choice among equally good records and among merged codes.
    """
    problem = Problem.build(domain, wishes, zeros)
    cells = math.prod(problem.sizes)
    if cells * max(len(wishes) + len(zeros.rules), 1) <= _TRIED:
        state = _exhaustive(problem, cells, rng)
    else:
        state = _milp(problem, rng)
    record = np.empty(len(domain), dtype=domain.code_type)
    for axis, name in enumerate(domain.columns):
        codes = np.arange(domain.sizes[axis])
        if name in problem.columns:
            column = problem.columns.index(name)
            codes = problem.levels[column][state[column]]
        likely = weights[name][codes]
        total = likely.sum()
        record[axis] = rng.choice(codes, p=likely / total if total > 0 else None)
    return record, int(problem.score(state[:, None])[0])


def _exhaustive(problem: Problem, cells: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return one of the best of all states."""
    best, kept = -2, np.zeros(0, dtype=np.int64)
    step = 1 << 17
    for start in range(0, cells, step):
        index = np.arange(start, min(start + step, cells))
        scores = problem.score(_states(problem, index))
        most = int(scores.max())
        if most >= best:
            found = index[scores == most]
            kept = np.concatenate([kept, found]) if most == best else found
            best = most
    return _states(problem, kept[[int(rng.integers(kept.size))]])[:, 0]


def _states(problem: Problem, index: NDArray[np.int64]) -> NDArray[np.int64]:
    if not problem.columns:
        return np.zeros((0, index.size), dtype=np.int64)
    return np.stack(np.unravel_index(index, problem.sizes))


def _milp(problem: Problem, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the optimum of the integer program with a 0/1 variable for each level of a column.

    A further variable for each query is 1 if the query is satisfied: if all of its level variables
    are 1 (inside), or not all of them (outside). If the solver finds none within its number of
    nodes, the result is that of `_search`.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    first = np.concatenate([[0], np.cumsum(problem.sizes)]).astype(np.int64)
    levels, queries = int(first[-1]), len(problem.conditions)
    rows = len(problem.columns) + len(problem.rules)
    rows += sum(
        len(condition) if inside else 1
        for condition, inside in zip(problem.conditions, problem.inside, strict=True)
    )
    matrix = lil_array((rows, levels + queries))
    low, high = np.full(rows, -np.inf), np.empty(rows)
    row = 0
    for column in range(len(problem.columns)):
        matrix[row, first[column] : first[column + 1]] = 1.0
        low[row] = high[row] = 1.0
        row += 1
    for query, (condition, inside) in enumerate(
        zip(problem.conditions, problem.inside, strict=True)
    ):
        literals = [int(first[column]) + level for column, level in condition]
        if inside:
            for literal in literals:
                matrix[row, levels + query], matrix[row, literal], high[row] = 1.0, -1.0, 0.0
                row += 1
        else:
            matrix[row, levels + query] = 1.0
            for literal in literals:
                matrix[row, literal] = 1.0
            high[row] = len(literals)
            row += 1
    for rule in problem.rules:
        for column, within in rule:
            for level in np.flatnonzero(within):
                matrix[row, int(first[column]) + int(level)] = 1.0
        high[row] = len(rule) - 1
        row += 1
    # In total less than one query, so that it decides only between equally good records.
    ties = rng.random(levels) / (2.0 * max(len(problem.columns), 1))
    result = milp(
        np.concatenate([-ties, -np.ones(queries)]),
        integrality=np.concatenate([np.ones(levels), np.zeros(queries)]),
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(matrix.tocsr(), low, high),
        options={"node_limit": _NODES, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return _search(problem, rng)
    return np.array(
        [
            int(np.argmax(result.x[first[column] : first[column + 1]]))
            for column in range(len(problem.columns))
        ],
        dtype=np.int64,
    )


def _search(problem: Problem, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the best of some random states, each improved one column at a time."""
    sizes = np.array(problem.sizes, dtype=np.int64)
    states = rng.integers(sizes[:, None], size=(sizes.size, _STARTS))
    scores = problem.score(states)
    for _ in range(_SWEEPS):
        before = scores.copy()
        for column in rng.permutation(sizes.size):
            for level in rng.permutation(problem.sizes[column]):
                moved = states.copy()
                moved[column] = level
                found = problem.score(moved)
                better = found > scores
                states[:, better], scores[better] = moved[:, better], found[better]
        if (scores == before).all():
            break
    return np.asarray(states[:, int(np.argmax(scores))])


METHOD = DualQuery
