"""A release from a table of a database: the same stages, one reading, and no trace of the URL."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.confidential.coding import write_codes
from dp_core.errors import BadInput, StageFailed
from dp_core.plan.reading.spec_file import load_spec
from tasks.inputs.open_input import open_input
from tests.confidential_side import raises_inside
from tests.databases import MARKER, VARIABLE, postgres_database, sqlite_database
from tests.flows import sabotage
from tests.flows.conftest import Project, make_project, plainly, stopping, survey
from tests.flows.leaks import hits
from tests.flows.test_leak_fence import LEAKED, LEAKED_ROWS, environment
from tests.full import some

ROOT = Path(__file__).parents[2]
TABLE = "{database: SURVEY_DB, table: town}"
CREATE = (
    "CREATE TABLE {} (interview text, age integer, sex integer, marital text,"
    " income numeric(12, 2), moved date)"
)


def fill(database, rows, table="town"):
    database.run(CREATE.format(table))
    database.insert(
        table,
        [
            [i, int(age), int(sex), None if m == "NA" else m, income or None, moved]
            for i, age, sex, m, income, moved in rows
        ],
    )


@pytest.fixture
def town(project, tmp_path, monkeypatch):
    """The project with its rows in an SQLite database."""
    database = sqlite_database(tmp_path)
    fill(database, survey())
    monkeypatch.setenv(VARIABLE, database.url)
    project.write_spec(data=TABLE)
    return project, database


def snapshot(project):
    return project.run_folder / "confidential/snapshot"


@pytest.mark.usefixtures("quick")
def test_a_release_of_a_table_is_that_of_the_file(town, tmp_path):
    project, _ = town
    run = project.release()
    assert project.faults() == {}
    assert not snapshot(project).exists()
    assert run.plan.document()["spec"]["data"] == {"database": VARIABLE, "table": "town"}
    found = []
    for data in (TABLE, "town.csv"):
        project.write_spec(data=data)
        source = open_input(load_spec(project.spec), run.spec.schema, tmp_path)
        store = write_codes(source, run.spec.schema, tmp_path / data[:4])
        chunks = [[column.tolist() for column in store.read(n)] for n in range(store.chunks)]
        found.append(chunks)
    assert found[0] == found[1]


def stopping_at(name):
    """Return what performs the stages up to one, and fails there for an outside reason."""
    return stopping(name, StageFailed("outside"))


@pytest.mark.usefixtures("quick")
def test_a_release_goes_on_from_its_snapshot_whatever_became_of_the_table(town, monkeypatch):
    project, database = town

    with pytest.raises(StageFailed, match="outside"):
        project.release(perform=stopping_at("count"))
    assert snapshot(project).is_dir()
    database.run("UPDATE town SET age = 1", "DROP TABLE town")
    monkeypatch.delenv(VARIABLE)
    project.release()
    assert project.faults() == {}
    assert not snapshot(project).exists()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("changed", [False, True])
def test_a_table_that_is_read_again_must_hold_the_same_rows(town, changed):
    project, database = town

    with pytest.raises(StageFailed, match="outside"):
        project.release(perform=stopping_at("select"))
    shutil.rmtree((project.run_folder / "confidential").resolve())
    # Another order of the same rows, which is how databases are.
    database.run(
        "CREATE TABLE again AS SELECT * FROM town ORDER BY interview DESC", "DELETE FROM town"
    )
    database.run("INSERT INTO town SELECT * FROM again")
    if not changed:
        project.release()
        assert project.faults() == {}
        return
    database.run("UPDATE town SET age = age + 1 WHERE interview = 'i7'")
    with raises_inside(BadInput, match="changed since it began"):
        project.release()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kept", some([False, True], lambda kept: not kept))
def test_a_formula_asked_later_reads_the_table_again_and_leaves_nothing(
    town, command, monkeypatch, kept
):
    from flows.release import carry_out

    project, database = town
    carry_out(project.spec, project.out, keep_confidential=kept, perform=plainly)
    words = ("infer", project.out, "income ~ age", "--against-confidential")
    if kept:
        monkeypatch.delenv(VARIABLE)
    assert command(*words).code == 0
    assert list(project.internal.glob("inference-asked-1*"))
    assert snapshot(project).exists() == kept
    if not kept:
        database.run("DELETE FROM town WHERE interview = 'i7'")
        answer = command(*words)
        assert (answer.code, "are not those that it was made of" in answer.err) == (2, True)
        assert not snapshot(project).parent.exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (f"postgresql://u:{MARKER}@host/db", "is a URL"),
        (f'{{database: "postgresql://u:{MARKER}@h/d", table: t}}', "environment variable"),
        ("{database: SURVEY_DB}", "the key 'table' is missing"),
        ("{database: SURVEY_DB, tabel: t}", "Did you mean 'table'?"),
        ("{database: SURVEY_DB, table: a.b.c}", "`schema.table`"),
        ("{database: SURVEY DB, table: t}", "environment variable"),
    ],
)
def test_a_spec_says_where_the_data_are_or_is_refused(project, data, says):
    project.write_spec(data=data)
    with pytest.raises(BadInput) as caught:
        load_spec(project.spec)
    assert says in caught.value.message
    assert "data" in caught.value.message
    assert MARKER not in caught.value.message


KILLED = """
import os, signal, sys
from pathlib import Path
from tasks.inputs import database_source
from tasks.inputs.database_source import Stored
from tests.flows import sabotage
from tests.flows.conftest import plainly
from flows.release import carry_out
from tasks.confidential import connection
from tests.confidential_side import InThisProcess

connection.connect = lambda *_: InThisProcess()
database_source.CHUNK_ROWS = 16
array, calls = Stored.array, []

def dying(self, values):
    calls.append(0)
    if len(calls) == 40:
        os.kill(os.getpid(), signal.SIGKILL)
    return array(self, values)

Stored.array = dying
import tasks.inputs.snapshot
tasks.inputs.snapshot.GROUP_ROWS = 16
carry_out(Path(sys.argv[1]), Path(sys.argv[2]), perform=plainly)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_reading_that_is_killed_begins_again_at_no_cost(town):
    project, _ = town
    died = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), project.spec, project.out],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
    left = list((project.run_folder / "confidential").iterdir())
    assert [re.fullmatch(r"snapshot-\w+\.tmp", path.name) is not None for path in left] == [True]
    assert (left[0] / "part-00001.parquet").stat().st_size > 0
    ledger = project.ledger()
    assert not ledger.charges(ledger.reservation("town"))
    assert not ledger.entries(kinds=("input",))

    def looking(stage, run, *given):
        answer = plainly(stage, run, *given)
        if stage.name == "identify":
            names = {path.name for path in run.folder.confidential.iterdir()}
            assert names == {"input", "snapshot"}
        return answer

    project.release(perform=looking)
    assert project.faults() == {}
    assert project.kinds().count("reserve") == 1


@pytest.fixture(scope="module")
def from_postgresql(postgres_cluster, tmp_path_factory, with_prefects_tables):
    """Releases by the real command and engine, from a PostgreSQL with a marked password."""
    postgres_cluster.start()
    place = tmp_path_factory.mktemp("table")
    for name in ("person", "tmp", "dask", "cwd", "bundles"):
        (place / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DP_RELEASE_HOME", str(place / "home"))
        patch.delenv("DP_RELEASE_LEDGER", raising=False)
        project: Project = make_project(place / "work", place / "home")
    with_prefects_tables(place / "home" / "prefect")
    (project.folder / "town.csv").unlink()
    plain = postgres_cluster.create_database()
    database = postgres_database(plain)
    database.run("CREATE SCHEMA survey")
    rows = survey(3000)
    rows[17][0] = "zqxcanary-interview"
    fill(database, rows, "survey.town")
    fill(database, [[*rows[0][:3], "zqxwrong", *rows[0][4:]]], "survey.wrong")
    jobs = []
    for table in ("town", "wrong", "twon"):
        data = f"{{database: SURVEY_DB, table: survey.{table}}}"
        spec = project.write_spec(data=data, release=f"r-{table}").rename(
            project.folder / f"{table}.yaml"
        )
        words = ["run", str(spec), "--out", str(place / "bundles" / table), "--verbose"]
        jobs.append({"words": words, "fails": None})
    orders, ended = place.with_name("table-orders.json"), place.with_name("table-ended.json")
    leak = {"leak": LEAKED, "leaked_rows": LEAKED_ROWS}
    orders.write_text(json.dumps({"row": {}, "jobs": jobs, "ended": str(ended), **leak}))
    # Several command lines in one process, which share one server of Prefect.
    done = subprocess.run(
        [sys.executable, sabotage.__file__, orders],
        cwd=place / "cwd",
        env=environment(place) | {VARIABLE: database.url},
        capture_output=True,
        text=True,
        check=False,
    )
    (place / "out.txt").write_text(done.stdout)
    (place / "err.txt").write_text(done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    codes = [job["code"] for job in json.loads(ended.read_text())]
    yield place, codes
    postgres_cluster.start()
    postgres_cluster.drop_database(plain)


@pytest.mark.full
def test_a_release_from_postgresql_from_end_to_end(from_postgresql):
    place, codes = from_postgresql
    assert codes == [0, 2, 2], (place / "err.txt").read_text()[-3000:]
    assert verify(place / "bundles/town").passed
    kept = [path.read_text() for path in place.rglob("message.txt")]
    assert any("Did you mean 'survey.town'?" in message for message in kept)
    assert not list(place.rglob("*snapshot*"))


@pytest.mark.full
def test_nothing_of_the_url_and_of_the_rows_is_anywhere(from_postgresql):
    place, _ = from_postgresql

    def may_be(path, canary):
        return canary == "zqxwrong" and "internal" in path.parts

    # The password, the way it begins, the folder of the socket; a column and a value.
    secrets = (MARKER, "psycopg://", "dp-release-postgres-", "zqxcanary-interview", "zqxwrong")
    assert hits(place, secrets, skip=may_be) == []
    # The search finds what there is: the variable is public, and something was given to Prefect.
    assert any("bundles/town" in hit for hit in hits(place, (VARIABLE,)))
    assert any("prefect.db" in hit for hit in hits(place, (LEAKED,)))
    assert any("validation.json" in hit for hit in hits(place / "home/runs/r-wrong", ("zqxwrong",)))
