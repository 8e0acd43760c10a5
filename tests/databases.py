"""Databases with a table to read, for tests: SQLite and PostgreSQL, by the same statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

VARIABLE = "SURVEY_DB"
MARKER = "zqxsecretpassword"
"""A password; whoever finds it anywhere has found a leak."""


@dataclass(frozen=True)
class TestDatabase:
    """A database that may be written to here; releases read it by the variable.

    Attributes:
        url: With a password that nobody checks.
        plain: Without it.
        kind: `sqlite` or `postgresql`.
    """

    __test__ = False
    url: str
    plain: str
    kind: str

    def run(self, *statements: str) -> None:
        """Run statements as they are."""
        engine = sa.create_engine(self.plain, poolclass=sa.NullPool)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows; `table` is written as SQL has it."""
        if self.kind == "sqlite":
            with sqlite3.connect(sa.make_url(self.plain).database) as connection:
                marks = ", ".join("?" for _ in rows[0])
                connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            connection.close()
            return
        import psycopg

        url = sa.make_url(self.plain)
        words = {"user": url.username, "dbname": url.database, **url.query}
        with psycopg.connect(**words) as connection, connection.cursor() as cursor:
            marks = ", ".join("%s" for _ in rows[0])
            cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def sqlite_database(folder: Path) -> TestDatabase:
    """Return an empty SQLite database."""
    url = f"sqlite:///{folder / 'survey.db'}"
    sqlite3.connect(folder / "survey.db").close()
    return TestDatabase(url, url, "sqlite")


def postgres_database(url: str) -> TestDatabase:
    """Return a PostgreSQL database; its server lets in whoever comes, with any password."""
    return TestDatabase(url.replace("postgres@/", f"postgres:{MARKER}@/"), url, "postgresql")


@pytest.fixture(params=["sqlite", "postgresql"])
def survey_database(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> TestDatabase:
    """An empty database of each kind, which SURVEY_DB names."""
    if request.param == "sqlite":
        made = sqlite_database(tmp_path)
    else:
        made = postgres_database(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv(VARIABLE, made.url)
    return made
