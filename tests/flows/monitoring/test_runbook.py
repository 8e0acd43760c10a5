"""Every failure of docs/runbook.md is provoked here or elsewhere, and names its row."""

import ast
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dp_core.errors import LedgerCorrupt, StageFailed
from flows.cli.actions.signing_keys import make_signing_key
from tests.flows.conftest import COLUMNS, as_csv, plainly, stopping, survey
from tests.flows.corpus import hold, lent
from tests.ledgers import execute, owner, set_lease
from tests.raising import raising

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
    told = {"interrupted", "tried-too-often"}  # told by a command and by a flow that go on
    return told | named_in("dp_core", "tasks", "flows")


def named_in(*packages):
    """Return the rows that the code of some packages names."""
    texts = [
        path.read_text(encoding="utf-8")
        for package in packages
        for path in (ROOT / package).rglob("*.py")
    ]
    return {name for text in texts for name in re.findall(r'\brow ?= ?"([a-z-]+)"', text)}


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
                and ast.unparse(call.func) in ("row", "refusal", "pytest.mark.runbook")
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


# -- helpers


def refused(command, *words):
    """Return the sentence of a command that fails."""
    answer = command(*words)
    assert answer.code not in (0, 1), answer.out
    assert "Traceback" not in answer.err
    assert "zqxcanary" not in answer.err
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


WHO = ("--by", "Ana", "--reason", "test")
BY = {"by": "Ana", "reason": "test"}
RUN = ("run", "{spec}", "--out", "{out}")
RESUME = ("resume", "town")
FSYNC = "tasks.support.run_folder.os.fsync"
MAKE = "flows.release.make_release"


def refusal(name, prepare, *words, after=None):
    """Return a case: a command is refused with a row once something was prepared.

    Args:
        name: The row.
        prepare: Called with the project and pytest's `monkeypatch`.
        words: The command; by default the release is run.
        after: Stage before which the release stopped, before the preparation.
    """
    return pytest.param(prepare, words or RUN, after, marks=row(name))


def unchanged(_project, _patch):
    """Prepare nothing."""


def patching(target, value):
    return lambda _project, patch: patch.setattr(target, value)


def with_spec(*lines, **values):
    return lambda project, _patch: project.write_spec(*lines, **values)


def with_account(**terms):
    def prepare(project, _patch):
        project.open_account("city", **terms)
        project.write_spec(account="city")

    return prepare


def database(project):
    return f"sqlite:///{project.home / 'ledger.db'}"


def change(project, statement):
    with owner(database(project)) as connection:
        connection.exec_driver_sql(statement)


def changing(statement):
    return lambda project, _patch: change(project, statement)


def check_refusal(project, command, monkeypatch, says, prepare, words, after):
    if after is not None:
        stop_before(project, after)
    prepare(project, monkeypatch)
    places = {"spec": project.spec, "out": project.out, "folder": project.folder}
    says(refused(command, *(word.format(**places) for word in words)))


# -- what a release meets


def without_links(project, _patch):
    current = project.run_folder / "current"
    current.unlink()
    current.mkdir()


def lying(_project, patch):
    """Let the statement of the bundle say less than was spent, once it is verified."""
    from dp_core.bundle.verification.verify import verify

    def lied_to(folder, *words, **options):
        statement = folder / "release.json"
        facts = json.loads(statement.read_text())
        facts["guarantee"]["epsilon"] = 0.5
        statement.write_text(json.dumps(facts))
        return verify(folder, *words, **options)

    patch.setattr("dp_core.bundle.verification.verify.verify", lied_to)


@row("interrupted")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption(project, command, monkeypatch, says, how):
    def interrupt(*_, **__):
        assert signal.getsignal(how) is signal.default_int_handler
        signal.raise_signal(how)

    monkeypatch.setattr(MAKE, interrupt)
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 130
    says(answer.err)


@row("stage-failed")
def test_a_stage_that_fails(project, command, monkeypatch, says):
    monkeypatch.setattr(
        "dp_core.confidential.code_store.write_atomically", raising(ValueError("zqxcanary"))
    )
    message = run(project, command)
    says(message)
    assert f"is in {project.internal / 'message.txt'}." in message
    monkeypatch.setattr("flows.cli.arguments.on_terminal", lambda _stream: True)
    message = run(project, command)
    says(message)
    assert "failed (ValueError)" in message
    assert f"is in {project.internal / 'failure.txt'}." in message
    monkeypatch.setattr("tasks.support.run_folder.keep_text", lambda _path, _text: False)
    message = run(project, command)
    assert message.endswith("(runbook: data-unreadable)")
    assert "could not be saved" in message
    assert ".txt" not in message


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


@pytest.mark.parametrize(
    ("stage", "do"),
    [
        pytest.param(
            "synthesize",
            lambda at: at.folder.forget("reconstruct"),
            marks=row("result-of-stage-gone"),
        ),
        pytest.param(
            "publish",
            lambda at: shutil.rmtree(at.folder.public / "synthetic"),
            marks=row("set-gone"),
        ),
        pytest.param(
            "count",
            lambda at: [
                path.write_bytes(b"{")
                for path in (at.folder.confidential / "codes").rglob("*.json")
            ],
            marks=row("codes-damaged"),
        ),
        pytest.param(
            "basics",
            lambda at: at.writer.settle(at.reservation, "abandoned"),
            marks=row("reservation-gone"),
        ),
    ],
)
def test_what_happens_between_two_stages(project, says, stage, do):
    def perform(task, at, *given):
        if task.name == stage:
            do(at)
        return plainly(task, at, *given)

    with pytest.raises(StageFailed) as failed:
        project.release(perform=perform)
    says(failed.value)


@row("at-work")
def test_a_release_that_another_process_works_on(project, command, says):
    with project.ledger().lease("town", "a home"):
        says(run(project, command))


# -- a person decides


held = lent("publish: after-approval\n", hold, measure="{noise: gaussian}")
PUBLISH = ("release", "publish", "town", *WHO)
OTHER_SEED = "publish: after-approval\nsynthesize: {seed: 8}\n"


@row("held")
@pytest.mark.usefixtures("held")
def test_a_release_that_is_held(command, says):
    answer = command("resume", "town")
    assert answer.code == 6
    says(answer.err.splitlines()[-1])
    # What needs a person is told at a glance, and to a watch.
    assert "somebody decides: dp-release release look town" in command("status").out
    assert 'state="held"} 1.0' in command("server", "metrics").out


@pytest.mark.parametrize(
    ("prepare", "words", "after"),
    [
        refusal(
            "held-changed",
            lambda at, _: shutil.rmtree(at.run_folder / "public/synthetic"),
            *PUBLISH,
        ),
        refusal("held-changed", with_spec(OTHER_SEED), *PUBLISH),
        refusal("held-changed", with_spec(OTHER_SEED)),
        refusal(
            "held-elsewhere",
            lambda at, _: shutil.rmtree(at.internal.resolve()),
            *("release", "look", "town", *WHO),
        ),
    ],
)
def test_a_held_release_that_is_not_as_it_was(
    held, command, monkeypatch, says, prepare, words, after
):
    check_refusal(held, command, monkeypatch, says, prepare, words, after)


@row("not-held")
@pytest.mark.usefixtures("held")
def test_a_second_decision(command, says):
    assert command("release", "withdraw", "town", *WHO).code == 0
    says(refused(command, "release", "publish", "town", *WHO))
    assert "No release needs a person." in command("status").out


# -- noisy results


def results(project):
    return sorted((project.run_folder / "public" / "noisy").glob("*.noise"))


def with_changed_byte(project, _patch):
    """Change what nothing is computed from any more; it is the proof of what was published."""
    path = results(project)[0]
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(bytes(content))


def with_other_rows(project, _patch):
    (project.folder / "town.csv").write_text(as_csv(survey()[:-1]))
    (project.run_folder / "public/stages/count.json").unlink()


def of_another_account(project, _patch):
    project.open_account("city")
    project.write_spec(release="city", account="city")


def with_another_key(project, _patch):
    (project.home / "input.key").write_bytes(b"k" * 32)
    project.write_spec(release="village")


def without_key(project, _patch):
    (project.home / "input.key").unlink()
    project.write_spec(release="village")


def with_another_ledger(project, _patch):
    from tasks.ledger.ledger import Ledger

    Ledger(f"sqlite:///{project.folder / 'other.db'}")
    shutil.copy(project.folder / "other.db", project.home / "ledger.db")


def with_zeros(project, _patch):
    path = project.home / "ledger.db"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))


@pytest.mark.parametrize(
    ("prepare", "words", "after"),
    [
        refusal("disk-full", patching(FSYNC, raising(OSError(errno.ENOSPC, "full")))),
        refusal("not-written", patching(FSYNC, raising(OSError(errno.EROFS, "read-only")))),
        refusal("outside-stages", patching(MAKE, raising(RuntimeError("zqxcanary")))),
        refusal(
            "server-unreachable",
            lambda _at, patch: patch.setenv(
                "PREFECT_API_URL", "http://a:zqxcanary@127.0.0.1:9/api"
            ),
        ),
        refusal("links-gone", without_links, after="count"),
        refusal("bundle-not-handed-over", lying),
        refusal("log-not-written", unchanged, *RUN, "--log-file", "{spec}/log"),
        refusal(
            "committed-result-gone",
            lambda at, _: [path.unlink() for path in results(at)],
            after="select",
        ),
        refusal("committed-result-gone", with_changed_byte, after="publish"),
        refusal("not-held", unchanged, *PUBLISH, after="select"),
        refusal("other-home", lambda at, _: (at.home / "home.id").unlink(), after="select"),
        refusal("data-changed", with_other_rows, after="select"),
        refusal("data-of-another-account", of_another_account, after="select"),
        refusal("plan-changed", with_spec(privacy="{epsilon: 0.5, delta: 1e-6}"), after="select"),
        refusal("spec-of-another-release", with_spec(release="village"), *RESUME, after="count"),
        refusal("input-key-other", with_another_key, after="select"),
        refusal("input-key-gone", without_key, after="select"),
        refusal(
            "ledger-lost", lambda at, _: (at.home / "ledger.db").unlink(), "status", after="count"
        ),
        refusal("ledger-replaced", with_another_ledger, "status", after="select"),
        refusal(
            "head-damaged",
            lambda at, _: (at.home / "ledger.head").write_text("{"),
            "status",
            after="select",
        ),
        refusal(
            "ledger-changed",
            lambda at, _: set_lease(database(at), holder="{}", expires=1 << 60),
            "status",
            after="count",
        ),
        refusal("ledger-damaged", with_zeros, "ledger", "verify", after="select"),
    ],
)
def test_a_release_that_is_refused_leaves_no_bundle(
    project, command, monkeypatch, says, prepare, words, after
):
    check_refusal(project, command, monkeypatch, says, prepare, words, after)
    assert not project.out.exists()


@row("result-damaged")
def test_a_result_that_is_not_whole(project, command, monkeypatch, says):
    from tasks.ledger.charging.charging_writer import ChargingWriter

    with monkeypatch.context() as patch:
        patch.setattr(ChargingWriter, "commit", raising(Stop()))
        run(project, command)
    for path in results(project):
        path.write_bytes(path.read_bytes()[:-1])
    says(run(project, command))


@row("result-not-as-stored")
def test_a_result_that_is_not_what_was_stored(project, command, monkeypatch, says):
    from tasks.ledger.charging import ledger_session

    store = ledger_session._draw_and_store

    def meddled(path, *words):
        store(path, *words)
        path.write_bytes(b"another")

    monkeypatch.setattr(ledger_session, "_draw_and_store", meddled)
    says(run(project, command))


@row("drawn-too-often")
def test_a_result_that_never_reaches_the_disk(project, command, monkeypatch, says):
    from tasks.ledger.charging.charging_writer import MOST_DRAWS

    full = raising(OSError(errno.ENOSPC, "full"))
    with monkeypatch.context() as patch:
        patch.setattr("tasks.ledger.charging.ledger_session.os.posix_fallocate", full)
        for _ in range(MOST_DRAWS):
            run(project, command)
    says(run(project, command))


@row("result-without-charge")
def test_a_ledger_older_than_the_run_s_folder(project, command, says):
    copy = project.folder / "backup.db"
    shutil.copy(project.home / "ledger.db", copy)
    stop_before(project, "select")
    shutil.copy(copy, project.home / "ledger.db")
    (project.home / "ledger.head").unlink()
    shutil.rmtree(os.environ["DP_RELEASE_STATE"])
    says(run(project, command))


# -- data, spec and output


@row("data-being-written")
def test_data_that_are_being_written(project, command, monkeypatch, says):
    from dp_core.confidential.source import Source

    batches = Source._csv_batches

    def written(self, notes):
        yield from batches(self, notes)
        os.utime(project.folder / "town.csv", (1, 1))

    monkeypatch.setattr(Source, "_csv_batches", written)
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
        execute(f"sqlite:///{path}", "CREATE TABLE other (age integer)")
        monkeypatch.setenv("RUNBOOK_DB", url.format(file=path))
    says(run(project, command))


@row("name-used")
def test_a_name_that_is_used(project, command, says):
    stop_before(project, "select")
    assert command("abandon", "town").code == 0
    says(run(project, command))


def with_column(old, new):
    def prepare(project, _patch):
        text = (project.folder / "town.csv").read_text().replace(old, new, 1)
        (project.folder / "town.csv").write_text(text)

    return prepare


def with_full_folder(project, _patch):
    project.out.mkdir()
    (project.out / "mine").write_text("")


def without_tables(project, _patch):
    execute(database(project), "DROP TABLE leases")


def with_damaged_index(project, _patch):
    # The index is told to be of another column than its content.
    execute(
        database(project),
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'CREATE INDEX entries_of_kind ON entries (salt)'"
        " WHERE name = 'entries_of_kind'",
    )


def of_another_program(project, patch):
    url = f"sqlite:///{project.folder / 'other.db'}"
    execute(
        url,
        "CREATE TABLE alembic_version (version_num TEXT)",
        "INSERT INTO alembic_version VALUES ('theirs')",
    )
    patch.setenv("DP_RELEASE_LEDGER", url)


def without_folder_for_its_state(project, patch):
    (project.folder / "file").write_text("")
    patch.setenv("DP_RELEASE_STATE", str(project.folder / "file" / "state"))


def with_key_that_is_not_here(project, patch):
    key = project.folder / "key"
    make_signing_key(project.ledger(), project.home, key, replaces=None, **BY)
    patch.setenv("DP_RELEASE_SIGNING_KEY", str(project.folder / "no-key"))


def as_copy(project, patch):
    shutil.copytree(project.home, project.folder / "copy")
    patch.setenv("DP_RELEASE_HOME", str(project.folder / "copy"))


CLOSE = ("ledger", "close", "town", *WHO)
VERIFY = ("ledger", "verify")


@pytest.mark.parametrize(
    ("prepare", "words", "after"),
    [
        refusal("columns-differ", with_column("sex", "gender")),
        refusal("columns-differ", with_column("moved", "moved,more")),
        refusal("output-not-empty", with_full_folder),
        refusal("output-unusable", lambda at, _: at.out.write_text("")),
        refusal("output-unusable", lambda at, _: at.out.write_text(""), *RUN[:3], "{out}/below"),
        refusal("no-such-release", unchanged, "status", "village"),
        refusal("no-such-release", unchanged, "resume", "village"),
        refusal("budget-used-up", with_spec(privacy="{epsilon: 3, delta: 1e-6}")),
        refusal("other-relation", with_account(unit="person")),
        refusal(
            "other-relation",
            with_spec(privacy="{epsilon: 1, delta: 1e-6, neighbours: replace-one}"),
        ),
        refusal("no-account", with_spec(account="city")),
        refusal("waits-for-approval", with_account(approved_only=True)),
        refusal(
            "newer-ledger", changing("UPDATE alembic_version SET version_num = '9999'"), "status"
        ),
        refusal(
            "newer-ledger",
            changing("UPDATE entries SET body = '{\"version\": 99}' WHERE position = 1"),
            "status",
        ),
        refusal(
            "ledger-changed",
            changing("UPDATE entries SET recorded = '2001-01-01' WHERE position = 2"),
            *VERIFY,
        ),
        refusal(
            "ledger-changed",
            changing("UPDATE entries SET body = '{}' WHERE position = 2"),
            *("ledger", "show"),
        ),
        refusal("ledger-damaged", without_tables, "status"),
        refusal("ledger-damaged", with_damaged_index, *VERIFY),
        refusal("ledger-url", of_another_program, "ledger", "show"),
        refusal("public-key", unchanged, *VERIFY, "--public-key", "key.pub"),
        refusal("public-key", unchanged, *VERIFY, "--public-key", "{spec}"),
        refusal("state-folder", without_folder_for_its_state, *CLOSE),
        refusal("finished-already", lambda at, _: at.release()),
        refusal("account-closed", lambda at, _: at.ledger().close_account("town", **BY)),
        refusal("ledger-not-opened", lambda at, _: (at.home / "ledger.db").write_text("x" * 4000)),
        refusal("no-ledger", lambda _at, patch: patch.setenv("DP_RELEASE_HOME", "no"), "status"),
        refusal(
            "ledger-url",
            lambda _at, patch: patch.setenv("DP_RELEASE_LEDGER", "ledger.db"),
            *("ledger", "show"),
        ),
        refusal("key-of-the-ledger", with_key_that_is_not_here),
        refusal("ledger-copied", as_copy, "status"),
    ],
)
def test_what_is_wrong_before_a_release_begins(
    project, command, monkeypatch, says, prepare, words, after
):
    check_refusal(project, command, monkeypatch, says, prepare, words, after)


# -- the ledger


@row("ledger-unreachable")
def test_a_database_that_is_not_there(project, command, monkeypatch, says):
    monkeypatch.setenv("DP_RELEASE_LEDGER", "postgresql://nobody:zqxsecret@127.0.0.1:9/ledger")
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 4
    says(answer.err)
    assert "nobody:***@127.0.0.1:9" in answer.err
    assert "zqxsecret" not in answer.err
    assert not (project.home / "prefect").exists()


@row("no-ledger")
def test_a_home_that_can_hold_no_ledger(home, command, says):
    home.write_text("")
    says(refused(command, "status"))


@row("ledger-older")
def test_an_older_ledger(project, command, says):
    copy = project.folder / "backup.db"
    shutil.copy(project.home / "ledger.db", copy)
    stop_before(project, "select")
    shutil.copy(copy, project.home / "ledger.db")
    says(refused(command, "status"))


@row("entry-refused")
def test_an_entry_that_breaks_a_rule(project, says):
    project.ledger().close_account("town", by="me", reason="over")
    closing = {"by": "me", "reason": "once more"}
    with pytest.raises(LedgerCorrupt) as failed, project.ledger()._database.writing() as rows:
        rows.append("raise", body=closing, account="town")
    says(failed.value)
