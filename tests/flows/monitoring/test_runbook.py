"""Every failure of docs/runbook.md is provoked here or elsewhere, and names its row."""

from __future__ import annotations

import ast
import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from dp_core.errors import LedgerCorrupt, StageFailed
from tests.flows.conftest import COLUMNS, as_csv, plainly, stopping, survey
from tests.flows.corpus import hold, lent
from tests.ledgers import owner, set_lease

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
row = pytest.mark.runbook

pytestmark = pytest.mark.usefixtures("quick")


# -- the page, the program and the tests name the same rows


def on_page():
    """Return the rows of the page, in order."""
    return re.findall(r"^### ([a-z-]+)$", PAGE, flags=re.MULTILINE)


def in_program():
    """Return the rows that errors of the program name."""
    found = {"interrupted", "tried-too-often"}  # told by a command and by a flow that go on
    for package in ("dp_core", "tasks", "flows"):
        for path in (ROOT / package).rglob("*.py"):
            found |= set(re.findall(r'\brow ?= ?"([a-z-]+)"', path.read_text(encoding="utf-8")))
    return found


def provoked():
    """Return the rows that tests are marked with, and the marked tests that do not use `says`."""
    found, silent = set(), []
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if "runbook" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef):
                continue
            marks = [
                call.args[0].value
                for decorator in node.decorator_list
                for call in ast.walk(decorator)
                if isinstance(call, ast.Call)
                and ast.unparse(call.func) in ("row", "pytest.mark.runbook")
                and isinstance(call.args[0], ast.Constant)
            ]
            found |= set(marks)
            if marks and "says" not in [argument.arg for argument in node.args.args]:
                silent.append(node.name)
    return found, silent


def test_the_page_has_the_rows_of_the_program():
    assert len(on_page()) == len(set(on_page()))
    assert set(on_page()) == in_program()


def test_every_row_says_what_it_means_and_what_to_do():
    for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        meaning, *said = re.split(r"^\*(\w+):\*", part.partition("\n## ")[0], flags=re.MULTILINE)
        assert len(meaning.split("\n\n", 1)[1].split()) > 2, part
        # What was spent and who decides is said once, above the rows, and where a row differs.
        expected = [word for word in ("Spent", "Do", "Decides") if word in said[::2]]
        assert said[::2] == expected, part
        assert "Do" in expected, part


def test_every_row_is_provoked_by_a_test_that_compares_it():
    found, silent = provoked()
    assert silent == []
    assert found == set(on_page())


def test_a_message_that_mends_itself_names_no_row(project, command):
    project.write_spec(privacy="{epsilon: -1}")
    answer = command("plan", project.spec)
    assert answer.code == 2
    assert "runbook" not in answer.err


@pytest.mark.usefixtures("home")
def test_the_row_is_named_after_the_message_for_people_and_beside_it_for_machines(command):
    assert command("status").err.endswith(" (runbook: no-ledger)\n")
    answer = command("status", "--json")
    assert answer.json["runbook"] == "no-ledger"
    assert "(runbook" not in answer.json["error"]


# -- what a release meets


def refused(command, *words):
    """Return the sentence of a command that fails."""
    answer = command(*words)
    assert answer.code not in (0, 1), answer.out
    assert "Traceback" not in answer.err
    last = answer.err.splitlines()[-1]
    assert last.startswith("dp-release: ")
    return last


def run(project, command):
    return refused(command, "run", project.spec, "--out", project.out)


class Stop(Exception):
    """Ends a release between two stages."""


def stop_before(project, stage):
    """Let the release do what comes before a stage."""
    with pytest.raises(Stop):
        project.release(perform=stopping(stage, Stop))


def failure(project, stage, do):
    """Return how a release fails if something is done before a stage."""

    def perform(task, run, *given):
        if task.name == stage:
            do(run)
        return plainly(task, run, *given)

    with pytest.raises(StageFailed) as failed:
        project.release(perform=perform)
    return failed.value


def raising(error):
    def broken(*_, **__):
        raise error

    return broken


@row("disk-full")
def test_a_full_disk(project, command, monkeypatch, says):
    full = raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("tasks.support.run_folder.os.fsync", full)
    says(run(project, command))


@row("not-written")
def test_a_disk_that_is_read_only(project, command, monkeypatch, says):
    monkeypatch.setattr(
        "tasks.support.run_folder.os.fsync", raising(OSError(errno.EROFS, "read-only"))
    )
    says(run(project, command))


@row("interrupted")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption(project, command, monkeypatch, says, how):
    monkeypatch.setattr("flows.release.make_release", lambda *_, **__: signal.raise_signal(how))
    before = signal.getsignal(signal.SIGTERM)
    try:
        answer = command("run", project.spec, "--out", project.out)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert answer.code == 130
    says(answer.err)


@row("stage-failed")
def test_a_stage_that_fails(project, command, monkeypatch, says):
    monkeypatch.setattr(
        "dp_core.confidential.code_store.write_atomically", raising(ValueError("a value"))
    )
    message = run(project, command)
    says(message)
    assert "a value" not in message
    assert f"is in {project.internal / 'failure.txt'}." in message
    monkeypatch.setattr("tasks.support.run_folder.keep_text", lambda _path, _text: False)
    message = run(project, command)
    says(message)
    assert "could not be saved" in message
    assert "failure.txt" not in message


@row("outside-stages")
def test_a_failure_around_the_stages(project, command, monkeypatch, says):
    monkeypatch.setattr("flows.release.make_release", raising(RuntimeError("a value")))
    message = run(project, command)
    says(message)
    assert "a value" not in message


@row("server-unreachable")
def test_a_server_that_is_not_up(project, command, monkeypatch, says):
    monkeypatch.setenv("PREFECT_API_URL", "http://ada:zqxsecret@127.0.0.1:9/api?key=zqxsecret")
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 4
    says(answer.err)
    assert "http://127.0.0.1:9/api" in answer.err
    assert "zqxsecret" not in answer.err
    assert not (project.home / "runs").exists()


@row("server-unreachable")
def test_a_server_that_goes_away_during_a_release(project, command, monkeypatch, says):
    def gone(*_arguments, **_options):
        monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
        raise RuntimeError("Prefect gave up.")

    monkeypatch.setattr("flows.release.make_release", gone)
    message = run(project, command)
    says(message)
    assert "dp-release resume town" in message


@row("server-slow")
def test_a_server_of_prefect_s_own_that_is_slow(project, command, monkeypatch, says):
    from prefect.server.api.server import SubprocessASGIServer  # takes seconds to import

    # Prefect's own code and words; what it starts never answers.
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    server = SubprocessASGIServer()
    monkeypatch.setattr("prefect.server.api.server.subprocess_server_logger.disabled", True)
    monkeypatch.setattr(server, "_run_uvicorn_command", lambda: subprocess.Popen(sleeping))
    try:
        monkeypatch.setattr(
            "flows.release.make_release", lambda *_, **__: server.start(timeout=0.2)
        )
        message = run(project, command)
    finally:
        server.server_process.kill()
        server.server_process.wait()
        server.server_process = None  # or it is stopped again when Python ends
    says(message)


@row("result-of-stage-gone")
def test_a_stage_whose_result_is_gone(project, says):
    says(failure(project, "synthesize", lambda run: run.folder.forget("reconstruct")))


@row("set-gone")
def test_a_set_that_is_gone(project, says):
    says(failure(project, "publish", lambda run: shutil.rmtree(run.folder.public / "synthetic")))


@row("codes-damaged")
def test_codes_that_are_damaged(project, says):
    def perform(task, at, *given):
        if task.name == "count":
            for path in at.codes.rglob("*.json"):
                path.write_bytes(b"{")
        return plainly(task, at, *given)

    with pytest.raises(StageFailed) as failed:
        project.release(perform=perform)
    says(failed.value)


@row("links-gone")
def test_a_home_that_was_copied_without_its_links(project, command, says):
    stop_before(project, "count")
    current = project.run_folder / "current"
    current.unlink()
    current.mkdir()
    says(run(project, command))


@row("bundle-not-handed-over")
def test_a_bundle_that_does_not_hold_what_it_says(project, command, monkeypatch, says):
    from dp_core.bundle.verification.verify import verify

    def lied_to(folder, *words, **options):
        statement = folder / "release.json"
        facts = json.loads(statement.read_text())
        facts["guarantee"]["epsilon"] = 0.5
        statement.write_text(json.dumps(facts))
        return verify(folder, *words, **options)

    monkeypatch.setattr("dp_core.bundle.verification.verify.verify", lied_to)
    says(run(project, command))
    assert not project.out.exists()


@row("dask-unreachable")
def test_a_scheduler_that_is_not_there(project, command, says, monkeypatch):
    monkeypatch.setattr("tasks.support.dask_cluster.ANSWER", 1.0)
    words = ("run", project.spec, "--out", project.out, "--dask", "tcp://127.0.0.1:9")
    says(refused(command, *words))


@row("dask-in-clear")
def test_a_scheduler_that_is_elsewhere_without_encryption(project, command, says):
    words = ("run", project.spec, "--out", project.out, "--dask", "tcp://192.0.2.1:8786")
    says(refused(command, *words))


@row("log-not-written")
def test_a_log_that_cannot_be_written(project, command, says):
    words = ("--out", project.out, "--log-file", project.spec / "log")
    says(refused(command, "run", project.spec, *words))
    assert project.untouched()


# -- who works on it


@row("at-work")
def test_a_release_that_another_process_works_on(project, command, says):
    with project.ledger().lease("town", "a home"):
        says(run(project, command))


@row("taken-over")
def test_a_release_that_another_process_took_over(project, says):
    says(
        failure(
            project,
            "count",
            lambda _: set_lease(f"sqlite:///{project.home / 'ledger.db'}", fence=99),
        )
    )


@row("other-home")
def test_a_release_of_another_home(project, command, says):
    stop_before(project, "select")
    (project.home / "home.id").unlink()
    says(run(project, command))


@row("reservation-gone")
def test_a_release_that_was_abandoned_meanwhile(project, says):
    says(failure(project, "basics", lambda run: run.writer.settle(run.reservation, "abandoned")))


# -- a person decides

WHO = ("--by", "Ana", "--reason", "test")


held = lent("publish: after-approval\n", hold, measure="{noise: gaussian}")


@row("held")
@pytest.mark.usefixtures("held")
def test_a_release_that_is_held(command, says):
    answer = command("resume", "town")
    assert answer.code == 6
    says(answer.err.splitlines()[-1])
    # What needs a person is told at a glance, and to a watch.
    assert "somebody decides: dp-release release look town" in command("status").out
    assert 'state="held"} 1.0' in command("server", "metrics").out


@row("held-changed")
def test_a_held_release_whose_sets_are_gone(held, command, says):
    shutil.rmtree(held.run_folder / "public" / "synthetic")
    says(refused(command, "release", "publish", "town", *WHO))


@row("held-changed")
def test_a_held_release_whose_spec_changed(held, command, says):
    held.write_spec("publish: after-approval\nsynthesize: {seed: 8}\n")
    says(refused(command, "release", "publish", "town", *WHO))


@row("held-changed")
def test_a_held_release_that_is_run_with_another_spec(held, command, says):
    held.write_spec("publish: after-approval\nsynthesize: {seed: 8}\n")
    says(run(held, command))


@row("held-elsewhere")
def test_a_held_release_whose_report_is_elsewhere(held, command, says):
    shutil.rmtree(held.internal.resolve())
    says(refused(command, "release", "look", "town", *WHO))


@row("not-held")
def test_a_decision_about_what_is_not_held(project, command, says):
    stop_before(project, "select")
    says(refused(command, "release", "publish", "town", *WHO))


@row("not-held")
@pytest.mark.usefixtures("held")
def test_a_second_decision(command, says):
    assert command("release", "withdraw", "town", *WHO).code == 0
    says(refused(command, "release", "publish", "town", *WHO))
    assert "No release needs a person." in command("status").out


# -- noisy results


def results(project):
    return sorted((project.run_folder / "public" / "noisy").glob("*.noise"))


@row("committed-result-gone")
def test_a_committed_result_that_is_gone(project, command, says):
    stop_before(project, "select")
    for path in results(project):
        path.unlink()
    says(run(project, command))


@row("committed-result-gone")
def test_a_committed_result_of_which_a_byte_changed_before_publication(project, command, says):
    """Nothing that is published is computed from it any more; it is the proof of what was."""
    stop_before(project, "publish")
    path = results(project)[0]
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(bytes(content))
    says(run(project, command))
    assert not project.out.exists()


@row("result-damaged")
def test_a_result_that_is_not_whole(project, command, monkeypatch, says):
    from tasks.ledger.release_writer import ReleaseWriter

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseWriter, "commit", raising(Stop()))
        run(project, command)
    for path in results(project):
        path.write_bytes(path.read_bytes()[:-1])
    says(run(project, command))


@row("result-not-as-stored")
def test_a_result_that_is_not_what_was_stored(project, command, monkeypatch, says):
    from tasks.ledger import ledger_session

    store = ledger_session._draw_and_store

    def meddled(path, *words):
        store(path, *words)
        path.write_bytes(b"another")

    monkeypatch.setattr(ledger_session, "_draw_and_store", meddled)
    says(run(project, command))


@row("drawn-too-often")
def test_a_result_that_never_reaches_the_disk(project, command, monkeypatch, says):
    from tasks.ledger.release_writer import MOST_DRAWS

    full = raising(OSError(errno.ENOSPC, "full"))
    with monkeypatch.context() as patch:
        patch.setattr("tasks.ledger.ledger_session.os.posix_fallocate", full)
        for _ in range(MOST_DRAWS):
            run(project, command)
    says(run(project, command))


@row("result-without-charge")
def test_a_existing_ledger_older_than_the_run_s_folder(project, command, says):
    copy = project.folder / "backup.db"
    shutil.copy(project.home / "ledger.db", copy)
    stop_before(project, "select")
    shutil.copy(copy, project.home / "ledger.db")
    (project.home / "ledger.head").unlink()
    shutil.rmtree(os.environ["DP_RELEASE_STATE"])
    says(run(project, command))


# -- data, spec and output


@row("data-changed")
def test_data_that_changed(project, command, says):
    stop_before(project, "select")
    (project.folder / "town.csv").write_text(as_csv(survey()[:-1]))
    (project.run_folder / "public/stages/count.json").unlink()
    says(run(project, command))


@row("data-being-written")
def test_data_that_are_being_written(project, command, monkeypatch, says):
    from dp_core.confidential.source import Source

    batches = Source._csv_batches

    def written(self):
        yield from batches(self)
        os.utime(project.folder / "town.csv", (1, 1))

    monkeypatch.setattr(Source, "_csv_batches", written)
    says(run(project, command))


@row("data-of-another-account")
def test_data_of_another_account(project, command, says):
    stop_before(project, "select")
    project.open_account("city")
    project.write_spec(release="city", account="city")
    says(run(project, command))


@row("data-not-found")
def test_data_that_are_not_there(project, command, says):
    (project.folder / "town.csv").unlink()
    says(run(project, command))
    # No attempt on the data was recorded: the path was checked before.
    assert not (project.home / "runs").exists()
    account = command("ledger", "show", "town", "--json").json
    assert (account["refused_attempts"], account["open_attempts"]) == (0, 0)


HEADER = ",".join(COLUMNS).encode()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", marks=row("data-empty")),
        pytest.param(HEADER + b"\n", marks=row("data-empty")),
        pytest.param(HEADER + b"\n1,2,zqxcanary\n", marks=row("data-damaged")),
        pytest.param(HEADER + b"\ni,5,1,zqxcanary\xff,,\n", marks=row("data-damaged")),
    ],
)
def test_a_delivery_that_broke_off(project, command, says, content):
    (project.folder / "town.csv").write_bytes(content)
    message = run(project, command)
    says(message)
    assert "zqxcanary" not in message


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OSError(errno.EIO, "zqxcanary"), marks=row("data-damaged")),
        pytest.param(PermissionError(errno.EACCES, "no"), marks=row("data-damaged")),
    ],
)
def test_data_that_cannot_be_read(project, command, monkeypatch, says, error):
    monkeypatch.setattr("dp_core.confidential.csv_files.csv.reader", raising(error))
    message = run(project, command)
    says(message)
    assert "zqxcanary" not in message


@row("data-do-not-fit")
def test_data_that_break_the_schema(project, command, says):
    rows = survey()
    rows[0][1] = "98765"
    (project.folder / "town.csv").write_text(as_csv(rows))
    message = run(project, command)
    says(message)
    assert "98765" not in message
    assert (project.internal / "validation.json").is_file()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("sex", "gender", marks=row("columns-differ")),
        pytest.param("moved", "moved,more", marks=row("columns-differ")),
    ],
)
def test_columns_that_differ(project, command, says, old, new):
    text = (project.folder / "town.csv").read_text().replace(old, new, 1)
    (project.folder / "town.csv").write_text(text)
    says(run(project, command))


TABLE = "{database: RUNBOOK_DB, table: town}"


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(None, marks=row("database-variable")),
        pytest.param("no url", marks=row("database-variable")),
        pytest.param("postgresql://nobody@127.0.0.1:9/x", marks=row("database-silent")),
        pytest.param("sqlite:///{file}", marks=row("table-not-found")),
    ],
)
def test_a_table_that_cannot_be_read(project, command, monkeypatch, says, url):
    project.write_spec(data=TABLE)
    monkeypatch.delenv("RUNBOOK_DB", raising=False)
    if url is not None:
        path = project.folder / "data.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE other (age integer)")
        connection.close()
        monkeypatch.setenv("RUNBOOK_DB", url.format(file=path))
    says(run(project, command))


@row("plan-changed")
def test_a_spec_that_changed(project, command, says):
    stop_before(project, "select")
    project.write_spec(privacy="{epsilon: 0.5, delta: 1e-6}")
    says(run(project, command))


@row("spec-of-another-release")
def test_a_spec_with_another_name(project, command, says):
    stop_before(project, "count")
    project.write_spec(release="village")
    says(refused(command, "resume", "town"))


@row("name-used")
def test_a_name_that_is_used(project, command, says):
    stop_before(project, "select")
    assert command("abandon", "town").code == 0
    says(run(project, command))


@row("finished-already")
def test_a_release_that_is_finished(project, command, says):
    project.release()
    says(run(project, command))


@row("output-not-empty")
def test_an_output_that_is_not_empty(project, command, says):
    project.out.mkdir()
    (project.out / "mine").write_text("")
    says(run(project, command))


@row("output-unusable")
def test_an_output_that_is_a_file(project, command, says):
    project.out.write_text("")
    says(run(project, command))


@row("output-unusable")
def test_an_output_in_no_folder(project, command, says):
    project.out.write_text("")
    says(refused(command, "run", project.spec, "--out", project.out / "below"))


@row("no-such-release")
@pytest.mark.usefixtures("project")
def test_a_release_that_nobody_knows(command, says):
    says(refused(command, "status", "village"))


@row("no-such-release")
@pytest.mark.usefixtures("project")
def test_a_release_that_this_home_does_not_know(command, says):
    says(refused(command, "resume", "village"))


# -- budget and approval


@row("budget-used-up")
def test_a_budget_that_does_not_suffice(project, command, says):
    project.write_spec(privacy="{epsilon: 3, delta: 1e-6}")
    says(run(project, command))


@row("account-closed")
def test_an_account_that_is_closed(project, command, says):
    assert command("ledger", "close", "town", "--by", "me", "--reason", "over").code == 0
    says(run(project, command))


@row("other-relation")
def test_a_schema_of_another_unit(project, command, says):
    project.open_account("city", unit="person")
    project.write_spec(account="city")
    says(run(project, command))


@row("other-relation")
def test_a_spec_under_another_relation(project, command, says):
    project.write_spec(privacy="{epsilon: 1, delta: 1e-6, neighbours: replace-one}")
    says(run(project, command))


@row("no-account")
def test_an_account_that_is_not_there(project, command, says):
    project.write_spec(account="city")
    says(run(project, command))


@row("waits-for-approval")
def test_a_plan_that_waits(project, command, says):
    project.open_account("city", approved_only=True)
    project.write_spec(account="city")
    says(run(project, command))


# -- the ledger


def change(project, statement):
    with owner(f"sqlite:///{project.home / 'ledger.db'}") as connection:
        connection.exec_driver_sql(statement)


@row("ledger-unreachable")
def test_a_database_that_is_not_there(project, command, monkeypatch, says):
    monkeypatch.setenv("DP_RELEASE_LEDGER", "postgresql://nobody:zqxsecret@127.0.0.1:9/ledger")
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 4
    says(answer.err)
    assert "nobody:***@127.0.0.1:9" in answer.err
    assert "zqxsecret" not in answer.err
    assert not (project.home / "prefect").exists()


@row("ledger-not-opened")
def test_a_file_that_is_no_ledger(project, command, says):
    (project.home / "ledger.db").write_text("This is a letter and not a database." * 100)
    says(run(project, command))


@row("no-ledger")
@pytest.mark.usefixtures("home")
def test_no_ledger_yet(command, says):
    says(refused(command, "status"))


@row("no-ledger")
def test_a_home_that_can_hold_no_ledger(home, command, says):
    home.write_text("")
    says(refused(command, "status"))


@row("ledger-url")
@pytest.mark.usefixtures("home")
def test_a_url_that_is_none(command, monkeypatch, says):
    monkeypatch.setenv("DP_RELEASE_LEDGER", "ledger.db")
    says(refused(command, "ledger", "show"))


@row("ledger-url")
def test_a_database_of_another_program(project, command, monkeypatch, says):
    path = project.folder / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('theirs')")
    connection.close()
    monkeypatch.setenv("DP_RELEASE_LEDGER", f"sqlite:///{path}")
    says(refused(command, "ledger", "show"))


@row("newer-ledger")
def test_a_ledger_with_newer_tables(project, command, says):
    change(project, "UPDATE alembic_version SET version_num = '9999'")
    says(refused(command, "status"))


@row("newer-ledger")
def test_a_ledger_with_newer_entries(project, command, says):
    change(project, "UPDATE entries SET body = '{\"version\": 99}' WHERE position = 1")
    says(refused(command, "status"))


def sign(project, command):
    words = ("--by", "me", "--reason", "test")
    assert command("ledger", "keygen", project.folder / "key", *words).code == 0


@row("key-of-the-ledger")
def test_a_ledger_whose_key_is_not_here(project, command, monkeypatch, says):
    sign(project, command)
    monkeypatch.delenv("DP_RELEASE_SIGNING_KEY", raising=False)
    says(run(project, command))


@row("key-of-the-ledger")
def test_a_key_that_cannot_be_read(project, command, monkeypatch, says):
    sign(project, command)
    monkeypatch.setenv("DP_RELEASE_SIGNING_KEY", str(project.folder / "no-key"))
    says(run(project, command))


@row("public-key")
@pytest.mark.usefixtures("project")
def test_a_public_key_that_is_not_there(command, says):
    says(refused(command, "ledger", "verify", "--public-key", "key.pub"))


@row("public-key")
def test_a_file_that_is_no_public_key(project, command, says):
    says(refused(command, "ledger", "verify", "--public-key", project.spec))


@row("input-key-other")
def test_a_key_of_another_home(project, command, says):
    stop_before(project, "select")
    (project.home / "input.key").write_bytes(b"k" * 32)
    project.write_spec(release="village")
    says(run(project, command))


@row("input-key-gone")
def test_a_key_that_is_gone(project, command, says):
    stop_before(project, "select")
    (project.home / "input.key").unlink()
    project.write_spec(release="village")
    says(run(project, command))


@row("ledger-lost")
def test_a_existing_ledger_gone(project, command, says):
    stop_before(project, "count")
    (project.home / "ledger.db").unlink()
    says(refused(command, "status"))


@row("ledger-older")
def test_an_older_ledger(project, command, says):
    copy = project.folder / "backup.db"
    shutil.copy(project.home / "ledger.db", copy)
    stop_before(project, "select")
    shutil.copy(copy, project.home / "ledger.db")
    says(refused(command, "status"))


@row("ledger-copied")
def test_a_copied_home(project, command, says, monkeypatch):
    shutil.copytree(project.home, project.folder / "copy")
    monkeypatch.setenv("DP_RELEASE_HOME", str(project.folder / "copy"))
    failed = refused(command, "status")
    assert "dp-release ledger adopt --by NAME --reason TEXT" in failed
    says(failed)


@row("state-folder")
def test_a_state_folder_that_cannot_be_written(project, command, says, monkeypatch):
    (project.folder / "file").write_text("")
    monkeypatch.setenv("DP_RELEASE_STATE", str(project.folder / "file" / "state"))
    says(refused(command, "ledger", "close", "town", "--by", "Ana", "--reason", "done"))


@row("ledger-replaced")
def test_another_ledger(project, command, says, tmp_path):
    from tasks.ledger.ledger import Ledger

    stop_before(project, "select")
    Ledger(f"sqlite:///{tmp_path / 'other.db'}")
    shutil.copy(tmp_path / "other.db", project.home / "ledger.db")
    says(refused(command, "status"))


@row("head-damaged")
def test_a_note_that_is_damaged(project, command, says):
    stop_before(project, "select")
    (project.home / "ledger.head").write_text("{")
    says(refused(command, "status"))


@row("ledger-changed")
def test_an_entry_that_was_changed(project, command, says):
    change(project, "UPDATE entries SET recorded = '2001-01-01' WHERE position = 2")
    says(refused(command, "ledger", "verify"))


@row("ledger-changed")
def test_an_account_that_was_changed(project, command, says):
    change(project, "UPDATE entries SET body = '{}' WHERE position = 2")
    says(refused(command, "ledger", "show"))


@row("ledger-changed")
def test_a_lease_that_was_changed(project, command, says):
    stop_before(project, "count")
    set_lease(f"sqlite:///{project.home / 'ledger.db'}", holder="{}", expires=1 << 60)
    says(refused(command, "status"))


@row("ledger-damaged")
def test_a_database_that_is_damaged(project, command, says):
    stop_before(project, "select")
    path = project.home / "ledger.db"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    says(refused(command, "ledger", "verify"))


@row("ledger-damaged")
def test_a_database_without_its_tables(project, command, says):
    with sqlite3.connect(project.home / "ledger.db") as connection:
        connection.execute("DROP TABLE leases")
    connection.close()
    says(refused(command, "status"))


@row("ledger-damaged")
def test_a_database_whose_index_is_damaged(project, command, says):
    # The index is told to be of another column than its content.
    with sqlite3.connect(project.home / "ledger.db") as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = 'CREATE INDEX entries_of_kind ON entries (salt)'"
            " WHERE name = 'entries_of_kind'"
        )
    connection.close()
    says(refused(command, "ledger", "verify"))


@row("entry-refused")
def test_an_entry_that_breaks_a_rule(project, says):
    project.ledger().close_account("town", by="me", reason="over")
    closing = {"by": "me", "reason": "once more"}
    with pytest.raises(LedgerCorrupt) as failed, project.ledger()._database.writing() as rows:
        rows.append("raise", body=closing, account="town")
    says(failed.value)
