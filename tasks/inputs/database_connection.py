"""The read-only connection to a database that holds confidential tables, and its errors.

The URL is taken from an environment variable only. A driver's messages are never shown, because
they may quote the URL, the host, the user or a value.
"""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from dp_core.errors import BadInput, ReleaseError, SchemaViolation, StageFailed
from dp_core.plan.data_location import DatabaseTable
from tasks.support.connection_faults import connection_fault

Result = TypeVar("Result")

CONNECT_SECONDS = 10
"""Seconds to wait for a connection."""
LEVELS = {"postgresql": "REPEATABLE READ", "mysql": "REPEATABLE READ", "mariadb": "REPEATABLE READ"}
"""Isolation level at which all reads see the same moment; SERIALIZABLE for other databases."""


def reading(place: DatabaseTable, work: Callable[[sa.Connection], Result]) -> Result:
    """Call a function in one read-only transaction, in which all reads see the same moment.

    Args:
        place: The table; names the environment variable with the database's URL.
        work: Reads from the connection.

    Returns:
        The result of `work`.

    Raises:
        BadInput: if the variable or its URL is invalid, there is no driver, no connection or no
            right to read the table, or a value cannot be read.
        StageFailed: if the connection is lost; a new attempt may succeed.

    Privacy:
        Errors are raised outside the `except` blocks, because a driver's error, which may quote the
        URL or values, would otherwise be their context.
    """
    engine = _engine(place.variable)
    failure: ReleaseError
    try:
        with _connect(engine, place.variable) as connection:
            return work(_begin(connection))
    except ReleaseError as error:
        failure = error
    except sa.exc.SQLAlchemyError as error:
        failure = _failure(place, error)
    except (UnicodeDecodeError, OverflowError) as error:
        failure = _unreadable(place, error)
    finally:
        engine.dispose()
    failure.__context__ = None
    raise failure


def _connect(engine: sa.Engine, variable: str) -> sa.Connection:
    try:
        return engine.connect()
    except (sa.exc.SQLAlchemyError, OSError, ValueError, TypeError) as error:
        failure = _unreachable(variable, error)
    raise failure


def _engine(variable: str) -> sa.Engine:
    text = os.environ.get(variable, "")
    if not text.strip():
        raise BadInput(
            f"The environment variable {variable} is not set; set it to the URL of the database,"
            " such as postgresql://reader@host/database, where the release runs.",
            row="database-variable",
        )
    try:
        url = sa.make_url(text.strip())
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        options: dict[str, Any] = {}
        backend = url.get_backend_name()
        if backend == "postgresql" and "connect_timeout" not in url.query:
            options["connect_args"] = {"connect_timeout": CONNECT_SECONDS}
        if backend == "sqlite":
            options["creator"] = _sqlite(url)
        return sa.create_engine(url, poolclass=sa.NullPool, hide_parameters=True, **options)
    except (sa.exc.NoSuchModuleError, ImportError):
        raise BadInput(
            f"No driver is installed for the kind of database that the URL in {variable} begins"
            " with; correct its beginning (postgresql://, sqlite:///), or install the Python"
            " package that SQLAlchemy needs for it.",
            row="database-variable",
        ) from None
    except (sa.exc.ArgumentError, ValueError, TypeError):
        # privacy: the value is not shown and the cause is dropped, as both may hold a password.
        raise BadInput(
            f"The environment variable {variable} does not hold the URL of a database; write one"
            " such as postgresql://reader@host/database or sqlite:////folder/file.db. In a"
            " password, write characters like @ and / as %40 and %2F.",
            row="database-variable",
        ) from None


def sqlite_file(variable: str) -> Path | None:
    """Return the file of the SQLite database that a variable names; None if it names none."""
    with suppress(sa.exc.ArgumentError, ValueError, TypeError):
        url = sa.make_url(os.environ.get(variable, "").strip())
        if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
            return Path(str(url.database)).absolute()
    return None


def _sqlite(url: sa.URL) -> Any:
    """Return a function that opens an SQLite file for reading; a missing file is not created."""
    path = url.database or ":memory:"

    def connect() -> sqlite3.Connection:
        quoted = urllib.parse.quote(os.path.abspath(path))
        # This module starts transactions itself, so the driver must not.
        connection = sqlite3.connect(
            f"file:{quoted}?mode=ro", uri=True, isolation_level=None, timeout=CONNECT_SECONDS
        )
        # privacy: a view that sorts would write rows to a file of the system's temporary folder.
        connection.execute("PRAGMA temp_store=MEMORY")
        return connection

    return connect


def _begin(connection: sa.Connection) -> sa.Connection:
    """Begin the transaction, with settings under which values are written exactly."""
    name = connection.dialect.name
    if name == "sqlite":
        connection.exec_driver_sql("BEGIN")
        return connection
    options: dict[str, Any] = {"isolation_level": LEVELS.get(name, "SERIALIZABLE")}
    if name == "postgresql":
        options["postgresql_readonly"] = True
    connection = connection.execution_options(**options)
    if name == "postgresql":
        connection.exec_driver_sql("SET LOCAL extra_float_digits = 1")
        connection.exec_driver_sql("SET LOCAL TIME ZONE 'UTC'")
        connection.exec_driver_sql("SET LOCAL DateStyle = 'ISO'")
    return connection


def _unreachable(variable: str, error: Exception) -> BadInput:
    fault = connection_fault(error)
    why = "does not answer" if fault is None else fault.says
    return BadInput(
        f"The database that {variable} names {why}; check the URL in it, the database and the"
        " network. Nothing was read or spent.",
        row="database-silent",
    )


def _failure(place: DatabaseTable, error: sa.exc.SQLAlchemyError) -> ReleaseError:
    """Return the error to raise about a failure after the connection was made."""
    cause = getattr(error, "orig", None)
    state = str(getattr(cause, "sqlstate", None) or "")
    text = str(cause).lower()
    if state == "42501" or "command denied" in text:
        return BadInput(
            f"The database role of {place.variable} may not read table {place.written!r}. Ask its"
            " owner to grant SELECT on the table (or on the columns in the schema) and USAGE on"
            " the table's schema.",
            row="database-right",
        )
    if "file is not a database" in text:
        return _unreachable(place.variable, error)
    unreadable = isinstance(error, sa.exc.DataError) or "could not decode" in text
    if unreadable and not state.startswith(("08", "57")):
        return _unreadable(place, cause or error)
    return StageFailed(
        f"The database that {place.variable} names failed or went away while table"
        f" {place.written!r} was read ({type(error).__name__}{', ' + state if state else ''});"
        " nothing of it was kept. When the database works again, use `dp-release resume`.",
        row="database-lost",
    )


def _unreadable(place: DatabaseTable, error: BaseException) -> SchemaViolation:
    return SchemaViolation(
        f"Table {place.written!r} holds a value that cannot be read, such as a day before the year"
        " 1 or after 9999, or text that is not in the database's encoding; correct it, or use a"
        " view that leaves it out.",
        internal=str(error),
        row="database-values",
    )
