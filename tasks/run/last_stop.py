"""Why the last attempt at a release stopped, for `status`: its next step must not fail likewise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BudgetRefused, Held, ReleaseError, Unpublished
from tasks.ledger.ledger import Ledger
from tasks.run.home import home, open_ledger
from tasks.run.home_notes import Stop, read_stop, write_stop
from tasks.support.run_folder import RunFolder, kept_message, with_row

if TYPE_CHECKING:
    from dp_core.kernel.ledger.receipts import EntryKind

_ALLOWING: tuple[EntryKind, ...] = ("raise", "restate", "approve", "allow-retry")
"""Kinds of entries by which a person allows what the ledger refused."""


@contextmanager
def stop_noted(release: str) -> Iterator[None]:
    """Note the error that ends the block as the reason why a release stopped; raise it again."""
    try:
        yield
    except (Held, Unpublished):
        raise  # the ledger has this
    except ReleaseError as error:
        note_stop(release, error)
        raise


def note_stop(release: str, error: ReleaseError) -> None:
    """Note why a release stopped, unless it is unknown or another process works on it now.

    Args:
        release: Its name.
        error: What stopped it.

    Privacy:
        The note has the fixed sentence and the runbook row, and where the error's own message is.
    """
    # If the ledger cannot be asked, `status` cannot be either.
    with suppress(ReleaseError):
        ledger = open_ledger(home())
        if ledger.reservation(release) is not None and ledger.holder(release) is None:
            at = ledger.head().position if isinstance(error, BudgetRefused) else None
            kept = None if error.message_file is None else str(error.message_file)
            write_stop(RunFolder(home(), release), Stop(error.message, error.row, at, kept))


def last_stop(ledger: Ledger, folder: RunFolder, *, show_message: bool = False) -> str | None:
    """Return why the last attempt at a release stopped, and what to do; None if it did not.

    A refusal by the ledger counts until a person has allowed something since.

    Args:
        ledger: The ledger.
        folder: Folder of the release.
        show_message: Return the error's own message, which may be confidential, if it was kept;
            False by default, for the fixed one.
    """
    stop = read_stop(folder)
    if stop is None:
        return None
    if stop.refused_at is not None:
        (*_, last) = ledger.entries(kinds=_ALLOWING, last=1) or (None,)
        if last is not None and last.position > stop.refused_at:
            return None
    own = kept_message(Path(stop.kept)) if show_message and stop.kept else None
    return own or with_row(stop.sentence, stop.row)
