"""The folder of a run: its public, internal and confidential files.

`runs/<release>/` holds `confidential/` (codes and copied rows; deleted when the release is
finished), `internal/` (comparisons with the data, for staff) and `public/` (noisy results and what
was computed from them). All folders have mode 0700. Files are written under a temporary name,
synced and renamed.

Each reservation has its own files in `reservations/`, and the three names are links to those of the
latest one. So a process that lost its lease unnoticed keeps writing to its own reservation's files,
never to those that another account, input or ledger pays for.
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

from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from dp_core.kernel.canonical import canonical_json

RUN_VERSION = 1
INTERNAL_NOTICE = "CONFIDENTIAL: computed from the data itself; for staff, never to be published."

FAILURE = "failure.txt"
"""File in the internal folder with the possibly confidential detail of the last failure."""
MESSAGE = "message.txt"
"""File in the internal folder with the sentence of the last failure, which may be confidential."""

_PARTS = ("confidential", "internal", "public", "run.json")


class RunFolder:
    """The folder of one release's files.

    Attributes:
        path: The folder `runs/<release>`.
        release: Name of the release.
        confidential: Folder of codes and copied rows.
        internal: Folder of comparisons with the data and of failure details, for staff.
        public: Folder of noisy results and what was computed from them.
    """

    def __init__(self, home: Path, release: str, reservation: str | None = None) -> None:
        """Name the folder; `begin` creates it.

        Args:
            home: The home.
            release: Name of the release.
            reservation: Link (hash) of the reservation that owns the files; None for the files of
                the latest one, for reading only.
        """
        self.path = home / "runs" / release
        self.release = release
        self._own = None if reservation is None else reservation[:32]
        root = self.path if self._own is None else self.path / "reservations" / self._own
        self.confidential, self.internal, self.public, self._run = (root / part for part in _PARTS)

    def exists(self) -> bool:
        """Return whether a run of this release, or of this reservation, was started here."""
        return self._run.is_file()

    def begin(self, *, spec: Path, out: Path) -> None:
        """Create the folders, and record the paths of the spec and of the bundle.

        Args:
            spec: Path of the spec.
            out: Folder of the bundle.

        Raises:
            LedgerCorrupt: if there are noisy results of another reservation, which this ledger did
                not charge.
            ValueError: if no reservation was given.
        """
        if self._own is None:
            raise ValueError("A run starts in the folder of its reservation.")
        self.refuse_results()
        with disk_errors("the run folder"):
            above = (self.path.parent, self.path, self.path / "reservations", self.public.parent)
            for folder in (*above, self.confidential, self.internal, self.public):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
        values = {"version": RUN_VERSION, "spec": str(spec), "out": str(out)}
        write_atomically(self._run, canonical_json(values))
        self._show()
        for other in self._others():
            # Its reservation was returned, so the codes of its input are no longer needed.
            other.remove_confidential()

    def refuse_results(self) -> None:
        """Raise if there are noisy results of another reservation.

        Raises:
            LedgerCorrupt: if there are any; this ledger has no charge for them.
        """
        if any(folder.batches() for folder in self._others()):
            raise LedgerCorrupt(
                f"The run folder {self.path} holds noisy results that this ledger has no charge"
                " for. The ledger is older than the folder, or it is another ledger. Restore the"
                " newest copy of the ledger that paid, or choose a new name under `release`.",
                row="result-without-charge",
            )

    def _others(self) -> list[RunFolder]:
        home, everything = self.path.parent.parent, self.path / "reservations"
        names = [path.name for path in everything.glob("*") if path.name != self._own]
        return [RunFolder(home, self.release, name) for name in names]

    def _show(self) -> None:
        """Point the links in the release's folder to this reservation's files."""
        with disk_errors("the run folder"):
            _link(self.path / "current", f"reservations/{self._own}")
            for part in _PARTS:
                _link(self.path / part, f"current/{part}")
            for left in self.path.glob("*.tmp"):
                left.unlink(missing_ok=True)

    def recorded_paths(self) -> tuple[Path, Path]:
        """Return the paths of the spec and of the bundle that `begin` recorded.

        Raises:
            BadInput: if there is no run of this release.
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

    def facts_of(self, stage: str) -> Mapping[str, Any] | None:
        """Return the public facts that a finished stage stored; None if it is not done."""
        try:
            values: Mapping[str, Any] = json.loads((self._marker(stage)).read_bytes())
        except (OSError, ValueError):
            return None
        return values

    def finish(self, stage: str, values: Mapping[str, object] | None = None) -> None:
        """Mark a stage as done, and store its public facts for later stages; none by default."""
        write_atomically(self._marker(stage), canonical_json(dict(values or {})))

    def forget(self, stage: str) -> None:
        """Mark a stage as not done, so that it is run again."""
        self._marker(stage).unlink(missing_ok=True)

    def belong_to(self, digest: str) -> None:
        """Record the input of the codes; delete codes of another input, so that they are remade.

        Args:
            digest: Keyed hash of the input that the ledger has bound.

        Privacy:
            Without this, a ledger restored from a copy made before the binding could let the codes
            of one input be released on the account of another.
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

    def keep_message(self, message: str, row: str | None) -> bool:
        """Write the sentence of a failure to the internal folder; return whether that succeeded.

        Args:
            message: The sentence.
            row: Runbook row that says what to do; None for none.
        """
        return self._keep(MESSAGE, with_row(message, row)) is not None

    @property
    def message_file(self) -> Path:
        """File of `keep_message`, as shown to people."""
        return self._shown / MESSAGE

    def keep_detail(self, detail: str) -> Path | None:
        """Write the possibly confidential detail of a failure to the internal folder.

        Returns:
            The path of the file, as shown to people; None if it could not be written, for example
            on a full disk.
        """
        return self._keep(FAILURE, detail)

    def _keep(self, name: str, text: str) -> Path | None:
        kept = keep_text(self.detail_folder / name, f"{INTERNAL_NOTICE}\n{text}\n")
        return self._shown / name if kept else None

    @property
    def _shown(self) -> Path:
        return self.internal_name if self.internal.is_dir() else self.detail_folder

    @property
    def detail_folder(self) -> Path:
        """Folder of what failures keep: the internal folder, or another before there is one."""
        before_any = self.path / "reservations" / "none" / "internal"
        return self.internal if self.internal.is_dir() else before_any

    @property
    def internal_name(self) -> Path:
        """The internal folder as shown to people: by its short name, if that links to it."""
        short = self.path / "internal"
        return short if short.resolve() == self.internal.resolve() else self.internal

    @property
    def noisy(self) -> Path:
        """Folder of the noisy results."""
        return self.public / "noisy"

    def batches(self) -> set[str]:
        """Return the batches that have a stored noisy result, complete or partial."""
        folders = [folder for folder in self.public.glob("noisy*") if folder.is_dir()]
        return {path.name.split(".noise")[0] for folder in folders for path in folder.iterdir()}

    def bar_results(self) -> None:
        """Prevent any further noisy result from being stored.

        A process that lost its lease may still be drawing noise. The folder of the noisy results is
        renamed, and a file takes its name, so that such a draw can neither start nor finish.
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
        """Delete codes and copied rows.

        Raises:
            ValueError: if no reservation was given.
        """
        if self._own is None:
            raise ValueError("Name the reservation whose files are to be deleted.")
        shutil.rmtree(self.confidential, ignore_errors=True)

    def _marker(self, stage: str) -> Path:
        return self.public / "stages" / f"{stage}.json"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it appears complete under its name or not at all; mode 0600.

    Raises:
        StageFailed: if the disk is full or the file cannot be written.
    """
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
    """Write a text file that only the owner can read; return whether that succeeded."""
    try:
        write_atomically(path, text.encode("utf-8", "backslashreplace"))
    except (OSError, StageFailed):
        return False
    return True


def kept_message(path: Path) -> str | None:
    """Return the sentence of a failure that was kept; None if the file cannot be read."""
    try:
        return path.read_text().partition("\n")[2].strip()
    except (OSError, ValueError):
        return None


def with_row(sentence: str, row: str | None) -> str:
    """Return a sentence that ends with its runbook row, if it has one.

    >>> with_row("The disk is full.", "disk-full")
    'The disk is full. (runbook: disk-full)'
    """
    return f"{sentence} (runbook: {row})" if row else sentence


def where_kept(path: Path | None) -> str:
    """Return the end of a sentence about a detail: its path, or that it could not be saved.

    >>> where_kept(Path("failure.txt"))
    'is in failure.txt'
    """
    return f"is in {path}" if path else "could not be saved, as its folder cannot be written"


def _link(path: Path, target: str) -> None:
    """Create or replace a symbolic link atomically."""
    if path.exists() and not path.is_symlink():
        raise StageFailed(
            f"{path} is not a link: the home was copied without its links. Restore it with them"
            " (`cp -a`, `rsync -a`), or continue in the home that it was copied from.",
            row="links-gone",
        )
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def make_folder(folder: Path) -> None:
    """Create a folder, mode 0700, that survives a power cut."""
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
    """Raise the errors of a full or failing disk in the block as `StageFailed`.

    Args:
        what: What is being written, for the message.

    Raises:
        StageFailed: if the disk is full, or the file or folder cannot be written.
    """
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
                # privacy: use the system's text for the error number; a library's may hold data.
                f"{what} could not be written ({os.strerror(error.errno)});"
                " check the folder, then resume.",
                row="not-written",
            ) from None
        raise
