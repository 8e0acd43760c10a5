"""The ledger's store in a database: every statement on its tables, for SQLite and PostgreSQL."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from dp_core.accounts.plain_entries import read_entry
from dp_core.errors import LedgerCorrupt
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import START
from tasks.ledger.database.ledger_place import place_of
from tasks.ledger.database.ledger_store import Head, StoredLease, StoredTotal
from tasks.ledger.database.ledger_tables import APPEND_ONLY, ENTRIES, LEASES, TOTALS, refusals

_TOGETHER = 500
"""Number of running totals that one statement reads."""

# Built once, because each is executed in every transaction that writes.
_ADD, _ADD_TOTALS = sa.insert(ENTRIES), sa.insert(TOTALS)
_LEASES = sa.select(LEASES).order_by(LEASES.c.release)
_LEASE = sa.select(LEASES).where(LEASES.c.release == sa.bindparam("wanted"))
_HEAD = (
    sa.select(ENTRIES.c.position, ENTRIES.c.link, ENTRIES.c.recorded)
    .order_by(ENTRIES.c.position.desc())
    .limit(1)
)


@functools.cache
def _finding(columns: tuple[str, ...], kinds: int, *, limited: bool) -> sa.Select[Any]:
    """Return the statement of `SqlStore.entries`, built once for each set of criteria.

    Args:
        columns: Columns whose value is the parameter of the same name.
        kinds: Number of kinds, the parameters `kind0`, `kind1`, ...; 0 for every kind.
        limited: Whether to find the last entries only, as many as the parameter `last`.
    """
    query = sa.select(ENTRIES)
    for name in columns:
        query = query.where(ENTRIES.c[name] == sa.bindparam(name))
    if kinds:
        wanted: list[sa.BindParameter[str]] = [
            sa.bindparam(f"kind{number}") for number in range(kinds)
        ]
        query = query.where(ENTRIES.c.kind.in_(wanted))
    if limited:
        return query.order_by(ENTRIES.c.position.desc()).limit(sa.bindparam("last"))
    return query.order_by(ENTRIES.c.position)


@functools.cache
def _latest_totals(number: int) -> sa.TextClause:
    """Return the statement that reads the latest text of so many totals, each by one look-up."""
    subjects = ", ".join(f"(:subject{place})" for place in range(number))
    return sa.text(
        f"WITH wanted (subject) AS (VALUES {subjects}) SELECT subject, (SELECT value FROM totals"
        " WHERE totals.subject = wanted.subject ORDER BY position DESC LIMIT 1) FROM wanted"
    )


class SqlStore:
    """The store behind one connection, inside a transaction; see `LedgerStore`."""

    def __init__(self, connection: sa.Connection) -> None:
        """Read and write through a connection that is inside a transaction."""
        self.connection = connection

    def head(self) -> Head:
        found = self.connection.execute(_HEAD).first()
        return Head(found.position, found.link, found.recorded) if found else Head(0, START, "")

    def entries(
        self,
        *,
        kinds: Sequence[str] = (),
        equal: Mapping[str, object],
        last: int | None = None,
    ) -> Sequence[Entry]:
        query = _finding(tuple(equal), len(kinds), limited=last is not None)
        given = {**equal, **{f"kind{number}": kind for number, kind in enumerate(kinds)}}
        if last is None:
            return [_entry(row) for row in self.connection.execute(query, given).mappings()]
        found = self.connection.execute(query, {**given, "last": last}).mappings().all()
        return [_entry(row) for row in reversed(found)]

    def totals(self, subjects: Sequence[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for start in range(0, len(subjects), _TOGETHER):
            some = subjects[start : start + _TOGETHER]
            given = {f"subject{place}": subject for place, subject in enumerate(some)}
            rows = self.connection.execute(_latest_totals(len(some)), given)
            found |= {subject: str(value) for subject, value in rows if value is not None}
        return found

    def append(self, entries: Sequence[Entry], totals: Collection[StoredTotal]) -> None:
        # The position is the primary key, so a place in the chain that is taken is refused.
        self.connection.execute(_ADD, [columns_of(entry) for entry in entries])
        if totals:
            self.connection.execute(_ADD_TOTALS, [asdict(total) for total in totals])

    def page(self, after: int, size: int) -> Sequence[tuple[Entry, Sequence[tuple[str, str]]]]:
        query = sa.select(ENTRIES).where(ENTRIES.c.position > after)
        query = query.order_by(ENTRIES.c.position).limit(size)
        entries = []
        for row in self.connection.execute(query).mappings():
            entry = _entry(row)
            try:
                same = row["body"] == _text(entry.body)
            except UnicodeEncodeError:  # half of a surrogate pair, which valid text never has
                same = False
            if not same:
                raise _changed(row)
            entries.append(entry)
        if not entries:
            return []
        totals: dict[object, list[tuple[str, str]]] = {entry.position: [] for entry in entries}
        here = sa.and_(TOTALS.c.position > after, TOTALS.c.position <= entries[-1].position)
        if entries[-1].position != after + len(entries):
            # An entry is missing, which the audit reports; ignore the totals of that position.
            here = TOTALS.c.position.in_(list(totals))
        for total in self.connection.execute(sa.select(TOTALS).where(here)):
            types = [type(value) for value in (total.position, total.subject, total.value)]
            if total.position not in totals or types != [int, str, str]:
                raise _stray(total.subject)
            totals[total.position].append((total.subject, total.value))
        return [(entry, totals[entry.position]) for entry in entries]

    def check(self) -> None:
        """Check for damage that reading every entry in order does not find.

        Raises:
            LedgerCorrupt: if an entry has a position below 1; if a running total has the position
                of no entry, so that it would be read as the latest; or if the SQLite file is
                damaged, for example in an index that finds balances, or lacks a trigger.
        """
        before = sa.select(ENTRIES).where(ENTRIES.c.position < 1).limit(1)
        hidden = self.connection.execute(before).mappings().first()
        if hidden is not None:
            raise LedgerCorrupt(f"Entry {hidden['position']} is placed before the first.")
        last = sa.select(sa.func.max(ENTRIES.c.position)).scalar_subquery()
        place = TOTALS.c.position
        query = sa.select(TOTALS.c.subject).where((place < 1) | (place > last) | place.is_(None))
        found = self.connection.execute(query.limit(1)).first()
        if found is not None:
            raise _stray(found.subject)
        if self.connection.dialect.name == "sqlite":
            answer = self.connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
            if answer != "ok":
                raise LedgerCorrupt(
                    "Every entry of the ledger is correct, but its file is damaged elsewhere"
                    f" ({str(answer).splitlines()[-1]:.80}); restore a copy of the file.",
                    row="ledger-damaged",
                )
            self._check_triggers()

    def _check_triggers(self) -> None:
        """Check that an SQLite file still has the triggers that refuse changes of its rows."""
        query = "SELECT sql FROM sqlite_master WHERE type = 'trigger'"
        found = {str(sql) for (sql,) in self.connection.exec_driver_sql(query)}
        wanted = [refusals("sqlite", table, taken) for table, taken in APPEND_ONLY.items()]
        if not found.issuperset(sql for of_table in wanted for sql in of_table):
            raise LedgerCorrupt(
                "Every entry of the ledger is correct, but the triggers that refuse changes of"
                " entries are missing or were changed; restore a copy of the file.",
                row="ledger-changed",
            )

    def leases(self, release: str | None = None) -> Sequence[StoredLease]:
        query = _LEASES if release is None else _LEASE
        found = self.connection.execute(query, {"wanted": release}).mappings()
        return [StoredLease(**row) for row in found]

    def set_lease(self, lease: StoredLease) -> None:
        mine, values = LEASES.c.release == lease.release, asdict(lease)
        if not self.connection.execute(sa.update(LEASES).where(mine).values(**values)).rowcount:
            self.connection.execute(sa.insert(LEASES).values(**values))

    def clock(self) -> int:
        if self.connection.dialect.name == "postgresql":
            query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
            return int(self.connection.exec_driver_sql(query).scalar() or 0)
        return time.time_ns() // 1_000_000

    def place(self) -> dict[str, str | int | None]:
        return place_of(self.connection)


_BESIDE = ("position", "reservation", "about", "key", "recorded", "salt", "link")
_SIGNED = ("signer", "signature")
_RECEIPT = ("number", "kind", "account", "release", "at", "previous", "hash")


def columns_of(entry: Entry) -> dict[str, object]:
    """Return the values of an entry's row by column."""
    values: dict[str, object] = {name: getattr(entry, name) for name in (*_BESIDE, *_SIGNED)}
    values |= {name: getattr(entry.receipt, name) for name in _RECEIPT}
    return values | {"body": _text(entry.body)}


def _entry(row: sa.RowMapping) -> Entry:
    try:
        receipt = {name: row[name] for name in _RECEIPT}
        receipt["body"] = json.loads(row["body"], parse_constant=_refuse)
        values = {name: row[name] for name in (*_BESIDE, *_SIGNED)}
        return read_entry({**values, "receipt": receipt})
    except (TypeError, ValueError, RecursionError):
        raise _changed(row) from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not plain JSON.")


def _text(body: Mapping[str, object]) -> str:
    return canonical_json(dict(body)).decode()


def _stray(subject: object) -> LedgerCorrupt:
    return LedgerCorrupt(f"A running total of {subject!r:.80} does not belong to any entry.")


def _changed(row: sa.RowMapping) -> LedgerCorrupt:
    return LedgerCorrupt(f"Entry {row['position']} ({row['kind']}) was changed.")
