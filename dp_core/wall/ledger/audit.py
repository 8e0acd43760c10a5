"""The check of a whole ledger, from its entries alone: chain, signatures, rules and totals.

It runs over a database and over an export alike, in one pass, and names the first entry that is
wrong. What it keeps in memory grows with the number of releases, not of charges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.wall.ledger.account_terms import OF_ACCOUNT, Charter, Promise, charter_of, promise_of
from dp_core.wall.ledger.entries import (
    Entry,
    charge_key,
    entry_link,
    not_known,
    signed_message,
    unique_key,
    version_of,
)
from dp_core.wall.ledger.receipts import (
    PUBLISHED,
    START,
    UNKNOWN_KIND,
    Receipt,
    known_kind,
    receipt_hash,
)
from dp_core.wall.ledger.rules import broken_rule, changes
from dp_core.wall.ledger.signatures import fingerprint, is_proven, is_signed, public_key_of

Totals = Sequence[tuple[str, str]]
"""Subjects and values of the running totals that were stored together with an entry."""

_GARBAGE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found; a fault is raised instead.

    Attributes:
        entries: How many there are.
        head: Link of the last.
        signed: How many are signed.
        keys: Public keys that may sign now.
    """

    entries: int
    head: str
    signed: int
    keys: tuple[str, ...]


def audit(
    entries: Iterable[tuple[Entry, Totals | None]],
    *,
    trusted: Collection[str] = (),
    inspect: Callable[[Entry], None] | None = None,
) -> Audit:
    """Check every entry of a ledger, in order.

    Args:
        entries: All of them, each with the totals stored with it; None where none are stored, as
            in an export.
        trusted: Public keys known from elsewhere; one of them must have signed the last entry.
        inspect: Called with every entry that is in order, for checks of the caller's own.

    Raises:
        BadInput: if the ledger is of a version that this program does not know.
        LedgerCorrupt: naming the first entry that does not fit.
    """
    state = _State()
    for entry, totals in entries:
        state.take(entry, totals)
        if inspect is not None:
            inspect(entry)
    state.finish(trusted)
    keys = tuple(state.keys.values())
    return Audit(state.position, state.link, state.signed, keys)


@dataclass
class _State:
    """Where the check stands, and everything the entries so far amount to."""

    position: int = 0
    link: str = START
    recorded: str = ""
    signers: frozenset[str] = frozenset()
    """Public keys that signed the last entry; a new key's entry has two, the old key and itself."""
    signed: int = 0
    keys: dict[str, str] = field(default_factory=dict)
    book: MemoryBook = field(default_factory=lambda: MemoryBook())
    last: dict[int, tuple[int, str]] = field(default_factory=dict)
    stored: dict[str, str] | None = None

    def take(self, entry: Entry, totals: Totals | None) -> None:
        """Take an entry into account; raise unless it is whole, in its place, with its totals."""
        if entry.position != self.position + 1:
            raise LedgerCorrupt(f"Entry {self.position + 1} of the ledger is missing.")
        try:
            fault = self._fault(entry)
            if fault is None:
                self._count(entry, totals)
        except _GARBAGE:
            fault = "was changed"
        if fault is not None:
            raise LedgerCorrupt(f"Entry {entry.position} ({entry.kind:.20}) {fault}.")

    def _fault(self, entry: Entry) -> str | None:
        receipt = entry.receipt
        if receipt.hash != receipt_hash(receipt):
            return "was changed"
        if entry.link != entry_link(entry, self.link):
            return f"was changed, or does not follow entry {self.position}"
        if (entry.kind == "ledger") != (entry.position == 1):
            return "is not what a ledger begins with"
        if known_kind(entry.kind) is None:
            return UNKNOWN_KIND
        if entry.kind == "ledger":
            # What a newer program wrote would look like damage from here on.
            unknown = not_known(version_of(receipt))
            if unknown is not None:
                raise BadInput(f"The ledger {unknown}.", row="newer-ledger")
        number, previous = self._expected(entry)
        if (receipt.number, receipt.previous) != (number, previous):
            return "does not follow the receipt before it"
        if entry.recorded < self.recorded:
            return "is dated before the entry before it"
        if entry.recorded[:10] != receipt.at or entry.about != self._about(entry):
            return "was changed"
        if entry.key != self._key(entry):
            return "has another key than it should"
        if entry.key is not None and self.book.has(entry.key):
            return "is there twice"
        return self._unsigned(entry) or broken_rule(entry, self.book)

    def _expected(self, entry: Entry) -> tuple[int, str]:
        if entry.kind not in PUBLISHED:
            return 0, START
        if entry.kind == "reserve":
            return (1, START) if entry.reservation == entry.position else (0, START)
        number, previous = self.last[entry.reservation or 0]
        return number + 1, previous

    def _about(self, entry: Entry) -> object:
        """Return what an entry is about, from its body; an input's hash is nowhere else."""
        body = entry.body
        match known_kind(entry.kind):
            case "open":
                return body["within"]
            case "reserve" | "approve" | "withdraw":
                return body["plan"]
            case "charge" | "attempt" | "commit":
                return body["batch"]
            case "key":
                named = fingerprint(public_key_of(body))
                return named if body["fingerprint"] == named else None
            case "input":
                return entry.about
            case "ledger" | "raise" | "restate" | "close" | "settle" | None:
                return None
            case "hold" | "look" | "decide":
                return None
            case other:
                assert_never(other)

    def _key(self, entry: Entry) -> str | None:
        if entry.kind != "charge":
            return unique_key(entry.receipt, entry.about, entry.reservation)
        promise = self.book.promise(entry.reservation or 0)
        given = self.book.inputs.get(entry.reservation or 0)
        if promise is None or given is None:
            return None  # a charge always has a key, so this is a fault
        body = entry.body
        return charge_key(promise.release, body["stage"], body["step"], given, promise.plan)

    def _unsigned(self, entry: Entry) -> str | None:
        public = None
        if entry.kind == "key":
            public = public_key_of(entry.body)
            if entry.body["replaces"] is not None and entry.body["replaces"] not in self.keys:
                return "replaces a key that is not known"
        if not self.keys and public is None:
            signed = entry.signer is not None or entry.signature is not None
            return "is signed by a key that is not known" if signed else None
        standing = self.keys or {fingerprint(public or ""): public or ""}
        key = standing.get(entry.signer or "")
        if key is None:
            return "is not signed by a key of the ledger"
        if not is_signed(key, signed_message(entry.receipt.hash, entry.link), entry.signature):
            return "has a signature that is not that of its key"
        if public is not None and not is_proven(entry.body, self.link):
            return "is not signed by the key that it makes known"
        return None

    def _count(self, entry: Entry, totals: Totals | None) -> None:
        """Take an entry that is in order into account, and compare the totals stored with it."""
        after = changes(entry, self.book)
        self.book.add(entry, after)
        self.position, self.link = entry.position, entry.link
        signer = self.keys.get(entry.signer or "")
        self.signers = frozenset() if signer is None else frozenset({signer})
        self.recorded = entry.recorded
        self.signed += entry.signature is not None
        if entry.kind in PUBLISHED:
            self.last[entry.reservation or 0] = entry.receipt.number, entry.receipt.hash
            if entry.kind == "settle":
                del self.last[entry.reservation or 0]
        if entry.kind == "key":
            public = public_key_of(entry.body)
            self.signers |= {public}
            self.keys[fingerprint(public)] = public
            self.keys.pop(str(entry.body["replaces"]), None)
        if totals is None:
            return
        self.stored = {} if self.stored is None else self.stored
        for subject, value in totals:
            # Beside another entry than the one that made it, it would be taken for a later state.
            if after.get(subject) != value:
                raise LedgerCorrupt(
                    f"The running total of {subject!r} at entry {entry.position} ({entry.kind})"
                    " was changed."
                )
            self.stored[subject] = value

    def finish(self, trusted: Collection[str]) -> None:
        """Raise unless the stored totals are the last ones, and the end is signed as it should."""
        if self.position == 0:
            raise LedgerCorrupt("Entry 1 of the ledger is missing.")
        if self.stored is not None:
            for subject, value in self.book.totals.items():
                if self.stored.get(subject) != value:
                    raise LedgerCorrupt(f"The running total of {subject!r} is missing or old.")
        if trusted and self.signers.isdisjoint(trusted):
            raise LedgerCorrupt(
                f"The last entry ({self.position}) is not signed by the key that was given."
            )


class MemoryBook:
    """The book of the entries seen so far, in memory."""

    def __init__(self) -> None:
        self.totals: dict[str, str] = {}
        self._identity = ""
        self.inputs: dict[int, str] = {}
        self._accounts: dict[str, str] = {}
        self._terms: dict[str, list[Receipt]] = {}
        self._charters: dict[str, Charter] = {}
        self._within: dict[str, list[str]] = {}
        self._promises: dict[int, Promise] = {}
        self._by_account: dict[str, list[int]] = {}
        self._settlements: dict[int, Receipt] = {}
        self._approved: dict[str, bool] = {}
        self._used: dict[str, bool] = {}
        self._keys: set[str] = set()
        self._of_reservation: dict[int, list[str]] = {}
        self._batches: dict[int, set[str]] = {}

    def add(self, entry: Entry, after: dict[str, str]) -> None:
        """Take an entry in, with the totals that it changed."""
        receipt = entry.receipt
        self.totals |= after
        if entry.kind == "ledger":
            self._identity = str(entry.body["id"])
        if entry.kind in OF_ACCOUNT:
            self._terms.setdefault(receipt.account, []).append(receipt)
            self._charters[receipt.account] = charter_of(self._terms[receipt.account])
        if entry.kind == "open" and entry.about is not None:
            self._within.setdefault(entry.about, []).append(receipt.account)
        if entry.kind in ("approve", "withdraw"):
            self._approved[str(entry.about)] = entry.kind == "approve"
        if entry.kind == "reserve":
            self._promises[entry.position] = promise_of(entry.position, receipt)
            self._by_account.setdefault(receipt.account, []).append(entry.position)
            self._used[receipt.release] = True
        self._add_to_release(entry)

    def _add_to_release(self, entry: Entry) -> None:
        place = entry.reservation
        if entry.key is not None:
            self._keys.add(entry.key)
        if place is None:
            return
        if entry.kind == "settle":
            self._settlements[place] = entry.receipt
            self._used[entry.receipt.release] = entry.body["outcome"] != "returned"
            # Nothing can follow in this release, so its keys need not be remembered.
            self._keys.difference_update(self._of_reservation.pop(place, ()))
            self._batches.pop(place, None)
            self.inputs.pop(place, None)
            return
        if entry.kind == "input":
            self.inputs[place] = str(entry.about)
            self._accounts.setdefault(str(entry.about), entry.receipt.account)
        if entry.kind == "charge":
            self._batches.setdefault(place, set()).add(str(entry.about))
        if entry.key is not None:
            self._of_reservation.setdefault(place, []).append(entry.key)

    def identity(self) -> str:
        """Return the ledger's own identifier."""
        return self._identity

    def total(self, subject: str) -> str | None:
        """Return a running total."""
        return self.totals.get(subject)

    def charter(self, account: str) -> Charter | None:
        """Return an account."""
        return self._charters.get(account)

    def promise(self, reservation: int) -> Promise | None:
        """Return a reservation by its position."""
        return self._promises.get(reservation)

    def promises_of(self, accounts: Sequence[str]) -> Iterator[tuple[Promise, Receipt | None]]:
        """Yield the reservations of accounts, each with its settlement."""
        for account in accounts:
            for position in self._by_account.get(account, ()):
                yield self._promises[position], self._settlements.get(position)

    def accounts_within(self, account: str) -> Sequence[str]:
        """Return the accounts directly within one."""
        return self._within.get(account, ())

    def approved(self, plan: str) -> bool:
        """Return whether a plan is approved now."""
        return self._approved.get(plan, False)

    def has(self, key: str) -> bool:
        """Return whether a unique key is there."""
        kind, _, rest = key.partition("/")
        if kind == "settle":
            return int(rest) in self._settlements
        return key in self._keys

    def charged(self, reservation: int, batch: str) -> bool:
        """Return whether a reservation was charged for a batch."""
        return batch in self._batches.get(reservation, ())

    def account_of(self, input_hash: str) -> str | None:
        """Return the account that an input is known from."""
        return self._accounts.get(input_hash)

    def is_used(self, release: str) -> bool:
        """Return whether a name is used."""
        return self._used.get(release, False)
