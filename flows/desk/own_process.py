"""Reads the data of a desk in processes of their own.

The process that opens a desk or asks never holds a row or an exact count. Of a check of data it
learns the exit code only, and of a release the public answer, or the message and the heading in the
runbook.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dp_core import errors
from dp_core.errors import StageFailed
from flows.processes.child_process import interrupt, stop
from tasks.support.process_environment import environment

CHILD = "flows.notebook.child"
"""Makes the release of a job, and is interrupted if its caller ends."""


class Interrupted(KeyboardInterrupt):
    """The question was interrupted."""

    message = "The question was interrupted; nothing is lost. Ask it again to continue it."


def fits_in_own_process(schema: Path, data: str) -> bool:
    """Return whether data fit a schema, by `dp-release schema check`.

    Args:
        schema: Path of the schema, a file whose name ends in `.yaml`.
        data: Path or glob of the data files.
    """
    command = [sys.executable, "-P", "-m", "flows.cli.main", "schema", "check", str(schema), data]
    nowhere = subprocess.DEVNULL
    done = subprocess.run(
        command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment(), check=False
    )
    return done.returncode == 0


class ReleaseProcess:
    """Makes one release at a time in a process of its own; another thread can end it for good.

    Args:
        seconds: Seconds after which a release is interrupted; None (the default) for no limit.

    Attributes:
        ended: Set once it was ended.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._lock, self.ended = threading.Lock(), threading.Event()

    def __call__(self, spec: Path, out: Path, *, kept: Sequence[int] = ()) -> None:
        """Make the release of a spec, or continue one that stopped.

        Args:
            spec: Path of the release spec.
            out: Folder of the bundle.
            kept: Descriptors that the process keeps open, such as of a lock; none by default.

        Raises:
            ReleaseError: what stopped the release.
            KeyboardInterrupt: if it was interrupted.
        """
        with self._lock:
            if self.ended.is_set():
                raise Interrupted
            self._child = child = subprocess.Popen(
                [sys.executable, "-P", "-m", CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # privacy: messages of libraries that hold rows must not reach a service's log.
                stderr=subprocess.DEVNULL,
                env=environment(),
                pass_fds=kept,
                start_new_session=True,  # so that it is interrupted only once, by this process
            )
        assert child.stdin is not None
        assert child.stdout is not None
        job = {"spec": str(spec), "out": str(out), "options": {}}
        late = threading.Timer(self._seconds or 0, interrupt, (child,))
        with child:
            try:
                if self._seconds is not None:
                    late.start()
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.write(f"{json.dumps(job)}\n".encode())
                    child.stdin.flush()
                printed = child.stdout.read()
                child.wait()
            except BaseException as error:
                stop(child)
                if isinstance(error, KeyboardInterrupt):
                    raise Interrupted from None
                raise
            finally:
                late.cancel()
        _check(printed, child.returncode)

    def end(self) -> None:
        """Interrupt the current release and start no other; nothing is lost or paid twice."""
        with self._lock:
            self.ended.set()
            child = self._child
        if child is not None and child.poll() is None:
            stop(child)


def _check(printed: bytes, code: int) -> None:
    """Raise what stopped a release, by the last line that its process printed, if anything did."""
    result: dict[str, Any] = {}
    with contextlib.suppress(ValueError, IndexError):
        result = dict(json.loads(printed.splitlines()[-1]))
    if "answer" in result:
        return
    if "interrupted" in result:
        raise Interrupted
    if "error" in result:
        kind = getattr(errors, result["class"], StageFailed)
        raise kind(result["error"], row=result["row"])
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    raise StageFailed(
        f"The process that answers the question {how}. Nothing is lost: ask it again.",
        row="interrupted",
    )
