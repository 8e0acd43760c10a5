"""Nothing of the ledgers of the tests' own process waits for the disk.

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

prepare_sqlite = ledger_database._prepare_sqlite
"""What the program does."""


def _prepare(engine: sa.Engine) -> None:
    prepare_sqlite(engine)

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(scope="session", autouse=True)
def ledgers_are_quick() -> Iterator[None]:
    """Let commits and files end in the operating system."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_database, "_prepare_sqlite", _prepare)
        patch.setattr(os, "fsync", lambda _: None)
        yield
