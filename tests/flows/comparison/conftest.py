"""Comparisons in the tests' own process, without pictures."""

from __future__ import annotations

import json

import pytest

from flows.comparison import cell_worker, comparison


@pytest.fixture(autouse=True)
def one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name one program whatever the sources are: others may edit them while a test runs."""
    monkeypatch.setattr("dp_core.lab.comparison.cells.program", lambda: "1.0")
    monkeypatch.setattr("flows.comparison.comparison_layout.program", lambda: "1.0")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Do cells in this process, and return those that were run."""
    done = []

    def in_process(jobs, store, declaration, *, told, **_):
        for job in jobs:
            # A process gets its job as JSON.
            result = cell_worker.perform(json.loads(json.dumps(job.task)))
            done.append(job.cell)
            store.write(job.cell, declaration, result)
            told(job.cell, result, 0.1)

    monkeypatch.setattr(comparison, "run_cells", in_process)
    return done


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no pictures: they take longer than all the rest."""
    monkeypatch.setattr("dp_core.lab.comparison.plots.draw_plots", lambda *_: ())
