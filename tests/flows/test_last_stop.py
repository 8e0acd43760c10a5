"""`status` says what stopped a release, so that the step it names does not end in the same way."""

import errno
import shutil

import pytest

from tests.flows.conftest import as_csv, stopping, survey
from tests.flows.monitoring.test_runbook import with_other_rows
from tests.raising import raising

pytestmark = pytest.mark.usefixtures("quick")

MAKE = "flows.release.make_release"


def original_rows(project):
    (project.folder / "town.csv").write_text(as_csv(survey()))


def noisy(project):
    return project.run_folder / "public" / "noisy"


def nothing(_project):
    """Undo nothing but the patches."""


TOLD = {"data-changed": "data-do-not-fit", "committed-result-gone": "data-side"}
"""Rows of Prefect's process for what stays in that of the data."""
CASES = {
    "data-changed": (with_other_rows, original_rows),
    "spec-of-another-release": (
        lambda project, _: project.write_spec(release="village"),
        lambda project: project.write_spec(),
    ),
    "committed-result-gone": (
        lambda project, _: noisy(project).rename(noisy(project).with_name("aside")),
        lambda project: (
            shutil.rmtree(noisy(project), ignore_errors=True),
            noisy(project).with_name("aside").rename(noisy(project)),
        ),
    ),
    "disk-full": (
        lambda _, patch: patch.setattr(
            "tasks.support.run_folder.os.fsync", raising(OSError(errno.ENOSPC, "full"))
        ),
        nothing,
    ),
    "outside-stages": (lambda _, patch: patch.setattr(MAKE, raising(RuntimeError("x"))), nothing),
    "log-not-written": (lambda _, patch: patch.setenv("DP_RELEASE_LOG", "/no/folder"), nothing),
}


def need_of(command, release="town"):
    """Return what `status` says that a person must do for a release; None for nothing."""
    needs = command("status", "--json").json["needs"]
    return next((one["do"] for one in needs if one.get("release") == release), None)


@pytest.mark.parametrize("row", CASES)
def test_the_step_that_status_names_is_not_the_one_that_was_refused(
    project, command, monkeypatch, row
):
    spoil, mend = CASES[row]
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("select"))
    assert need_of(command).startswith("it stopped before")

    with monkeypatch.context() as patch:
        spoil(project, patch)
        refused = command("resume", "town")
    assert f"(runbook: {TOLD.get(row, row)})" in refused.err
    if row in TOLD:
        assert f"(runbook: {row})" in (project.internal / "message.txt").read_text()
    sentence = refused.err.splitlines()[-1].removeprefix("dp-release: ")
    assert need_of(command) == sentence
    shown = command("status", "town", "--json").json
    assert shown["stopped"] == sentence
    assert "resume" not in shown["state"]

    mend(project)
    assert command("resume", "town").code == 0
    assert need_of(command) is None
    assert "stopped" not in command("status", "town", "--json").json


def test_a_refused_release_that_gave_its_reservation_back_needs_a_person(project, command):
    data = project.folder / "town.csv"
    data.write_text(data.read_text().replace(",single,", ",bachelor,", 1))
    assert command("run", project.spec, "--out", project.out).code == 2
    assert "schema check SCHEMA FILE" in need_of(command)
    assert "(runbook: data-do-not-fit)" in " ".join(command("status", "town").out.split())

    assert command("abandon", "town").code == 2  # there is nothing to abandon
    assert need_of(command) is None


def test_an_attempt_that_is_killed_leaves_no_earlier_stop(project, command, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(MAKE, raising(RuntimeError("x")))
        assert command("run", project.spec, "--out", project.out).code == 4
    assert "stopped" in command("status", "town", "--json").json
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("select"))
    assert need_of(command).startswith("it stopped before 'select'")


def test_what_stops_a_second_process_is_no_stop_of_the_first(project, command):
    with pytest.raises(KeyboardInterrupt):
        project.release(perform=stopping("select"))
    with project.ledger().lease("town", "a home"):
        assert "(runbook: at-work)" in command("resume", "town").err
    assert need_of(command).startswith("it stopped before 'select'")


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("flows.release.carry_out", "Nothing was reserved yet: give the same command again."),
        (MAKE, "`dp-release resume town` continues it"),
    ],
    ids=["before", "after"],
)
def test_an_interruption_advises_what_goes_on(project, command, monkeypatch, place, advice):
    monkeypatch.setattr(place, raising(KeyboardInterrupt()))
    answer = command("run", project.spec, "--out", project.out)
    assert answer.code == 130
    assert advice in answer.err
