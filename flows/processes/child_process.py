"""What a caller and a process of its own share: environment, job, interruption.

The job is one line of JSON on standard input, which stays open as long as the caller lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

PATIENCE = 60.0
"""Seconds that an interrupted process gets to stop by itself."""


class Interrupted(KeyboardInterrupt):
    """An interruption, with a message about what was kept."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def stop(child: subprocess.Popen[bytes]) -> None:
    """Interrupt a process and wait until it has ended; kill it if it takes longer than allowed."""
    interrupt(child)
    try:
        child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def interrupt(child: subprocess.Popen[bytes]) -> None:
    """Interrupt a process as Ctrl-C does, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGINT)


def read_job() -> Any:
    """Return the job of this process, which from now on is interrupted when its caller ends."""
    # By the file descriptor: a thread that waits in Python's buffer would keep its lock.
    text = b""
    while not text.endswith(b"\n"):
        piece = os.read(0, 1 << 16)
        if not piece:
            sys.exit("A job is one line of JSON on standard input.")
        text += piece
    # A service may have been started with interruptions ignored, which its processes inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_watch_caller, daemon=True).start()
    return json.loads(text)


def _watch_caller() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGINT)
