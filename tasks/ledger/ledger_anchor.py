"""Notes in the home of how far each of its ledgers went, so that a lost or older one is recognised.

The chain shows that no entry was changed. It cannot show that its last entries were cut off, nor
that the whole database is another one: for that, somebody has to remember the end.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dp_core.documents.canonical import canonical_json
from dp_core.errors import LedgerCorrupt
from tasks.ledger.ledger import Ledger
from tasks.support.run_folder import disk_errors, write_atomically

HEAD = "ledger.head"
HEAD_VERSION = 1


def note_anchor(at: Path, ledger: Ledger, url: str) -> None:
    """Note how far a ledger went.

    Args:
        at: The home.
        ledger: Its ledger.
        url: Where the ledger is.
    """
    notes, last, name = _notes(at), ledger.head(), ledger.identity()
    note = {"position": last.position, "link": last.link, "place": _place(url)}
    if notes.get(name) == note:
        return
    if notes.get(name, {}).get("position", 0) > last.position:
        return  # another release of this home noted more meanwhile
    notes[name] = note
    # Several releases of a home may note at once.
    temporary = at / f"{HEAD}.{os.getpid()}"
    # What a killed process left is cleared away. It may be what another is just writing: that one
    # loses this note, not an older one.
    with disk_errors(HEAD), suppress(FileNotFoundError):
        write_atomically(temporary, canonical_json({"version": HEAD_VERSION, "ledgers": notes}))
        temporary.replace(at / HEAD)
    for left in at.glob(f"{HEAD}.*"):
        left.unlink(missing_ok=True)


def check_anchor(at: Path, ledger: Ledger, url: str) -> None:
    """Refuse a ledger that is older than was noted, or not the one that was at its place.

    Raises:
        LedgerCorrupt: if so, or if the note is damaged.
    """
    notes, name = _notes(at), ledger.identity()
    noted = notes.get(name)
    if noted is not None:
        if not ledger.has_entry(noted["position"], noted["link"]):
            raise LedgerCorrupt(
                f"The ledger is older than what {at / HEAD} noted, or was changed: what it lacks"
                " would be a fresh budget. Restore its newest copy; only if there is none, and the"
                f" privacy officer agrees, delete {HEAD}.",
                row="ledger-older",
            )
    elif any(note["place"] == _place(url) for note in notes.values()):
        raise LedgerCorrupt(
            f"Another ledger is where {at / HEAD} noted one: a new one would give everybody a fresh"
            " budget. Restore the ledger that was there; only if it is given up for good, and the"
            f" privacy officer agrees, delete {HEAD}.",
            row="ledger-replaced",
        )


def _notes(at: Path) -> dict[str, dict[str, Any]]:
    try:
        values = json.loads((at / HEAD).read_bytes())
        notes: dict[str, dict[str, Any]] = values["ledgers"]
        for note in notes.values():
            if not isinstance(note["position"], int) or {*note} != {"position", "link", "place"}:
                raise ValueError
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise LedgerCorrupt(
            f"The note {at / HEAD} is damaged: restore it, or delete it if the ledger is current.",
            row="head-damaged",
        ) from None
    return notes


def _place(url: str) -> str:
    """Return a hash of where a ledger is, without user and password."""
    parsed = sa.make_url(url)
    place = [parsed.get_backend_name(), parsed.host, parsed.port, parsed.database]
    query = {name: value for name, value in parsed.query.items() if name in ("host", "port")}
    return hashlib.sha256(canonical_json([*place, query])).hexdigest()
