"""A run's folder: what may be published, what is for staff, and what goes away.

`runs/<release>/` holds `confidential/` (codes and counts; removed when the release is done),
`internal/` (comparisons with the data; for staff) and `public/` (noisy results and what was made
of them). All of it is mode 0700; files are written to a temporary name, synced and renamed.

Each reservation has files of its own, in `reservations/`, and those three names lead to the latest
one's. A process that was taken for dead goes on writing where it began: never among the files of a
reservation that another account, another input or another ledger pays for.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dp_core.documents.canonical import canonical_json
from dp_core.errors import BadInput, LedgerCorrupt, StageFailed

RUN_VERSION = 1
INTERNAL_NOTICE = "CONFIDENTIAL: computed from the data itself; for staff, never to be published."


_PARTS = ("confidential", "internal", "public", "run.json")


class RunFolder:
    """Where one release keeps its files."""

    def __init__(self, home: Path, release: str, reservation: str | None = None) -> None:
        """Name the folder; `begin` makes it.

        Args:
            home: Folder of all runs.
            release: Name.
            reservation: Link of the reservation whose files these are; None to look at the latest
                one's, which is not for writing.
        """
        self.path = home / "runs" / release
        self.release = release
        self._own = None if reservation is None else reservation[:32]
        root = self.path if self._own is None else self.path / "reservations" / self._own
        self.confidential, self.internal, self.public, self._run = (root / part for part in _PARTS)

    def exists(self) -> bool:
        """Whether a run of this name, or of this reservation, ever began here."""
        return self._run.is_file()

    def begin(self, *, spec: Path, out: Path) -> None:
        """Make the folders, and remember where the spec is and where the bundle goes.

        Raises:
            LedgerCorrupt: if there are noisy results of another reservation: then it was charged,
                in a ledger that knew.
        """
        if self._own is None:
            raise ValueError("A run begins in the folder of its reservation.")
        self.refuse_results()
        with disk_errors("the run folder"):
            above = (self.path, self.path / "reservations", self.public.parent)
            for folder in (*above, self.confidential, self.internal, self.public):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
        values = {"version": RUN_VERSION, "spec": str(spec), "out": str(out)}
        write_atomically(self._run, canonical_json(values))
        self._show()
        for other in self._others():
            # Of a reservation that was given back: the codes of its input are not needed any more.
            other.remove_confidential()

    def refuse_results(self) -> None:
        """Raise LedgerCorrupt if there are noisy results of any other reservation."""
        if any(folder.has_results() for folder in self._others()):
            raise LedgerCorrupt(
                f"The run folder {self.path} holds noisy results that this ledger has no charge"
                " for: it is older than the folder, or another ledger. Restore the newest copy of"
                " the ledger that paid, or choose a new name under `release`.",
                row="result-without-charge",
            )

    def _others(self) -> list[RunFolder]:
        home, everything = self.path.parent.parent, self.path / "reservations"
        names = [path.name for path in everything.glob("*") if path.name != self._own]
        return [RunFolder(home, self.release, name) for name in names]

    def _show(self) -> None:
        """Let the names that people use lead to this reservation's files."""
        with disk_errors("the run folder"):
            _link(self.path / "current", f"reservations/{self._own}")
            for part in _PARTS:
                _link(self.path / part, f"current/{part}")
            for left in self.path.glob("*.tmp"):
                left.unlink(missing_ok=True)

    def remembered(self) -> tuple[Path, Path]:
        """Return the spec's path and the bundle's, as `begin` was told.

        Raises:
            BadInput: if there is no run of this name.
        """
        try:
            values = json.loads(self._run.read_bytes())
            return Path(values["spec"]), Path(values["out"])
        except (OSError, ValueError, KeyError, TypeError):
            raise BadInput(
                f"There is no run of release {self.release!r} here;"
                " `dp-release status` lists them.",
                row="no-such-release",
            ) from None

    def done(self, stage: str) -> Mapping[str, Any] | None:
        """Return what a finished stage left behind, None if it is not finished."""
        try:
            values: Mapping[str, Any] = json.loads((self._marker(stage)).read_bytes())
        except (OSError, ValueError):
            return None
        return values

    def finish(self, stage: str, values: Mapping[str, object] | None = None) -> None:
        """Mark a stage finished, with public facts that later stages read."""
        write_atomically(self._marker(stage), canonical_json(dict(values or {})))

    def forget(self, stage: str) -> None:
        """Let a stage be done again, since what it made is gone."""
        self._marker(stage).unlink(missing_ok=True)

    def belong_to(self, digest: str) -> None:
        """Keep which input the codes are of; those of any other are deleted, and made again.

        Args:
            digest: Keyed hash of the input that the ledger has bound.

        Privacy:
            Otherwise codes of one input could be released on the account of another, with a ledger
            that was restored from a copy of before it was bound.
        """
        kept = self.confidential / "input"
        if kept.exists() and kept.read_text() == digest:
            return
        with disk_errors("the run folder"):
            for stage in ("validate", "discretize", "count"):
                self.forget(stage)
            shutil.rmtree(self.confidential / "codes", ignore_errors=True)
            self.confidential.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(kept, digest.encode())

    def keep_detail(self, detail: str) -> Path | None:
        """Keep what may be confidential about a failure, for staff; return where.

        A full disk must not hide the failure it caused: None if it could not be kept.
        """
        before_any = self.path / "reservations" / "none" / "internal"
        path = (self.internal if self.internal.is_dir() else before_any) / "failure.txt"
        return path if keep_text(path, f"{INTERNAL_NOTICE}\n{detail}\n") else None

    @property
    def internal_name(self) -> Path:
        """The internal folder as people are told of it: by the short name, if that leads there."""
        short = self.path / "internal"
        return short if short.resolve() == self.internal.resolve() else self.internal

    @property
    def noisy(self) -> Path:
        """Where noisy results are kept."""
        return self.public / "noisy"

    def has_results(self) -> bool:
        """Whether noise was drawn and stored, in part or in full, and may have been seen."""
        return bool(self.batches())

    def batches(self) -> set[str]:
        """Return the batches of which a noisy result is there, in part or in full."""
        folders = [folder for folder in self.public.glob("noisy*") if folder.is_dir()]
        return {path.name.split(".noise")[0] for folder in folders for path in folder.iterdir()}

    def bar_results(self) -> None:
        """Let no noisy result be stored any more, so that what is there is all that ever will be.

        A holder that was taken for dead may be in the middle of a draw. The folder is put aside,
        and a file takes its name: then that draw finds no place, neither to begin nor to end.
        """
        with disk_errors("the run folder"):
            self.public.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number in itertools.count(1):
                aside = self.public / f"noisy-put-aside-{number}"
                if self.noisy.is_dir() and not aside.exists():
                    self.noisy.rename(aside)
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(self.noisy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                if self.noisy.is_file():
                    return

    def remove_confidential(self) -> None:
        """Delete codes and counts."""
        if self._own is None:
            raise ValueError("What is deleted belongs to a reservation.")
        shutil.rmtree(self.confidential, ignore_errors=True)

    def _marker(self, stage: str) -> Path:
        return self.public / "stages" / f"{stage}.json"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is either complete under its name or not there at all."""
    with disk_errors(path.name):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)


def keep_text(path: Path, text: str) -> bool:
    """Write down what is only for staff to read, and return whether it could be written."""
    try:
        write_atomically(path, text.encode("utf-8", "backslashreplace"))
    except (OSError, StageFailed):
        return False
    return True


def where_kept(path: Path | None) -> str:
    """Return the end of a sentence about a detail: where it is, or that it could not be kept.

    >>> where_kept(Path("failure.txt"))
    'is in failure.txt'
    """
    return f"is in {path}" if path else "could not be kept, as its folder cannot be written"


def _link(path: Path, target: str) -> None:
    """Let a name lead somewhere else from one moment to the next."""
    if path.exists() and not path.is_symlink():
        raise StageFailed(
            f"{path} is no link any more: the home was copied without its links. Restore it with"
            " them (`cp -a`, `rsync -a`), or go on in the home that it was copied from.",
            row="links-gone",
        )
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def make_folder(folder: Path) -> None:
    """Make a folder, mode 0700, that is still there after a power cut."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Turn a full or failing disk into one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StageFailed(
                f"The disk is full: {what} could not be written. Free some space, then resume.",
                row="disk-full",
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ENOTDIR):
            raise StageFailed(
                # privacy: the system's own words; a library may put anything into its error's.
                f"{what} could not be written ({os.strerror(error.errno)});"
                " check the folder, then resume.",
                row="not-written",
            ) from None
        raise
