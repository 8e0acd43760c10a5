"""The confidential process: it starts before Prefect is imported, and ends with its client.

Where this process has one thread, it is a fork, which shares the imports so far; otherwise a new
interpreter. It gives up what it does not need, answers one message after another, and ends at once
when its connection closes: a draw that is interrupted is done again under the same charge.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tasks.confidential.frames import Gone, Malformed, receive, send
from tasks.support.forked_process import can_fork, fork
from tasks.support.process_environment import environment

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38  # Linux only
_MOST_ERRORS = 1 << 16


@dataclass(frozen=True, slots=True)
class Started:
    """A confidential process and the connection to it.

    Attributes:
        number: Number of the process.
        connection: The client's end; nothing else has a copy of it.
        end: Ends the process, waits for it, and returns how it ended and the last text of its
            errors, which may be confidential.
    """

    number: int
    connection: socket.socket
    end: Callable[[], tuple[int, str]]


def start() -> Started:
    """Start a confidential process; it imports what it needs while the caller goes on."""
    mine, its = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
    if can_fork():
        number = fork(partial(serve, its), kept={its.fileno()}, errors=errors.fileno())
        its.close()

        def wait() -> int:
            return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])

    else:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", __spec__.name, str(its.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment(),
            pass_fds=[its.fileno()],
            start_new_session=True,  # Ctrl-C is for the client, which reports the end
        )
        its.close()
        number, wait = child.pid, child.wait

    def end() -> tuple[int, str]:
        mine.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
        code = wait()
        with errors:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _MOST_ERRORS))
            return code, errors.read().decode(errors="replace")

    return Started(number, mine, end)


def serve(connection: socket.socket) -> None:
    """Answer the messages of a client until it closes the connection.

    Args:
        connection: The process's end.
    """
    give_up_rights()
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    from tasks.confidential.host import Host
    from tasks.validation.suite_judge import load_great_expectations

    load_great_expectations()
    host = Host(partial(send, connection))
    with contextlib.suppress(Gone, Malformed):
        while True:
            send(connection, *host.answer(*receive(connection)))


def give_up_rights() -> None:
    """Give up what this process does not need: dumps of its memory, and new privileges."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):
        control = ctypes.CDLL(None).prctl
        # privacy: no other process of the same user may read this one's memory.
        control(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        control(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _end_with(connection: socket.socket) -> None:
    """End this process when the client is gone, whatever it computes."""
    closed = select.poll()
    closed.register(connection, select.POLLRDHUP)
    closed.poll()
    os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
