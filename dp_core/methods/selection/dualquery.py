"""DualQuery: makes records one by one, each answering the queries with the largest errors.

Gaboardi, Gallego Arias, Hsu, Roth and Wu, "Dual Query: Practical Private Query Release for High
Dimensional Data", ICML 2014, Algorithm 1. The algorithm keeps a distribution over queries instead
of one over records. It samples queries by the exponential mechanism, which is the only access to
the data. The record that answers a sample best is computed from public values. The records are the
release.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.counting_queries import Cells
from dp_core.kernel.released import ReleasedKind
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.candidates.best_record import Wish, best_record
from dp_core.methods.selection.candidates.known_rows import (
    column_weights,
    number_of_rows,
    require_rows,
)
from dp_core.methods.selection.selector import Selection, Selector

if TYPE_CHECKING:
    from dp_core.kernel.privacy import Neighbours, Stage

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

    records: int | None = None
    orders: tuple[int, ...] = (3,)

    def __post_init__(self) -> None:
        if self.records is not None and self.records < 2:
            raise ValueError(f"records is at least 2, not {self.records}.")
        if not self.orders or min(self.orders) < 1:
            raise ValueError(f"orders are whole numbers from 1, not {list(self.orders)}.")

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        return frozenset({"records"})

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

    def check_basics(self, neighbours: Neighbours, measured: Collection[Stage]) -> None:
        require_rows(neighbours, measured)

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
        scale = 0.0
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
                scale = curator.choice_scale(statistic, each)
            wishes = [
                Wish(queries.of[index], queries.codes[index], inside=bool(signs[index] > 0))
                for index in chosen
            ]
            record, _ = best_record(
                domain, wishes, zeros=inputs.zeros, weights=weights, rng=inputs.rng
            )
            codes[:, done] = record
            answers += _inside(domain, cells, record)
        return Selection(
            records=Dataset(domain, codes),
            note={
                "records": records,
                "cells": cells.length,
                "tables": len(cells.cliques),
                "learning_rate": rows / scale,
                "samples": sum(samples for _, _, samples in payers),
            },
        )

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


METHOD = DualQuery
