"""What the curator needs from a ledger: permission that is paid for, and a safe place for results.

The database behind it is in `tasks.ledger.ledger`; `MemorySession` serves notebooks, benchmarks
and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.errors import BudgetRefused
from dp_core.schema.privacy import Neighbours, Relation, Stage
from dp_core.tables.domain import Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.events import Event

TABLE: Mapping[str, object] = {"name": "table"}
"""What the step of a table of counts asks; others say what `Statistic.to_json` does."""


SPARSE_TABLE = "sparse-table"
"""Name of what the step of a table with a threshold asks."""


def sparse_asks(domain: Domain, capacity: int) -> dict[str, object]:
    """Return what the step of a table with a threshold asks: counts of its observed cells."""
    return {
        "name": SPARSE_TABLE,
        "columns": list(domain.columns),
        "sizes": list(domain.sizes),
        "capacity": capacity,
    }


DRAWN_RECORDS = "drawn-records"
"""Name of what the step of records that are drawn column by column asks."""


def drawn_asks(cliques: Sequence[Sequence[str]], records: int, sweeps: int) -> dict[str, object]:
    """Return what the step of drawn records asks.

    Args:
        cliques: For each column its table: the column, then those that it is drawn given.
        records: Number of records.
        sweeps: How often each column of a record is drawn.
    """
    tables = [list(clique) for clique in cliques]
    return {"name": DRAWN_RECORDS, "tables": tables, "records": records, "sweeps": sweeps}


def differing_draws(asks: Mapping[str, Any], relation: Relation) -> int:
    """Return how many of the draws of records two files make differently that differ in one row.

    Args:
        asks: What `drawn_asks` returned, or what somebody says it did.
        relation: Of the release; one row is one of its steps.

    Raises:
        ValueError: or another error of its kind, if it is no such thing.

    Privacy:
        Within one record a column is drawn from each combination of the others once at most by the
        counts; from then on evenly, the same on all files. One row more or less is in one
        combination of each column's table, a replaced row and the new one are in two.
    """
    records, sweeps, columns = asks["records"], asks["sweeps"], len(asks["tables"])
    if any(type(number) is not int or number < 1 for number in (records, sweeps, columns)):
        raise ValueError("Drawn records are whole numbers of records and sweeps.")
    return int(records * columns * min(sweeps, 2 if "replace-one" in relation.steps else 1))


DRAWN_CELLS = "drawn-cells"
"""Name of what the step of records that are drawn from a whole table asks."""


def drawn_cells_asks(
    columns: Sequence[str], edges: Sequence[Sequence[int] | None], records: int
) -> dict[str, object]:
    """Return what the step of records drawn from the cells of a whole table asks.

    Args:
        columns: Of the table.
        edges: For each of them the first code of every bin and the number of codes, public; None
            where every code is a level of its own.
        records: Number of records.
    """
    bins = [None if each is None else list(each) for each in edges]
    return {"name": DRAWN_CELLS, "columns": list(columns), "edges": bins, "records": records}


def drawn_from_cells(asks: Mapping[str, Any]) -> int:
    """Return how many records are drawn from the table that `asks` describes.

    Raises:
        ValueError: or another error of its kind, if it is no such thing.

    Privacy:
        Every record of the file is in one cell, so under both relations neighbours may make all of
        these draws differently, and nothing else differently.
    """
    records = asks["records"]
    if type(records) is not int or records < 1:
        raise ValueError("Drawn records are a whole number.")
    return records


@dataclass(frozen=True, slots=True)
class Step:
    """One event about to happen.

    Attributes:
        stage: Stage whose share pays.
        name: Unique within the release and stage.
        cost: Budget set aside for it; the event costs at most this.
        event: The mechanism and its parameters.
        shape: Shape of the noisy result, fixed before the draw.
        asks: What is computed from the data, in plain values that decide its sensitivity: with them
            anyone can recompute what the event must be calibrated to.
    """

    stage: Stage
    name: str
    cost: Fraction
    event: Event
    shape: tuple[int, ...]
    asks: Mapping[str, object] = field(default_factory=lambda: TABLE)


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission, already paid for, to carry out one event once.

    Only a session makes grants.
    """

    number: int
    step: Step


Draw: TypeAlias = Callable[[Sequence[Grant]], Sequence[NDArray[np.int64]]]
"""Looks at the data and draws noise for the grants, in their order; shapes as in the steps."""


class Session(Protocol):
    """One release's open reservation."""

    @property
    def currency(self) -> Currency:
        """What it pays in, and the total."""

    @property
    def relation(self) -> Relation:
        """The neighbouring relation that every event was calibrated to."""

    def perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Charge, draw, store, commit: the whole protocol for steps that are drawn together.

        A batch that was committed before is read back and not drawn again. The caller sees
        results only after they are stored and committed.

        Args:
            batch: Name of the result, unique in the release.
            steps: In one transaction: all are charged, or none.
            draw: Called at most once, after the charge; whoever calls does not see its result
                before it is on disk.

        Raises:
            BudgetRefused: if a stage's or the release's budget does not allow it; nothing was
                touched.
        """


@dataclass
class MemorySession:
    """A session that forgets: the same rules, nothing on disk.

    Attributes:
        currency: What it pays in, and the total.
        neighbours: The neighbouring relation.
        max_rows: Most rows of one unit of privacy.
        charges: Every grant made.
    """

    currency: Currency
    neighbours: Neighbours
    max_rows: int = field(default=1, kw_only=True)
    charges: list[Grant] = field(default_factory=list)
    _results: dict[str, tuple[tuple[Grant, NDArray[np.int64]], ...]] = field(default_factory=dict)
    _summed: tuple[int, Fraction, Fraction] = (0, Fraction(0), Fraction(0))

    @property
    def relation(self) -> Relation:
        """The neighbouring relation that every event was calibrated to."""
        return Relation(self.neighbours, self.max_rows)

    def spent(self) -> Fraction:
        """Sum of what was charged."""
        return self._sums()[0]

    def _sums(self) -> tuple[Fraction, Fraction]:
        """Return what all charges cost and the deltas of their own, adding only what is new."""
        number, cost, own_delta = self._summed
        for grant in self.charges[number:]:
            cost += grant.step.cost
            own_delta += grant.step.event.own_delta()
        self._summed = len(self.charges), cost, own_delta
        return cost, own_delta

    def perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        if batch in self._results:
            if [grant.step for grant, _ in self._results[batch]] != list(steps):
                raise ValueError(
                    f"{batch!r} was drawn for other steps; a question of a round needs a name of"
                    " its own, and the same questions must follow from what was returned and rng."
                )
            return self._results[batch]
        check_steps(self.currency, steps)
        spent, own_delta = self._sums()
        if sum((step.event.own_delta() for step in steps), own_delta) > self.currency.own_delta:
            raise BudgetRefused(
                f"{batch!r} fails with a probability of its own, and no delta is left for it."
            )
        left = self.currency.limit - spent
        asked = sum((step.cost for step in steps), Fraction(0))
        if asked > left:
            raise BudgetRefused(
                f"{batch!r} needs {float(asked):.6g} of {self.currency.kind} budget"
                f" but {float(left):.6g} of {float(self.currency.limit):.6g} is left."
            )
        first = len(self.charges) + 1
        grants = tuple(Grant(first + index, step) for index, step in enumerate(steps))
        self.charges.extend(grants)
        values = draw(grants)
        self._results[batch] = tuple(zip(grants, values, strict=True))
        return self._results[batch]


def check_steps(currency: Currency, steps: Sequence[Step]) -> None:
    """Raise ValueError unless every event costs at most what is set aside for it.

    Privacy:
        Where a release set no delta aside, an event that fails with a probability of its own is
        refused. What all of them come to, a session compares with what was set aside.
    """
    for step in steps:
        if step.cost <= 0:
            raise ValueError(f"Step {step.name!r} has no budget.")
        if currency.cost(step.event) > step.cost:
            raise ValueError(f"The event of step {step.name!r} costs more than its budget.")
        if step.event.own_delta() > currency.own_delta:
            raise ValueError(
                f"The event of step {step.name!r} has a delta of its own, which no plan reserves."
            )
