"""What the process that reads the data says stays inside; only a person at a terminal reads it."""

import pytest

from dp_core.errors import DataRefused
from flows.cli import arguments
from tasks.confidential import file_work, host
from tasks.confidential.messages import ERRORS
from tests.flows.conftest import stopping
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")

CANARY = "salary-of-row-4711"


def saying(kind):
    return raising(kind(f"Column 'income' holds {CANARY}.", internal=f"detail of {CANARY}"))


def reading_and_saying(kind):
    def fail(run):
        _ = run.opened
        saying(kind)()

    return fail


@pytest.fixture
def at_terminal(monkeypatch):
    return lambda: monkeypatch.setattr(arguments, "on_terminal", lambda _stream: True)


def holders(project):
    """Return the names of the files of the home that hold the canary; all are in one folder."""
    found = [
        path
        for path in project.home.rglob("*")
        if path.is_file() and CANARY.encode() in path.read_bytes()
    ]
    assert all(path.parent.name == "internal" for path in found), found
    return {path.name for path in found}


@pytest.mark.parametrize("kind", [*ERRORS.values(), DataRefused], ids=lambda kind: kind.__name__)
def test_the_words_of_an_error_stay_inside(project, command, monkeypatch, at_terminal, kind):
    monkeypatch.setitem(file_work.WORK, "identify", reading_and_saying(kind))
    run = ("run", project.spec, "--out", project.out)
    log = project.folder / "log"
    assert command(*run, "--log-file", log).code == kind.exit_code
    for words in (("status",), ("status", "town"), ("status", "--json")):
        assert CANARY not in command(*words).out, words
    assert "town" in log.read_text()
    assert CANARY not in log.read_text()
    assert holders(project) == {"message.txt", "failure.txt"}

    at_terminal()
    said = f"Column 'income' holds {CANARY}."
    assert said in command(*run).err
    assert said in " ".join(command("status", "town").out.split())
    assert said in " ".join(command("status").out.split())
    for words in ((*run, "--json"), ("status", "--json"), ("status", "town", "--json")):
        answer = command(*words)
        assert CANARY not in answer.out + answer.err, words
    assert holders(project) == {"message.txt", "failure.txt"}


def test_at_a_terminal_the_last_line_is_the_sentence_and_its_row(project, command, at_terminal):
    (project.folder / "town.csv").write_bytes(b"")
    run = ("run", project.spec, "--out", project.out)
    kept = command(*run)
    assert kept.err.splitlines()[-1].startswith("dp-release: The confidential data of release ")
    at_terminal()
    shown = command(*run)
    assert shown.err.splitlines()[-1].startswith("dp-release: ")
    assert "is empty" in shown.err.splitlines()[-1]
    assert (kept.code, shown.code) == (2, 2)
    assert kept.err.endswith("(runbook: data-unreadable)\n")
    assert shown.err.endswith("(runbook: data-empty)\n")
    assert "1 of 3 attempts" not in kept.err
    assert "2 of 3 attempts" in shown.err


def test_a_cluster_that_fails_before_a_release_is_begun_says_why_inside(
    project, command, monkeypatch, at_terminal
):
    monkeypatch.setattr(host, "dask_client", saying(ERRORS["StageFailed"]))
    run = ("run", project.spec, "--out", project.out, "--dask", "tcp://127.0.0.1:9")
    answer = command(*run)
    assert answer.code == 4
    assert "give the same command again" in answer.err
    assert str(project.run_folder / "reservations/none/internal/message.txt") in answer.err
    assert CANARY not in answer.err
    assert holders(project) == {"message.txt", "failure.txt"}
    assert project.untouched()
    at_terminal()
    assert CANARY in command(*run).err


def test_an_error_of_prefects_process_is_not_told_in_words_of_an_earlier_one(
    project, command, monkeypatch, at_terminal
):
    with monkeypatch.context() as patch:
        patch.setitem(file_work.WORK, "identify", saying(ERRORS["StageFailed"]))
        assert command("run", project.spec, "--out", project.out).code == 4
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("reconstruct"))
    (project.run_folder / "public/noisy").rename(project.run_folder / "public/aside")
    at_terminal()
    for words in (("resume", "town"), ("status", "town")):
        answer = command(*words)
        assert CANARY not in answer.out + answer.err
        assert "committed-result-gone" in " ".join((answer.out + answer.err).split())
