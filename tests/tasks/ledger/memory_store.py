"""A store in memory, as small as the protocol allows: what the ledger needs of a database."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dp_core.accounts.ledger_version import LEDGER_VERSION
from dp_core.accounts.plain_entries import plain_entry
from dp_core.errors import StageFailed
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import START
from tasks.ledger.database.ledger_store import Head, StoredLease, StoredTotal
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.ledger import Ledger


@dataclass
class MemoryStore:
    """See `LedgerStore`."""

    record: list[Entry] = field(default_factory=list)
    changed: list[StoredTotal] = field(default_factory=list)
    held: dict[str, StoredLease] = field(default_factory=dict)

    def head(self) -> Head:
        if not self.record:
            return Head(0, START, "")
        last = self.record[-1]
        return Head(last.position, last.link, last.recorded)

    def entries(
        self, *, kinds: Sequence[str] = (), equal: Mapping[str, object], last: int | None = None
    ) -> Sequence[Entry]:
        found = []
        for entry in self.record:
            row = {**entry.receipt.to_json(), **plain_entry(entry)}
            if (not kinds or entry.kind in kinds) and row | equal == row:
                found.append(entry)
        return found if last is None else found[-last:]

    def totals(self, subjects: Sequence[str]) -> Mapping[str, str]:
        latest = {total.subject: total.value for total in self.changed}
        return {subject: latest[subject] for subject in subjects if subject in latest}

    def append(self, entries: Sequence[Entry], totals: Collection[StoredTotal]) -> None:
        keys = [entry.key for entry in (*self.record, *entries) if entry.key is not None]
        if entries[0].position != len(self.record) + 1 or len({*keys}) < len(keys):
            raise StageFailed("Another process wrote to the ledger.", row="taken-over")
        self.record += entries
        self.changed += totals

    def page(self, after: int, size: int) -> Sequence[tuple[Entry, Sequence[tuple[str, str]]]]:
        return [
            (
                entry,
                [(t.subject, t.value) for t in self.changed if t.position == entry.position],
            )
            for entry in self.record[after : after + size]
        ]

    def check(self) -> None:
        pass

    def leases(self, release: str | None = None) -> Sequence[StoredLease]:
        return [lease for name, lease in self.held.items() if release in (None, name)]

    def set_lease(self, lease: StoredLease) -> None:
        self.held[lease.release] = lease

    def clock(self) -> int:
        return 0

    def place(self) -> dict[str, str | int | None]:
        return {}


class MemoryDatabase:
    """Does what `Database` does, with a store in memory and one thread."""

    anchor = signer = None

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        book = Transaction(self.store)
        yield book
        book.save()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        yield Transaction(self.store)

    trying = reading


def memory_ledger(store: MemoryStore) -> Ledger:
    """Return a ledger on an empty store."""
    ledger = Ledger.__new__(Ledger)
    ledger._database, ledger.anchor = MemoryDatabase(store), None  # type: ignore[assignment]
    with ledger._database.writing() as book:
        book.append("ledger", body={"version": LEDGER_VERSION, "id": "memory", "place": {}})
    return ledger
