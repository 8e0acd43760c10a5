"""The check of a ledger or of its export, with progress where it takes long."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import LedgerCorrupt
from dp_core.wall.ledger.audit import Audit, audit
from dp_core.wall.ledger.entries import Entry
from dp_core.wall.ledger.export import read_export
from dp_core.wall.ledger.signatures import fingerprint, read_public
from flows.answers.ledger_answers import LedgerCheck
from flows.monitoring.prefect_events import tell_ledger
from tasks.run.verification_note import noting

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger

_STEP = 1000
_LEDGER_NEXT = (
    "Make no release from this ledger and change nothing in it; compare it with the last backup or"
    " export that verifies."
)
_EXPORT_NEXT = "Compare it with another export of the same ledger, and with its noted head."


def check_ledger(ledger: Ledger, home: Path, keys: Sequence[Path], *, quiet: bool) -> LedgerCheck:
    """Check every entry of a home's ledger.

    Args:
        ledger: Of the home.
        home: Its folder; with its key the seals of the inputs are checked too.
        keys: Files of public keys, one of which must have signed the last entry.
        quiet: Show no progress.

    Raises:
        BadInput: if a file holds no public key.
        LedgerCorrupt: naming the first entry that does not fit.
    """
    from tasks.ledger.ledger_anchor import HEAD
    from tasks.run.home import KEY, home_key

    trusted = [read_public(path) for path in keys]
    # Only a home that made releases must have the key. Another one, as an auditor's on a database
    # that several use, checks everything but the seals; and looking makes no key.
    mine = (home / KEY).exists() or (home / "runs").exists() or (home / HEAD).exists()
    key = home_key(home, ledger) if mine and ledger.knows_inputs() else None
    with noting(home), _told(), advised(_LEDGER_NEXT), progress(quiet=quiet) as update:
        found = ledger.verify(key, trusted=trusted, progress=update)
    sealed = "checked" if key else "not checked" if ledger.knows_inputs() else "none"
    return _answer(found, trusted, ledger=home, export=None, seals=sealed)


def check_export(path: Path, keys: Sequence[Path], *, quiet: bool) -> LedgerCheck:
    """Check every entry of an export; needs no ledger and no home.

    Raises:
        BadInput: if the file is no export, or another holds no public key.
        LedgerCorrupt: naming the first entry that does not fit.
    """
    trusted = [read_public(file) for file in keys]
    total = _announced(path)
    with advised(_EXPORT_NEXT), progress(quiet=quiet) as update:

        def inspect(entry: Entry) -> None:
            if entry.position % _STEP == 0:
                update(min(1.0, entry.position / total))

        found = audit(read_export(path), trusted=trusted, inspect=inspect)
    # The seals are under a key that stays in the home.
    return _answer(found, trusted, ledger=None, export=path, seals="not checked")


def _answer(
    found: Audit, trusted: Sequence[str], *, ledger: Path | None, export: Path | None, seals: str
) -> LedgerCheck:
    return LedgerCheck(
        ledger=ledger,
        export=export,
        seals=seals,
        passed=True,
        entries=found.entries,
        head=found.head,
        signed=found.signed,
        keys=[fingerprint(public) for public in found.keys],
        trusted=[fingerprint(public) for public in trusted],
    )


def _announced(path: Path) -> int:
    """Return how many entries the first line of an export announces, for progress only."""
    try:
        with path.open("rb") as file:
            return max(1, int(json.loads(file.readline(1 << 16))["entries"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 1  # `read_export` says what is wrong with it


@contextlib.contextmanager
def advised(advice: str) -> Iterator[None]:
    """Say what to do where a ledger turns out to be changed; what is damaged says so itself."""
    try:
        yield
    except LedgerCorrupt as error:
        if type(error) is not LedgerCorrupt:
            raise
        raise LedgerCorrupt(
            f"{error.message} {advice}", row=error.row or "ledger-changed"
        ) from None


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Tell whoever listens that a ledger is not in order."""
    try:
        yield
    except LedgerCorrupt as error:
        tell_ledger("verification-failed", error.message, row=error.row)
        raise
    tell_ledger("verified", "The ledger verifies.")


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Give what shows the part that is checked, 0 to 1, on a terminal; silent elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done: None
        return
    moves: list[Callable[[float], None]] = []
    with contextlib.ExitStack() as shown:

        def update(done: float) -> None:
            # A small ledger is checked before anybody could read the line.
            if not moves:
                moves.append(_bar(shown))
            moves[0](done)

        yield update


def _bar(shown: contextlib.ExitStack) -> Callable[[float], None]:
    """Show a bar until the stack is closed; return what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, highlight=False),
        transient=True,
    )
    task = bar.add_task("Check the entries", total=1.0)
    shown.enter_context(bar)
    return lambda done: bar.update(task, completed=done)
