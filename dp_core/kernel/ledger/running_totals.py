"""Running totals: sums over the ledger's entries, and what each account has left.

A `Book` gives access to the state of the ledger after its entries so far. The database is one book
(`tasks.ledger.database.transaction`); the audit builds another one from the entries alone.
`dp_core.kernel.ledger.rules` defines how an entry changes the state and when it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Protocol

from dp_core.kernel.canonical import canonical_json, remembered
from dp_core.kernel.cost.composition import NO_CHARGES, NOTHING, Amount, Tally
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.account_terms import Charter, Promise
from dp_core.kernel.ledger.receipts import Receipt


@dataclass(frozen=True, slots=True)
class Balance:
    """The reserved and spent amounts of an account.

    Attributes:
        reserved: Amount promised to releases that are not settled.
        spent: Amount spent by settled releases.
    """

    reserved: Amount = NOTHING
    spent: Amount = NOTHING

    def __add__(self, other: Balance) -> Balance:
        return Balance(self.reserved + other.reserved, self.spent + other.spent)

    @property
    def used(self) -> Amount:
        """Sum of the reserved and spent amounts."""
        return self.reserved + self.spent


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a reservation so far.

    Attributes:
        tally: Sums over its charges.
        results: Number of committed results.
        stages: Sum of the charges of each stage, in the release's currency.
    """

    tally: Tally = NO_CHARGES
    results: int = 0
    stages: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # `_use_of` keeps it for later readers, so nobody may change it.
        object.__setattr__(self, "stages", MappingProxyType(dict(self.stages)))

    def of(self, stage: str) -> Fraction:
        """Return the sum of a stage's charges, in the release's currency."""
        return self.stages.get(stage, Fraction(0))


class Book(Protocol):
    """The state of the ledger after its entries so far."""

    def identity(self) -> str:
        """Return the identifier of the ledger."""

    def adoptions(self) -> Sequence[Receipt]:
        """Return the receipts of kind `adopt`, in order."""

    def total(self, subject: str) -> str | None:
        """Return the latest text of a running total; None if it was never written."""

    def charter(self, account: str) -> Charter | None:
        """Return the terms of an account; None if it does not exist."""

    def promise(self, reservation: int) -> Promise | None:
        """Return the promise of the reservation at a position; None if it does not exist."""

    def promises_of(self, accounts: Sequence[str]) -> Iterator[tuple[Promise, Receipt | None]]:
        """Yield the promises of accounts, each with its settlement (None if it has none)."""

    def accounts_within(self, account: str) -> Sequence[str]:
        """Return the names of the accounts directly within an account."""

    def approved(self, plan: str) -> bool:
        """Return whether the plan with a hash is approved now."""

    def has(self, key: str) -> bool:
        """Return whether an entry with a unique key is recorded."""

    def charged(self, reservation: int, batch: str) -> bool:
        """Return whether a reservation has charges for a batch."""

    def is_used(self, release: str) -> bool:
        """Return whether a release name is used; a release that was returned frees its name."""

    def account_of(self, input_hash: str) -> str | None:
        """Return the account that used an input last; None if the input is new."""

    def used(self, input_hash: str, account: str) -> bool:
        """Return whether an account used an input."""

    def settlement(self, release: str) -> Receipt | None:
        """Return the latest settlement of a release; None if it has none."""


# -- subjects and texts of running totals


OF_RULES = ("account/", "reservation/")
"""Beginnings of the subjects that the rules read; no policy writes one."""


def account_total(name: str) -> str:
    """Return the subject of an account's balance."""
    return f"account/{name}"


def reservation_total(position: int) -> str:
    """Return the subject of the use of a reservation."""
    return f"reservation/{position}"


def balance(book: Book, name: str) -> Balance:
    """Return the balance of an account."""
    text = book.total(account_total(name))
    if text is None:
        return Balance()
    reserved, spent = json.loads(text)
    return Balance(Amount.from_json(reserved), Amount.from_json(spent))


def use(book: Book, reservation: int) -> Use:
    """Return the use of a reservation so far."""
    text = book.total(reservation_total(reservation))
    if text is None:
        return Use()
    return _use_of(text)


@remembered(64)
def _use_of(text: str) -> Use:
    # Cached, because the rules and the new total of each charge read the same text.
    charges, cost, rho, own_delta, results, stages = json.loads(text)
    tally = Tally(charges, exact_fraction(cost), exact_fraction(rho), exact_fraction(own_delta))
    return Use(tally, results, {stage: exact_fraction(spent) for stage, spent in stages.items()})


def balance_text(value: Balance) -> str:
    """Return the text of a balance's running total."""
    return _text([value.reserved.to_json(), value.spent.to_json()])


def use_text(value: Use) -> str:
    """Return the text of the running total of a reservation's use."""
    tally = value.tally
    stages = {stage: str(spent) for stage, spent in value.stages.items()}
    sums = [tally.charges, str(tally.cost), str(tally.rho), str(tally.own_delta)]
    return _text([*sums, value.results, stages])


def _text(value: object) -> str:
    return canonical_json(value).decode()


# -- what an account has left


def lineage(book: Book, account: str) -> tuple[Charter, ...]:
    """Return the terms of an account and of every account above it, the nearest first.

    All of them pay for the account's releases. The result is empty if the account does not exist.
    """
    found: list[Charter] = []
    name: str | None = account
    while name is not None:
        charter = book.charter(name)
        if charter is None:
            break
        found.append(charter)
        name = charter.within
    return tuple(found)


def other_owner(book: Book, input_hash: str, account: str) -> str | None:
    """Return the account of another family that an input belongs to; None if there is none.

    Args:
        book: The ledger.
        input_hash: Keyed hash of the input, or of a part of it.
        account: Account that would use it; it need not exist.
    """
    owner = book.account_of(input_hash)
    if owner is None or owner == account:
        return None
    payers, above = lineage(book, account), lineage(book, owner)
    # All accounts that used an input are of one family, so the last one stands for them.
    same = bool(payers and above) and above[-1].name == payers[-1].name
    return None if same else owner


def subtree(book: Book, account: str) -> list[str]:
    """Return the names of an account and of all accounts within it, at any depth.

    The account pays for the releases of all of them.
    """
    found = [account]
    for name in found:
        found += book.accounts_within(name)
    return found


def other_columns(book: Book, account: str, columns: Mapping[str, str]) -> Promise | None:
    """Return an earlier release of an account's family that tells units by other columns.

    The costs of two such releases do not add up: one person can have many values in the other
    release's column, and each of them is protected on its own.

    Args:
        book: The ledger.
        account: Account of a release.
        columns: Its `ProtectedUnit.columns`; a key that one of the two does not state is not
            compared.

    Returns:
        The promise of the earlier release; None if all agree. A reservation that was returned
        fixes nothing.
    """
    if not columns:
        return None
    for promise, end in book.promises_of(subtree(book, lineage(book, account)[-1].name)):
        if end is not None and end.body["outcome"] == "returned":
            continue
        stated = dict(promise.columns)
        if any(stated.get(key, column) != column for key, column in columns.items()):
            return promise
        if stated.keys() >= columns.keys():
            return None  # it was compared with all before it
    return None


def promised(charter: Charter, promise: Promise) -> Amount:
    """Return the amount that a reservation takes from an account until it is settled."""
    return charter.terms.promised(promise.currency, promise.epsilon, promise.delta)


def settled(charter: Charter, promise: Promise, used: Use, settlement: Receipt) -> Amount:
    """Return the amount that a settled release has spent of an account.

    Args:
        charter: The account.
        promise: Promise of the release.
        used: Use of the reservation.
        settlement: Receipt that ended the release.

    Raises:
        ValueError: if the charges exceed the promise.
    """
    return charter.terms.spent(
        used.tally,
        promise.currency,
        promise.epsilon,
        promise.delta,
        seen=bool(settlement.body["seen"]),
    )


def recounted(book: Book, charter: Charter) -> Balance:
    """Return an account's balance as if it had always had the given terms.

    Args:
        book: The ledger with the account's history.
        charter: The account, with the terms by which to compute.
    """
    state = Balance()
    for promise, end in book.promises_of(subtree(book, charter.name)):
        if end is None:
            state += Balance(promised(charter, promise))
        else:
            used = use(book, promise.position)
            state += Balance(spent=settled(charter, promise, used, end))
    return state
