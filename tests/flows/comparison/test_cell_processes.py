"""Runs of a comparison as processes: limits, crashes, kills, and what is left of them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dp_core.lab.comparison.cells import BOOTSTRAP, Cell, CellStore, Declaration
from flows.comparison.cell_processes import Job, run_cells
from tests.flows.comparison.test_compare import SCHEMA, SURE, write_data, write_spec
from tests.full import at_full_size

ROOT = Path(__file__).parents[3]
DECLARATION = Declaration("A. Person", "2026-11-21", "a public-use file")
PATIENCE = 120


def cell(number=1):
    return Cell(
        file="town",
        label=BOOTSTRAP,
        method=BOOTSTRAP,
        epsilon=None,
        delta=None,
        neighbours=None,
        run=number,
        reference=True,
        definition={"run": number, "seed": number},
        spec=None,
        refusal=None,
    )


def carried_out(tmp_path, task, *, limit=PATIENCE, number=1):
    store, heard = CellStore(tmp_path / "cells"), []
    run_cells(
        [Job(cell(one + 1), task) for one in range(number)],
        store,
        DECLARATION,
        at_once=2,
        limit=limit,
        told=lambda one, result, _seconds: heard.append((one.run, result)),
    )
    return store, heard


def children():
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "flows.comparison.cell_worker" in " ".join(process.cmdline())
    ]


def test_what_takes_too_long_is_stopped_and_said_so(tmp_path):
    store, heard = carried_out(tmp_path, {}, limit=0.01, number=3)
    assert sorted(run for run, _ in heard) == [1, 2, 3]
    for _, result in heard:
        assert (result.outcome, result.limit) == ("not finished", 0.01)
        assert result.sentence == "It was stopped after 0.01 s."
    assert store.read(cell(2)).outcome == "not finished"
    assert not children()
    assert {path.suffix for path in store.folder.iterdir()} == {".json"}


def test_a_crash_is_a_result_with_its_detail_beside_it(tmp_path):
    store, heard = carried_out(tmp_path, {"hold_out": 0.0})
    (_, result), *_ = heard
    assert result.outcome == "failed"
    assert "KeyError" in result.sentence
    detail = store.path(cell()).with_suffix(".error.txt")
    assert str(detail) in result.sentence
    assert "Traceback" in detail.read_text()


def test_a_process_that_is_killed_from_outside_is_a_result(tmp_path, monkeypatch):
    real = subprocess.Popen

    def kills_itself(words, **options):
        code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
        return real([words[0], "-c", code], **options)

    monkeypatch.setattr(subprocess, "Popen", kills_itself)
    _, heard = carried_out(tmp_path, {})
    assert heard[0][1].outcome == "failed"
    assert "ran out of memory" in heard[0][1].sentence


@pytest.fixture
def place(tmp_path):
    write_data(tmp_path)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    write_spec(tmp_path)
    return tmp_path


RUNS = 3 if at_full_size() else 1
ALL = 2 * RUNS
"""With those of the bootstrap; one is under way at a time, so each stop leaves one or more."""
# As a person runs it; Great Expectations takes seconds to import, and others may edit the sources.
# Once a result is stored, it waits for the signal, if there is a file "wait" to be taken away.
SCRIPT = """
import contextlib, time
from pathlib import Path
from dp_core.lab.comparison.cells import CellStore
write = CellStore.write
def and_wait(*words):
    write(*words)
    with contextlib.suppress(FileNotFoundError):
        Path("wait").unlink()
        time.sleep(600)
CellStore.write = and_wait
from tests.plain_judge import install
install()
from flows.comparison import comparison_layout
comparison_layout.program = lambda: "1.0"
from flows.cli.main import main
main()
"""


def begun(place):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "compare", "public.yaml", *SURE, "--runs", str(RUNS)],
        cwd=place,
        env={
            **os.environ,
            "DP_RELEASE_HOME": str(place / "home"),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        },
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finished(place):
    return {path.name: path.stat().st_mtime_ns for path in place.glob("comparison-*/cells/*.json")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "signs",
    [[signal.SIGINT], pytest.param([signal.SIGKILL, signal.SIGINT], marks=pytest.mark.full)],
)
def test_a_comparison_goes_on_after_it_was_killed_and_after_it_was_interrupted(place, signs):
    before = {}
    for sign in signs:
        wait = place / "wait"
        wait.touch()
        process = begun(place)
        until = time.monotonic() + PATIENCE
        while wait.exists() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(sign)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == (130 if sign == signal.SIGINT else -signal.SIGKILL), said
        after = finished(place)
        assert len(before) < len(after) < ALL
        assert {name: after[name] for name in before} == before
        before = after
    assert "repeat the command" in said
    assert (place / "comparison-public" / "table.md").is_file()

    again = begun(place)
    _, said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said
    assert f"{len(before)} of {ALL} runs were finished before" in said
    after = finished(place)
    assert len(after) == ALL
    assert {name: after[name] for name in before} == before
    table = (place / "comparison-public" / "table.md").read_text()
    assert f"| *bootstrap* |  | {RUNS}/{RUNS} |" in table
    assert f"| independent | 1 | {RUNS}/{RUNS} |" in table
