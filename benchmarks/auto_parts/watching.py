"""A command or a fork under observation: wall time, CPU time, peak memory, and limits of both."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

PATIENCE = 6
PAUSE, LATER_PAUSE = 0.1, 1.0
"""Seconds between two looks at the memory; a shorter peak of one process is still seen.

The second is for runs of more than a minute, since a look at a large process takes long."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a command took.

    Attributes:
        status: `ok`, `failed`, `not finished` (CPU time) or `too large` (memory).
        wall: Seconds from start to end.
        cpu: Seconds of all its processes that it waited for.
        megabytes: Peak of the whole process tree, shared pages divided; at least the peak of its
            largest process.
        said: End of what it wrote to standard error.
    """

    status: str
    wall: float
    cpu: float
    megabytes: float
    said: str


def watch(
    work: Sequence[str] | Callable[[], object],
    log: Path,
    *,
    seconds: float,
    megabytes: float,
    environment: Mapping[str, str] | None = None,
) -> Watched:
    """Do some work in a process group of its own, and end the group when it goes beyond a limit.

    Args:
        work: Program and arguments, or a function that a fork of this process calls.
        log: File for what it writes.
        seconds: Most CPU time of all its processes, so that a busy machine makes no difference;
            and `PATIENCE` times as much wall time, for one that waits for ever.
        megabytes: Most memory of all its processes together.
        environment: In which a program runs; None for this one's.
    """
    started, peak, most, status = time.perf_counter(), 0.0, 0.0, "ok"
    child = _fork(work, log) if callable(work) else _start(work, log, environment)
    process, ended = psutil.Process(child), 0
    try:
        while True:
            # Its own usage, which resource.getrusage would add to that of all others.
            ended, code, usage = os.wait4(child, os.WNOHANG)
            if ended:
                break
            now, spent = _tree(process)
            peak, most = max(peak, now), max(most, spent)
            if most > seconds or time.perf_counter() - started > PATIENCE * seconds:
                status = "not finished"
            elif peak > megabytes:
                status = "too large"
            if status != "ok":
                break
            time.sleep(PAUSE if time.perf_counter() - started < 60 else LATER_PAUSE)
    finally:  # also where this process is told to stop: nothing is left behind
        if not ended:
            os.killpg(child, signal.SIGKILL)
            _, code, usage = os.wait4(child, 0)
    if status == "ok" and code:
        status = "failed"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Watched(
        status,
        time.perf_counter() - started,
        max(usage.ru_utime + usage.ru_stime, most),
        max(peak, usage.ru_maxrss / 1024),
        lines[-1] if lines else "",
    )


def _start(command: Sequence[str], log: Path, environment: Mapping[str, str] | None) -> int:
    """Return the process of a program; by `posix_spawn`, so that nothing else waits for it."""
    into = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        return os.posix_spawnp(
            command[0],
            [str(part) for part in command],
            dict(os.environ if environment is None else environment),
            file_actions=[(os.POSIX_SPAWN_DUP2, into, 1), (os.POSIX_SPAWN_DUP2, into, 2)],
            setpgroup=0,
        )
    finally:
        os.close(into)


def _fork(work: Callable[[], object], log: Path) -> int:
    """Return a fork of this process that does the work and ends."""
    log.touch()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        into = os.open(log, os.O_WRONLY)
        os.dup2(into, 1)
        os.dup2(into, 2)
        work()
        code = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    os._exit(code)


def _tree(root: psutil.Process) -> tuple[float, float]:
    """Return megabytes (shared pages divided) and CPU seconds of a process and its children."""
    memory, seconds = 0, 0.0
    try:
        for process in (root, *root.children(recursive=True)):
            memory += process.memory_full_info().pss
            times = process.cpu_times()
            # Children that have ended count through the process that waited for them.
            seconds += times.user + times.system + times.children_user + times.children_system
    except psutil.Error:  # one has just ended
        pass
    return memory / 1e6, seconds
