"""A process that has imported everything and forks a child for each job.

Each job has a process of its own, which shares nothing with the others but what was imported: the
server runs no job itself, opens no file and no database of a release, and has no second thread, so
a child is what a fresh interpreter is after its imports, without their three seconds. What a job
imports late, and the kernels it loads, is found by letting one child make a release and tell.

It reads one job per line, as JSON, and answers with one line: {"died", "seconds", "said"}.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import selectors
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.crashes.job import Place, die_at, inspect, record, work
from tests.crashes.points import OURS, Point
from tests.plain_judge import install

LONGEST = 120.0
"""Seconds after which a job is taken to hang, and killed."""


def serve() -> None:
    """Answer jobs until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.disable()  # what is imported stays
    install()
    _import_what_a_job_imports()
    # What is there stays: no child looks through it, which would copy its pages.
    gc.collect()
    gc.freeze()
    gc.enable()
    # Arrow's allocator keeps a thread of its own for housekeeping, and makes it anew in a child.
    assert threading.active_count() == 1
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        answer = _do(partial(_work_on, job), job["delay"])
        print(json.dumps(answer), file=answers, flush=True)


def _work_on(job: Mapping[str, Any]) -> object:
    if job["do"] == "script":
        return _run(job)
    place = Place(Path(job["folder"]), job["url"], job["kind"])
    os.environ.pop("DP_RELEASE_LEDGER", None)
    os.environ.update(place.environment())
    match job["do"]:
        case "record":
            record(place)
            work(place)
        case "die":
            die_at(place, Point(*job["point"]))
            work(place)
        case "work":
            work(place)
        case "inspect":
            return inspect(place)
        case other:
            raise ValueError(other)
    return None


def _run(job: Mapping[str, Any]) -> int:
    """Run a script as an interpreter would, but for its imports; return its exit code."""
    for number, path in zip((1, 2), job["said"], strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.argv = ["-c", *job["words"]]
    try:
        exec(compile(job["script"], "<script>", "exec"), {"__name__": "__main__"})
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _do(act: Callable[[], object], delay: float | None) -> dict[str, Any]:
    """Do something in a child; kill it after a delay, if it lives that long.

    Returns:
        died: Number of the signal that ended it, None if it ended by itself.
        seconds: How long it lived.
        said: What it answered, or its traceback as a text under `failed`.
    """
    said, say = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(said)
        _be_a_child(act, say)
    os.close(say)
    answer = _hear(said, child, LONGEST if delay is None else delay)
    _, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return {"died": died, "seconds": seconds, "said": json.loads(answer) if answer else None}


def _be_a_child(act: Callable[[], object], say: int) -> None:
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        answer: object = {"done": act()}
    except BaseException:
        answer = {"failed": traceback.format_exc()}
    # Said in one piece, and last: a child that is killed before has said nothing.
    content = json.dumps(answer).encode()
    while content:
        content = content[os.write(say, content) :]
    # The server's own ends of its pipes are in this process too, and are not to be flushed.
    os._exit(0)


def _hear(said: int, child: int, longest: float) -> bytes:
    """Return what a child says until it closes its end; kill it after so many seconds."""
    content = b""
    until = time.monotonic() + longest
    with selectors.DefaultSelector() as selector, os.fdopen(said, "rb", buffering=0) as pipe:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(until - time.monotonic(), 0)):
                # It was not waited for yet: the number is still its own.
                os.kill(child, signal.SIGKILL)
                return content
            piece = pipe.read(1 << 16)
            if not piece:
                return content
            content += piece


_SURELY = (
    "flows.release",
    "flows.cli.actions.publication_decisions",
    "dp_core.bundle.verification.verify",
    "dask.threaded",
    "numba",
    "pandas",
    "scipy.optimize",
    "sqlalchemy.dialects.sqlite",
)
"""Large modules that every job imports: the child that tells finds them here."""


def _import_what_a_job_imports() -> None:
    for name in _SURELY:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        # What any other meets, this one meets as well.
        place = Place(Path(folder) / "release", kind="published").prepare()
        known = Path(folder) / "known"

        def make_and_tell() -> None:
            os.environ.pop("DP_RELEASE_LEDGER", None)
            os.environ.update(place.environment())
            work(place)
            inspect(place)
            known.write_bytes(pickle.dumps((sorted(sys.modules), _signatures())))

        # In a fresh checkout the kernels are compiled here.
        answer = _do(make_and_tell, 5 * LONGEST)
        if answer["said"] is None or "failed" in answer["said"]:
            raise RuntimeError(f"The release that tells what to import failed: {answer}")
        modules, signatures = pickle.loads(known.read_bytes())
    # Its driver is imported by the first who needs it, and here none did.
    for name in (*modules, "sqlalchemy.dialects.postgresql", "psycopg"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for (module, kernel), known_types in signatures.items():
        for types in known_types:
            getattr(sys.modules[module], kernel).compile(types)


def _signatures() -> dict[tuple[str, str], list[Any]]:
    """Return the argument types with which our kernels were called so far."""
    from numba.core.dispatcher import Dispatcher

    return {
        (name, kernel): list(value.signatures)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in OURS
        for kernel, value in vars(module).items()
        if isinstance(value, Dispatcher)
    }


if __name__ == "__main__":
    serve()
