"""The ledger's entries inside one transaction: reading them, and appending new ones."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa

from dp_core.accounts.plain_entries import read_entry
from dp_core.accounts.signatures import Signer, signed_message
from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.account_terms import OF_ACCOUNT, Charter, Promise, charter_of, promise_of
from dp_core.kernel.ledger.entries import Entry, make_entry, unique_key
from dp_core.kernel.ledger.receipts import PUBLISHED, START, EntryKind, Receipt, make_receipt
from dp_core.kernel.ledger.rules import judged
from dp_core.kernel.ledger.running_totals import reservation_total
from dp_core.policies.all_policies import POLICIES
from tasks.ledger.database.ledger_place import Place
from tasks.ledger.database.ledger_tables import APPEND_ONLY, ENTRIES, TOTALS, refusals

_TOGETHER = 500
"""Number of running totals that one statement reads."""

# Built once, because each statement is executed for every charge.
_ADD = sa.insert(ENTRIES)
_HAS = sa.select(ENTRIES.c.position).where(ENTRIES.c.key == sa.bindparam("wanted")).limit(1)
_TOTAL = (
    sa.select(TOTALS.c.value)
    .where(TOTALS.c.subject == sa.bindparam("subject"))
    .order_by(TOTALS.c.position.desc())
    .limit(1)
)
_ADD_TOTALS = sa.insert(TOTALS)
_LINK = sa.select(ENTRIES.c.link).where(ENTRIES.c.position == sa.bindparam("wanted"))
_END = (
    sa.select(ENTRIES.c.position, ENTRIES.c.link, ENTRIES.c.recorded)
    .order_by(ENTRIES.c.position.desc())
    .limit(1)
)
_NUMBER = (
    sa.select(ENTRIES.c.number, ENTRIES.c.hash)
    .where(ENTRIES.c.reservation == sa.bindparam("wanted"))
    .order_by(ENTRIES.c.number.desc())
    .limit(1)
)


@functools.cache
def _finding(columns: tuple[str, ...], kinds: int, *, limited: bool) -> sa.Select[Any]:
    """Return the statement of `Transaction.find`, built once for each set of criteria.

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


class Transaction:
    """Entries and running totals inside one transaction; the database's `Book`."""

    def __init__(self, connection: sa.Connection, signer: Signer | None) -> None:
        """Read and write through a connection that is inside a transaction.

        Args:
            connection: Connection inside the transaction.
            signer: Key that signs new entries; None without one.
        """
        self.connection = connection
        self._signer = signer
        self._written: dict[str, tuple[int, str]] = {}
        self._last: tuple[int, str, str] | None = None
        self._keys: set[str] | None = None
        # Cached values stay valid, because no other process writes during this transaction.
        self._totals: dict[str, str | None] = {}
        self._charters: dict[str, Charter | None] = {}
        self._promises: dict[int, Promise] = {}
        self._present: set[str] = set()
        self._receipts: dict[int | None, tuple[int, str]] = {}
        self.has_appended = False
        self._closed: set[str] = set()
        self._identity: str | None = None

    # -- finding entries

    def find(
        self,
        *,
        kinds: Sequence[EntryKind] = (),
        account: str | None = None,
        release: str | None = None,
        reservation: int | None = None,
        about: str | None = None,
        position: int | None = None,
        last: int | None = None,
    ) -> tuple[Entry, ...]:
        """Return the entries that meet all given criteria, in order.

        Args:
            kinds: Kinds to find; empty (the default) for every kind.
            account: Account in the receipt; None (the default) for any. The same for the following.
            release: Release in the receipt.
            reservation: Position of the reservation.
            about: Further subject of the entry.
            position: Position of the entry.
            last: Largest number of entries to return, the latest ones; None for all.
        """
        criteria = {
            "account": account,
            "release": release,
            "reservation": reservation,
            "about": about,
            "position": position,
        }
        given: dict[str, object] = {
            name: value for name, value in criteria.items() if value is not None
        }
        query = _finding(tuple(given), len(kinds), limited=last is not None)
        given |= {f"kind{number}": kind for number, kind in enumerate(kinds)}
        if last is None:
            return tuple(_entry(row) for row in self.connection.execute(query, given).mappings())
        found = self.connection.execute(query, {**given, "last": last}).mappings().all()
        return tuple(_entry(row) for row in reversed(found))

    def latest(self, **criteria: Any) -> Entry | None:
        """Return the last entry that `find` would return; None if there is none."""
        found = self.find(**criteria, last=1)
        return found[0] if found else None

    def head(self) -> tuple[int, str]:
        """Return position and link of the last entry; 0 and `START` for an empty ledger."""
        position, link, _ = self._end()
        return position, link

    def has_link(self, position: int, link: str) -> bool:
        """Return whether the entry at a position has the given link."""
        if self.head()[0] == position:
            return self.head()[1] == link
        return self.connection.execute(_LINK, {"wanted": position}).scalar() == link

    def place(self) -> tuple[int, Place]:
        """Return the place at which the ledger was made or last adopted.

        Returns:
            Position of the entry that records the place, and the place, which is empty if an
            earlier program made the ledger.
        """
        found = self.latest(kinds=("ledger", "adopt"))
        assert found is not None
        return found.position, found.body.get("place") or {}

    def last(self) -> Entry | None:
        """Return the last entry of the ledger; None only while the ledger is being created."""
        return self.latest()

    def page(self, after: int, size: int) -> list[tuple[Entry, list[tuple[str, str]]]]:
        """Return the next entries in order, each with the running totals written with it.

        Args:
            after: Position of the last entry seen.
            size: Largest number of entries to return.

        Raises:
            LedgerCorrupt: if the stored text of an entry differs from what the program writes.
        """
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

    def check_file(self) -> None:
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

    # -- the methods of `Book`, by which the rules are checked

    def identity(self) -> str:
        """Return the identifier of the ledger."""
        if self._identity is None:
            self._identity = str(self.find(position=1)[0].body["id"])
        return self._identity

    def adoptions(self) -> Sequence[Receipt]:
        """Return the receipts of kind `adopt`, in order."""
        return [entry.receipt for entry in self.find(kinds=("adopt",))]

    def total(self, subject: str) -> str | None:
        """Return the latest text of a running total; None if it was never written."""
        if subject in self._written:
            return self._written[subject][1]
        if subject not in self._totals:
            found = self.connection.execute(_TOTAL, {"subject": subject}).scalar()
            self._totals[subject] = None if found is None else str(found)
        return self._totals[subject]

    def charter(self, account: str) -> Charter | None:
        """Return the terms of an account; None if it does not exist."""
        if account not in self._charters:
            self._charters[account] = self._read_charter(account)
        return self._charters[account]

    def _read_charter(self, account: str) -> Charter | None:
        found = self.find(account=account, kinds=OF_ACCOUNT)
        if not found:
            return None
        try:
            return charter_of([entry.receipt for entry in found])
        except (KeyError, TypeError, ValueError):
            raise LedgerCorrupt(
                f"The entries of account {account!r} were changed.", row="ledger-changed"
            ) from None

    def promise(self, reservation: int) -> Promise | None:
        """Return the promise of the reservation at a position; None if it does not exist."""
        if reservation not in self._promises:
            found = self.find(position=reservation, kinds=("reserve",))
            if not found:
                return None
            self._promises[reservation] = promise_of(found[0].position, found[0].receipt)
        return self._promises[reservation]

    def promises_of(self, accounts: Sequence[str]) -> Iterator[tuple[Promise, Receipt | None]]:
        """Yield the promises of accounts, each with its settlement (None if it has none)."""
        for account in accounts:
            ends = {
                entry.reservation: entry.receipt
                for entry in self.find(account=account, kinds=("settle",))
            }
            found = self.find(account=account, kinds=("reserve",))
            self._read_totals([reservation_total(entry.position) for entry in found])
            for entry in found:
                yield promise_of(entry.position, entry.receipt), ends.get(entry.position)

    def _read_totals(self, subjects: Sequence[str]) -> None:
        """Read running totals together into the cache."""
        for start in range(0, len(subjects), _TOGETHER):
            some = subjects[start : start + _TOGETHER]
            self._totals |= dict.fromkeys(some)
            query = sa.select(TOTALS.c.subject, TOTALS.c.value).where(TOTALS.c.subject.in_(some))
            for row in self.connection.execute(query.order_by(TOTALS.c.position)):
                self._totals[row.subject] = str(row.value)

    def accounts_within(self, account: str) -> Sequence[str]:
        """Return the names of the accounts directly within an account."""
        opened = self.find(kinds=("open",), about=account)
        return [entry.receipt.account for entry in opened]

    def approved(self, plan: str) -> bool:
        """Return whether a plan is approved now."""
        found = self.latest(kinds=("approve", "withdraw"), about=plan)
        return found is not None and found.kind == "approve"

    def has(self, key: str) -> bool:
        """Return whether an entry with a unique key is recorded."""
        if key not in self._present:
            if self.connection.execute(_HAS, {"wanted": key}).scalar() is None:
                return False
            self._present.add(key)
        return True

    def charged(self, reservation: int, batch: str) -> bool:
        """Return whether a reservation has charges for a batch."""
        found = self.latest(reservation=reservation, kinds=("charge",), about=batch)
        return found is not None

    def account_of(self, input_hash: str) -> str | None:
        """Return the account that used an input last; None if the input is new."""
        found = self.latest(kinds=("input",), about=input_hash)
        return None if found is None else found.receipt.account

    def used(self, input_hash: str, account: str) -> bool:
        """Return whether an account used an input."""
        return self.latest(kinds=("input",), about=input_hash, account=account) is not None

    def is_used(self, release: str) -> bool:
        """Return whether a release name is used; a release that was returned frees its name."""
        found = self.latest(kinds=("reserve", "settle"), release=release)
        return found is not None and found.body.get("outcome") != "returned"

    def settlement(self, release: str) -> Receipt | None:
        """Return the latest settlement of a release; None if it has none."""
        found = self.latest(kinds=("settle",), release=release)
        return None if found is None else found.receipt

    # -- adding

    def append(
        self,
        kind: EntryKind,
        *,
        body: Mapping[str, object],
        account: str = "",
        release: str = "",
        reservation: int | None = None,
        about: str | None = None,
        key: str | None = None,
    ) -> Entry:
        """Append an entry, with its position, time, link and signature.

        Args:
            kind: Kind of the entry.
            body: Body of its receipt.
            account: Account that it concerns; empty (the default) without one.
            release: Release that it concerns; empty (the default) without one.
            reservation: Position of the reservation it belongs to; None (the default) without one.
            about: Further subject; None (the default) without one.
            key: Unique key of a charge; None (the default) for other kinds, whose key is computed.

        Raises:
            BadInput: if the ledger requires signatures and this process has no valid key.
            LedgerCorrupt: if the entry would break the ledger's rules.
            sqlalchemy.exc.IntegrityError: if an entry with the same unique key is recorded.
        """
        position, link, latest = self._end()
        position += 1
        if kind == "reserve":
            reservation = position
        # privacy: a clock that was set back must not make an earlier period's allowance available.
        recorded = max(now(), latest)
        number, previous = self._number(kind, reservation)
        receipt = make_receipt(
            number=number,
            kind=kind,
            account=account,
            release=release,
            at=recorded[:10],
            body=body,
            previous=previous,
        )
        entry = make_entry(
            receipt,
            position=position,
            reservation=reservation,
            about=about,
            key=key or unique_key(receipt, about, reservation),
            recorded=recorded,
            salt=os.urandom(16).hex(),
            previous=link,
        )
        entry = self._signed(entry)
        broken, after = judged(entry, self, POLICIES)
        if broken is not None:
            # Callers check the same conditions earlier, with more helpful messages.
            raise LedgerCorrupt(
                f"An entry ({kind}) that {broken} was not added to the ledger;"
                " `dp-release ledger verify` checks what is there.",
                row="entry-refused",
            )
        self.connection.execute(_ADD, _columns(entry))
        self._last = position, entry.link, recorded
        self.has_appended = True
        if kind == "close":
            self._closed.add(account)
        if kind == "key":
            self._keys = None
        if kind in OF_ACCOUNT:
            self._charters.pop(account, None)
        if kind in PUBLISHED:
            self._receipts[reservation] = number, receipt.hash
        self._written |= {subject: (position, value) for subject, value in after.items()}
        return entry

    def today(self) -> date:
        """Return the day of the next entry, in UTC; never earlier than that of the last entry."""
        return date.fromisoformat(max(now(), self._end()[2])[:10])

    @property
    def closed(self) -> frozenset[str]:
        """Names of the accounts that this transaction closed."""
        return frozenset(self._closed)

    def link(self) -> str:
        """Return the link of the last entry."""
        return self._end()[1]

    def write_totals(self) -> None:
        """Store the running totals that this transaction changed, each once."""
        if self._written:
            self.connection.execute(
                _ADD_TOTALS,
                [
                    {"subject": subject, "position": position, "value": value}
                    for subject, (position, value) in self._written.items()
                ],
            )

    def _end(self) -> tuple[int, str, str]:
        """Return position, link and time of the last entry."""
        if self._last is None:
            found = self.connection.execute(_END).first()
            self._last = (found.position, found.link, found.recorded) if found else (0, START, "")
        return self._last

    def _number(self, kind: str, reservation: int | None) -> tuple[int, str]:
        """Return number and predecessor of the next receipt of a reservation."""
        if kind not in PUBLISHED:
            return 0, START
        # privacy: each reservation starts its own chain, so that the receipts of a release do not
        # reveal which earlier attempt ended, for example because the file broke the schema. The
        # settlement tells only how many attempts of the account were refused.
        if kind == "reserve":
            return 1, START
        if reservation not in self._receipts:
            found = self.connection.execute(_NUMBER, {"wanted": reservation}).first()
            if found is None:
                raise ValueError(f"Reservation {reservation} does not exist.")
            self._receipts[reservation] = found.number, found.hash
        number, previous = self._receipts[reservation]
        return number + 1, previous

    def _signed(self, entry: Entry) -> Entry:
        if self._keys is None:
            self._keys = valid_keys([found.body for found in self.find(kinds=("key",))])
        if not self._keys and entry.kind != "key":
            return entry
        trusted = self._keys or {str(entry.about)}
        signer = known_signer(self._signer, trusted)
        signature = signer.sign(signed_message(entry.receipt.hash, entry.link))
        return replace(entry, signer=signer.fingerprint, signature=signature)


def known_signer(signer: Signer | None, valid: Collection[str]) -> Signer:
    """Return the key of this process.

    Raises:
        BadInput: if this process has no key, or a key that may not sign.
    """
    if signer is None or signer.fingerprint not in valid:
        raise BadInput(
            "This ledger takes signed entries only: set DP_RELEASE_SIGNING_KEY to the file of"
            f" its key ({', '.join(sorted(valid))}).",
            row="key-of-the-ledger",
        )
    return signer


def valid_keys(bodies: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the fingerprints of the keys that may sign now.

    Args:
        bodies: Bodies of all entries of kind `key`, in order.
    """
    valid: set[str] = set()
    for body in bodies:
        valid.add(str(body["fingerprint"]))
        valid.discard(str(body["replaces"]))
    return valid


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


_BESIDE = ("position", "reservation", "about", "key", "recorded", "salt", "link")
_SIGNED = ("signer", "signature")
_RECEIPT = ("number", "kind", "account", "release", "at", "previous", "hash")


def _columns(entry: Entry) -> dict[str, object]:
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
