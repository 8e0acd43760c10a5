"""Ledgers of the tests' own process begin sooner, and nothing of them waits for the disk.

The statements of the migrations are noted once, and then repeated. To let alembic make the tables
takes 20 ms of CPU, and more than a thousand tests begin with a fresh ledger. Whatever has a table
already is migrated as ever, and so is every ledger of another process.

A commit of SQLite waited 9 ms and took 1 ms of CPU, and tests make tens of thousands of them. What
is written is with the operating system, which outlives any killed process; only a power failure
would lose it, as in the tests' PostgreSQL. What the program asks for is tested where it is asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tasks.ledger.database import ledger_database

Statements = list[tuple[str, Any]]


class Remembered:
    """Does what `database._migrate` does, which is taken from it once for each dialect."""

    def __init__(self) -> None:
        self.migrate = ledger_database._migrate
        self.known: dict[tuple[str, ...], Statements] = {}

    def __call__(self, connection: sa.Connection) -> None:
        key = connection.dialect.name, ledger_database._STEPS, ledger_database.SCHEMA_VERSION
        if sa.inspect(connection).get_table_names():
            self.migrate(connection)
        elif key in self.known:
            for statement, parameters in self.known[key]:
                connection.exec_driver_sql(statement, parameters)
        else:
            self.known[key] = self._noted(connection)

    def _noted(self, connection: sa.Connection) -> Statements:
        found: Statements = []

        def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            if statement.split()[0] in ("CREATE", "INSERT", "UPDATE", "ALTER", "DROP", "DELETE"):
                found.append((statement, parameters))

        sa.event.listen(connection, "before_cursor_execute", note)
        try:
            self.migrate(connection)
        finally:
            sa.event.remove(connection, "before_cursor_execute", note)
        return found


prepare_sqlite = ledger_database._prepare_sqlite
"""What the program does."""


def _prepare(engine: sa.Engine) -> None:
    prepare_sqlite(engine)

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(scope="session", autouse=True)
def ledgers_are_quick() -> Iterator[None]:
    """Let ledgers begin with what was noted, and commits and files end in the operating system."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_database, "_migrate", Remembered())
        patch.setattr(ledger_database, "_prepare_sqlite", _prepare)
        patch.setattr(os, "fsync", lambda _: None)
        yield
