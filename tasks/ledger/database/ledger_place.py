"""The place of a ledger: the properties by which a copy of it differs from the original.

The first entry of a ledger records its place, and so does each `adopt` entry. A place is a mapping
of plain JSON values:

- SQLite: `machine`, a hash of the machine's identifier, and `file` and `born`, the inode number and
  the time of birth of the database file. Renaming a home and `VACUUM` keep them. A copy has another
  inode number, or the freed number of a deleted original and another time of birth.
- PostgreSQL: `database`, the database's object identifier, `system`, the cluster's system
  identifier, and `timeline`, which increases with every promotion and every restore to a point in
  time.

A value is None if this process cannot know it; then it is not compared.

A deleted file has no place, so notes also keep the site of an SQLite ledger (`site_of`): the folder
of its file and the file's name. The site of a PostgreSQL ledger is its database.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from tasks.ledger.database.ledger_store import Place

_DIFFERENCES = {
    "machine": "it was made on another machine",
    "file": "its file is not the file in which it was made",
    "born": "its file was made later than the file in which it was made",
    "database": "it was made in another database of the server",
    "system": "it was made in another PostgreSQL cluster",
    "timeline": "its server was promoted or restored since (another timeline)",
}

_ALLOWED = sa.text(
    "SELECT (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database,"
    " has_function_privilege('pg_control_system()', 'execute') AS system,"
    " NOT pg_is_in_recovery()"
    " AND has_function_privilege('pg_walfile_name(pg_lsn)', 'execute')"
    " AND has_function_privilege('pg_current_wal_lsn()', 'execute') AS timeline"
)
# A role without the right to call a function may not mention it either, so the statements are
# separate. The name of the current WAL file begins with the timeline, and changes at once after a
# promotion; `pg_control_checkpoint` changes with the next checkpoint only.
_SYSTEM = sa.text("SELECT system_identifier::text FROM pg_control_system()")
_TIMELINE = sa.text("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)")


def place_of(connection: sa.Connection) -> dict[str, str | int | None]:
    """Return the place of the ledger that a connection reads.

    Args:
        connection: Connection inside a transaction.
    """
    if connection.dialect.name == "postgresql":
        return _in_cluster(connection)
    file = sqlite_file(connection.engine.url)
    return {
        "machine": _machine(),
        "file": None if file is None else _inode(file),
        "born": None if file is None else _birth(file),
    }


def sqlite_file(url: sa.URL) -> Path | None:
    """Return the file of an SQLite ledger; None for another database."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def site_of(file: Path) -> Place:
    """Return where an SQLite file is or would be, whether or not it exists.

    Returns:
        `machine` as in the place; `folder` and `folder_born`, the inode number and the time of
        birth of its folder, None if there is no folder; `name`, the name of the file.
    """
    folder = file.parent
    return {
        "machine": _machine(),
        "folder": _inode(folder),
        "folder_born": _birth(folder),
        "name": file.name,
    }


def is_same_site(noted: Place, now: Place, *, same_url: bool) -> bool:
    """Return whether a new ledger would be at the site of a noted one.

    A folder that was deleted and made again is another site, as is a database that was dropped and
    created again. Without a time of birth, or without the cluster's identifier, the URL decides in
    addition: the number alone may be that of another folder or database.

    Args:
        noted: Place and site in the note; those of an earlier program lack the site.
        now: Site of the new ledger: from `site_of`, or the place of a PostgreSQL database.
        same_url: Whether the note has the URL of the new ledger.
    """
    number, origin = ("database", "system") if "database" in now else ("folder", "folder_born")
    if now.get(number) is None or noted.get(number) != now[number]:
        return False
    before, after = noted.get(origin), now.get(origin)
    unknown = before is None or after is None
    if not (same_url if unknown else before == after):
        return False
    machines = {noted.get("machine"), now.get("machine")} - {None}
    return len(machines) <= 1 and noted.get("name") == now.get("name")


def difference(recorded: Place, now: Place) -> str | None:
    """Return how a place differs from the recorded one, as a clause; None if it is the same.

    Args:
        recorded: The recorded place; it may lack properties.
        now: The present place.
    """
    for name, clause in _DIFFERENCES.items():
        before, after = recorded.get(name), now.get(name)
        if before is not None and after is not None and before != after:
            return clause
    return None


def _in_cluster(connection: sa.Connection) -> dict[str, str | int | None]:
    allowed = connection.execute(_ALLOWED).one()
    timeline = connection.execute(_TIMELINE).scalar() if allowed.timeline else None
    return {
        "database": allowed.database,
        "system": connection.execute(_SYSTEM).scalar() if allowed.system else None,
        "timeline": None if timeline is None else int(timeline, 16),
    }


def _machine() -> str | None:
    """Return a hash of this machine's identifier; None without one.

    DP_RELEASE_MACHINE replaces the identifier, for containers and for several machines that share a
    home. systemd asks programs not to publish the identifier itself, hence the hash.
    """
    named = os.environ.get("DP_RELEASE_MACHINE", "").strip()
    if not named:
        with suppress(OSError, UnicodeDecodeError):
            named = Path("/etc/machine-id").read_text().strip()
    return hashlib.sha256(f"dp-release ledger {named}".encode()).hexdigest() if named else None


def _inode(file: Path) -> int | None:
    with suppress(OSError):
        return file.stat().st_ino
    return None


def _birth(file: Path) -> str | None:
    """Return the time at which a file was made, in seconds with nanoseconds; None if not known.

    Python does not give it on Linux, hence `statx(2)`. The file must not be opened for this,
    because closing it would release SQLite's locks on it.
    """
    if sys.platform != "linux":
        return None
    here, birth, size = -100, 0x800, 256  # AT_FDCWD, STATX_BTIME, size of `struct statx`
    found = ctypes.create_string_buffer(size)
    try:
        failed = ctypes.CDLL(None).statx(here, os.fsencode(file), 0, birth, found)
    except (AttributeError, OSError):  # a C library without `statx`
        return None
    mask, seconds, part = (
        kind.from_buffer(found, at).value
        for kind, at in ((ctypes.c_uint32, 0), (ctypes.c_int64, 80), (ctypes.c_uint32, 88))
    )
    return None if failed or not mask & birth else f"{seconds}.{part:09}"
