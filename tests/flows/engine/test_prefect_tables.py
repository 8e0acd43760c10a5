"""A fresh home begins with the tables that Prefect made where the program is installed."""

import os
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows.engine import prefect_tables
from flows.engine.own_server import start_own_server
from flows.engine.prefect_tables import NAME, lay_tables, make, need_whole_server, tables_copy


@pytest.fixture(autouse=True)
def _no_database_named(monkeypatch):
    for name in [each for each in os.environ if "DATABASE" in each.upper()]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """Return a place like that where the program is installed, with some tables kept."""
    place = tmp_path / "installed"
    monkeypatch.setattr(sys, "prefix", str(place))
    tables_copy().parent.mkdir(parents=True)
    tables_copy().write_bytes(b"tables")
    return place


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home" / "prefect"


def test_they_are_those_that_prefect_makes_by_its_migrations(home, with_prefects_tables, tmp_path):
    tables_copy().unlink()
    with_prefects_tables(tmp_path / "made")
    (tmp_path / "made" / NAME).replace(tables_copy())
    assert lay_tables(home)
    with closing(sqlite3.connect(home / NAME)) as connection:
        (number,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (versions,) = connection.execute("SELECT count(*) FROM alembic_version").fetchone()
        (runs,) = connection.execute("SELECT count(*) FROM flow_run").fetchone()
    assert number > 200
    assert (versions, runs) == (1, 0)
    assert [path.name for path in home.iterdir()] == [NAME]


def test_only_the_owner_may_look_into_the_home_it_is_laid_in(home):
    assert lay_tables(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_no_setting_of_the_caller_s_prefect_decides_what_is_made(tmp_path, monkeypatch):
    given = {}

    def prefect(_command, *, env, cwd, **_options):
        given.update(env)
        (Path(cwd) / NAME).write_bytes(b"made")

    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "postgresql://site/prefect")
    monkeypatch.setenv("PREFECT_PROFILES_PATH", "mine.toml")
    monkeypatch.setattr(prefect_tables.subprocess, "run", prefect)
    make(tmp_path / "made" / NAME)
    assert (tmp_path / "made" / NAME).read_bytes() == b"made"
    names = {name for name in given if name.startswith("PREFECT_")}
    assert names == {"PREFECT_HOME", "PREFECT_SERVER_ANALYTICS_ENABLED"}
    assert Path(given["PREFECT_HOME"]).parent == tmp_path / "made"
    assert given["PATH"] == os.environ["PATH"]


def test_a_database_that_is_there_is_left_alone(home):
    home.mkdir(parents=True)
    (home / NAME).write_text("of before")
    assert not lay_tables(home)
    assert (home / NAME).read_text() == "of before"


def test_what_cannot_be_laid_is_left_to_prefect(home, monkeypatch):
    def broken(_source, target):
        target.write_bytes(b"half")
        raise OSError("disk I/O error")

    monkeypatch.setattr(prefect_tables.shutil, "copyfile", broken)
    assert not lay_tables(home)
    assert not list(home.iterdir())

    def overtaken(_source, target):
        target.write_bytes(b"ours")
        (home / NAME).write_text("another's")

    monkeypatch.setattr(prefect_tables.shutil, "copyfile", overtaken)
    assert not lay_tables(home)
    assert (home / NAME).read_text() == "another's"


def test_they_are_laid_before_a_server_of_our_own_starts(tmp_path, monkeypatch):
    home = tmp_path / "prefect"
    monkeypatch.setenv("PREFECT_HOME", str(home))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delitem(sys.modules, "prefect", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flows.engine.own_server.OwnServer", lambda **_: (home / NAME).is_file())
    assert start_own_server() is True
    (home / NAME).unlink()
    monkeypatch.setenv("PREFECT_API_URL", "https://prefect.site/api")
    assert start_own_server() is None
    assert not (home / NAME).exists()


def change(file, statement, *values):
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement, values)


def test_a_database_to_be_migrated_needs_the_whole_server(home, with_prefects_tables):
    assert need_whole_server(home)  # there are none
    with_prefects_tables(home)
    assert not need_whole_server(home)
    change(home / NAME, "UPDATE alembic_version SET version_num = 'earlier'")
    assert need_whole_server(home)


def test_what_is_not_known_needs_the_whole_server(home, with_prefects_tables, monkeypatch):
    with_prefects_tables(home)
    monkeypatch.setattr(prefect_tables, "version", lambda _name: "3.9.0")
    assert need_whole_server(home)
    monkeypatch.undo()
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "other")
    assert need_whole_server(home)
    monkeypatch.delenv("PREFECT_API_DATABASE_CONNECTION_URL")
    (home / NAME).write_text("not a database, and as long as its first page would have to be")
    assert need_whole_server(home)
