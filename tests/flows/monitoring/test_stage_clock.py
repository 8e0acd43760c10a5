"""Who runs a release sees how far it is: in lines, in the log, and in `status`."""

import contextlib
import json
import os
from types import SimpleNamespace

import pytest

from dp_core.errors import StageFailed
from dp_core.plan.forecast.stage_pace import Moment
from flows.cli.terminal.progress import StageProgress
from flows.monitoring import log, stage_clock
from flows.monitoring.stage_clock import follow_stages, ticking
from tasks.run import home_notes
from tasks.run.home import home_id
from tasks.run.home_notes import (
    PROGRESS,
    calibrate,
    machine_of,
    read_progress,
    remove_progress,
    write_progress,
)
from tasks.support.run_folder import RunFolder
from tests.dp_core.plan.test_stage_pace import Clock
from tests.flows.conftest import plainly


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path, "town", "a" * 64)
    folder.begin(spec=tmp_path / "spec.yaml", out=tmp_path / "out")
    return folder


# -- lines without a terminal


def test_without_a_terminal_a_long_stage_gets_a_line_every_ten_seconds(capsys):
    clock = Clock()
    shown = StageProgress(quiet=False, expected={"reconstruct": 40.0}, now=clock)
    shown.update("reconstruct", 0.0)
    for _ in range(30):
        clock.seconds += 1
        shown.tick()
    shown.update("reconstruct", 0.75)
    clock.seconds += 6
    shown.tick()
    clock.seconds += 4
    shown.update("reconstruct", 1.0)
    shown.tick()
    assert capsys.readouterr().err.splitlines() == [
        "  Reconstruct a model: 12 %, about 35 s left",
        "  Reconstruct a model: 37 %, about 25 s left",
        "  Reconstruct a model: 62 %, about 15 s left",
        "  Reconstruct a model: 90 %, about 4 s left",
        "  Reconstruct a model: 40.0 s",
    ]


def test_ticks_go_on_after_an_error_and_end_with_the_block():
    ticks = []

    def tick():
        ticks.append(len(ticks))
        raise OSError("a closed terminal")

    with ticking(tick, seconds=0.001):
        while len(ticks) < 3:
            pass
    ended = len(ticks)
    assert ticks == [*range(ended)]


# -- the note in the run's folder


def test_a_note_is_read_back_as_it_was_written(folder):
    for left in (4.5, None):
        moment = Moment("count", 0.25, 1.5, left)
        write_progress(folder, moment, 7)
        assert read_progress(folder, 7) == moment
    assert (folder.public.parent / PROGRESS).stat().st_mode & 0o777 == 0o600
    assert read_progress(folder, 8) is None
    remove_progress(folder)
    remove_progress(folder)
    assert read_progress(folder, 7) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"version": 2}', '{"version": 1, "process": 7}']
)
def test_a_note_that_cannot_be_read_is_none(folder, text):
    (folder.public.parent / PROGRESS).write_text(text)
    assert read_progress(folder, 7) is None


def run_of(folder, told):
    return SimpleNamespace(
        folder=folder,
        planned=None,
        home=folder.path.parent.parent,
        spec=SimpleNamespace(release="town"),
        progress=lambda *what: told.append(what),
    )


def test_a_followed_run_leaves_a_note_and_log_lines_while_it_works(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(stage_clock, "TICK_S", 0.001)
    monkeypatch.setattr(stage_clock, "SHORT_S", 0.0)
    monkeypatch.setenv(log.FILE, str(tmp_path / "release.log"))
    monkeypatch.setenv(log.FORMAT, "json")
    told = []
    run = run_of(folder, told)
    before = run.progress
    with contextlib.suppress(StageFailed), follow_stages(run):
        run.progress("count", 0.5)
        while read_progress(folder, os.getpid()) is None or not (tmp_path / "release.log").exists():
            pass
        assert read_progress(folder, os.getpid()).stage == "count"
        raise StageFailed("A worker of the cluster failed.")
    assert told == [("count", 0.5)]
    assert run.progress is before
    assert read_progress(folder, os.getpid()) is None
    line = json.loads((tmp_path / "release.log").read_text().splitlines()[0])
    assert (line["event"], line["stage"], line["percent"]) == ("stage-progress", "count", 50)
    assert line["seconds"] >= 0


def test_status_shows_how_far_the_running_stage_is(project, command):
    from tests.flows.cli.test_ledger_commands import plan_of

    with project.ledger().lease("town", home_id(project.home)) as writer:
        reservation = writer.reserve(plan_of(project))
        folder = RunFolder(project.home, "town", reservation.link)
        folder.begin(spec=project.spec, out=project.out)
        assert "running" not in command("status", "town", "--json").json
        write_progress(folder, Moment("reconstruct", 0.4, 30.2, 45.0), os.getpid())
        assert command("status", "town", "--json").json["running"] == {
            "stage": "reconstruct",
            "percent": 40,
            "seconds": 30,
            "seconds_left": 45,
            "in_words": "40 %, about 45 s left",
        }
        assert "Stage    reconstruct: 40 %, about 45 s left" in command("status", "town").out
        assert "at work" in command("status").out
        # A note that another process left is not of this run.
        write_progress(folder, Moment("reconstruct", 0.4, 30.2, 45.0), os.getpid() + 1)
        assert "running" not in command("status", "town", "--json").json
        write_progress(folder, Moment("reconstruct", 0.4, 30.2, 45.0), os.getpid())
    # Nobody works on it.
    assert "running" not in command("status", "town", "--json").json


@pytest.mark.usefixtures("quick")
def test_a_finished_release_leaves_no_duration_behind(project):
    run = project.release(perform=plainly)
    assert not (run.folder.public.parent / PROGRESS).exists()
    assert not list(project.home.rglob("progress.json*"))


# -- the speed of this machine


def test_a_calibration_is_kept_and_the_fastest_measurement_counts(tmp_path, monkeypatch):
    from dp_core.plan.forecast.stage_pace import Machine

    measured = iter([Machine(2.0, 1.0, 2), Machine(1.0, 3.0, 2)])
    monkeypatch.setattr(home_notes, "measure_machine", lambda *_, **__: next(measured))
    monkeypatch.setattr(home_notes, "threads", lambda: 2)
    assert calibrate(tmp_path) == Machine(2.0, 1.0, 2)
    assert calibrate(tmp_path) == machine_of(tmp_path) == Machine(1.0, 1.0, 2)
    monkeypatch.setattr(home_notes, "threads", lambda: 3)
    assert machine_of(tmp_path).processors == 3
