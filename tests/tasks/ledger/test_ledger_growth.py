"""What an operation of the ledger asks and reads does not grow with the ledger's history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from dp_core.plan.plan import Plan
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.full import at_full_size
from tests.ledger_filler import INPUT, KEY, fill, steps_of
from tests.ledger_worker import named
from tests.postgres import PostgresServer
from tests.specs import plan_of

GRAIN = 20
"""Steps of SQLite's machine between two ticks of its progress handler."""
SHORT, LONG = 1, 100 if at_full_size() else 30
"""Releases, each of 100 charges."""


@dataclass
class Meter:
    """Counts what one ledger's database does.

    Attributes:
        statements: Sent to the database.
        work: SQLite: ticks of its machine. PostgreSQL: rows read without an index.
    """

    ledger: Ledger
    statements: int = 0
    work: int = 0
    found: dict[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        engine = self.ledger._database._engine
        sa.event.listen(engine, "before_cursor_execute", self._count)
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", self._watch)
        else:
            sa.event.listen(engine, "commit", self._ask)

    def _count(self, *_: object) -> None:
        self.statements += 1

    def _watch(self, connection: Any, _: object) -> None:
        def tick() -> int:
            self.work += 1
            return 0

        connection.set_progress_handler(tick, GRAIN)

    def _ask(self, connection: sa.Connection) -> None:
        with connection.connection.dbapi_connection.cursor() as cursor:  # type: ignore[union-attr]
            cursor.execute("SELECT sum(seq_tup_read) FROM pg_stat_xact_user_tables")
            self.work += int(cursor.fetchone()[0] or 0)

    @contextmanager
    def of(self, operation: str) -> Iterator[None]:
        """Note what is counted inside the block."""
        self.statements = self.work = 0
        yield
        self.found[operation] = self.statements, self.work


def metered(url: str, plan: Plan, releases: int) -> Meter:
    """Return what the operations of one more release take after so many."""
    ledger = fill(url, plan, releases)
    if ledger._database.dialect == "postgresql":
        with ledger._database.writing() as rows:
            rows.store.connection.exec_driver_sql("ANALYZE")
    meter, mine = Meter(ledger), named(plan, "mine")
    with both_writers(ledger, "mine", "home") as writer:
        with meter.of("reserve"):
            held = writer.reserve(mine)
        with meter.of("bind"):
            writer.bind_input(held, INPUT, KEY)
        with meter.of("charge"):
            writer.charge(held, "tables", steps_of(mine)[:10])
        with meter.of("attempt"):
            writer.record_redraw(held, "tables")
        with meter.of("commit"):
            writer.commit(held, "tables", "0" * 64)
        with meter.of("settle"):
            writer.settle(held, "finished")
    with meter.of("desk"):
        ledger.open_desk("town", "0" * 64, mine.spec.schema, by="officer", reason="test")
        ledger.close_desk("town", "0" * 64, by="officer", reason="test")
    with meter.of("balance"):
        ledger.account("town")
    with meter.of("status"):
        ledger.charges(held)
        ledger.holder("mine")
    return meter


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path, privacy="{epsilon: 0.01}")


def both(fresh: Callable[[], str], plan: Plan) -> tuple[Meter, Meter]:
    """Return the meters of a short and of a long history."""
    short, long = (metered(fresh(), plan, releases) for releases in (SHORT, LONG))
    statements = [
        {operation: counted for operation, (counted, _) in meter.found.items()}
        for meter in (short, long)
    ]
    assert statements[0] == statements[1]
    assert all(statements[0].values())
    return short, long


def test_sqlite_does_the_same_work_after_100_charges_and_after_thousands(
    plan: Plan, tmp_path: Path
) -> None:
    paths = iter((tmp_path / "short.db", tmp_path / "long.db"))
    short, long = both(lambda: f"sqlite:///{next(paths)}", plan)
    for operation, (_, work) in short.found.items():
        assert work > 0
        assert long.found[operation][1] <= 1.1 * work + 2, operation


@pytest.mark.usefixtures("new_connections")
@pytest.mark.full
def test_postgresql_reads_no_table_whole_after_10_000_charges(
    plan: Plan, postgres_server: PostgresServer
) -> None:
    _, long = both(postgres_server.create_database, plan)
    for operation, (_, rows_read) in long.found.items():
        assert rows_read <= 10, operation


def test_what_all_releases_of_an_account_used_is_read_together(plan: Plan, tmp_path: Path) -> None:
    meter = Meter(fill(f"sqlite:///{tmp_path / 'ledger.db'}", plan, 30))
    with meter.of("uses"):
        uses = meter.ledger.uses("country")
    assert meter.statements < 20
    assert len(uses) == 30
    assert [used.outcome for used in uses] == ["reserved", *["finished"] * 29]
    assert all(used.amount.main > 0 for used in uses)


def test_the_meter_sees_a_table_that_is_read_whole(
    plan: Plan, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    for url in (f"sqlite:///{tmp_path / 'ledger.db'}", postgres_server.create_database()):
        meter = Meter(fill(url, plan, 2))
        with meter.of("whole"), meter.ledger._database.reading() as rows:
            rows.store.connection.exec_driver_sql("SELECT count(salt) FROM entries").scalar()
        assert meter.found["whole"][1] >= 20
