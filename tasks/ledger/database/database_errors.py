"""What became of a ledger's database, as an error in one sentence that shows no password."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import sqlalchemy as sa

from dp_core.errors import BadInput, LedgerCorrupt, ReleaseError, StageFailed
from tasks.support.connection_faults import connection_fault

_DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""SQLite's error codes for correct statements on a damaged file."""

_FULL, _DENIED, _CORRUPT = "53100", "42501", ("XX001", "XX002")
"""PostgreSQL's error codes."""


class Damaged(LedgerCorrupt):
    """The database is damaged and cannot read an entry that was written."""

    row = "ledger-damaged"


class Denied(BadInput):
    """The role under which the database is opened lacks a right."""

    row = "right-missing"


def shown(url: str) -> str:
    """Return the URL of a ledger without passwords."""
    secret = ("password", "sslpassword")
    return sa.make_url(url).difference_update_query(secret).render_as_string(hide_password=True)


def failure(error: Exception, url: str, *, opening: bool = False) -> ReleaseError:
    """Return the error that says what became of a ledger's database.

    Args:
        error: Error of SQLAlchemy, of the driver below it, or of text that is not UTF-8.
        url: URL of the ledger.
        opening: Whether the ledger is just being opened; False by default.
    """
    place = shown(url)
    if isinstance(error, sa.exc.IntegrityError) and not opening:
        return StageFailed(
            "The ledger already holds this entry: another process works on the same release.",
            row="taken-over",
        )
    if isinstance(error, UnicodeEncodeError):
        return BadInput(
            "A name or text for the ledger is not valid UTF-8; write it again in UTF-8. Nothing"
            " was recorded."
        )
    if _is_damaged(error) and (not opening or _was_ledger(url)):
        what = (
            f"Entry 1 of the ledger at {place} and all later ones cannot be read: the database is"
            " damaged."
            if opening
            else f"The database of the ledger at {place} is damaged and cannot be read completely;"
            " `dp-release ledger verify` names the first damaged entry."
        )
        return Damaged(f"{what} Keep it, and restore a copy.")
    if is_denied(error):
        return Denied(
            f"The database role lacks a right for this on the ledger at {place}. The database's"
            " owner must grant the rights that deployments/README.md lists."
        )
    if _is_not_writable(error, url):
        return BadInput(
            f"The ledger in the folder {_folder(url)} cannot be written: the disk is read-only, or"
            " this user lacks the right. Nothing was recorded there; make folder and ledger"
            " writable, then type the same command again.",
            row="not-written",
        )
    if getattr(getattr(error, "orig", None), "sqlstate", None) == _FULL or (
        "disk is full" in str(error)
    ):
        return StageFailed(
            f"The disk is full: the ledger at {place} did not take an entry, or could not be"
            " opened. Free some space, then resume.",
            row="disk-full",
        )
    if not opening:
        return StageFailed(
            f"The ledger at {place} did not answer ({type(error).__name__}); check the database and"
            " its disk, then resume.",
            row="ledger-silent",
        )
    if sa.make_url(url).get_backend_name() != "sqlite" and isinstance(error, sa.exc.DBAPIError):
        fault = connection_fault(error)
        says = "does not accept connections" if fault is None else fault.says
        remedy = "check the database server and the network" if fault is None else fault.remedy
        return StageFailed(
            f"The ledger's database at {place} {says}. This command spent nothing: {remedy}"
            " (DP_RELEASE_LEDGER has the URL), then run or resume again.",
            row="ledger-unreachable",
        )
    return StageFailed(
        f"The ledger at {place} cannot be opened or is not a ledger; check DP_RELEASE_HOME and"
        " DP_RELEASE_LEDGER, and that the disk is writable.",
        row="ledger-not-opened",
    )


def is_denied(error: Exception) -> bool:
    """Return whether the database's role lacks a right."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) == _DENIED


def _is_damaged(error: Exception) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True  # SQLite's message quotes bytes of the file that are not valid text
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        if code is None:  # raised by the driver itself
            return "Could not decode" in str(cause)
        return code & 0xFF in _DAMAGE
    return getattr(cause, "sqlstate", None) in _CORRUPT


def _was_ledger(url: str) -> bool:
    """Return whether an unreadable database was a ledger; an SQLite file starts with its schema."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return True
    with contextlib.suppress(OSError), open(str(parsed.database), "rb") as file:
        return b"CREATE TABLE entries" in file.read(1 << 20)
    return False


def _is_not_writable(error: Exception, url: str) -> bool:
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    if code is None:
        return False
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:  # the journal, or what is no file at all
        return not os.access(_folder(url), os.W_OK)
    return code & 0xFF in (sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)


def _folder(url: str) -> Path:
    """Return the folder of an SQLite ledger."""
    return Path(str(sa.make_url(url).database).removeprefix("file:")).absolute().parent
