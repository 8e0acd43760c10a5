"""MWEM: repeatedly measure the query that the current joint table answers worst.

Hardt, Ligett & McSherry, "A simple and practical algorithm for differentially private data
release", 2012: the exponential mechanism picks a query, its answer is measured with noise, and
multiplicative weights update the table (Figure 1), with improvements of Section 4.2. As
printed, a round costs one and a half times what the paper says: a choice with probabilities
proportional to exp(epsilon_0 n|d| / 2) is epsilon_0-private, because one record changes n|d| by 1.
Here a choice costs exactly the budget it is given. In zCDP it is the exponential mechanism, with
probabilities proportional to exp(epsilon_0 n|d| / 4); in pure epsilon it is permute-and-flip at the
same epsilon_0 / 2 (McKenna & Sheldon 2020), whose expected score is at least as large.

The rounds add up in the release's currency. At delta 0 that is Theorem 3.1. At a positive delta it
is zCDP (Bun & Steinke 2016), which replaces Theorem 3.2: for the same epsilon and delta, rounds of
Theorem 3.2 are never more exact than the better of the two (`benchmarks/papers/mwem_rounds.py`).

Queries are parities of binary columns, or cells of small tables. They depend on the domain alone,
so they are public.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dp_core.client.released import Released, ReleasedKind
from dp_core.errors import BadInput
from dp_core.kernel.cost.currency import Kind
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.reconstruction.joint.dense_answers import check_size, possible_cells, questions
from dp_core.methods.reconstruction.joint.weighting import FittedJoint, Updating
from dp_core.methods.selection.candidates.known_rows import number_of_rows
from dp_core.methods.selection.selector import Selection, Selector

_GRID = 1000  # parts of a record in which the table's answers are given
_LARGEST = 2**60

MOST_ROUNDS = 1000
"""Largest number of rounds with `picks: theory`, because a round visits all cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mwem(Selector):
    """Repeatedly choose a query, measure it and update the joint table.

    Attributes:
        updates: `limit`: the table is the limit of multiplicative updates with all answers, each
            weighted by its noise. `steps`: one small step per answer, as in the paper.
        queries: `cells` of tables, `parities` of binary columns, or `auto`, which means parities if
            all columns are binary and cells otherwise.
        orders: Numbers of columns of the tables or parities.
        picks: Number of queries, each with an equal part of the budget. With `theory`, it is the
            number T* that minimises the paper's bound on the largest error (`rounds_of_theory`).
            With `adaptive`, the epsilon of a pick is doubled whenever an answer does not exceed its
            noise; the first pick has 1/64 to 1/10 of the budget, more if there are fewer queries.
        histogram: Part of the measuring budget for a noisy table of all columns as a start.
    """

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True

    updates: Updating = "limit"
    queries: Literal["auto", "cells", "parities"] = "auto"
    orders: tuple[int, ...] = (1, 2)
    picks: int | Literal["adaptive", "theory"] = "adaptive"
    histogram: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not self.orders or min(self.orders) < 1:
            raise ValueError(f"orders are whole numbers from 1, not {list(self.orders)}.")
        if isinstance(self.picks, int) and self.picks < 1:
            raise ValueError(f"picks is at least 1, not {self.picks}.")
        if not 0 <= self.histogram < 1:
            raise ValueError(f"histogram is a part of the budget below 1, not {self.histogram}.")

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        return frozenset({"answers", "tables"} if self.histogram else {"answers"})

    def check(self, domain: Domain) -> None:
        check_size(domain, "select: mwem")
        if self.queries == "parities":
            check_binary(domain, "queries: parities", "`queries: cells`, or `method: privsyn`")
        of_cells = not self._asks_parities(domain)
        check_number(domain, self.orders, of_cells=of_cells, option="select: mwem")

    def choices(self, domain: Domain) -> int:
        candidates = self._candidates(domain).length
        # T* depends on the number of rows; one round for each query is its order of magnitude.
        rounds = min(candidates, MOST_ROUNDS) if self.picks == "theory" else None
        return math.ceil(1 / self._first_part(candidates, rounds, pure=False))

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        asked = self._candidates(domain).cliques
        more = (domain.columns,) if self.histogram and domain.columns not in asked else ()
        return (*(() if () in asked else ((),)), *asked, *more)

    def select(self, inputs: MethodInputs) -> Selection:
        from dp_core.kernel.questions.query_scores import QueryDistance

        curator, domain = inputs.curator, inputs.domain
        rows = number_of_rows(inputs)
        candidates = self._candidates(domain)
        asked = questions(domain, candidates)
        possible = possible_cells(domain, inputs.zeros)
        fitted = FittedJoint(domain, possible, rows, updates=self.updates)
        fitted.add(inputs.known)
        measured: list[Released] = []
        start = inputs.measure_cost * self.histogram
        measure_cost = inputs.measure_cost - start
        if start:
            measured += curator.measure(
                "measure", [domain.columns], [start], replicate=inputs.replicate
            )
            fitted.add(measured)
        rounds = None
        if self.picks == "theory":
            rounds = rounds_of_theory(
                curator.currency.kind,
                inputs.select_cost,
                measure_cost,
                rows=rows,
                cells=domain.size(),
                queries=candidates.length,
            )
        pure = curator.currency.kind == "pure"
        part = self._first_part(candidates.length, rounds, pure=pure)
        # Twice the epsilon costs four times as much under zCDP.
        growth = 2 if pure else 4
        schedule = _Schedule(part, growth if self.picks == "adaptive" else 1)
        for number, part in enumerate(schedule, start=1):
            expected = rows * asked.ask(fitted.joint)
            answers = np.rint(np.clip(_GRID * expected, -_LARGEST, _LARGEST)).astype(np.int64)
            # privacy: the parts of all rounds sum to 1 whatever the answers are: the schedule
            # depends on released values only, and never gives a round more than is left.
            index = curator.choose(
                "select",
                f"round-{number}",
                QueryDistance(candidates, answers, _GRID),
                inputs.select_cost * part,
                replicate=inputs.replicate,
            )
            answer = curator.answer(
                "measure",
                "pick",
                _single(candidates, index),
                measure_cost * part,
                replicate=inputs.replicate,
                round=number,
            )
            measured.append(answer)
            signal = abs(float(answer.values[0]) - float(expected[index]))
            schedule.saw(signal, math.sqrt(answer.variance))
            fitted.add([answer])
        return Selection(measured=tuple(measured))

    def _first_part(self, candidates: int, rounds: int | None, *, pure: bool) -> Fraction:
        """Return the part of the budget of the first round; `rounds` is for `picks: theory`."""
        if rounds is not None:
            return Fraction(1, rounds)
        if isinstance(self.picks, int):
            return Fraction(1, self.picks)
        # The noise of T equal rounds grows with T in pure epsilon, but with its root in zCDP.
        return Fraction(1, min(max(candidates // 2 if pure else candidates, 10), 64))

    def _asks_parities(self, domain: Domain) -> bool:
        return self.queries == "parities" or (self.queries == "auto" and is_binary(domain))

    def _candidates(self, domain: Domain) -> Cells | Parities:
        if self._asks_parities(domain):
            found = parities(domain, self.orders)
            if found.cliques:
                return found
        return cells(domain, self.orders)


def rounds_of_theory(
    kind: Kind,
    cost: Fraction,
    measure_cost: Fraction,
    *,
    rows: float,
    cells: int,
    queries: int,
) -> int:
    """Return the number of rounds T* that minimises the bound of Lemma 3.1 on the largest error.

    The bound is sqrt(log|X| / T) + log|Q| / (epsilon_0 n), up to a constant. In pure epsilon,
    epsilon_0 = epsilon / T, and T* is that of Theorem 3.3: (epsilon n sqrt(log|X|) / (2 log|Q|))^(2
    / 3). In zCDP, T choices of epsilon_0 / 2 cost rho = T epsilon_0^2 / 32. Then the bound is
    minimal at T* = n sqrt(32 rho log|X|) / log|Q|, which takes the place of Theorem 3.4.

    Args:
        kind: Currency of both costs; all except `pure` are read as rho.
        cost: Budget of all choices.
        measure_cost: Budget of all answers.
        rows: Number of records n, as far as it is known.
        cells: Number of cells |X| of the joint table.
        queries: Number of queries |Q|.

    Returns:
        T*, rounded, from 1 to `MOST_ROUNDS`.

    >>> rounds_of_theory("pure", Fraction(1, 2), Fraction(1, 2), rows=21574, cells=2**16,
    ...                  queries=136)
    377
    """
    log_cells, log_queries = math.log(max(cells, 2)), math.log(max(queries, 2))
    if kind == "pure":
        epsilon = float(cost + measure_cost)
        best = math.pow(epsilon * rows * math.sqrt(log_cells) / (2 * log_queries), 2 / 3)
    else:
        best = rows * math.sqrt(32 * float(cost) * log_cells) / log_queries
    return min(max(round(best), 1), MOST_ROUNDS)


class _Schedule:
    """Parts of the budget, round by round; they sum to exactly 1."""

    def __init__(self, part: Fraction, growth: int) -> None:
        self._part, self._growth = part, growth
        self._left = Fraction(1)

    def __iter__(self) -> Iterator[Fraction]:
        while self._left:
            # If the rest would be too small for another round, this round gets it too.
            part = self._part if self._left >= 2 * self._part else self._left
            self._left -= part
            yield part

    def saw(self, signal: float, noise: float) -> None:
        """Record how far the last answer was from the expected one, and its noise."""
        if signal < noise:
            self._part *= self._growth


def _single(candidates: Cells | Parities, index: int) -> Cells | Parities:
    if isinstance(candidates, Parities):
        return Parities((candidates.cliques[index],))
    return Cells((candidates.of[index],), (candidates.codes[index],))


MOST_QUERIES = 200_000
"""Largest number of queries in a list; listing and comparing more takes too long."""


def is_binary(domain: Domain) -> bool:
    """Return whether every column has at most two codes, so that there are parities."""
    return all(size <= 2 for size in domain.sizes)


def parities(domain: Domain, orders: Sequence[int]) -> Parities:
    """Return the parities of the given numbers of columns, smaller ones first.

    Columns with one code are left out, because their parity is constant. If there are fewer columns
    than every order, the result is the parity of all columns.
    """
    columns = [name for name, size in zip(domain.columns, domain.sizes, strict=True) if size == 2]
    return Parities(
        tuple(
            clique
            for order in _within(orders, len(columns))
            for clique in itertools.combinations(columns, order)
        )
    )


def tables(domain: Domain, orders: Sequence[int]) -> tuple[Clique, ...]:
    """Return the tables of the given numbers of columns, smaller ones first."""
    return tuple(
        clique
        for order in _within(orders, len(domain))
        for clique in itertools.combinations(domain.columns, order)
    )


def cells(domain: Domain, orders: Sequence[int]) -> Cells:
    """Return all cells of the tables of the given numbers of columns."""
    of: list[Clique] = []
    codes: list[tuple[int, ...]] = []
    for clique in tables(domain, orders):
        for cell in itertools.product(*map(range, domain.project(clique).sizes)):
            of.append(clique)
            codes.append(cell)
    return Cells(tuple(of), tuple(codes))


def check_binary(domain: Domain, option: str, instead: str) -> None:
    """Check that all columns are binary, so that they have parities.

    Raises:
        BadInput: if one is not; the message names the column and another method.
    """
    for name, size in zip(domain.columns, domain.sizes, strict=True):
        if size > 2:
            raise BadInput(
                f"`{option}` asks for parities, which only columns of two levels have; the column"
                f" {name!r} has {size}. Use {instead}."
            )


def check_number(domain: Domain, orders: Sequence[int], *, of_cells: bool, option: str) -> None:
    """Check that a list of queries is not too long.

    Raises:
        BadInput: if it is; the message names the limit.
    """
    kept = _within(orders, len(domain))
    if of_cells:
        number = sum(_symmetric(domain.sizes, order) for order in kept)
    else:
        number = sum(math.comb(sum(size == 2 for size in domain.sizes), order) for order in kept)
    if number > MOST_QUERIES:
        raise BadInput(
            f"`{option}` would ask {number:,} queries, more than the {MOST_QUERIES:,} it can choose"
            " among; name smaller orders."
        )


def _symmetric(sizes: Sequence[int], order: int) -> int:
    """Return the total number of cells of all tables of one order."""
    sums = [1] + [0] * order
    for size in sizes:
        for index in range(order, 0, -1):
            sums[index] += sums[index - 1] * size
    return sums[order]


def _within(orders: Sequence[int], columns: int) -> tuple[int, ...]:
    """Return the orders that exist for this number of columns, or else the largest possible one."""
    kept = sorted({order for order in orders if order <= columns})
    return tuple(kept) if kept or not columns else (columns,)


METHOD = Mwem
