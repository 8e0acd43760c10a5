"""The check of a ledger or of its export, with a progress bar on a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.accounts.chain_audit import audit
from dp_core.accounts.signatures import read_public
from dp_core.errors import LedgerCorrupt
from dp_core.kernel.ledger.entries import Entry
from dp_core.policies.all_policies import POLICIES
from dp_core.text.pages.answer import CommandAnswer
from flows.answers.ledger_answers import ledger_check
from flows.monitoring.prefect_events import tell_check
from tasks.ledger.export import read_export
from tasks.run.home_notes import record_check

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger

_STEP = 1000
_LEDGER_NEXT = (
    "Make no release from this ledger and change nothing in it; compare it with the last backup or"
    " export that verifies."
)
_EXPORT_NEXT = "Compare it with another export of the same ledger, and with its noted head."


def check_ledger(ledger: Ledger, home: Path, keys: Sequence[Path], *, quiet: bool) -> CommandAnswer:
    """Check every entry of a home's ledger.

    Args:
        ledger: Ledger of the home.
        home: The home. If it holds the key of the inputs, their seals are checked too.
        keys: Paths of public keys, one of which must have signed the last entry; empty accepts any
            key.
        quiet: Show no progress.

    Returns:
        The answer of `dp-release ledger verify`.

    Raises:
        BadInput: if a file holds no public key.
        LedgerCorrupt: if an entry does not verify; the message names the first one.
    """
    from tasks.run.home import IDENTITY, KEY, home_key

    trusted = [read_public(path) for path in keys]
    # Only a home that made releases must have the key. Another home, such as an auditor's on a
    # shared database, checks everything but the seals, and no key is created for it.
    made_releases = (home / KEY).exists() or (home / "runs").exists() or (home / IDENTITY).exists()
    key = home_key(home, ledger) if made_releases and ledger.knows_inputs() else None
    with (
        record_check(home),
        _check_event(),
        with_advice(_LEDGER_NEXT),
        progress(quiet=quiet) as update,
    ):
        ledger.check_anchor()
        found = ledger.verify(key, trusted=trusted, progress=update)
    sealed = "checked" if key else "not checked" if ledger.knows_inputs() else "none"
    anchor = _anchor(ledger)
    return ledger_check(found, trusted, home=home, seals=sealed, anchor=anchor)


def check_export(path: Path, keys: Sequence[Path], *, quiet: bool) -> CommandAnswer:
    """Check every entry of an export, without a ledger or a home.

    Args:
        path: Path of the export.
        keys: Paths of public keys, one of which must have signed the last entry; empty accepts any
            key.
        quiet: Show no progress.

    Raises:
        BadInput: if the file is not an export, or a key file holds no public key.
        LedgerCorrupt: if an entry does not verify; the message names the first one.
    """
    trusted = [read_public(file) for file in keys]
    total = _stated_entries(path)
    with with_advice(_EXPORT_NEXT), progress(quiet=quiet) as update:

        def inspect(entry: Entry) -> None:
            if entry.position % _STEP == 0:
                update(min(1.0, entry.position / total))

        found = audit(read_export(path), POLICIES, trusted=trusted, inspect=inspect)
    # The key of the seals never leaves the home, so an export cannot be checked for them.
    return ledger_check(found, trusted, export=path, seals="not checked")


def _anchor(ledger: Ledger) -> dict[str, Any] | None:
    """Return the notes of a ledger's head and the place where the ledger is; None without any."""
    found = ledger.anchor_findings()
    if found is None:
        return None
    return {
        "noted": found.newest.position if found.newest else 0,
        "noted_in": sorted(path.parent for path in found.noted),
        "place": "as recorded" if found.recorded else "not recorded",
        # What this process cannot know of the place, so that it was not compared.
        "unknown": sorted(name for name, value in found.now.items() if value is None),
        "adopted": [{"day": one.day, "behind": one.behind} for one in ledger.adoptions()],
    }


def _stated_entries(path: Path) -> int:
    """Return the number of entries that an export's first line states; used for progress only."""
    try:
        with path.open("rb") as file:
            return max(1, int(json.loads(file.readline(1 << 16))["entries"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 1  # `read_export` reports the error


@contextlib.contextmanager
def with_advice(advice: str) -> Iterator[None]:
    """Add advice to the message of a `LedgerCorrupt`; its subclasses carry their own advice."""
    try:
        yield
    except LedgerCorrupt as error:
        if type(error) is not LedgerCorrupt:
            raise
        raise LedgerCorrupt(
            f"{error.message} {advice}", row=error.row or "ledger-changed"
        ) from None


@contextlib.contextmanager
def _check_event() -> Iterator[None]:
    """Emit an event about the result of a ledger check."""
    try:
        yield
    except LedgerCorrupt as error:
        tell_check("ledger", "verification-failed", error.message, error.row)
        raise
    tell_check("ledger", "verified", "The ledger verifies.", None)


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Yield a function that shows the part that is checked, 0 to 1; silent outside a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done: None
        return
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

    def update(done: float) -> None:
        # The first call shows the bar; the check of a small ledger makes no call.
        bar.start()
        bar.update(task, completed=done)

    try:
        yield update
    finally:
        bar.stop()
