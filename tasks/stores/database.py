"""The database under the ledger: append-only tables, and transactions that hold the write lock."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dp_core.canonical import canonical_json, digest
from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from dp_core.receipts import LEDGER_VERSION, START, Row, make_row

_METADATA = sa.MetaData()
_ROWS = sa.Table(
    "entries",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("release", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=True, unique=True),
    sa.Column("at", sa.Text, nullable=False),
    # privacy: rows are published, and how long a stage took is an answer about the data. The day
    # is in the chain; the time of day stands beside it, for staff.
    sa.Column("recorded", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("previous_in_release", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.Index("entries_by_account", "account", "kind"),
    sa.Index("entries_by_release", "release", "kind"),
)
# The keyed hash of an input identifies confidential data: it is kept out of the rows, whose
# content and hashes leave the house in bundles, and is sealed to its row under the same key.
_INPUTS = sa.Table(
    "inputs",
    _METADATA,
    sa.Column("release", sa.Text, primary_key=True),
    sa.Column("reservation", sa.Integer, primary_key=True),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("input", sa.Text, nullable=False, index=True),
    sa.Column("seal", sa.Text, nullable=False),
)
# privacy: how often a draw had to be repeated is not for publication, so it is no row of a release
# and leaves no gap in their numbers. A chain of its own makes a change of it known.
_ATTEMPTS = sa.Table(
    "attempts",
    _METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("reservation", sa.Integer, nullable=False, index=True),
    sa.Column("batch", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("recorded", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.UniqueConstraint("reservation", "batch", "attempt"),
)
_TABLES = ("entries", "inputs", "attempts")


class Database:
    """One ledger's tables."""

    def __init__(self, url: str) -> None:
        """Open the database, creating it if it is a new SQLite file.

        Args:
            url: SQLAlchemy URL.

        Raises:
            BadInput: if there can be no ledger at that URL.
            StageFailed: if the database does not open.
        """
        self.url = url
        try:
            self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        except (sa.exc.ArgumentError, ImportError):
            # The URL itself is not shown: it may hold a password where nobody looks for one.
            raise BadInput(
                "DP_RELEASE_LEDGER is not the URL of a ledger that this version can open;"
                " write one such as sqlite:////folder/ledger.db, or unset it."
            ) from None
        if self._engine.dialect.name == "sqlite":
            _prepare_sqlite(self._engine)
        try:
            self._create()
        except sa.exc.SQLAlchemyError:
            raise StageFailed(
                f"The ledger at {_shown(url)} cannot be opened or is not a ledger;"
                " check DP_RELEASE_HOME and DP_RELEASE_LEDGER, and that the disk is writable."
            ) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[Rows]:
        """Give the rows inside one write transaction; an exception leaves no trace."""
        with self._transaction() as connection:
            yield Rows(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Rows]:
        """Give the rows as one transaction sees them."""
        with self._transaction() as connection:
            yield Rows(connection)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.IntegrityError:
            raise StageFailed(
                "The ledger already holds this entry: another process works on the same release."
            ) from None
        except sa.exc.SQLAlchemyError as error:
            if "disk is full" in str(error):
                raise StageFailed(
                    f"The disk is full: the ledger at {_shown(self.url)} did not take the entry."
                    " Free some space, then resume."
                ) from None
            raise StageFailed(
                f"The ledger at {_shown(self.url)} did not take the entry"
                f" ({type(error).__name__}); check the disk and the database, then resume."
            ) from None

    def _create(self) -> None:
        with self._engine.begin() as connection:
            if sa.inspect(connection).has_table("entries"):
                return
            _METADATA.create_all(connection)
            for statement in _refusals(self._engine.dialect.name):
                connection.exec_driver_sql(statement)
            body = {"version": LEDGER_VERSION, "id": str(uuid.uuid4())}
            Rows(connection).append("ledger", account="", body=body)


class Rows:
    """The rows as one transaction sees them."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def find(
        self,
        *,
        kind: str | None = None,
        account: str | None = None,
        release: str | None = None,
        number: int | None = None,
    ) -> tuple[Row, ...]:
        """Return the rows of a kind, an account, a release, or of one number, in order."""
        query = sa.select(_ROWS).order_by(_ROWS.c.number)
        for column, value in (
            ("kind", kind),
            ("account", account),
            ("release", release),
            ("number", number),
        ):
            if value is not None:
                query = query.where(_ROWS.c[column] == value)
        return tuple(_row(found) for found in self._connection.execute(query).mappings())

    def last(self) -> Row:
        """Return the last row; there is always one, the ledger's own."""
        query = sa.select(_ROWS).order_by(_ROWS.c.number.desc()).limit(1)
        return _row(self._connection.execute(query).mappings().one())

    def walk(self) -> Iterator[Row]:
        """Yield every row in order, without holding them all.

        Raises:
            LedgerCorrupt: if a row is not stored as it would have been written. What its hash
                does not cover is checked here: the key, and how the body is spelled.
        """
        query = sa.select(_ROWS).order_by(_ROWS.c.number)
        for found in self._connection.execution_options(yield_per=1000).execute(query).mappings():
            row = _row(found)
            key = _unique_key(row.kind, row.account, row.body)
            same_day = str(found["recorded"])[:10] == row.at
            if found["key"] != key or found["body"] != _text(row.body) or not same_day:
                raise _changed(found)
            yield row

    def inputs(self) -> list[Mapping[str, Any]]:
        """Return the sealed inputs. Confidential."""
        return [dict(row) for row in self._connection.execute(sa.select(_INPUTS)).mappings()]

    def add_input(self, **values: object) -> None:
        """Add a sealed input."""
        self._connection.execute(sa.insert(_INPUTS).values(**values))

    def attempts(self, reservation: int) -> dict[str, int]:
        """Return how often each result of a release was drawn, where that was more than once."""
        query = sa.select(_ATTEMPTS).where(_ATTEMPTS.c.reservation == reservation)
        found = self._connection.execute(query.order_by(_ATTEMPTS.c.number)).mappings()
        return {row["batch"]: row["attempt"] for row in found}

    def add_attempt(self, reservation: int, batch: str, attempt: int) -> None:
        """Record that a result is drawn once more."""
        last = self._connection.execute(
            sa.select(_ATTEMPTS).order_by(_ATTEMPTS.c.number.desc()).limit(1)
        ).first()
        values: dict[str, object] = {
            "number": last.number + 1 if last else 1,
            "reservation": reservation,
            "batch": batch,
            "attempt": attempt,
            "recorded": now(),
        }
        chained = digest({**values, "previous": last.hash if last else START})
        self._connection.execute(sa.insert(_ATTEMPTS).values(**values, hash=chained))

    def walk_attempts(self) -> Iterator[int]:
        """Yield the number of every attempt, in order.

        Raises:
            LedgerCorrupt: at the first that was changed or does not follow the one before it.
        """
        previous = START
        query = sa.select(_ATTEMPTS).order_by(_ATTEMPTS.c.number)
        for count, found in enumerate(self._connection.execute(query).mappings(), start=1):
            values = {name: value for name, value in found.items() if name != "hash"}
            chained = digest({**values, "previous": previous})
            if found["number"] != count or found["hash"] != chained:
                raise LedgerCorrupt(f"Attempt {count} of the ledger was changed or is missing.")
            previous = found["hash"]
            yield count

    def times(self, release: str) -> dict[int, str]:
        """Return when each row of a release was recorded, to the second; for staff."""
        query = sa.select(_ROWS.c.number, _ROWS.c.recorded).where(_ROWS.c.release == release)
        return {row.number: row.recorded for row in self._connection.execute(query)}

    def append(
        self,
        kind: str,
        *,
        account: str,
        body: Mapping[str, object],
        release: str = "",
    ) -> Row:
        """Add a row to the end of the chain; what may happen once is refused the second time."""
        last = self._connection.execute(
            sa.select(_ROWS.c.number, _ROWS.c.hash).order_by(_ROWS.c.number.desc()).limit(1)
        ).first()
        recorded = now()
        row = make_row(
            number=last.number + 1 if last else 1,
            kind=kind,
            account=account,
            release=release,
            at=recorded[:10],
            body=body,
            previous=last.hash if last else START,
            # privacy: a new reservation begins a new chain, so that the receipts of a release do
            # not tell that an earlier attempt was stopped, as by a file that broke the schema.
            previous_in_release=START if kind == "reserve" else self._last_of(release),
        )
        values = row.to_json()
        values["body"] = _text(body)
        key = _unique_key(kind, account, body)
        values |= {"key": key, "recorded": recorded}
        self._connection.execute(sa.insert(_ROWS).values(**values))
        return row

    def _last_of(self, release: str) -> str:
        if not release:
            return START
        query = sa.select(_ROWS.c.hash).where(_ROWS.c.release == release)
        found = self._connection.execute(query.order_by(_ROWS.c.number.desc()).limit(1)).scalar()
        return found or START


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _row(found: sa.RowMapping) -> Row:
    beside = ("key", "recorded")
    values = {column.name: found[column.name] for column in _ROWS.c if column.name not in beside}
    try:
        body = json.loads(found["body"], parse_constant=_refuse)
        return Row.from_json({**values, "body": body})
    except (TypeError, ValueError):
        raise _changed(found) from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not plain JSON.")


def _text(body: Mapping[str, object]) -> str:
    return canonical_json(dict(body)).decode()


def _changed(found: sa.RowMapping) -> LedgerCorrupt:
    return LedgerCorrupt(f"Row {found['number']} ({found['kind']}) was changed.")


def _unique_key(kind: str, account: str, body: Mapping[str, object]) -> str | None:
    """Return what may be in the ledger once, None for a row that may come again."""
    reservation = body.get("reservation")
    match kind:
        case "ledger":
            return kind
        case "open" | "close":
            return f"{kind}/{account}"
        case "charge":
            return f"{kind}/{reservation}/{body.get('stage')}/{body.get('step')}"
        case "commit":
            return f"{kind}/{reservation}/{body.get('batch')}"
        case "settle":
            return f"{kind}/{reservation}"
    return None


def _shown(url: str) -> str:
    return sa.make_url(url).render_as_string(hide_password=True)


def _prepare_sqlite(engine: sa.Engine) -> None:
    path = engine.url.database
    if path and path != ":memory:":
        folder = Path(path).parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"There can be no ledger in {folder} ({error.strerror}); set DP_RELEASE_HOME to a"
                " folder in which you may write."
            ) from None
        # privacy: its table of inputs is confidential, wherever DP_RELEASE_LEDGER puts the file.
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _: object) -> None:
        # The driver must not begin transactions behind our back: we begin them as writers.
        connection.isolation_level = None
        connection.execute("PRAGMA busy_timeout = 60000")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # privacy: the write lock is taken before the balance is read, not after.
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _refusals(dialect: str) -> list[str]:
    """Return statements that make the database itself refuse updates and deletes."""
    if dialect != "sqlite":
        raise StageFailed("This version keeps its ledger in SQLite only.")
    return [
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}"
        f" BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        for table in _TABLES
        for verb in ("UPDATE", "DELETE")
    ]
