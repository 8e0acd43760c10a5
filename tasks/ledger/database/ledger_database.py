"""The ledger's database on SQLite or PostgreSQL: opening, migration and transactions.

A write transaction holds the ledger's single lock from its beginning (SQLite: `BEGIN IMMEDIATE`;
PostgreSQL: an advisory lock). So the values that it reads cannot change before it writes. A
finished transaction is on disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa

from dp_core.accounts.ledger_version import LEDGER_VERSION
from dp_core.accounts.signatures import Signer
from dp_core.errors import BadInput, StageFailed
from tasks.ledger.database.database_errors import Denied, failure, shown
from tasks.ledger.database.ledger_store import Place
from tasks.ledger.database.ledger_versions import is_current, migrate
from tasks.ledger.database.sql_store import SqlStore
from tasks.ledger.database.transaction import Transaction

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


class Anchor(Protocol):
    """The notes of a ledger's head outside its database."""

    def check(self, book: Transaction) -> Callable[[Transaction], None]:
        """Refuse a ledger that must not be written; return what notes its head after a commit."""

    def check_new(self, place: Place) -> None:
        """Refuse to make a ledger where a note knows an earlier one."""


class HasDatabase(Protocol):
    """A class whose methods work on one ledger's database."""

    _database: Database


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def reads(
    query: Callable[Concatenate[Transaction, _Given], _Result],
) -> Callable[Concatenate[HasDatabase, _Given], _Result]:
    """Return the method that answers a query in one consistent read transaction."""

    @functools.wraps(query)
    def method(self: HasDatabase, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        with self._database.reading() as book:
            return query(book, *given, **named)

    return method


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
        with self._errors(opening=True):
            self._prepare(demo=demo)

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
                book = Transaction(SqlStore(connection), self.signer)
                if anchored and self.anchor is not None:
                    note = self.anchor.check(book)
                yield book
                book.save()
        if note is not None:
            note(book)

    @contextlib.contextmanager
    def trying(self) -> Iterator[Transaction]:
        """Provide the entries as `writing` does, and record nothing."""
        with self.writing() as book:
            yield book
            book.forget()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Provide the entries in one consistent read transaction, which does not block writers."""
        with self._errors(), self._engine.connect() as connection:
            if self.dialect == "postgresql":
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                book = Transaction(SqlStore(connection))
                yield book
                assert not book.has_appended, "Nothing is recorded by a transaction that reads."

    @contextlib.contextmanager
    def _errors(self, *, opening: bool = False) -> Iterator[None]:
        try:
            yield
        except (sa.exc.SQLAlchemyError, UnicodeError) as error:
            raise failure(error, self.url, opening=opening) from None

    def _prepare(self, *, demo: bool) -> None:
        with self._engine.connect() as connection:
            if is_current(connection, self.url):
                return
            old = sa.inspect(connection).has_table("entries")
        try:
            with self.writing(anchored=False) as book:
                # Several processes may open an older ledger at once. The first one with the lock
                # migrates it, so the others check again after they get the lock.
                store = book.store
                assert isinstance(store, SqlStore)
                if is_current(store.connection, self.url):
                    return
                if not old and self.anchor is not None:
                    self.anchor.check_new(store.place())
                migrate(store.connection)
                if book.head().position == 0:
                    body = {
                        "version": LEDGER_VERSION,
                        "id": str(uuid.uuid4()),
                        "place": store.place(),
                        **({"demo": True} if demo else {}),
                    }
                    book.append("ledger", body=body)
        except Denied:
            state = "The tables are of an earlier version" if old else "There are no tables yet"
            raise Denied(
                f"{state} in the ledger at {shown(self.url)}, and this role may not create them."
                " The database's owner must open the ledger once with this version of dp-release.",
                row="tables-to-be-made",
            ) from None


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
        # The confidential process may not write where SQLite keeps what it sorts.
        connection.execute("PRAGMA temp_store = MEMORY")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # privacy: the write lock is taken before the balance is read, not after.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
