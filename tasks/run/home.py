"""The home: its folder, its ledger and its keys."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

import sqlalchemy

from dp_core.accounts.signatures import Signer, read_key
from dp_core.errors import LedgerCorrupt, StageFailed
from dp_core.kernel.canonical import digest
from tasks.ledger.anchors.ledger_anchor import LedgerAnchor
from tasks.ledger.input_seals import is_sealed
from tasks.ledger.ledger import Ledger
from tasks.run.home_folder import home, state_folder
from tasks.support.run_folder import disk_errors, sync_folder

KEY = "input.key"
IDENTITY = "home.id"
SIGNING_KEY = "signing.key"
STATE = "state"


def open_ledger(at: Path | None = None, *, refuse: bool = True, demo: bool = False) -> Ledger:
    """Return the ledger of a home, or the one that DP_RELEASE_LEDGER names.

    Args:
        at: The home; by default the one that DP_RELEASE_HOME names.
        refuse: Whether to refuse a ledger that its anchor does not confirm; True by default, False
            for its adoption.
        demo: Whether a new ledger in the home is that of a demo; False by default.

    Raises:
        LedgerCorrupt: if the home's ledger is gone, older than its anchor, or a copy.
    """
    at = at or home()
    assert_not_lost(at)
    url = ledger_url(at)
    # Without a valid URL there is no anchor, and `Ledger` reports the URL.
    with contextlib.suppress(sqlalchemy.exc.ArgumentError):
        anchor = LedgerAnchor(at, state_folder(), url)
        ledger = Ledger(url, signer(at), anchor, demo=demo and url == _own_url(at))
        # The ledger's first entry decides this, and not the folder alone. Otherwise a folder made
        # in any home would move its note into the home, and both could be restored together.
        if (at / STATE).is_dir() and ledger.is_of_demo():
            anchor.state = at / STATE
        if refuse:
            ledger.check_anchor()
        return ledger
    return Ledger(url, signer(at))


def signer(at: Path) -> Signer | None:
    """Return the key that signs this home's ledger entries; None if there is none."""
    named = os.environ.get("DP_RELEASE_SIGNING_KEY")
    path = Path(named).expanduser() if named else at / SIGNING_KEY
    return read_key(path) if named or path.exists() else None


def home_id(at: Path) -> str:
    """Return the identifier of a home, which the ledger records for releases that start in it.

    The identifier includes the inode of its file, so a copy of the home has another identifier.
    That is necessary because each may hold results that the other lacks.
    """
    path = at / IDENTITY
    at.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_once(path, str(uuid.uuid4()).encode())
    return digest([path.read_text().strip(), path.stat().st_ino])


def assert_not_lost(at: Path | None = None) -> None:
    """Refuse a home whose ledger is gone: a new ledger would start with a fresh budget.

    Raises:
        LedgerCorrupt: if there is no ledger, and the home has releases or a note knows a ledger in
            the file's place.
    """
    at = at or home()
    if ledger_exists(at):
        return
    if (at / KEY).exists() or (at / "runs").exists():
        raise LedgerCorrupt(
            f"The home {at} has releases but its ledger is gone; restore {ledger_file(at)} from a"
            " backup. For other data, set DP_RELEASE_HOME to another folder.",
            row="ledger-lost",
        )
    LedgerAnchor(at, state_folder(), ledger_url(at)).check_new()


def ledger_exists(at: Path | None = None) -> bool:
    """Return whether the ledger exists, without creating it."""
    file = ledger_file(at or home())
    return file is None or file.is_file()


def ledger_file(at: Path) -> Path | None:
    """Return the file of an SQLite ledger; None for another database or an invalid URL."""
    try:
        url = sqlalchemy.make_url(ledger_url(at))
    except sqlalchemy.exc.ArgumentError:
        return None
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def home_key(home: Path, ledger: Ledger) -> bytes:
    """Return the confidential key that identifies inputs; create it (mode 0600) if new.

    Raises:
        LedgerCorrupt: if the key is gone or damaged while the ledger holds inputs sealed with it.
    """
    path = home / KEY
    if not path.exists() and ledger.knows_inputs():
        raise LedgerCorrupt(
            f"The key {path} is gone, and without it the ledger cannot recognise data that were"
            " used before. Restore it from a backup.",
            row="input-key-gone",
        )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_once(path, os.urandom(32))
    key = path.read_bytes()
    if len(key) != 32:
        raise LedgerCorrupt(
            f"The key {path} is damaged: it is {len(key)} bytes long, not 32. Without it the ledger"
            " cannot recognise data that were used before. Restore it from a backup.",
            row="input-key-gone",
        )
    return key


def recognising_key(ledger: Ledger) -> bytes:
    """Return the key of this home, by which the ledger recognises its inputs.

    Raises:
        LedgerCorrupt: if the key is gone or damaged.
        StageFailed: if the ledger's inputs are sealed with another key.
    """
    key = home_key(home(), ledger)
    known = ledger.entries(kinds=("input",))[-1:]
    if known and not is_sealed(known[0], key):
        # privacy: under another key the same data have another hash.
        raise StageFailed(
            "The inputs in this ledger were sealed with another key than this home's, so data it"
            " has seen would not be recognised; set DP_RELEASE_HOME to the home that made the"
            " ledger, or copy that home's input.key to this one.",
            row="input-key-other",
        )
    return key


def _write_once(path: Path, content: bytes) -> None:
    """Write a file atomically, unless it exists."""
    with disk_errors(path.name):
        if not path.exists():
            temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # Another process may have created the file first and deleted this temporary file.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                os.link(temporary, path)
            sync_folder(path.parent)
        for left in path.parent.glob(f"{path.name}.*.tmp"):
            left.unlink(missing_ok=True)


def ledger_url(at: Path) -> str:
    """Return the URL of the ledger of a home."""
    return os.environ.get("DP_RELEASE_LEDGER") or _own_url(at)


def _own_url(at: Path) -> str:
    return f"sqlite:///{at / 'ledger.db'}"
