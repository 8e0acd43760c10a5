"""The anchor: a note of each ledger's last entry in the home, to recognise an older copy.

The chain reveals changed entries. It does not reveal that the last entries are missing, or that the
whole database was replaced. The note of the last entry reveals both.
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
    """Note the last entry of a ledger.

    Args:
        at: Folder of the home.
        ledger: The home's ledger.
        url: SQLAlchemy URL of the ledger.
    """
    notes, last, name = _notes(at), ledger.head(), ledger.identity()
    note = {"position": last.position, "link": last.link, "place": _place(url)}
    if notes.get(name) == note:
        return
    if notes.get(name, {}).get("position", 0) > last.position:
        return  # another release of this home has noted a later entry
    notes[name] = note
    # The name has the process number, because several releases of a home may write at once.
    temporary = at / f"{HEAD}.{os.getpid()}"
    # The glob below deletes files that killed processes left. It can also delete a file that
    # another process is writing now; that process then skips this note.
    with disk_errors(HEAD), suppress(FileNotFoundError):
        write_atomically(temporary, canonical_json({"version": HEAD_VERSION, "ledgers": notes}))
        temporary.replace(at / HEAD)
    for left in at.glob(f"{HEAD}.*"):
        left.unlink(missing_ok=True)


def check_anchor(at: Path, ledger: Ledger, url: str) -> None:
    """Refuse a ledger that is older than its note, or that replaced another one.

    Args:
        at: Folder of the home.
        ledger: The home's ledger.
        url: SQLAlchemy URL of the ledger.

    Raises:
        LedgerCorrupt: if the ledger is older or replaced another one, or the note is damaged.
    """
    notes, name = _notes(at), ledger.identity()
    noted = notes.get(name)
    if noted is not None:
        if not ledger.has_entry(noted["position"], noted["link"]):
            raise LedgerCorrupt(
                f"The ledger is older than the note {at / HEAD}, or was changed, so budget that was"
                " spent could be spent again. Restore its newest copy. Only if there is none, and"
                f" the privacy officer agrees, delete {HEAD}.",
                row="ledger-older",
            )
    elif any(note["place"] == _place(url) for note in notes.values()):
        raise LedgerCorrupt(
            f"This is not the ledger that {at / HEAD} noted at its place, so budget that was spent"
            " could be spent again. Restore the earlier ledger. Only if it is given up for good,"
            f" and the privacy officer agrees, delete {HEAD}.",
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
            f"The note {at / HEAD} is damaged. Restore it, or delete it if the ledger is current.",
            row="head-damaged",
        ) from None
    return notes


def _place(url: str) -> str:
    """Return a hash of a ledger's URL without user and password."""
    parsed = sa.make_url(url)
    place = [parsed.get_backend_name(), parsed.host, parsed.port, parsed.database]
    query = {name: value for name, value in parsed.query.items() if name in ("host", "port")}
    return hashlib.sha256(canonical_json([*place, query])).hexdigest()
