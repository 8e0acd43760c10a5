"""The confidential process: a command starts it before it imports Prefect; it ends with its client.

Where the caller has one thread, it is a fork, which shares the imports so far; otherwise a new
interpreter. It gives up what it does not need, answers one message after another, and ends at once
when its connection closes: a draw that is interrupted is done again under the same charge.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from tasks.confidential.confinement import Reach, confine
from tasks.confidential.frames import Gone, receive, send
from tasks.confidential.messages import MOST_ASKED, NOTICES, REQUESTS, checked, checked_reply
from tasks.run.home import ledger_file
from tasks.run.home_folder import home, state_folder
from tasks.support.forked_process import can_fork, fork
from tasks.support.process_environment import environment
from tasks.support.run_folder import RunFolder

PROGRAM = ("-m", "tasks.confidential.process")
"""What a new interpreter runs."""
_PATIENCE = 30.0
"""Seconds in which a process that is to end may close the cluster that it started."""
_STEP = 0.02  # seconds between two looks at a process that is to end
ERRORS = "process.txt"
"""File in the internal folder with the standard error of the latest process."""


@dataclass(frozen=True, slots=True)
class Started:
    """A confidential process and the connection to it.

    Attributes:
        number: Number of the process.
        connection: The client's end; nothing else has a copy of it.
        errors: File of what it writes to its standard error, which may be confidential; this
            process does not read it.
        end: Ends the process, waits for it, and returns how it ended.
    """

    number: int
    connection: socket.socket
    errors: Path
    end: Callable[[], int]


def start(release: str, reach: Reach = "home", databases: Sequence[str] = ()) -> Started:
    """Start a confidential process; it imports what it needs while the caller goes on.

    Args:
        release: Name of the release, in whose internal folder its errors are.
        reach: What it must reach; by default the home alone.
        databases: Environment variables with the URLs of databases that it reads; none by default.
    """
    mine, its = socket.socketpair()
    # privacy: a traceback may hold a value, and no value is written outside the internal folder.
    place = RunFolder(home(), release).detail_folder / ERRORS
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    errors = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    if can_fork():
        number = fork(partial(serve, its, reach, databases), kept={its.fileno()}, errors=errors)
        its.close()

        def ended() -> int | None:
            found, status = os.waitpid(number, os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if found else None

    else:
        child = subprocess.Popen(
            [sys.executable, "-P", *PROGRAM, str(its.fileno()), reach, *databases],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment(),
            pass_fds=[its.fileno()],
            start_new_session=True,  # Ctrl-C is for the client, which reports the end
        )
        its.close()
        number, ended = child.pid, child.poll
    os.close(errors)

    def end() -> int:
        mine.close()
        until = time.monotonic() + _PATIENCE
        time.sleep(_STEP)  # one that ended by itself says how
        while (code := ended()) is None:
            late = time.monotonic() > until
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL if late else signal.SIGTERM)
            time.sleep(_STEP)
        _remove_if_empty(place)
        return code

    return Started(number, mine, place, end)


def _remove_if_empty(file: Path) -> None:
    """Remove a file without content, and folders that hold nothing else."""
    with contextlib.suppress(OSError):  # a link, or a folder that holds something
        if file.stat().st_size == 0:
            file.unlink()
            for folder in file.parents:
                folder.rmdir()


def serve(connection: socket.socket, reach: Reach, databases: Sequence[str]) -> None:
    """Answer the messages of a client until it closes the connection.

    Args:
        connection: The process's end.
        reach: What it must reach.
        databases: Environment variables with the URLs of databases that it reads.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    confine(reach, [*_writable_folders(), *_database_folders(databases)])
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    from tasks.confidential.host import Host
    from tasks.validation.suite_judge import load_great_expectations

    load_great_expectations()

    def tell(notice: Mapping[str, Any]) -> None:
        checked(notice, NOTICES)
        send(connection, notice)

    host = Host(tell)
    # SIGTERM ends this process at once; one with a cluster closes that first.
    host.before_cluster = partial(signal.signal, signal.SIGTERM, _leave)
    with contextlib.closing(host), contextlib.suppress(Gone):
        while True:
            message, given = receive(connection, _accept)
            reply, blocks = host.answer(message, given)
            # privacy: nothing leaves that is not on the list, or may not answer this request.
            checked_reply(reply, message["type"])
            send(connection, reply, blocks)


def serve_from_arguments() -> None:
    """Answer the messages of the client that started this interpreter, as its arguments say."""
    number, reach, *databases = sys.argv[1:]
    serve(socket.socket(fileno=int(number)), cast("Reach", reach), databases)


def _writable_folders() -> list[Path]:
    """Return the folders to which it writes: of the home, the ledger, its notes, and loops."""
    ledger = ledger_file(home())
    code = Path(__file__).parents[2] / "dp_core"
    caches = [file.parent / "__pycache__" for file in code.rglob("__init__.py")]
    if not os.access(code, os.W_OK):
        caches = [Path.home() / ".cache" / "numba"]  # the program's folder is another user's
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        caches.append(Path(named))
    for cache in caches:
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
    at = [] if ledger is None else [ledger.parent]
    return [home(), state_folder(), *at, *caches, Path(os.devnull)]


def _database_folders(databases: Sequence[str]) -> list[Path]:
    """Return the folders of SQLite databases: SQLite may write beside a file that it reads."""
    if not databases:
        return []
    from tasks.inputs.database_connection import sqlite_file

    files = map(sqlite_file, databases)
    return [file.parent for file in files if file is not None]


def _accept(message: Mapping[str, Any]) -> int:
    """Return how many bytes of blocks a request may have; refuse what is no request."""
    return MOST_ASKED if checked(message, REQUESTS) == "ask" else 0


def _leave(*_: object) -> None:
    """End in order, once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def _end_with(connection: socket.socket) -> None:
    """End this process when the client is gone, whatever it computes."""
    closed = select.poll()
    # Linux alone tells when the other side has closed; elsewhere the next message does.
    closed.register(connection, getattr(select, "POLLRDHUP", select.POLLHUP))
    closed.poll()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve_from_arguments()
