"""Local Prefect servers whose owner was killed: found by a mark in their environment, and ended."""

from __future__ import annotations

import contextlib
import os

import psutil

MARK = "DP_RELEASE_SERVER_OWNER"
"""Environment variable that a server of ours inherits: number and start time of its owner."""

SERVER = "prefect.server.api.server:create_app"
"""What a local server's command line names."""


def mark() -> None:
    """Let the servers that this process starts be known as its own."""
    os.environ[MARK] = _identity(psutil.Process())


def end_orphans() -> int:
    """End servers of ours whose owner is gone, and return how many there were.

    A release that was killed with SIGKILL cannot end its server, which would stay for ever.
    """
    ended = 0
    for process in psutil.process_iter(["cmdline"]):
        if SERVER not in (process.info["cmdline"] or []):
            continue
        with contextlib.suppress(psutil.Error):
            owner = process.environ().get(MARK)
            if owner is not None and not _alive(owner):
                process.terminate()
                ended += 1
    return ended


def _identity(process: psutil.Process) -> str:
    return f"{process.pid}@{process.create_time()}"


def _alive(owner: str) -> bool:
    number = owner.partition("@")[0]
    if not number.isdigit():
        return True
    try:
        return _identity(psutil.Process(int(number))) == owner
    except psutil.NoSuchProcess:
        return False
