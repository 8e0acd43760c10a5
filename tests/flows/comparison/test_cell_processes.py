"""Runs of a comparison as processes: limits, crashes, kills, and what is left of them."""

import subprocess

import psutil

from dp_core.lab.comparison.cells import BOOTSTRAP, Cell, CellStore, Declaration
from flows.comparison.cell_processes import Job, run_cells

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
