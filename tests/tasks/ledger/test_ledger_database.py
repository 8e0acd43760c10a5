"""Opening a ledger: tables, versions, URLs, and what the database itself refuses."""

import os
import sqlite3
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from dp_core.errors import BadInput, LedgerCorrupt, ReleaseError, StageFailed
from tasks.ledger.database import ledger_database
from tasks.ledger.database.database_errors import Damaged
from tasks.ledger.database.ledger_tables import METADATA
from tasks.ledger.database.ledger_versions import SCHEMA_VERSION
from tasks.ledger.ledger import Ledger
from tests import quick_ledgers
from tests.ledgers import execute, open_town, spend
from tests.specs import plan_of


def connect(url):
    return sa.create_engine(url, poolclass=sa.NullPool)


@pytest.fixture
def used(ledger_url, tmp_path):
    ledger = Ledger(ledger_url)
    open_town(ledger)
    spend(ledger, plan_of(tmp_path))
    return ledger


# -- the record stays


@pytest.mark.parametrize("table", ["entries", "totals"])
def test_the_database_refuses_to_change_or_remove_what_is_recorded(used, ledger_url, table):
    column = {"entries": "account", "totals": "value"}[table]
    statements = [
        f"UPDATE {table} SET {column} = 'x'",
        f"UPDATE {table} SET {column} = 'x' WHERE position = 2",
        f"UPDATE {table} SET position = position + 1000",
        f"DELETE FROM {table}",
        f"DELETE FROM {table} WHERE position = 2",
    ]
    if ledger_url.startswith("sqlite"):
        statements += [
            f"UPDATE OR REPLACE {table} SET {column} = 'x'",
            f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
            f"REPLACE INTO {table} SELECT * FROM {table} WHERE position = 2",
        ]
    else:
        statements += [
            f"TRUNCATE {table}",
            f"INSERT INTO {table} SELECT * FROM {table}"
            f" ON CONFLICT ON CONSTRAINT {table}_pkey DO UPDATE SET {column} = 'x'",
        ]
    for statement in statements:
        with pytest.raises(sa.exc.IntegrityError, match="append-only"):
            execute(ledger_url, statement)
    used.verify()


@pytest.mark.parametrize("unique", ["position", "link", "key"])
def test_no_row_takes_the_place_of_another(used, ledger_url, unique):
    """SQLite's REPLACE removes the row in its way without asking the triggers of DELETE."""
    columns = [column.name for column in METADATA.tables["entries"].columns]
    values = {"position": "position + 1000", "link": "'other' || link", "key": "'other' || key"}
    chosen = [name if name == unique else values.get(name, name) for name in columns]
    verb = "INSERT OR REPLACE" if ledger_url.startswith("sqlite") else "INSERT"
    names = ", ".join(columns)
    with pytest.raises(sa.exc.IntegrityError, match=r"append-only|duplicate key"):
        execute(
            ledger_url,
            f"{verb} INTO entries ({names}) SELECT {', '.join(chosen)} FROM entries"
            " WHERE kind = 'charge' LIMIT 1",
        )
    used.verify()


# -- tables and versions


def test_a_ledger_is_made_once_and_opened_again(ledger_url):
    first = Ledger(ledger_url)
    again = Ledger(ledger_url)
    assert first.identity() == again.identity()
    assert [entry.kind for entry in again.entries()] == ["ledger"]


def one_sentence(error):
    message = error.message
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_a_database_with_other_tables_of_these_names_is_refused_and_left_as_it_is(ledger_url):
    execute(
        ledger_url,
        "CREATE TABLE entries (number INTEGER PRIMARY KEY, kind TEXT, previous_in_release TEXT)",
        "CREATE TABLE inputs (release TEXT PRIMARY KEY)",
        "INSERT INTO entries VALUES (1, 'open', 'x')",
    )
    with pytest.raises(Damaged) as refused:
        Ledger(ledger_url)
    one_sentence(refused.value)
    assert set(sa.inspect(connect(ledger_url)).get_table_names()) == {"entries", "inputs"}


def test_a_ledger_of_a_newer_version_is_refused(used, ledger_url):
    later = f"{int(SCHEMA_VERSION) + 1:04d}"
    execute(ledger_url, f"UPDATE alembic_version SET version_num = '{later}'")
    with pytest.raises(BadInput, match="newer version of dp-release; update this one"):
        Ledger(ledger_url)
    execute(ledger_url, f"UPDATE alembic_version SET version_num = '{SCHEMA_VERSION}'")
    assert Ledger(ledger_url).verify() == used.verify()


@pytest.mark.any_database
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE alembic_version SET version_num = 'x001'",
        "UPDATE alembic_version SET version_num = '0000'",
        "DELETE FROM alembic_version",
        "DROP TABLE alembic_version",
        "DROP TABLE totals",
        "DROP TABLE leases",
        "DROP TABLE entries",
    ],
)
@pytest.mark.usefixtures("used")
def test_a_ledger_of_which_a_part_is_missing_does_not_begin_again(ledger_url, damage):
    execute(ledger_url, damage)
    before = set(sa.inspect(connect(ledger_url)).get_table_names())
    with pytest.raises(LedgerCorrupt, match="is damaged"):
        Ledger(ledger_url)
    assert set(sa.inspect(connect(ledger_url)).get_table_names()) == before


def test_the_database_of_another_program_is_refused(ledger_url):
    execute(
        ledger_url,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
        "INSERT INTO alembic_version VALUES ('4ae1027a6acf')",
    )
    with pytest.raises(BadInput, match="another program"):
        Ledger(ledger_url)


def test_a_file_that_is_no_ledger_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "ledger.db").write_text("This is a letter and not a database." * 100)
    with pytest.raises(StageFailed, match="cannot be opened or is not a ledger"):
        Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


def test_an_empty_file_becomes_a_ledger_that_others_cannot_read(tmp_path):
    Ledger(f"sqlite:///{tmp_path / 'new' / 'ledger.db'}")
    assert (tmp_path / "new" / "ledger.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


# -- URLs


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_is_reached_by_each_form_of_its_url(postgres_url, scheme):
    url = f"{scheme}://{postgres_url.partition('://')[2]}"
    assert Ledger(url).identity() == Ledger(postgres_url).identity()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ledger.db",
        "mysql://root:secret@localhost/ledger",
        "postgresql+psycopg2://u:secret@localhost/x",
        "postgresql://u:secret@localhost:port/x",
    ],
)
def test_a_url_that_names_no_ledger_is_refused_without_being_shown(url):
    with pytest.raises(BadInput, match="not the URL of a ledger") as refused:
        Ledger(url)
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:secret@127.0.0.1:1/ledger",
        "postgresql://someone@127.0.0.1:1/ledger?password=secret",
        "postgresql://someone:secret@/ledger?host=/no/such/folder",
    ],
)
def test_a_server_that_does_not_run_is_one_sentence_without_the_password(url):
    pytest.importorskip("psycopg")
    with pytest.raises(StageFailed) as failed:
        Ledger(url)
    assert failed.value.row == "ledger-unreachable"
    assert "start the database server" in failed.value.message
    assert "secret" not in one_sentence(failed.value)
    assert failed.value.__cause__ is None


def test_a_wrong_password_is_one_sentence_without_it(postgres_server, postgres_url):
    rules = postgres_server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    execute(postgres_url, "CREATE ROLE careful LOGIN PASSWORD 'right'")
    try:
        rules.write_text("local all careful scram-sha-256\n" + before)
        execute(postgres_url, "SELECT pg_reload_conf()")
        place = postgres_url.partition("@")[2]
        with pytest.raises(StageFailed, match="refuses the user or the password") as failed:
            Ledger(f"postgresql://careful:secret@{place}")
        assert failed.value.row == "ledger-unreachable"
        assert "secret" not in one_sentence(failed.value)
    finally:
        rules.write_text(before)
        execute(postgres_url, "SELECT pg_reload_conf()", "DROP ROLE careful")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"database": "nosuch"}, "no such database"), ({"username": "nosuch"}, "no such user")],
)
def test_a_database_or_user_that_is_not_there_is_named_as_the_cause(postgres_url, wrong, says):
    url = sa.make_url(postgres_url).set(**wrong)
    with pytest.raises(StageFailed, match=says) as failed:
        Ledger(url.render_as_string(hide_password=False))
    assert failed.value.row == "ledger-unreachable"


def test_a_ledger_whose_server_went_away_is_one_sentence_and_comes_back(
    postgres_server, postgres_url
):
    ledger = Ledger(postgres_url)
    open_town(ledger)
    postgres_server.stop()
    with pytest.raises(StageFailed, match="did not answer") as failed:
        ledger.account("town")
    one_sentence(failed.value)
    postgres_server.start()
    assert ledger.account("town").name == "town"
    ledger.verify()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_takes_no_ledger_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BadInput, match="cannot be created"):
        Ledger(f"sqlite:///{tmp_path / 'new' / 'ledger.db'}")


# -- transactions


@pytest.mark.runbook("not-written")
def test_a_ledger_on_a_read_only_disk_names_the_folder_and_nothing_to_resume(tmp_path, says):
    Ledger(f"sqlite:///{tmp_path}/ledger.db")
    ledger = Ledger(f"sqlite:///file:{tmp_path}/ledger.db?mode=ro&uri=true")
    with pytest.raises(BadInput) as failure:
        open_town(ledger)
    says(failure.value)
    assert f"folder {tmp_path} cannot be written" in str(failure.value)
    assert "resume" not in str(failure.value)


def test_a_question_and_a_failure_leave_no_trace(used):
    before = used.verify()
    with used._database.trying() as rows:
        rows.append("approve", about="plan", body={"plan": "plan", "by": "a", "reason": "b"})
        assert rows.approved("plan")

    def fail():
        with used._database.writing() as rows:
            rows.append("approve", about="plan", body={"plan": "plan", "by": "a", "reason": "b"})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert used.verify() == before


def test_an_entry_that_breaks_a_rule_is_not_added(used):
    before = used.verify()
    for kind, values in {
        "gift": {"body": {}},
        "raise": {"account": "town", "body": {"epsilon": "1", "delta": "0", "calendar": None}},
        "close": {"account": "village", "body": {}},
        "commit": {"release": "first", "reservation": 3, "about": "x", "body": {"batch": "x"}},
    }.items():
        with pytest.raises(LedgerCorrupt, match="was not added"), used._database.writing() as rows:
            rows.append(kind, **values)
    assert used.verify() == before


def test_a_reader_sees_one_moment(used, ledger_url):
    if ledger_url.startswith("sqlite"):
        pytest.skip("a writer of SQLite waits for readers")
    with used._database.reading() as rows:
        before = rows.latest()
        used.approve("plan", by="a", reason="b")
        assert rows.latest() == before
    assert used.head().kind == "approve"


def test_every_error_of_the_database_is_a_sentence(used, ledger_url, tmp_path):
    """Not a traceback of the driver's, whatever became of the tables meanwhile."""
    execute(ledger_url, "DROP TABLE leases")
    with pytest.raises(ReleaseError) as failed, used.lease("second", "home"):
        pass
    assert "\n" not in failed.value.message
    if ledger_url.startswith("sqlite"):
        assert isinstance(failed.value, Damaged)
        with sqlite3.connect(tmp_path / "ledger.db") as connection:
            assert connection.execute("SELECT count(*) FROM entries").fetchone()[0] > 1
        connection.close()
    assert Path(__file__).name not in failed.value.message


@pytest.mark.runbook("clock-off")
def test_a_machine_whose_clock_is_days_off_writes_nothing(postgres_url, monkeypatch, says):
    """Entries are never dated back, so all later ones would follow its date."""
    ledger = Ledger(postgres_url)
    before = ledger.head().position
    monkeypatch.setattr(ledger_database.time, "time", lambda: time.time_ns() / 1e9 + 3 * 86_400)
    with pytest.raises(StageFailed, match="differ by more than a day") as failed:
        open_town(ledger)
    says(failed.value)
    assert ledger.head().position == before


def test_sqlite_keeps_what_it_committed_through_a_power_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_database, "_prepare_sqlite", quick_ledgers.prepare_sqlite)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with ledger._database.writing() as rows:
        extra = rows.store.connection.exec_driver_sql("PRAGMA synchronous").scalar()
    assert extra == 3


@pytest.mark.usefixtures("new_connections")
def test_the_program_keeps_no_connection_to_postgresql():
    engine = ledger_database._engine("postgresql+psycopg://nobody@127.0.0.1:1/none")
    assert isinstance(engine.pool, sa.NullPool)
