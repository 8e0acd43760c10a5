"""Where things are: the home, its ledger, and its key."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path

import sqlalchemy

from dp_core.canonical import canonical_json
from dp_core.errors import LedgerCorrupt
from dp_core.ledger.signing import Signer, read_key
from tasks.stores.artifacts import disk_errors, sync_folder, write_atomically
from tasks.stores.ledger import Ledger

KEY = "input.key"
HEAD = "ledger.head"
IDENTITY = "home.id"
SIGNING_KEY = "signing.key"


def home() -> Path:
    """Return the folder of the ledger and of all runs."""
    return Path(os.environ.get("DP_RELEASE_HOME") or Path.home() / ".dp-release").expanduser()


def open_ledger(at: Path | None = None) -> Ledger:
    """Return the ledger of a home, or the one that DP_RELEASE_LEDGER names.

    Raises:
        LedgerCorrupt: if the home had a ledger and it is gone.
    """
    at = at or home()
    assert_not_lost(at)
    ledger = Ledger(_url(at), signer(at))
    _check_head(at, ledger)
    return ledger


def signer(at: Path) -> Signer | None:
    """Return the key that signs what this home writes, None where it has none."""
    named = os.environ.get("DP_RELEASE_SIGNING_KEY")
    path = Path(named).expanduser() if named else at / SIGNING_KEY
    return read_key(path) if named or path.exists() else None


def home_id(at: Path) -> str:
    """Return the identifier of a home, which a release that was begun here carries."""
    path = at / IDENTITY
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        at.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_once(path, str(uuid.uuid4()).encode())
        return path.read_text().strip()


def note_head(at: Path, ledger: Ledger) -> None:
    """Note in the home how far the ledger went, so that an older copy of it is recognised."""
    last = ledger.head()
    values = {"ledger": ledger.identity(), "position": last.position, "link": last.link}
    # Several releases of a home may note at once.
    temporary = at / f"{HEAD}.{os.getpid()}"
    write_atomically(temporary, canonical_json(values))
    with disk_errors(HEAD):
        temporary.replace(at / HEAD)


def _check_head(at: Path, ledger: Ledger) -> None:
    try:
        noted = json.loads((at / HEAD).read_bytes())
        position, link = noted["position"], noted["link"]
        known = noted["ledger"] != ledger.identity() or ledger.holds(position, link)
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise LedgerCorrupt(
            f"The note {at / HEAD} is damaged: restore it, or delete it if the ledger is current."
        ) from None
    if not known:
        raise LedgerCorrupt(
            f"The ledger is older than what {at / HEAD} noted, or was changed: what it lacks would"
            " be a fresh budget. Restore its newest copy; only if there is none, and the privacy"
            f" officer agrees, delete {HEAD}."
        )


def assert_not_lost(at: Path | None = None) -> None:
    """Refuse a home that had a ledger: a new one would give everybody a fresh budget.

    Raises:
        LedgerCorrupt: if it is gone.
    """
    at = at or home()
    if not ledger_exists(at) and ((at / KEY).exists() or (at / "runs").exists()):
        raise LedgerCorrupt(
            f"The home {at} has releases but no ledger any more; restore {_ledger_file(at)} from a"
            " backup. To begin anew with other data, set DP_RELEASE_HOME to another folder."
        )


def ledger_exists(at: Path | None = None) -> bool:
    """Return whether there is a ledger yet; looking does not make one."""
    file = _ledger_file(at or home())
    return file is None or file.is_file()


def _ledger_file(at: Path) -> Path | None:
    """Return the file of an SQLite ledger, None where the ledger is no file or its URL no URL."""
    try:
        url = sqlalchemy.make_url(_url(at))
    except sqlalchemy.exc.ArgumentError:
        return None
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def home_key(home: Path, ledger: Ledger) -> bytes:
    """Return the confidential key that identifies inputs, making it the first time (mode 0600).

    Raises:
        LedgerCorrupt: if the key is gone or damaged while the ledger holds inputs sealed with it.
    """
    path = home / KEY
    if not path.exists() and ledger.knows_inputs():
        raise LedgerCorrupt(
            f"The key {path} is gone, and without it the ledger cannot recognise data it has seen;"
            " restore it from a backup."
        )
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        _write_once(path, os.urandom(32))
    key = path.read_bytes()
    if len(key) != 32:
        raise LedgerCorrupt(
            f"The key {path} is damaged (it should hold 32 bytes), and without it the ledger cannot"
            " recognise data it has seen; restore it from a backup."
        )
    return key


def _write_once(path: Path, content: bytes) -> None:
    """Write a new file, whole or not at all; one that is there meanwhile is left alone."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with disk_errors(path.name):
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def _url(at: Path) -> str:
    return os.environ.get("DP_RELEASE_LEDGER") or f"sqlite:///{at / 'ledger.db'}"
