"""What the tests of the ledger share: accounts, plans' steps, whole stages spent at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from datetime import date
from fractions import Fraction
from typing import Any

import pytest
import sqlalchemy as sa

from dp_core.accounts.chain_audit import Audit, Totals, audit
from dp_core.kernel.cost.composition import Amount, Terms
from dp_core.kernel.cost.sensitivity import count_bounds
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.rules import Policy, changes
from dp_core.kernel.ledger.running_totals import Book, use
from dp_core.kernel.mechanisms.grant import Step
from dp_core.kernel.privacy import Stage
from dp_core.plan.plan import Plan
from dp_core.policies.all_policies import POLICIES
from dp_core.policies.budget_periods import Calendar
from tasks.ledger.accounts import Account
from tasks.ledger.database import transaction
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tests.both_writers import BothWriters, both_writers
from tests.specs import FIXED

KEY = b"k" * 32
HOME = "this home"
WHO = {"by": "officer", "reason": "test"}
GAUSSIAN = FIXED + "measure: {noise: gaussian}\n"
LAPLACE = FIXED + "measure: {noise: laplace}\n"
CURVE = "{epsilon: 1, delta: 1e-6}"


def audited(entries: Iterable[tuple[Entry, Totals | None]], **more: Any) -> Audit:
    """Return the result of a check of entries by the rules and the policies."""
    return audit(entries, POLICIES, **more)


def amount(main: Fraction | int | str, delta: Fraction | str = "0") -> Amount:
    """Return an amount of epsilon or rho, and of delta."""
    return Amount(Fraction(main), Fraction(delta))


def basic(epsilon: str = "2", delta: str = "1e-5") -> Terms:
    """Return terms under which epsilons and deltas are summed."""
    return Terms("basic", Fraction(epsilon), Fraction(delta))


def zcdp(epsilon: str = "2", delta: str = "1e-5", own_delta: str = "0") -> Terms:
    """Return terms under which rho is summed."""
    return Terms("zcdp", Fraction(epsilon), Fraction(delta), Fraction(own_delta))


def monthly(epsilon: str, delta: str = "1e-5", *, carry_over: bool = False) -> Calendar:
    """Return an allowance per month, from November 2026 on."""
    start = date(2026, 11, 20)
    return Calendar("month", Fraction(epsilon), Fraction(delta), carry_over, start)


def open_town(
    ledger: Ledger,
    name: str = "town",
    terms: Terms | None = None,
    *,
    neighbours: Any = "add-remove",
    **more: Any,
) -> Account:
    """Open an account; by default of epsilon 2 and delta 1e-5."""
    return ledger.open_account(
        name,
        terms=terms or basic(),
        neighbours=neighbours,
        **WHO,
        **more,
    )


def on(monkeypatch: pytest.MonkeyPatch, day: str, clock: str = "12:00:00") -> None:
    """Set the ledger's clock."""
    monkeypatch.setattr(transaction, "now", lambda: f"{day}T{clock}+00:00")


def steps_of(plan: Plan, stage: str) -> list[Step]:
    """Return the steps that a stage of the plan charges, one per table."""
    steps = []
    for table in plan.tables:
        if table.stage == stage:
            _, l1, l2_squared = count_bounds(plan.spec.privacy.relation)
            event = plan.currency.noise_event(table.cost, l1=l1, l2_squared=l2_squared)
            steps.append(Step(stage, " x ".join(table.clique), table.cost, event, (table.cells,)))
    return steps


def step(reservation: Reservation, stage: Stage, name: str, cost: Fraction) -> Step:
    """Return a step of two cells."""
    _, l1, l2_squared = count_bounds(reservation.relation)
    event = reservation.currency.noise_event(cost, l1=l1, l2_squared=l2_squared)
    return Step(stage, name, cost, event, (2,))


def begin(writer: BothWriters, plan: Plan) -> Reservation:
    """Reserve, and bind the release to an input of its own."""
    reservation = writer.reserve(plan)
    writer.bind_input(reservation, f"input of {plan.spec.release}", KEY)
    return reservation


def fit(
    writer: BothWriters, plan: Plan, data: str | None = None, stages: Sequence[str] = ()
) -> Reservation:
    """Reserve, examine data that fit, and charge and commit whole stages."""
    reservation = writer.reserve(plan)
    writer.examine(reservation)
    writer.bind_input(reservation, data or f"input of {plan.spec.release}", KEY)
    writer.judge(reservation, "fits")
    return pay(writer, reservation, plan, stages)


def pay(
    writer: BothWriters,
    reservation: Reservation,
    plan: Plan,
    stages: Sequence[str] = ("one_way", "measure"),
) -> Reservation:
    """Charge and commit whole stages."""
    for stage in stages:
        writer.charge(reservation, f"{stage}-0", steps_of(plan, stage))
        writer.commit(reservation, f"{stage}-0", "0" * 64)
    return reservation


def measure(
    writer: BothWriters, plan: Plan, stages: Sequence[str] = ("one_way", "measure")
) -> Reservation:
    """Begin, and charge and commit whole stages."""
    return pay(writer, begin(writer, plan), plan, stages)


def spend(
    ledger: Ledger,
    plan: Plan,
    outcome: str | None = "finished",
    stages: Sequence[str] = ("one_way", "measure"),
) -> Reservation:
    """Let a release happen: whole stages, and its end where an outcome is given."""
    with both_writers(ledger, plan.spec.release, HOME) as writer:
        reservation = measure(writer, plan, stages)
        return reservation if outcome is None else writer.settle(reservation, outcome)


def take_everything(patch: pytest.MonkeyPatch) -> None:
    """Let the ledger, but not its audit, take entries that rules and policies refuse."""

    patch.setattr(transaction, "judged", lambda entry, book, _: (None, totals_after(entry, book)))


def totals_after(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running totals that an entry changes, without asking whether it may."""
    found = changes(entry, book)
    for policy in POLICIES:
        found |= policy.totals(entry, book)
    return found


def _spoil(value: Any) -> None:
    for name, given in (
        *(("__setitem__", ("stage", "none")), ("update", ({"cost": "0"},)), ("append", ("x",))),
        *(("clear", ()), ("__setattr__", ("total", lambda _: None))),
    ):
        with suppress(Exception):
            getattr(value, name)(*given)
    if isinstance(value, Mapping):
        parts = [*value.values()]
    elif is_dataclass(value):
        parts = [getattr(value, each.name, None) for each in fields(value)]
    else:
        parts = [*value] if isinstance(value, list | tuple) else []
    for part in parts:
        _spoil(part)


def _vandalize(entry: Entry, book: Book) -> None:
    found = [book.adoptions(), book.accounts_within(entry.receipt.account)]
    found += [book.charter(entry.receipt.account), book.settlement(entry.receipt.release)]
    found += [*book.promises_of([entry.receipt.account])]
    if entry.reservation is not None:
        found += [book.promise(entry.reservation), use(book, entry.reservation)]
    kept = [name for name in dir(book) if not name.startswith("__")]
    found += [each for each in (getattr(book, name) for name in kept) if not callable(each)]
    for each in (entry, *found, book):
        _spoil(each)


def _vandalize_later(entry: Entry, book: Book) -> dict[str, str]:
    _vandalize(entry, book)
    return {}


VANDAL = Policy("vandal", _vandalize, _vandalize_later)
"""It tries to change whatever it can reach, and refuses nothing."""


def refuse(ledger: Ledger, plan: Plan) -> Reservation:
    """Let the confidential data refuse a release, which ends without a charge."""
    with both_writers(ledger, plan.spec.release, HOME) as writer:
        reservation = writer.reserve(plan)
        writer.examine(reservation)
        writer.judge(reservation, "refused")
        return writer.settle(reservation, "returned")


def reserve(ledger: Ledger, plan: Plan) -> Reservation:
    """Reserve for a release, and let it rest."""
    with both_writers(ledger, plan.spec.release, HOME) as writer:
        return writer.reserve(plan)


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements on a database as they are; return the rows of the last one."""
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
        return [tuple(row) for row in result] if result.returns_rows else []


@contextmanager
def owner(url: str) -> Iterator[sa.Connection]:
    """Give what only the database's owner has: a connection without the ledger's triggers."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        sqlite = engine.dialect.name == "sqlite"
        with connection.begin():
            if sqlite:
                found = connection.exec_driver_sql(
                    "SELECT sql FROM sqlite_master WHERE type='trigger'"
                )
                kept = [sql for (sql,) in found]
                for sql in kept:
                    connection.exec_driver_sql(f"DROP TRIGGER {sql.split()[2]}")
            else:
                kept = []
                connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
            yield connection
            for sql in kept:
                connection.exec_driver_sql(sql)


def set_lease(url: str, **values: object) -> None:
    """Change the leases, as time or another process does."""
    from tasks.ledger.database.ledger_tables import LEASES
    from tasks.ledger.leases import lease_seal

    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.update(LEASES).values(**values))
        for row in connection.execute(sa.select(LEASES)).all():
            seal = lease_seal(row.release, row.fence, row.holder, row.expires)
            statement = sa.update(LEASES).where(LEASES.c.release == row.release)
            connection.execute(statement.values(seal=seal))
    engine.dispose()
