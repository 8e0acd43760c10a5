"""The check of a whole ledger from its entries: chain, signatures, rules and running totals.

It checks a database or an export in one pass and names the first wrong entry. Its memory grows with
the number of releases, not with the number of charges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from dp_core.accounts.ledger_version import not_known, version_of
from dp_core.accounts.signatures import (
    fingerprint,
    is_proven,
    is_signed,
    public_key_of,
    signed_message,
)
from dp_core.kernel.errors import GARBAGE, BadInput, LedgerCorrupt
from dp_core.kernel.ledger.account_terms import OF_ACCOUNT, Charter, Promise, amended, promise_of
from dp_core.kernel.ledger.entries import Entry, charge_key, entry_link, unique_key
from dp_core.kernel.ledger.receipts import (
    PUBLISHED,
    START,
    UNKNOWN_KIND,
    Receipt,
    known_kind,
    receipt_hash,
)
from dp_core.kernel.ledger.rules import Policy, judged

Totals = Sequence[tuple[str, str]]
"""Subjects and values of the running totals that were stored together with an entry."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of a check without faults.

    Attributes:
        entries: Number of entries.
        head: Link of the last entry.
        signed: Number of signed entries.
        keys: Public keys that may sign now, 64 hex digits each.
    """

    entries: int
    head: str
    signed: int
    keys: tuple[str, ...]


def audit(
    entries: Iterable[tuple[Entry, Totals | None]],
    policies: Sequence[Policy],
    *,
    trusted: Collection[str] = (),
    inspect: Callable[[Entry], None] | None = None,
) -> Audit:
    """Check every entry of a ledger, in order.

    Args:
        entries: All entries in order, each with the running totals stored with it; None if no
            totals are stored, as in an export.
        policies: What the entries were checked against beside the rules.
        trusted: Public keys known from another source, one of which must have signed the last
            entry. By default a trusted signature is not required.
        inspect: Called with every entry that passed, for further checks; None by default.

    Raises:
        BadInput: if the ledger has a version that this program does not know.
        LedgerCorrupt: if an entry or a running total is wrong; it names the first one.
    """
    state = _State(policies)
    for entry, totals in entries:
        state.take(entry, totals)
        if inspect is not None:
            inspect(entry)
    state.finish(trusted)
    keys = tuple(state.keys.values())
    return Audit(state.position, state.link, state.signed, keys)


def first_bad_link(receipts: Sequence[Receipt]) -> str | None:
    """Return a sentence about the first wrong receipt of a release; None if all are correct.

    Args:
        receipts: All published receipts of one release, in order.
    """
    last = START
    for position, receipt in enumerate(receipts, start=1):
        name = f"Receipt {receipt.number} ({receipt.kind})"
        if receipt_hash(receipt) != receipt.hash:
            return f"{name} was changed: its hash does not match."
        if receipt.number != position or receipt.previous != last:
            return f"{name} does not follow the receipt before it."
        last = receipt.hash
    return None


@dataclass
class _State:
    """The state of the check after the entries seen so far."""

    policies: Sequence[Policy]
    position: int = 0
    link: str = START
    recorded: str = ""
    signers: frozenset[str] = frozenset()
    """Public keys that signed the last entry; the entry of a further key is signed by two keys."""
    signed: int = 0
    keys: dict[str, str] = field(default_factory=dict)
    book: MemoryBook = field(default_factory=lambda: MemoryBook())
    last: dict[int, tuple[int, str]] = field(default_factory=dict)
    stored: dict[str, str] | None = None

    def take(self, entry: Entry, totals: Totals | None) -> None:
        """Check the next entry and its running totals, and update the state."""
        if entry.position != self.position + 1:
            raise LedgerCorrupt(f"Entry {self.position + 1} of the ledger is missing.")
        try:
            fault = self._fault(entry)
            if fault is None:
                fault, after = judged(entry, self.book, self.policies)
            if fault is None:
                self._count(entry, after, totals)
        except GARBAGE:
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
            return "is misplaced: the first entry, and no other, is of kind ledger"
        if known_kind(entry.kind) is None:
            return UNKNOWN_KIND
        if entry.kind == "ledger":
            # Entries of a newer version would look like damage, so its version is refused first.
            unknown = not_known(version_of(receipt))
            if unknown is not None:
                raise BadInput(f"The ledger {unknown}.", row="newer-ledger")
        number, previous = self._expected(entry)
        if (receipt.number, receipt.previous) != (number, previous):
            return "does not follow the receipt before it"
        if entry.recorded < self.recorded:
            return "is dated earlier than the preceding entry"
        if entry.recorded[:10] != receipt.at or entry.about != self._about(entry):
            return "was changed"
        if entry.key != self._key(entry):
            return "has the wrong unique key"
        if entry.key is not None and self.book.has(entry.key):
            return "is recorded twice"
        return self._unsigned(entry)

    def _expected(self, entry: Entry) -> tuple[int, str]:
        if entry.kind not in PUBLISHED:
            return 0, START
        if entry.kind == "reserve":
            return (1, START) if entry.reservation == entry.position else (0, START)
        number, previous = self.last[entry.reservation or 0]
        return number + 1, previous

    def _about(self, entry: Entry) -> object:
        """Return the expected subject of an entry, from its body.

        The hash of an input is stored in the subject only, so it is returned as it is; a rule
        checks that of a refused declaration.
        """
        body = entry.body
        match known_kind(entry.kind):
            case "open":
                return body["within"]
            case "reserve" | "approve" | "withdraw":
                return body["plan"]
            case "open-desk" | "close-desk":
                return body["terms"]
            case "charge" | "attempt" | "commit":
                return body["batch"]
            case "key":
                named = fingerprint(public_key_of(body))
                return named if body["fingerprint"] == named else None
            case "input" | "refuse-public":
                return entry.about
            case "ledger" | "raise" | "restate" | "close" | "settle" | None:
                return None
            case "hold" | "look" | "decide" | "examine" | "verdict" | "allow-retry":
                return None
            case "adopt" | "declare-public":
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
                return "replaces an unknown key"
        if not self.keys and public is None:
            signed = entry.signer is not None or entry.signature is not None
            return "is signed by an unknown key" if signed else None
        standing = self.keys or {fingerprint(public or ""): public or ""}
        key = standing.get(entry.signer or "")
        if key is None:
            return "is not signed by a key of the ledger"
        if not is_signed(key, signed_message(entry.receipt.hash, entry.link), entry.signature):
            return "has an invalid signature"
        if public is not None and not is_proven(entry.body, self.link):
            return "is not signed by the key that it adds"
        return None

    def _count(self, entry: Entry, after: dict[str, str], totals: Totals | None) -> None:
        """Update the state with a correct entry, and compare the totals stored with it."""
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
            # A total stored with a later entry than its own would be read as a newer value.
            if after.get(subject) != value:
                raise LedgerCorrupt(
                    f"The running total of {subject!r} at entry {entry.position} ({entry.kind})"
                    " was changed."
                )
            self.stored[subject] = value

    def finish(self, trusted: Collection[str]) -> None:
        """Raise LedgerCorrupt unless stored totals are current and a trusted key signed last."""
        if self.position == 0:
            raise LedgerCorrupt("Entry 1 of the ledger is missing.")
        if self.stored is not None:
            for subject, value in self.book.totals.items():
                if self.stored.get(subject) != value:
                    raise LedgerCorrupt(f"The running total of {subject!r} is missing or outdated.")
        if trusted and self.signers.isdisjoint(trusted):
            raise LedgerCorrupt(
                f"The last entry ({self.position}) is not signed by the key that was given."
            )


class MemoryBook:
    """A `Book` in memory, made from the entries seen so far."""

    def __init__(self) -> None:
        self.totals: dict[str, str] = {}
        self._identity = ""
        self._adoptions: list[Receipt] = []
        self.inputs: dict[int, str] = {}
        self._accounts: dict[str, str] = {}
        self._users: set[tuple[str, str]] = set()
        self._charters: dict[str, Charter] = {}
        self._within: dict[str, list[str]] = {}
        self._promises: dict[int, Promise] = {}
        self._by_account: dict[str, list[int]] = {}
        self._settlements: dict[int, Receipt] = {}
        self._ends: dict[str, Receipt] = {}
        self._approved: dict[str, bool] = {}
        self._used: dict[str, bool] = {}
        self._keys: set[str] = set()
        self._of_reservation: dict[int, list[str]] = {}
        self._batches: dict[int, set[str]] = {}

    def add(self, entry: Entry, after: dict[str, str]) -> None:
        """Add an entry, with the running totals that it changed."""
        receipt = entry.receipt
        self.totals |= after
        if entry.kind == "ledger":
            self._identity = str(entry.body["id"])
        if entry.kind == "adopt":
            self._adoptions.append(receipt)
        if entry.kind in OF_ACCOUNT:
            before = self._charters.get(receipt.account)
            self._charters[receipt.account] = amended(before, receipt)
        if entry.kind == "open" and entry.about is not None:
            self._within.setdefault(entry.about, []).append(receipt.account)
        if entry.kind in ("approve", "withdraw"):
            self._approved[str(entry.about)] = entry.kind == "approve"
        if entry.kind == "reserve":
            self._promises[entry.position] = promise_of(entry.position, receipt)
            self._by_account.setdefault(receipt.account, []).append(entry.position)
            self._used[receipt.release] = True
        place = entry.reservation
        if entry.key is not None:
            self._keys.add(entry.key)
        if place is None:
            return
        if entry.kind == "settle":
            self._settlements[place] = entry.receipt
            self._ends[entry.receipt.release] = entry.receipt
            self._used[entry.receipt.release] = entry.body["outcome"] != "returned"
            # Nothing can follow in this release, so its keys are no longer needed.
            self._keys.difference_update(self._of_reservation.pop(place, ()))
            self._batches.pop(place, None)
            self.inputs.pop(place, None)
            return
        if entry.kind == "input":
            self.inputs[place] = str(entry.about)
            self._accounts[str(entry.about)] = entry.receipt.account
            self._users.add((str(entry.about), entry.receipt.account))
        if entry.kind == "charge":
            self._batches.setdefault(place, set()).add(str(entry.about))
        if entry.key is not None:
            self._of_reservation.setdefault(place, []).append(entry.key)

    def identity(self) -> str:
        """Return the identifier of the ledger."""
        return self._identity

    def adoptions(self) -> Sequence[Receipt]:
        """Return the receipts of kind `adopt`."""
        return tuple(self._adoptions)

    def total(self, subject: str) -> str | None:
        """Return a running total."""
        return self.totals.get(subject)

    def charter(self, account: str) -> Charter | None:
        """Return an account's terms."""
        return self._charters.get(account)

    def promise(self, reservation: int) -> Promise | None:
        """Return the promise of a reservation."""
        return self._promises.get(reservation)

    def promises_of(self, accounts: Sequence[str]) -> Iterator[tuple[Promise, Receipt | None]]:
        """Yield the reservations of accounts, each with its settlement."""
        for account in accounts:
            for position in self._by_account.get(account, ()):
                yield self._promises[position], self._settlements.get(position)

    def accounts_within(self, account: str) -> Sequence[str]:
        """Return the names of the accounts directly within an account."""
        return tuple(self._within.get(account, ()))

    def approved(self, plan: str) -> bool:
        """Return whether a plan is approved now."""
        return self._approved.get(plan, False)

    def has(self, key: str) -> bool:
        """Return whether an entry with that unique key is recorded."""
        kind, _, rest = key.partition("/")
        if kind == "settle":
            return int(rest) in self._settlements
        return key in self._keys

    def charged(self, reservation: int, batch: str) -> bool:
        """Return whether a reservation has charges for a batch."""
        return batch in self._batches.get(reservation, ())

    def account_of(self, input_hash: str) -> str | None:
        """Return the account that used an input last; None if the input is new."""
        return self._accounts.get(input_hash)

    def used(self, input_hash: str, account: str) -> bool:
        """Return whether an account used an input."""
        return (input_hash, account) in self._users

    def is_used(self, release: str) -> bool:
        """Return whether the name of a release is used."""
        return self._used.get(release, False)

    def settlement(self, release: str) -> Receipt | None:
        """Return the latest settlement of a release."""
        return self._ends.get(release)
