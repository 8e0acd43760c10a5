"""A ledger that is opened by a later version of the program, with one more step of migrations.

The step is made here: it adds a column to the entries, a table and an index, as a real one would.
"""

from __future__ import annotations

import multiprocessing

import pytest
import sqlalchemy as sa

from dp_core.accounts import ledger_version
from dp_core.errors import BadInput, BudgetRefused, ReleaseError
from tasks.ledger.database import ledger_database, ledger_versions
from tasks.ledger.database.database_errors import Damaged
from tasks.ledger.database.ledger_tables import refusals
from tasks.ledger.ledger import Ledger
from tests.full import at_full_size
from tests.ledgers import execute, open_town, reserve, spend
from tests.specs import plan_of

pytestmark = pytest.mark.any_database

NEXT = f"{int(ledger_versions.SCHEMA_VERSION) + 1:04d}"


def step(connection):
    """Add what a real step may add."""
    for statement in (
        "ALTER TABLE entries ADD COLUMN remark TEXT",
        "CREATE TABLE steps (name TEXT PRIMARY KEY)",
        "CREATE INDEX entries_by_remark ON entries (remark)",
        f"INSERT INTO steps VALUES ('{NEXT}')",
        *refusals(connection.dialect.name, "steps", "name = NEW.name"),
    ):
        connection.exec_driver_sql(statement)


def failing_step(connection):
    step(connection)
    connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")


GRANTS = """
GRANT SELECT, INSERT ON entries, totals TO {role};
GRANT SELECT, INSERT, UPDATE ON leases TO {role};
GRANT SELECT ON alembic_version TO {role};
"""
"""As deployments/README.md lists them."""


def become_next(monkeypatch: pytest.MonkeyPatch, to_do=step) -> None:
    """Make this program the next version of itself."""
    monkeypatch.setattr(ledger_versions, "STEPS", {**ledger_versions.STEPS, NEXT: to_do})
    monkeypatch.setattr(ledger_versions, "SCHEMA_VERSION", NEXT)


def tables(url: str) -> set[str]:
    return set(sa.inspect(sa.create_engine(url, poolclass=sa.NullPool)).get_table_names())


def columns(url: str) -> set[str]:
    found = sa.inspect(sa.create_engine(url, poolclass=sa.NullPool)).get_columns("entries")
    return {column["name"] for column in found}


def schema(url: str) -> dict[str, list[object]]:
    """Return the columns and the indexes of each table, in order."""
    found = sa.inspect(sa.create_engine(url, poolclass=sa.NullPool))
    return {
        table: [
            [(column["name"], str(column["type"])) for column in found.get_columns(table)],
            sorted((index["name"], index["column_names"]) for index in found.get_indexes(table)),
        ]
        for table in found.get_table_names()
    }


def version(url: str) -> str:
    return str(execute(url, "SELECT version_num FROM alembic_version")[0][0])


@pytest.fixture
def before(ledger_url, tmp_path):
    """A ledger of this version, with a finished release and one that is under way."""
    ledger = Ledger(ledger_url)
    open_town(ledger)
    spend(ledger, plan_of(tmp_path, release="first"))
    reserve(ledger, plan_of(tmp_path, release="second", privacy="{epsilon: 0.5, delta: 1e-6}"))
    return ledger


def test_a_ledger_of_before_is_migrated_keeps_every_link_and_goes_on(
    before, ledger_url, tmp_path, monkeypatch
):
    head, left = before.verify(), before.account("town").left
    found = list(before.all_entries())
    become_next(monkeypatch)

    ledger = Ledger(ledger_url)
    assert version(ledger_url) == NEXT
    assert "remark" in columns(ledger_url)
    assert ledger.identity() == before.identity()
    assert list(ledger.all_entries()) == found
    assert ledger.verify() == head
    assert ledger.account("town").left == left

    spend(ledger, plan_of(tmp_path, release="third", privacy="{epsilon: 0.25, delta: 1e-6}"))
    assert ledger.verify().entries > head.entries
    assert [entry.link for entry, _ in ledger.all_entries()][: len(found)] == [
        entry.link for entry, _ in found
    ]
    with pytest.raises(BudgetRefused):
        reserve(ledger, plan_of(tmp_path, release="fourth", privacy="{epsilon: 1, delta: 1e-6}"))
    assert Ledger(ledger_url).verify() == ledger.verify()
    assert execute(ledger_url, "SELECT name FROM steps") == [(NEXT,)]


@pytest.mark.usefixtures("before")
def test_the_record_still_cannot_be_changed_after_a_migration(ledger_url, monkeypatch):
    become_next(monkeypatch)
    Ledger(ledger_url)
    for statement in (
        "UPDATE entries SET remark = 'x'",
        "DELETE FROM totals",
        "UPDATE steps SET name = 'x'",
        "DELETE FROM steps",
    ):
        with pytest.raises(sa.exc.IntegrityError, match="append-only"):
            execute(ledger_url, statement)


@pytest.mark.usefixtures("before")
def test_a_ledger_that_lost_a_table_is_damaged_and_not_due_for_migration(ledger_url, monkeypatch):
    execute(ledger_url, "DROP TABLE leases")
    become_next(monkeypatch)
    with pytest.raises(Damaged, match="table: leases"):
        Ledger(ledger_url)
    assert version(ledger_url) != NEXT
    assert "steps" not in tables(ledger_url)


def test_a_migration_that_fails_leaves_the_ledger_as_it_was(before, ledger_url, monkeypatch):
    head = before.verify()
    with monkeypatch.context() as patch:
        become_next(patch, failing_step)
        with pytest.raises(ReleaseError) as failed:
            Ledger(ledger_url)
        assert "\n" not in failed.value.message
    assert "steps" not in tables(ledger_url)
    assert "remark" not in columns(ledger_url)
    assert Ledger(ledger_url).verify() == head


BEFORE = {
    "0010": ["CREATE INDEX receipts_of_reservation ON entries (reservation, number)"],
    "0004": ["ALTER TABLE leases DROP COLUMN seal"],
}
"""What makes of a later ledger one of these versions."""


@pytest.mark.parametrize("earlier", BEFORE)
def test_an_earlier_ledger_becomes_what_a_new_one_is(before, ledger_url, tmp_path, earlier):
    head, made = before.verify(), schema(ledger_url)
    for since, statements in BEFORE.items():
        if since >= earlier:
            execute(ledger_url, *statements)
    execute(ledger_url, f"UPDATE alembic_version SET version_num = '{earlier}'")
    assert schema(ledger_url) != made

    ledger = Ledger(ledger_url)
    assert version(ledger_url) == ledger_versions.SCHEMA_VERSION
    assert schema(ledger_url) == made
    assert ledger.verify() == head  # with the checksums of the leases
    spend(ledger, plan_of(tmp_path, release="third", privacy="{epsilon: 0.25, delta: 1e-6}"))


def _open(url, start, results):
    ledger_versions.STEPS[NEXT], ledger_versions.SCHEMA_VERSION = step, NEXT
    start.wait(60)
    try:
        results.put((Ledger(url).verify().head, None))
    except BaseException as error:
        results.put((None, repr(error)))


def test_processes_that_open_an_old_ledger_at_once_migrate_it_once(before, ledger_url):
    """A second migration would fail: column and table are there already."""
    head = before.verify().head
    context = multiprocessing.get_context("spawn")
    number = 4 if at_full_size() else 2
    start, results = context.Barrier(number), context.Queue()
    workers = [
        context.Process(target=_open, args=(ledger_url, start, results)) for _ in range(number)
    ]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=120) for _ in workers] == [(head, None)] * number
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert execute(ledger_url, "SELECT name FROM steps") == [(NEXT,)]


@pytest.mark.usefixtures("before")
def test_a_process_that_waited_while_a_later_version_migrated_is_refused(ledger_url, monkeypatch):
    """Seen as old, and newer than this program once it has the lock."""
    become_next(monkeypatch)
    writing = ledger_database.Database.writing

    def late(self, **options):
        execute(ledger_url, "UPDATE alembic_version SET version_num = '9999'")
        return writing(self, **options)

    monkeypatch.setattr(ledger_database.Database, "writing", late)
    with pytest.raises(BadInput, match="newer version of dp-release"):
        Ledger(ledger_url)
    assert "steps" not in tables(ledger_url)


# -- roles of PostgreSQL


@pytest.fixture
def job(postgres_url):
    """URL of the same database for a role that may do what a job needs; no ledger in it yet."""
    execute(postgres_url, "CREATE ROLE job LOGIN")
    yield postgres_url.replace("//postgres@", "//job@")
    execute(postgres_url, "DROP OWNED BY job", "DROP ROLE job")


def test_a_job_does_not_migrate_and_says_who_does(postgres_url, job, tmp_path, monkeypatch):
    open_town(Ledger(postgres_url))
    execute(postgres_url, GRANTS.format(role="job"))
    spend(Ledger(job), plan_of(tmp_path, release="first"))

    become_next(monkeypatch)
    with pytest.raises(BadInput) as refused:
        Ledger(job)
    assert refused.value.message.startswith("The tables are of an earlier version in the ledger at")
    assert "owner must open the ledger once" in refused.value.message
    assert version(postgres_url) != NEXT

    before = Ledger(postgres_url).verify()
    spend(Ledger(job), plan_of(tmp_path, release="second", privacy="{epsilon: 0.5, delta: 1e-6}"))
    assert Ledger(job).verify().entries > before.entries


@pytest.mark.runbook("tables-to-be-made")
def test_a_job_makes_no_ledger_and_says_who_does(postgres_url, job, says):
    with pytest.raises(BadInput, match="There are no tables yet in ") as refused:
        Ledger(job)
    says(refused.value)
    assert tables(postgres_url) == set()


@pytest.mark.parametrize(
    ("revoked", "opens"),
    [
        ("SELECT ON alembic_version", False),
        ("SELECT ON entries", False),
        ("INSERT ON entries", True),
        ("INSERT ON totals", True),
    ],
)
@pytest.mark.runbook("right-missing")
def test_a_role_that_lacks_a_right_is_one_sentence(postgres_url, job, revoked, opens, says):
    Ledger(postgres_url)
    execute(postgres_url, GRANTS.format(role="job"))
    execute(postgres_url, f"REVOKE {revoked} FROM job")
    if opens:
        Ledger(job)
    with pytest.raises(BadInput) as refused:
        open_town(Ledger(job))
    says(refused.value)


# -- the version of the entries, which is not that of the tables


def test_a_ledger_whose_entries_are_of_a_later_version_is_not_opened(ledger_url, monkeypatch):
    """What a later program wrote would look like damage to this one."""
    with monkeypatch.context() as patch:
        patch.setattr(ledger_version, "LEDGER_VERSION", 3)
        patch.setattr(ledger_database, "LEDGER_VERSION", 3)
        assert Ledger(ledger_url).verify().entries == 1
    with pytest.raises(BadInput, match=r"has format 3, .* update dp-release"):
        Ledger(ledger_url)


def test_a_ledger_goes_on_in_its_own_version_when_the_program_has_a_later_one(
    before, ledger_url, tmp_path, monkeypatch
):
    head = before.verify()
    with monkeypatch.context() as patch:
        patch.setattr(ledger_version, "LEDGER_VERSION", 3)
        patch.setattr(ledger_database, "LEDGER_VERSION", 3)
        ledger = Ledger(ledger_url)
        assert ledger.verify() == head
        spend(ledger, plan_of(tmp_path, release="third", privacy="{epsilon: 0.25, delta: 1e-6}"))
        head = ledger.verify()
    assert Ledger(ledger_url).verify() == head
