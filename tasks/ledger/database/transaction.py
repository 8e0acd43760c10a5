"""The ledger inside one transaction: what its entries say, and adding new ones.

A `Transaction` computes everything from the entries and running totals of a store. It collects new
entries, which it sees at once itself, and hands them to the store together.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import chain
from typing import Any

from dp_core.accounts.signatures import Signer, signed_message
from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.ledger.account_terms import OF_ACCOUNT, Charter, Promise, amended, promise_of
from dp_core.kernel.ledger.entries import Entry, make_entry, unique_key
from dp_core.kernel.ledger.receipts import PUBLISHED, START, EntryKind, Receipt, make_receipt
from dp_core.kernel.ledger.rules import judged
from dp_core.kernel.ledger.running_totals import reservation_total
from dp_core.policies.all_policies import POLICIES
from tasks.ledger.database.ledger_store import Head, LedgerStore, Place, StoredTotal


class Transaction:
    """The entries and running totals of a store, and new ones; the kernel's `Book`."""

    def __init__(self, store: LedgerStore, signer: Signer | None = None) -> None:
        """Read a store, and add to it.

        Args:
            store: The record inside the transaction.
            signer: Key that signs new entries; None (the default) without one.
        """
        self.store = store
        self.signer = signer
        self._new: dict[str, list[Entry]] = {}  # by kind, in order
        self._changed: dict[str, StoredTotal] = {}
        # What was read stays valid, because no other process writes during this transaction.
        self._stored: dict[object, Sequence[Entry]] = {}
        self._head: Head | None = None
        self._totals: dict[str, str | None] = {}
        self._charters: dict[str, Charter | None] = {}
        self._promises: dict[int, Promise] = {}
        self._receipts: dict[int, Receipt] = {}

    # -- finding entries

    def find(
        self, *, kinds: Sequence[EntryKind] = (), last: int | None = None, **criteria: Any
    ) -> tuple[Entry, ...]:
        """Return the entries that meet all criteria, in order.

        Args:
            kinds: Kinds to find; empty (the default) for every kind.
            last: Largest number of entries to return, the latest ones; None (the default) for all.
            **criteria: Required `account`, `release`, `reservation`, `about`, `key` or `position`;
                None for any.
        """
        equal = {name: value for name, value in criteria.items() if value is not None}
        asked = tuple(kinds), tuple(equal.items()), last
        if asked not in self._stored:
            self._stored[asked] = self.store.entries(kinds=kinds, equal=equal, last=last)
        found = [
            entry
            for kind in kinds or self._new
            for entry in self._new.get(kind, ())
            if all(_value(entry, name) == value for name, value in equal.items())
        ]
        found = [*self._stored[asked], *sorted(found, key=lambda entry: entry.position)]
        return tuple(found if last is None else found[-last:])

    def latest(self, **criteria: Any) -> Entry | None:
        """Return the last entry that `find` would return; None if there is none."""
        found = self.find(**criteria, last=1)
        return found[0] if found else None

    def head(self) -> Head:
        """Return the end of the chain, with the new entries."""
        if self._head is None:
            self._head = self.store.head()
        return self._head

    def has_link(self, position: int, link: str) -> bool:
        """Return whether the entry at a position has the given link."""
        if self.head().position == position:
            return self.head().link == link
        return any(entry.link == link for entry in self.find(position=position))

    def place(self) -> tuple[int, Place]:
        """Return the place at which the ledger was made or last adopted.

        Returns:
            Position of the entry that records the place, and the place, which is empty if an
            earlier program made the ledger.
        """
        found = self.latest(kinds=("ledger", "adopt"))
        assert found is not None
        return found.position, found.body.get("place") or {}

    # -- the methods of `Book`, by which the rules are checked

    def identity(self) -> str:
        """Return the identifier of the ledger."""
        return str(self.find(position=1)[0].body["id"])

    def adoptions(self) -> Sequence[Receipt]:
        """Return the receipts of kind `adopt`, in order."""
        return [entry.receipt for entry in self.find(kinds=("adopt",))]

    def total(self, subject: str) -> str | None:
        """Return the latest text of a running total; None if it was never written."""
        if subject not in self._totals:
            self._read_totals([subject])
        return self._totals[subject]

    def charter(self, account: str) -> Charter | None:
        """Return the terms of an account; None if it does not exist."""
        if account not in self._charters:
            self._charters[account] = self._read_charter(account)
        return self._charters[account]

    def _read_charter(self, account: str) -> Charter | None:
        found, charter = self.find(account=account, kinds=OF_ACCOUNT), None
        try:
            for entry in found:
                charter = amended(charter, entry.receipt)
            return charter
        except (KeyError, TypeError, ValueError):
            raise LedgerCorrupt(
                f"The entries of account {account!r} were changed.", row="ledger-changed"
            ) from None

    def promise(self, reservation: int) -> Promise | None:
        """Return the promise of the reservation at a position; None if it does not exist."""
        if reservation not in self._promises:
            found = self.find(kinds=("reserve",), position=reservation)
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
        """Read running totals together into the cache; those that are there may be newer."""
        wanted = [subject for subject in subjects if subject not in self._totals]
        self._totals |= {**dict.fromkeys(wanted), **self.store.totals(wanted)}

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
        return self.latest(kinds=(key.partition("/")[0],), key=key) is not None

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

    def settlement_of(self, reservation: int) -> Entry | None:
        """Return the entry that settled the reservation at a position; None if it is open."""
        return self.latest(kinds=("settle",), key=f"settle/{reservation}")

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
        """
        end = self.head()
        position = end.position + 1
        if kind == "reserve":
            reservation = position
        # privacy: a clock that was set back must not make an earlier period's allowance available.
        recorded = max(now(), end.recorded)
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
        draft = Entry(
            position=position,
            receipt=receipt,
            reservation=reservation,
            about=about,
            key=key or unique_key(receipt, about, reservation),
            recorded=recorded,
            salt=os.urandom(16).hex(),
        )
        entry = self._signed(make_entry(draft, end.link))
        broken, after = judged(entry, self, POLICIES)
        if broken is not None:
            # Callers check the same conditions earlier, with more helpful messages.
            raise LedgerCorrupt(
                f"An entry ({kind}) that {broken} was not added to the ledger;"
                " `dp-release ledger verify` checks what is there.",
                row="entry-refused",
            )
        self._new.setdefault(kind, []).append(entry)
        self._head = Head(position, entry.link, recorded)
        if kind in OF_ACCOUNT:
            self._charters.pop(account, None)
        if kind in PUBLISHED:
            assert reservation is not None
            self._receipts[reservation] = receipt
        self._totals |= after
        self._changed |= {
            subject: StoredTotal(subject, position, value) for subject, value in after.items()
        }
        return entry

    def today(self) -> date:
        """Return the day of the next entry, in UTC; never earlier than that of the last entry."""
        return date.fromisoformat(max(now(), self.head().recorded)[:10])

    @property
    def has_appended(self) -> bool:
        """Whether there are new entries."""
        return bool(self._new)

    @property
    def closed(self) -> frozenset[str]:
        """Names of the accounts that this transaction closed."""
        return frozenset(entry.receipt.account for entry in self._new.get("close", ()))

    def save(self) -> None:
        """Hand the new entries to the store, with each running total that they changed, once.

        Raises:
            StageFailed: if the chain went on since this transaction read its end.
        """
        entries = sorted(chain(*self._new.values()), key=lambda entry: entry.position)
        if entries:
            self.store.append(entries, self._changed.values())

    def forget(self) -> None:
        """Forget the new entries; the transaction must not be used any more, but for its head."""
        self._new, self._changed, self._head = {}, {}, self.store.head()

    def valid_keys(self) -> set[str]:
        """Return the fingerprints of the keys that may sign now."""
        return valid_keys([found.body for found in self.find(kinds=("key",))])

    def _number(self, kind: str, reservation: int | None) -> tuple[int, str]:
        """Return number and predecessor of the next receipt of a reservation."""
        if kind not in PUBLISHED:
            return 0, START
        # privacy: each reservation starts its own chain, so that the receipts of a release do not
        # reveal which earlier attempt ended, for example because the file broke the schema. The
        # settlement tells only how many attempts of the account were refused.
        if kind == "reserve":
            return 1, START
        assert reservation is not None
        if reservation not in self._receipts:
            found = self.find(kinds=("reserve",), position=reservation)
            for follows in ("charge", "commit"):  # nothing follows a settlement
                found += self.find(kinds=(follows,), reservation=reservation, last=1)
            self._receipts[reservation] = max(found, key=lambda one: one.receipt.number).receipt
        last = self._receipts[reservation]
        return last.number + 1, last.hash

    def _signed(self, entry: Entry) -> Entry:
        valid = self.valid_keys()
        if not valid and entry.kind != "key":
            return entry
        trusted = valid or {str(entry.about)}
        signer = known_signer(self.signer, trusted)
        signature = signer.sign(signed_message(entry.receipt.hash, entry.link))
        return replace(entry, signer=signer.fingerprint, signature=signature)


def _value(entry: Entry, name: str) -> object:
    return getattr(entry.receipt if name in ("account", "release") else entry, name)


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
