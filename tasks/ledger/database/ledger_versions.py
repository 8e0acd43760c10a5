"""The version of a ledger's tables: making new ones, and bringing earlier ones up to date.

The version is a number of four digits in a table of its own. Each kind of entry or event that an
earlier program would take for damage needs a new version too, so that this program refuses it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import sqlalchemy as sa

from dp_core.accounts.ledger_version import not_known
from dp_core.errors import BadInput
from tasks.ledger.database.database_errors import Damaged, is_denied, shown
from tasks.ledger.database.ledger_tables import (
    APPEND_ONLY,
    LEASES,
    METADATA,
    REFUSE_CHANGE,
    VERSION,
    refusals,
)

SCHEMA_VERSION = "0012"
"""Version of the tables that this program needs."""

_FIRST_TABLES = frozenset({"entries", "totals", "leases", VERSION.name})
"""Tables that a ledger of every version has."""


def _seal_leases(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE leases ADD COLUMN seal TEXT")
    for release, *values, _ in connection.execute(sa.select(LEASES)).all():
        # The same checksum as `tasks.ledger.leases.lease_seal`, which later versions may change.
        text = json.dumps([release, *values], separators=(",", ":"), ensure_ascii=False)
        seal = hashlib.sha256(text.encode()).hexdigest()
        connection.execute(sa.update(LEASES).where(LEASES.c.release == release).values(seal=seal))


def _drop_index(connection: sa.Connection) -> None:
    connection.exec_driver_sql("DROP INDEX receipts_of_reservation")


STEPS: dict[str, Callable[[sa.Connection], None]] = {"0005": _seal_leases, "0011": _drop_index}
"""What changed the tables, by version; the other versions changed the entries only.

A released step never changes. It changes no row, and adds a column only if that may be NULL.
"""


def is_current(connection: sa.Connection, url: str) -> bool:
    """Return whether a database is a ledger of this version; False if `migrate` must make it one.

    Raises:
        BadInput: if it is a ledger of an unknown version, or another program's database.
        Damaged: if tables of the ledger are missing.
    """
    known, tables = set(sa.inspect(connection).get_table_names()), {*METADATA.tables}
    version = _version(connection) if VERSION.name in known else None
    number = int(version) if isinstance(version, str) and version.isdecimal() else 0
    if known >= (tables if version == SCHEMA_VERSION else _FIRST_TABLES) and (
        1 <= number <= int(SCHEMA_VERSION)
    ):
        _refuse_unknown(connection, url)
        return version == SCHEMA_VERSION
    if number > int(SCHEMA_VERSION):
        raise BadInput(
            f"The ledger at {shown(url)} was made by a newer version of dp-release; update this"
            " one.",
            row="newer-ledger",
        )
    if known & tables - {VERSION.name}:
        # Creating the missing tables would begin a second ledger beside the first.
        missing = sorted(tables - known) or [VERSION.name]
        raise Damaged(
            f"The ledger at {shown(url)} is damaged and cannot be opened (missing or changed"
            f" table: {', '.join(missing)}). Keep it, and restore a copy."
        )
    if version is not None:
        raise BadInput(
            f"The database at {shown(url)} belongs to another program; use a separate database"
            " for the ledger.",
            row="ledger-url",
        )
    return False


def migrate(connection: sa.Connection) -> None:
    """Make the tables of this version, or bring earlier ones up to date.

    Args:
        connection: Connection inside the transaction that does it.
    """
    before = _version(connection) if sa.inspect(connection).has_table("entries") else None
    if before is not None:
        for version, step in STEPS.items():
            if version > before:
                step(connection)
        connection.execute(sa.update(VERSION).values(version_num=SCHEMA_VERSION))
        return
    METADATA.create_all(connection)
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.exec_driver_sql(REFUSE_CHANGE)
    for table, taken in APPEND_ONLY.items():
        for statement in refusals(dialect, table, taken):
            connection.exec_driver_sql(statement)
    connection.execute(sa.insert(VERSION).values(version_num=SCHEMA_VERSION))


def _version(connection: sa.Connection) -> str | None:
    query = f"SELECT version_num FROM {VERSION.name}"
    found: str | None = connection.exec_driver_sql(query).scalar()
    return found


def _refuse_unknown(connection: sa.Connection, url: str) -> None:
    """Refuse a ledger of an unknown format version, whose entries would look damaged.

    Raises:
        BadInput: if the first entry states an unknown version.
    """
    query = "SELECT body FROM entries WHERE position = 1"
    try:
        version = json.loads(str(connection.exec_driver_sql(query).scalar()))["version"]
    except (sa.exc.DBAPIError, LookupError, TypeError, ValueError, RecursionError) as error:
        if is_denied(error):
            raise
        return  # the check of the whole ledger reports the fault
    unknown = not_known(version) if type(version) is int else None
    if unknown is not None:
        raise BadInput(f"The ledger at {shown(url)} {unknown}.", row="newer-ledger")
