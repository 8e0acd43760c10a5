"""The tables laid for Prefect's own server are those its migrations make.

After an upgrade of Prefect: let `flows/own_tables.py` name the new version, and run

    python -m tests.flows.test_own_tables
"""

import os
import sqlite3
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from flows import own_tables
from flows.own_server import start_own_server
from flows.own_tables import NAME, VERSION, fill, lay_tables

HEAD = """\
-- The tables of Prefect {version}'s own database, as its migrations leave them in SQLite.
-- Made by tests/flows/test_own_tables.py; not to be edited.
"""


def contents(database: Path) -> dict[str, object]:
    """Return the definition of everything in a database, and all rows, by table.

    Of a definition its lines, in any order: a migration that makes a table anew writes down its
    foreign keys as they come out of a set.
    """
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        tables = [name for kind, name, *_ in found if kind == "table"]
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}
    return {
        "defined": {
            row[:3]: sorted(filter(None, map(lean, (row[3] or "").splitlines()))) for row in found
        },
        "rows": {name: some for name, some in rows.items() if some},
    }


def lean(line: str) -> str:
    return line.strip().removesuffix(",")


@pytest.fixture(autouse=True)
def _no_database_named(monkeypatch):
    for name in [each for each in os.environ if "DATABASE" in each.upper()]:
        monkeypatch.delenv(name)


def test_they_are_what_its_migrations_make(tmp_path, with_prefects_tables):
    assert version("prefect") == VERSION, "See the top of this file."
    migrated = contents(with_prefects_tables(tmp_path / "migrated") / NAME)
    assert lay_tables(tmp_path / "laid")
    laid = contents(tmp_path / "laid" / NAME)
    assert laid == migrated
    assert len(laid["defined"]) > 200
    assert list(laid["rows"]) == ["alembic_version"]
    assert [path.name for path in (tmp_path / "laid").iterdir()] == [NAME]


def test_a_database_that_is_there_is_left_alone(tmp_path):
    (tmp_path / NAME).write_text("of before")
    assert not lay_tables(tmp_path)
    assert (tmp_path / NAME).read_text() == "of before"


@pytest.mark.parametrize(
    "named", ["PREFECT_API_DATABASE_CONNECTION_URL", "prefect_server_database_name"]
)
def test_a_database_named_elsewhere_is_left_to_prefect(tmp_path, monkeypatch, named):
    monkeypatch.setenv(named, "other")
    assert not lay_tables(tmp_path)
    assert not list(tmp_path.iterdir())


def test_another_version_of_prefect_migrates_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(own_tables, "version", lambda _name: "3.9.0")
    assert not lay_tables(tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_laid_is_left_to_prefect(tmp_path, monkeypatch):
    def broken(database):
        database.write_bytes(b"half")
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(own_tables, "fill", broken)
    assert not lay_tables(tmp_path)
    assert not list(tmp_path.iterdir())

    def overtaken(database):
        fill(database)
        (tmp_path / NAME).write_text("another's")

    monkeypatch.setattr(own_tables, "fill", overtaken)
    assert not lay_tables(tmp_path)
    assert (tmp_path / NAME).read_text() == "another's"


def test_they_are_laid_before_a_server_of_our_own_starts(tmp_path, monkeypatch):
    home = tmp_path / "prefect"
    monkeypatch.setenv("PREFECT_HOME", str(home))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delitem(sys.modules, "prefect", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flows.own_server.OwnServer", lambda: (home / NAME).is_file())
    assert start_own_server() is True
    (home / NAME).unlink()
    monkeypatch.setenv("PREFECT_API_URL", "https://prefect.site/api")
    assert start_own_server() is None
    assert not (home / NAME).exists()


if __name__ == "__main__":
    import tempfile

    from tests.prefect_tables import make

    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / NAME
        make(database)
        with closing(sqlite3.connect(database)) as connection:
            lines = [line.rstrip() for text in connection.iterdump() for line in text.splitlines()]
    text = HEAD.format(version=VERSION) + "\n".join(lines) + "\n"
    Path(own_tables.__file__).with_name(f"prefect-{VERSION}.sql").write_text(text, encoding="utf-8")
