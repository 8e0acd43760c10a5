"""What a release states about the ledger: where it stands there, and what its accounts allow."""

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
    """Where the last receipt stands in the ledger's chain.

    Attributes:
        link: Hash of its entry and of all entries before it; salted, so it tells nothing else.
        public_key: Key of the ledger, 64 hex digits; None where it is not signed.
        signature: By that key, of the last receipt's hash and the link; None as above.
    """

    link: str
    public_key: str | None = None
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What an account that paid allows for everything ever released from it.

    Attributes:
        account: Name.
        composition: How its releases add up.
        epsilon, delta: Total when the release was settled.
        own_delta: Part of delta for mechanisms that fail with a probability of their own.
        opened: Day of opening.
        changed: Days on which the total was raised or the composition changed, with what held
            from then on.
    """

    account: str
    composition: str
    epsilon: Fraction
    delta: Fraction
    own_delta: Fraction
    opened: datetime.date
    changed: tuple[tuple[datetime.date, str, str, Fraction, Fraction], ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the total as a settlement states it: every number as exact text."""
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
            Exception: a lookup, type or value error if it has not that shape.
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
    """Return what an account allows, as it stands now."""
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
    """Return what every settlement states beside its own release: the ledger, and who paid.

    The settlement is the last receipt that is published, so a signature under it covers these too.

    Args:
        book: Of the entries before the settlement.
        account: Account of the release; those it stands within pay as well.
    """
    totals = [total_of(charter).to_json() for charter in lineage(book, account)]
    return {"ledger": book.identity(), "totals": totals}
