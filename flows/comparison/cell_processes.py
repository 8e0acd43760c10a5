"""Runs the cells of a comparison, each in a process of its own, a few at a time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from dp_core.lab.comparison.cells import Cell, CellStore, Declaration, Result, document
from tasks.support.process_environment import environment

_LOOK = 0.02
"""Seconds between polls of the running processes."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Told = Callable[[Cell, Result, float], None]
"""Called with each finished cell, its result and its duration in seconds."""


@dataclass(frozen=True, slots=True)
class Job:
    """A cell with the input of its process.

    Attributes:
        cell: Cell to run.
        task: Input of the worker without file names; see `flows.comparison.cell_worker`.
    """

    cell: Cell
    task: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    begun: float


def run_cells(
    jobs: Sequence[Job],
    store: CellStore,
    declaration: Declaration,
    *,
    at_once: int,
    limit: float,
    told: Told,
) -> None:
    """Run every job and store its result, however it ended.

    Args:
        jobs: Jobs in the order in which they start.
        store: Store of the results.
        declaration: Declaration that the data are public.
        at_once: Number of simultaneous processes.
        limit: Wall-clock seconds after which a cell is stopped.
        told: Called after each job.
    """
    waiting = list(reversed(jobs))
    with _killed_at_the_end() as running:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(_begin(waiting.pop(), store, declaration))
            for one in list(running):
                result = _result_if_ended(one, store, limit)
                if result is None:
                    continue
                running.remove(one)
                store.write(one.job.cell, declaration, result)
                told(one.job.cell, result, time.monotonic() - one.begun)
            time.sleep(_LOOK)


@contextlib.contextmanager
def _killed_at_the_end() -> Iterator[list[_Running]]:
    running: list[_Running] = []
    try:
        yield running
    finally:
        for one in running:
            _kill(one)


def _begin(job: Job, store: CellStore, declaration: Declaration) -> _Running:
    path = store.path(job.cell)
    path.unlink(missing_ok=True)
    task = {
        **job.task,
        "result": str(path),
        "trace": str(path.with_suffix(".error.txt")),
        "head": document(job.cell, declaration),
    }
    errors = path.with_suffix(".stderr").open("w+b")
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.comparison.cell_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        # One thread each: waiting threads would be counted as processor time, and several
        # processes may run at once.
        env=environment() | dict.fromkeys(_THREADS, "1"),
        # Ctrl-C reaches this process only, which then ends its workers.
        start_new_session=True,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.flush()
    return _Running(job, process, errors, time.monotonic())


def _result_if_ended(one: _Running, store: CellStore, limit: float) -> Result | None:
    """Return the result of a cell; None if it is still running."""
    code = one.process.poll()
    if code is None:
        if time.monotonic() - one.begun < limit:
            return None
        _kill(one)
        return Result("not finished", {}, f"It was stopped after {limit:g} s.", limit)
    found = store.read(one.job.cell)
    detail = store.path(one.job.cell).with_suffix(".error.txt")
    if found is None:
        one.errors.seek(0)
        detail.write_bytes(one.errors.read())
    _close(one)
    return found or Result("failed", {}, _how_it_ended(code, detail))


def _how_it_ended(code: int, detail: Path) -> str:
    if code == -signal.SIGKILL:
        return "Its process was killed, perhaps because the machine ran out of memory."
    if code < 0:
        return f"Its process ended by signal {-code}; its output is in {detail}."
    return f"Its process ended without a result (code {code}); its output is in {detail}."


def _kill(one: _Running) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(one.process.pid, signal.SIGKILL)
    one.process.wait()
    _close(one)


def _close(one: _Running) -> None:
    if one.process.stdin is not None:
        with contextlib.suppress(OSError):
            one.process.stdin.close()
    one.errors.close()
    Path(one.errors.name).unlink(missing_ok=True)
