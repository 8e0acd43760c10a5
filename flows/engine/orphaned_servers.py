"""Ends local Prefect servers whose owner was killed; a variable in their environment marks them."""

from __future__ import annotations

import contextlib
import os

import psutil

MARK = "DP_RELEASE_SERVER_OWNER"
"""Environment variable that our servers inherit: process number and start time of the owner."""

SERVER = "prefect.server.api.server:create_app"
"""Application that the command line of a local Prefect server names."""


def mark() -> None:
    """Set the variable that marks the servers started by this process as its own."""
    os.environ[MARK] = _identity(psutil.Process())


def end_orphans() -> int:
    """End our servers whose owner no longer runs; return their number.

    A release that is killed with SIGKILL cannot end its server, which would run for ever.
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
