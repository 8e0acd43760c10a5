"""The ledger's database on SQLite or PostgreSQL: opening, migration and transactions.

A write transaction holds the ledger's single lock from its beginning (SQLite: `BEGIN IMMEDIATE`;
PostgreSQL: an advisory lock). So the values that it reads cannot change before it writes. A
finished transaction is on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import sqlalchemy as sa

from dp_core.accounts.ledger_version import LEDGER_VERSION, not_known
from dp_core.accounts.signatures import Signer
from dp_core.errors import BadInput, LedgerCorrupt, ReleaseError, StageFailed
from tasks.ledger.database.ledger_place import place_of
from tasks.ledger.database.ledger_tables import METADATA
from tasks.ledger.database.transaction import Transaction
from tasks.support.connection_faults import connection_fault

if TYPE_CHECKING:
    from alembic.config import Config

SCHEMA_VERSION = "0010"
"""Name of the latest migration, which this version of the program needs."""

_STEPS = "tasks.ledger.database:migrations"
"""Location of the migrations for Alembic."""

_LOCK = 0x6470_6C65_6467_6572
"""Number of the ledger's advisory lock in PostgreSQL; one database holds one ledger."""

# Sent in one round trip. The timeouts end the transaction of a writer that hangs, so that it does
# not block the others. READ COMMITTED, whatever the server's default is, makes each statement see
# what was committed before it: a snapshot from before the lock would be outdated.
_POSTGRES_WRITER = "; ".join(
    (
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET LOCAL synchronous_commit = on",
        "SET LOCAL lock_timeout = '60s'",
        "SET LOCAL idle_in_transaction_session_timeout = '60s'",
        f"SELECT pg_advisory_xact_lock({_LOCK})",
    )
)


_DAY_S = 86_400
_TABLES = frozenset(METADATA.tables)
_FIRST_TABLES = frozenset({"entries", "totals", "leases"})
"""Tables of the first migration, which a ledger of any version has."""

_DAMAGE = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""SQLite's error codes for correct statements on a damaged file."""


class Damaged(LedgerCorrupt):
    """The database is damaged and cannot read an entry that was written."""

    row = "ledger-damaged"


class Denied(BadInput):
    """The role under which the database is opened lacks a right."""

    row = "right-missing"


class _Undone(Exception):
    """Rolls back a transaction of `Database.trying`."""


class Anchor(Protocol):
    """The notes of a ledger's head outside its database."""

    def check(self, book: Transaction) -> Callable[[Transaction], None]:
        """Refuse a ledger that must not be written; return what notes its head after a commit."""

    def check_new(self, connection: sa.Connection) -> None:
        """Refuse to make a ledger where a note knows an earlier one."""


class Database:
    """One ledger's database."""

    def __init__(
        self,
        url: str,
        signer: Signer | None = None,
        anchor: Anchor | None = None,
        *,
        demo: bool = False,
    ) -> None:
        """Open the database; a new one becomes an empty ledger.

        Args:
            url: SQLAlchemy URL of SQLite or PostgreSQL.
            signer: Key that signs new entries; None (the default) without one.
            anchor: Notes that every write checks and moves; None (the default) without them.
            demo: Whether a new ledger is that of a demo; False by default.

        Raises:
            BadInput: if the URL cannot hold a ledger, a right is missing, or a newer version of the
                program made the ledger.
            LedgerCorrupt: if the database is damaged, or is empty and a note knows a ledger in it.
            StageFailed: if the database cannot be opened.
        """
        self.url = url
        self.signer = signer
        self.anchor = anchor
        self._engine = _engine(url)
        try:
            self._prepare(demo=demo)
        except ReleaseError:
            raise
        except (sa.exc.SQLAlchemyError, UnicodeDecodeError) as error:
            if _is_damaged(error) and _was_ledger(self._engine):
                raise Damaged(
                    f"Entry 1 of the ledger at {_shown(url)} and all later ones cannot be read: the"
                    " database is damaged. Keep it, and restore a copy."
                ) from None
            if _is_denied(error):
                raise Denied(_denied(url)) from None
            raise _unopened(url, error) from None

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @contextlib.contextmanager
    def writing(self, *, anchored: bool = True) -> Iterator[Transaction]:
        """Provide the entries in one write transaction; an exception rolls it back.

        The anchor is checked before the block, under the write lock, and moved after the commit.

        Args:
            anchored: Whether to do that; False while a ledger is created or adopted.
        """
        note: Callable[[Transaction], None] | None = None
        with self._errors(), self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                if self.dialect == "postgresql":
                    connection.exec_driver_sql(_POSTGRES_WRITER)
                    _check_clock(connection)
                book = Transaction(connection, self.signer)
                if anchored and self.anchor is not None:
                    note = self.anchor.check(book)
                yield book
                book.write_totals()
        if note is not None and book.has_appended:
            note(book)

    @contextlib.contextmanager
    def trying(self) -> Iterator[Transaction]:
        """Provide the entries as `writing` does, and roll back when the block ends."""
        with contextlib.suppress(_Undone), self.writing() as book:
            yield book
            raise _Undone

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Provide the entries in one consistent read transaction, which does not block writers."""
        with self._errors(), self._engine.connect() as connection:
            if self.dialect == "postgresql":
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield Transaction(connection, None)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.IntegrityError:
            raise StageFailed(
                "The ledger already holds this entry: another process works on the same release.",
                row="taken-over",
            ) from None
        except UnicodeEncodeError:
            raise BadInput(
                "A name or text for the ledger is not valid UTF-8; write it again in UTF-8. Nothing"
                " was recorded."
            ) from None
        except (sa.exc.SQLAlchemyError, UnicodeDecodeError) as error:
            if _is_damaged(error):
                raise Damaged(_damaged(self.url)) from None
            if _is_denied(error):
                raise Denied(_denied(self.url)) from None
            if _is_not_writable(error, self.url):
                raise _not_writable(self.url) from None
            if _is_full(error):
                raise StageFailed(
                    f"The disk is full: the ledger at {_shown(self.url)} did not take the entry."
                    " Free some space, then resume.",
                    row="disk-full",
                ) from None
            raise StageFailed(
                f"The ledger at {_shown(self.url)} did not answer ({type(error).__name__}); check"
                " the database and its disk, then resume.",
                row="ledger-silent",
            ) from None

    def _prepare(self, *, demo: bool) -> None:
        with self._engine.connect() as connection:
            if _is_current(connection, self.url):
                return
            old = sa.inspect(connection).has_table("entries")
        try:
            with self.writing(anchored=False) as book:
                # Several processes may open an older ledger at once. The first one with the lock
                # migrates it, so the others check again after they get the lock.
                if _is_current(book.connection, self.url):
                    return
                if not old and self.anchor is not None:
                    self.anchor.check_new(book.connection)
                _migrate(book.connection)
                if book.last() is None:
                    body = {
                        "version": LEDGER_VERSION,
                        "id": str(uuid.uuid4()),
                        "place": place_of(book.connection),
                        **({"demo": True} if demo else {}),
                    }
                    book.append("ledger", body=body)
        except Denied:
            state = "The tables are of an earlier version" if old else "There are no tables yet"
            raise Denied(
                f"{state} in the ledger at {_shown(self.url)}, and this role may not create them."
                " The database's owner must open the ledger once with this version of dp-release.",
                row="tables-to-be-made",
            ) from None


def _is_current(connection: sa.Connection, url: str) -> bool:
    """Return whether a database is a ledger of this version; False if it must be migrated.

    Raises:
        BadInput: if it is a ledger of an unknown version, or another program's database.
        Damaged: if tables of the ledger are missing.
    """
    inspector = sa.inspect(connection)
    known = set(inspector.get_table_names())
    version = None
    if "alembic_version" in known:
        version = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    elif "entries" in known and any(
        column["name"] == "previous_in_release" for column in inspector.get_columns("entries")
    ):
        raise BadInput(
            f"The ledger at {_shown(url)} has a format from before the first release of dp-release,"
            " which this version does not read. Keep it unchanged, because the budget in it remains"
            " spent, and set DP_RELEASE_HOME to another folder."
        )
    if version == SCHEMA_VERSION and known >= _TABLES:
        _refuse_unknown(connection, url)
        return True
    if isinstance(version, str) and version.isdecimal() and version > SCHEMA_VERSION:
        raise BadInput(
            f"The ledger at {_shown(url)} was made by a newer version of dp-release; update this"
            " one.",
            row="newer-ledger",
        )
    if known >= _FIRST_TABLES and version in _earlier_versions():
        _refuse_unknown(connection, url)
        return False
    if known & _TABLES:
        # Creating the missing tables would begin a second ledger beside the first.
        missing = sorted((_TABLES | {"alembic_version"}) - known) or ["alembic_version"]
        raise Damaged(
            f"The ledger at {_shown(url)} is damaged and cannot be opened (missing or changed"
            f" table: {', '.join(missing)}). Keep it, and restore a copy."
        )
    if version is not None:
        raise BadInput(
            f"The database at {_shown(url)} belongs to another program; use a separate database"
            " for the ledger.",
            row="ledger-url",
        )
    return False


def _refuse_unknown(connection: sa.Connection, url: str) -> None:
    """Refuse a ledger of an unknown format version, whose entries would look damaged.

    Raises:
        BadInput: if the first entry states an unknown version.
    """
    query = "SELECT body FROM entries WHERE position = 1"
    try:
        version = json.loads(str(connection.exec_driver_sql(query).scalar()))["version"]
    except (sa.exc.DBAPIError, LookupError, TypeError, ValueError, RecursionError) as error:
        if _is_denied(error):
            raise
        return  # the check of the whole ledger reports the fault
    unknown = not_known(version) if type(version) is int else None
    if unknown is not None:
        raise BadInput(f"The ledger at {_shown(url)} {unknown}.", row="newer-ledger")


def _engine(url: str) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        options: dict[str, Any] = {}
        if parsed.get_backend_name() == "postgresql":
            options["connect_args"] = {"connect_timeout": 10}
        elif parsed.get_backend_name() != "sqlite":
            raise ImportError
        engine = sa.create_engine(parsed, poolclass=sa.NullPool, **options)
    except (sa.exc.ArgumentError, ImportError, ValueError):
        # The URL is not shown, because any part of an invalid URL may be a password.
        raise BadInput(
            "DP_RELEASE_LEDGER is not the URL of a ledger that this version can open; write one"
            " such as sqlite:////folder/ledger.db or postgresql://user@host/database, or unset it.",
            row="ledger-url",
        ) from None
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
    return engine


def _migrate(connection: sa.Connection) -> None:
    """Migrate the tables to this version, inside the connection's transaction."""
    from alembic import command

    config = _alembic()
    config.attributes["connection"] = connection
    command.upgrade(config, SCHEMA_VERSION)


def _earlier_versions() -> set[str]:
    """Return the versions that can be migrated to this one."""
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory.from_config(_alembic()).iterate_revisions(SCHEMA_VERSION, "base")
    return {step.revision for step in steps} - {SCHEMA_VERSION}


def _alembic() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _STEPS)
    return config


def _check_clock(connection: sa.Connection) -> None:
    """Refuse to write if this machine's clock is wrong by more than a day.

    The dates of entries never decrease, so one wrong date would affect all later entries.

    Raises:
        StageFailed: if the clock differs from the database's by more than a day.
    """
    theirs = connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())").scalar()
    if abs(time.time() - float(theirs or 0)) > _DAY_S:
        raise StageFailed(
            "The clocks of this machine and of the ledger's database differ by more than a day, but"
            " entries need the correct date. Correct the clock, then resume.",
            row="clock-off",
        )


def _prepare_sqlite(engine: sa.Engine) -> None:
    path = engine.url.database
    if path and path != ":memory:":
        folder = Path(path).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"The folder {folder} for the ledger cannot be created ({error.strerror}); set"
                " DP_RELEASE_HOME to a folder in which you may write.",
                row="no-ledger",
            ) from None
        # privacy: it holds the keyed hashes of inputs, wherever DP_RELEASE_LEDGER puts the file.
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: object) -> None:
        # The driver must not begin transactions by itself, because `_begin` does.
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout = 60000")
        # privacy: a charge must survive a power failure. The level FULL does not sync the folder
        # after the journal of a committed transaction is deleted, so a restart could roll it back.
        connection.execute("PRAGMA synchronous = EXTRA")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # privacy: the write lock is taken before the balance is read, not after.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _unopened(url: str, error: Exception) -> ReleaseError:
    if _is_not_writable(error, url):
        return _not_writable(url)
    if _is_full(error):
        return StageFailed(
            f"The disk is full: the ledger at {_shown(url)} cannot be opened. Free some space.",
            row="disk-full",
        )
    if sa.make_url(url).get_backend_name() != "sqlite" and isinstance(error, sa.exc.DBAPIError):
        fault = connection_fault(error)
        says = "does not accept connections" if fault is None else fault.says
        remedy = "check the database server and the network" if fault is None else fault.remedy
        return StageFailed(
            f"The ledger's database at {_shown(url)} {says}. This command spent nothing: {remedy}"
            " (DP_RELEASE_LEDGER has the URL), then run or resume again.",
            row="ledger-unreachable",
        )
    return StageFailed(
        f"The ledger at {_shown(url)} cannot be opened or is not a ledger; check DP_RELEASE_HOME"
        " and DP_RELEASE_LEDGER, and that the disk is writable.",
        row="ledger-not-opened",
    )


def _is_not_writable(error: Exception, url: str) -> bool:
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    if code is None:
        return False
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:  # the journal, or what is no file at all
        return not os.access(_folder(url), os.W_OK)
    return code & 0xFF in (sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)


def _not_writable(url: str) -> BadInput:
    return BadInput(
        f"The ledger in the folder {_folder(url)} cannot be written: the disk is read-only, or this"
        " user lacks the right. Nothing was recorded there; make folder and ledger writable, then"
        " type the same command again.",
        row="not-written",
    )


def _folder(url: str) -> Path:
    """Return the folder of an SQLite ledger."""
    return Path(str(sa.make_url(url).database).removeprefix("file:")).absolute().parent


def _is_damaged(error: Exception) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True  # SQLite's message quotes bytes of the file that are not valid text
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        if code is None:  # raised by the driver itself
            return "Could not decode" in str(cause)
        return code & 0xFF in _DAMAGE
    return getattr(cause, "sqlstate", None) in ("XX001", "XX002")


def _is_denied(error: Exception) -> bool:
    return getattr(getattr(error, "orig", None), "sqlstate", None) == "42501"


def _was_ledger(engine: sa.Engine) -> bool:
    """Return whether an unreadable database was a ledger; an SQLite file starts with its schema."""
    if engine.dialect.name != "sqlite":
        return True
    with contextlib.suppress(OSError), open(str(engine.url.database), "rb") as file:
        return b"CREATE TABLE entries" in file.read(1 << 20)
    return False


def _damaged(url: str) -> str:
    return (
        f"The database of the ledger at {_shown(url)} is damaged and cannot be read completely;"
        " `dp-release ledger verify` names the first damaged entry. Keep it, and restore a copy."
    )


def _denied(url: str) -> str:
    return (
        f"The database role lacks a right for this on the ledger at {_shown(url)}. The database's"
        " owner must grant the rights that deployments/README.md lists."
    )


def _is_full(error: Exception) -> bool:
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return state == "53100" or "disk is full" in str(error)


def _shown(url: str) -> str:
    secret = ("password", "sslpassword")
    return sa.make_url(url).difference_update_query(secret).render_as_string(hide_password=True)
