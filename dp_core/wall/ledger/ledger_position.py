"""What a release states about the ledger: its position in the chain, and its accounts' totals."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_core.documents.exact import exact_fraction
from dp_core.wall.ledger.account_terms import Charter
from dp_core.wall.ledger.running_totals import Book, lineage


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
    """Return what a settlement states about the ledger: its identifier and the accounts' totals.

    The settlement is the last published receipt, so its signature covers these values too.

    Args:
        book: The ledger before the settlement.
        account: Account of the release. The accounts that it is within pay as well.
    """
    totals = [total_of(charter).to_json() for charter in lineage(book, account)]
    return {"ledger": book.identity(), "totals": totals}
