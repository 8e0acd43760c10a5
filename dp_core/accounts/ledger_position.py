"""What a release states about the ledger: position in the chain, accounts' totals, adoptions.

An adoption is an entry by which a person accepts a restored or copied ledger. A ledger that lacks
entries which were noted outside it, or that is not at the place where it was made, is refused until
then. The entry is kept, and every later release states it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.account_terms import Charter
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import Receipt
from dp_core.kernel.ledger.running_totals import Book, lineage


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position of a release's last receipt in the ledger's chain.

    Attributes:
        link: Link of its entry, which depends on all earlier entries. It is salted, so it reveals
            nothing about them.
        public_key: Public key that signed the entry, 64 hex digits; None if it is not signed.
        signature: Signature by that key of the receipt's hash and the link, in hex; None if it is
            not signed.
    """

    link: str
    public_key: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The total of an account that paid for a release.

    Attributes:
        account: Name of the account.
        composition: How its releases add up: `basic` or `zcdp`.
        epsilon, delta: Total for all releases of the account, when this release was settled.
        own_delta: Part of delta set aside for events with an own delta.
        opened: Day of opening.
        changed: For each change of the terms: day, kind (`raise` or `restate`), and the resulting
            composition, epsilon and delta.
    """

    account: str
    composition: str
    epsilon: Fraction
    delta: Fraction
    own_delta: Fraction
    opened: datetime.date
    changed: tuple[tuple[datetime.date, str, str, Fraction, Fraction], ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the total as a settlement states it, with exact numbers as text."""
        return {
            "account": self.account,
            "composition": self.composition,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "own_delta": str(self.own_delta),
            "opened": self.opened.isoformat(),
            "changed": [
                [day.isoformat(), kind, composition, str(epsilon), str(delta)]
                for day, kind, composition, epsilon, delta in self.changed
            ],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Total:
        """Return the total that `to_json` wrote.

        Raises:
            LookupError, TypeError, ValueError: if `values` has another structure.
        """
        return cls(
            account=values["account"],
            composition=values["composition"],
            epsilon=exact_fraction(values["epsilon"]),
            delta=exact_fraction(values["delta"]),
            own_delta=exact_fraction(values["own_delta"]),
            opened=datetime.date.fromisoformat(values["opened"]),
            changed=tuple(
                (
                    datetime.date.fromisoformat(day),
                    kind,
                    composition,
                    exact_fraction(epsilon),
                    exact_fraction(delta),
                )
                for day, kind, composition, epsilon, delta in values["changed"]
            ),
        )


def total_of(charter: Charter) -> Total:
    """Return the current total of an account."""
    return Total(
        account=charter.name,
        composition=charter.terms.composition,
        epsilon=charter.terms.epsilon,
        delta=charter.terms.delta,
        own_delta=charter.terms.own_delta,
        opened=charter.opened,
        changed=tuple(
            (day, kind, then.composition, then.epsilon, then.delta)
            for day, kind, then in charter.changes
        ),
    )


def whereabouts(book: Book, account: str) -> dict[str, object]:
    """Return what a settlement states about the ledger.

    These are its identifier, the accounts' totals and, if there are any, its adoptions. The
    settlement is the last published receipt, so its signature covers these values too.

    Args:
        book: The ledger before the settlement.
        account: Account of the release. The accounts that it is within pay as well.
    """
    totals = [total_of(charter).to_json() for charter in lineage(book, account)]
    adopted = [
        adoption_of(receipt).to_json()
        for receipt in book.adoptions()
        if "clock" not in receipt.body  # only a jump of the clock was accepted
    ]
    stated: dict[str, object] = {"ledger": book.identity(), "totals": totals}
    return stated | ({"adopted": adopted} if adopted else {})


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a release states about one adoption of its ledger.

    Attributes:
        day: Day of the adoption, UTC.
        behind: Number of noted entries that the ledger lacked; None if it is unknown, because there
            was no note or the ledger had gone on differently.
    """

    day: datetime.date
    behind: int | None

    def to_json(self) -> dict[str, object]:
        """Return the adoption as a settlement states it."""
        return {"day": self.day.isoformat(), "behind": self.behind}


def adoption_of(receipt: Receipt) -> Adoption:
    """Return the adoption that a receipt of kind `adopt` records."""
    return Adoption(datetime.date.fromisoformat(receipt.at), _count(receipt.body["behind"]))


def stated_adoptions(settlement: Mapping[str, Any]) -> tuple[Adoption, ...]:
    """Return the adoptions that the body of a settlement states, in order.

    Raises:
        LookupError, TypeError, ValueError: if it has another structure.
    """
    return tuple(
        Adoption(datetime.date.fromisoformat(found["day"]), _count(found["behind"]))
        for found in settlement.get("adopted", ())
    )


def entries_behind(head: int, noted: int | None) -> int | None:
    """Return how many noted entries a ledger lacks; None if it is unknown.

    Args:
        head: Position of the ledger's last entry.
        noted: Position of the newest noted entry that the ledger lacks; None if there was no note.
    """
    return noted - head if noted is not None and noted > head else None


def broken_by_statement(entry: Entry, book: Book) -> str | None:
    """Return how an adoption or a settlement misstates the ledger; None if it does not."""
    if entry.kind == "adopt":
        return _broken_adoption(entry)
    promise = book.promise(entry.reservation or 0)
    if entry.kind == "settle" and promise is not None:
        stated = {"adopted": None, **whereabouts(book, promise.account)}
        if {name: entry.body.get(name) for name in stated} != stated:
            return "states another ledger, or other totals, than those that paid"
    return None


def _broken_adoption(entry: Entry) -> str | None:
    noted, head = entry.body["from"], entry.body["to"]
    if head["position"] != entry.position - 1:
        return "adopts another head than that of the entry before it"
    behind = _count(entry.body["behind"])
    # Without a missing entry nothing is behind, whatever position was noted.
    if behind not in (0, entries_behind(head["position"], noted and noted["position"])):
        return "states another number of missing entries than its heads imply"
    return None


def _count(value: object) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise ValueError("The number of missing entries is not a whole number.")
