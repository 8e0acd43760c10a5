"""Finds every point at which a release touches a file or the ledger, and acts there.

Nothing of the program is changed. Inside a child process this wraps what changes files (functions
of `os`, files opened for writing, Arrow's Parquet writer) and listens to what SQLAlchemy sends. An
audit hook finds the rest: a change of a file that came past the wrappers is a point as well.

A point has the name of our own function on top of the stack, of what is done there, and of the
function of another module that asked for it; it is met before and after, and, where bytes are
written, amid them. The name has no line numbers, so that it stays when the code around it moves.
"""

from __future__ import annotations

import builtins
import io
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

OURS = ("dp_core", "tasks", "flows")
CHANGING = (
    "chmod",
    "copy_file_range",
    "fchmod",
    "fdatasync",
    "fsync",
    "ftruncate",
    "link",
    "mkdir",
    "posix_fallocate",
    "pwrite",
    "remove",
    "rename",
    "replace",
    "rmdir",
    "sendfile",
    "symlink",
    "truncate",
    "unlink",
    "write",
)
"""Functions of `os` that change files; `os.open` is one where it opens for writing."""
AUDITED = (
    "fcntl.flock",
    "fcntl.lockf",
    "open",
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
)
"""Events of `sys.addaudithook` that tell of the same, and of locks."""
READING = ("select", "pragma", "show", "with")
"""First words of statements that change nothing."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One point of a run.

    Attributes:
        place: Our own function that does it, as module.function.
        operation: What it does there.
        moment: before, amid or after.
        caller: The nearest of our functions above it that is in another module.
        ordinal: How often the same was met before in this run, from 1.
    """

    place: str
    operation: str
    moment: str
    caller: str
    ordinal: int = 1

    @property
    def name(self) -> str:
        """Operation and function, the same in every run."""
        return f"{self.place}:{self.operation}, {self.moment}"

    def __str__(self) -> str:
        return f"{self.name}, for {self.caller}, no. {self.ordinal}"


class Instrument:
    """Wraps what changes files and the ledger, for the rest of this process."""

    def __init__(self, roots: Sequence[Path], act: Callable[[Point], None]) -> None:
        """Prepare.

        Args:
            roots: Folders whose files count; caches of libraries lie elsewhere.
            act: Called at every point, in the thread that met it.
        """
        self._roots = tuple(str(root) for root in roots)
        self._act = act
        self._met: Counter[Point] = Counter()
        self._counting = threading.Lock()
        self._thread = threading.local()

    def install(self) -> None:
        """Begin; there is no way back, so do it in a process that is to die."""
        for name in CHANGING:
            if hasattr(os, name):
                self._wrap(os, name, counts=self._is_ours)
        self._wrap(os, "open", counts=lambda path, flags=0, *_: flags & WRITES and self._lies(path))
        self._wrap_files()
        self._wrap_parquet()
        self._listen_to_databases()
        sys.addaudithook(self._heard)

    def meet(self, operation: str, moment: str) -> None:
        """Act at a point, if one of our functions is at work here."""
        if getattr(self._thread, "busy", False):
            return
        found = _of_ours(sys._getframe(1))
        if found is None:
            return
        place, caller = found
        with self._counting:
            point = Point(place, operation, moment, caller)
            self._met[point] += 1
            ordinal = self._met[point]
        with self._busy():
            self._act(Point(place, operation, moment, caller, ordinal))

    @contextmanager
    def _busy(self) -> Iterator[None]:
        before = getattr(self._thread, "busy", False)
        self._thread.busy = True
        try:
            yield
        finally:
            self._thread.busy = before

    def _wrap(
        self, owner: Any, name: str, *, counts: Callable[..., object], told: str | None = None
    ) -> None:
        original, operation = getattr(owner, name), told or name

        def wrapped(*arguments: Any, **options: Any) -> Any:
            if not counts(*arguments):
                return original(*arguments, **options)
            self.meet(operation, "before")
            with self._busy():
                result = original(*arguments, **options)
            self.meet(operation, "after")
            return result

        setattr(owner, name, wrapped)

    def _is_ours(self, *arguments: Any) -> bool:
        """Whether a file descriptor or one of two paths is given that counts."""
        if isinstance(arguments[0], int):
            # Opened by one of our functions, or the point has no name anyway.
            return True
        return any(
            self._lies(path) for path in arguments[:2] if isinstance(path, str | os.PathLike)
        )

    def _lies(self, path: Any) -> bool:
        """Whether a path lies in the folders that count; relative ones are names within those."""
        if not isinstance(path, str | os.PathLike):
            return False
        text = os.fspath(path)
        return isinstance(text, str) and (not os.path.isabs(text) or text.startswith(self._roots))

    def _wrap_files(self) -> None:
        """Let files opened for writing write in two halves, with points around them."""
        original = io.open
        meet, busy = self.meet, self._busy

        class Halved(io.FileIO):
            """A file that writes half of what it is given, and then the other half."""

            def write(self, content: Any) -> int:
                view = memoryview(content).cast("B")
                meet("write", "before")
                with busy():
                    written = _write_all(super().write, view[: len(view) // 2])
                meet("write", "amid")
                with busy():
                    written += _write_all(super().write, view[len(view) // 2 :])
                meet("write", "after")
                return written

        def opened(
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            closefd: bool = True,
            opener: Any = None,
        ) -> Any:
            with_name = not isinstance(file, int)
            if (
                set(mode) & set("rU+")
                or buffering == 0
                or getattr(self._thread, "busy", False)
                or (with_name and not self._lies(file))
                or _of_ours(sys._getframe(1)) is None
            ):
                return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
            if with_name:
                meet("open", "before")
            with busy():
                raw = Halved(file, mode.replace("b", "").replace("t", ""), closefd, opener)
            if with_name:
                meet("open", "after")
            buffer = io.BufferedWriter(raw)
            return buffer if "b" in mode else io.TextIOWrapper(buffer, encoding, errors, newline)

        for module in (io, builtins):
            setattr(module, "open", opened)  # noqa: B010 (mypy knows `open` as a function)

    def _wrap_parquet(self) -> None:
        import pyarrow.parquet as pq

        # Arrow opens and writes the file itself, past everything that Python could tell.
        for name, told in (("__init__", "open"), ("write_table", "write"), ("close", "close")):
            self._wrap(pq.ParquetWriter, name, counts=lambda *_: True, told=f"{told} parquet")

    def _listen_to_databases(self) -> None:
        import sqlalchemy as sa
        from sqlalchemy.engine.default import DefaultDialect

        def said(moment: str) -> Callable[..., None]:
            def hear(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
                words = re.findall(r"\w+", statement.lower())[:3]
                if words and words[0] not in READING:
                    self.meet(" ".join(words), moment)

            return hear

        sa.event.listen(sa.Engine, "before_cursor_execute", said("before"))
        sa.event.listen(sa.Engine, "after_cursor_execute", said("after"))
        # There is no event after a commit, and this is what does it.
        self._wrap(DefaultDialect, "do_commit", counts=lambda *_: True, told="commit")

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in AUDITED or getattr(self._thread, "busy", False):
            return
        if event == "open" and not ((arguments[2] or 0) & WRITES and self._lies(arguments[0])):
            return
        if event.startswith("os.") and not self._is_ours(*arguments):
            return
        self.meet(event, "before")


def _write_all(write: Callable[[Any], int | None], view: memoryview) -> int:
    written = 0
    while written < len(view):
        written += write(view[written:]) or 0
    return written


def _of_ours(frame: FrameType | None) -> tuple[str, str] | None:
    """Return the nearest function of ours, and the nearest above it that is in another module."""
    place: tuple[str, str] | None = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in OURS:
            name = f"{module}.{frame.f_code.co_qualname.replace('<locals>.', '')}"
            if place is None:
                place = module, name
            elif module != place[0]:
                return place[1], name
        frame = frame.f_back
    return None if place is None else (place[1], "")
