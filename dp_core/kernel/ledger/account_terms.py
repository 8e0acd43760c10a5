"""Accounts and promises, read from the ledger's receipts.

A `Charter` holds the current terms of an account after its opening and every change. A `Promise`
holds the budget that one reservation set aside for a release.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, get_args

from dp_core.kernel.canonical import remembered
from dp_core.kernel.cost.composition import Terms
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.document import UNIT_KEYS
from dp_core.kernel.exact import exact_fraction
from dp_core.kernel.ledger.receipts import AccountKind, Receipt
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.privacy import Neighbours, Relation, stated_relation

OF_ACCOUNT: tuple[AccountKind, ...] = get_args(AccountKind)
"""Kinds of entries that define an account; `amended` applies each of them."""


@dataclass(frozen=True, slots=True)
class Charter:
    """The current terms of an account.

    Attributes:
        name: Name, unique in the ledger.
        terms: Total and composition.
        calendar: Allowance per period as the receipt states it, None without one; for policies.
        neighbours: Neighbouring relation of all its releases.
        unit: Unit of privacy: `row`, `person` or `household`.
        within: Name of the account whose total also covers this one; None if there is none.
        approved_only: Whether a plan must be approved before it runs; for policies.
        owner: Person responsible for the account.
        opened: Day of opening.
        core_only: Whether plans that may ask extensions are refused; for policies.
        changes: Day, kind (`raise` or `restate`) and resulting terms of each change of the terms.
        closed: Whether new reservations are refused.
    """

    name: str
    terms: Terms
    calendar: Mapping[str, object] | None
    neighbours: Neighbours
    unit: str
    within: str | None
    approved_only: bool
    owner: str
    opened: datetime.date
    core_only: bool = False
    changes: tuple[tuple[datetime.date, str, Terms], ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class UsedMeasurements:
    """The committed results of an earlier release that a reservation names.

    Attributes:
        release: Name of the earlier release.
        head: Hash of its last receipt, which covers its charges and the hashes of their results.
    """

    release: str
    head: str


@dataclass(frozen=True, slots=True)
class Promise:
    """The budget that one reservation set aside for a release, as its receipt states it.

    `tasks.ledger.reservations.Reservation` adds the outcome of the release.
    `dp_core.kernel.ledger.running_totals.promised` converts a promise to the amount that it takes
    from an account.

    Attributes:
        position: Position of the reservation's entry in the ledger.
        release: Name of the release.
        account: Name of the account that pays.
        plan: Hash of the plan.
        epsilon, delta: Guarantee of the release.
        currency: Currency of the release, with its total.
        costs: Budget of each stage, in that currency.
        day: Day of the reservation, in UTC; the period of this day pays.
        relation: Relation of the release, with the largest number of rows of a unit.
        publish: `at-once`, or `after-approval` if a person must decide before publication.
        sets: Number of synthetic sets; 0 for a release of tables only.
        document: Hash of the kernel's document.
        extensions: Questions outside the core that it may ask.
        measurements: The release whose committed results it uses instead of measuring; None if it
            measures. It then promises nothing.
        columns: Columns that say whose a record is (`ProtectedUnit.columns`), as pairs of key and
            column; earlier versions did not state all of them.
    """

    position: int
    release: str
    account: str
    plan: str
    epsilon: Fraction
    delta: Fraction
    currency: Currency
    costs: Mapping[str, Fraction]
    day: datetime.date
    relation: Relation
    publish: str = "at-once"
    sets: int = 1
    document: str = ""
    extensions: frozenset[str] = frozenset()
    measurements: UsedMeasurements | None = None
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        # Books keep promises, so nobody may change one.
        object.__setattr__(self, "costs", MappingProxyType(dict(self.costs)))


def amended(charter: Charter | None, receipt: Receipt) -> Charter:
    """Return the terms of an account after one more receipt.

    Args:
        charter: Terms before the receipt; None before the opening.
        receipt: Receipt of one of the account's own entries.

    Raises:
        ValueError: if the first receipt is not the opening, or has invalid terms.
    """
    body: Mapping[str, Any] = receipt.body
    day = datetime.date.fromisoformat(receipt.at)
    if receipt.kind == "open":
        return Charter(
            name=receipt.account,
            terms=Terms(**_stated_terms(body, "composition", "epsilon", "delta", "own_delta")),
            calendar=body["calendar"] or None,
            neighbours=body["neighbours"],
            unit=body["unit"],
            within=body["within"],
            approved_only=body["approved_only"],
            owner=body["owner"],
            opened=day,
            core_only=body.get("core_only", False),
        )
    if charter is None:
        raise ValueError("The first entry of an account must be its opening.")
    if receipt.kind == "close":
        return replace(charter, closed=True)
    changed = {"raise": ("epsilon", "delta"), "restate": ("composition", "own_delta")}[receipt.kind]
    terms = replace(charter.terms, **_stated_terms(body, *changed))
    changes = (*charter.changes, (day, receipt.kind, terms))
    return replace(charter, terms=terms, calendar=body["calendar"] or None, changes=changes)


def _stated_terms(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields of `Terms` that a receipt states."""
    return {n: body[n] if n == "composition" else exact_fraction(body[n]) for n in names}


_RESERVED = (
    *("epsilon", "delta", "neighbours", *UNIT_KEYS, "link", "plan", "document", "sets", "mode"),
    *("measurements", "extensions", "schema", "revises", "publish", "currency", "costs"),
)


def unknown_terms(receipt: Receipt) -> list[str]:
    """Return the keys of a reservation that this program does not know, in order."""
    return sorted({*receipt.body} - {*_RESERVED})


def promise_of(position: int, receipt: Receipt) -> Promise:
    """Return the promise that a reservation's receipt states.

    Args:
        position: Position of the reservation's entry.
        receipt: Receipt of kind `reserve`.
    """
    body: Mapping[str, Any] = receipt.body
    currency, used = body["currency"], body.get("measurements")
    return Promise(
        position=position,
        release=receipt.release,
        account=receipt.account,
        plan=body["plan"],
        epsilon=exact_fraction(body["epsilon"]),
        delta=exact_fraction(body["delta"]),
        currency=Currency(
            currency["kind"],
            exact_fraction(currency["limit"]),
            exact_fraction(currency["own_delta"]),
        ),
        costs={stage: exact_fraction(cost) for stage, cost in body["costs"].items()},
        day=datetime.date.fromisoformat(receipt.at),
        relation=stated_relation(body),
        publish=body.get("publish", "at-once"),
        sets=body.get("sets", 1),
        document=body.get("document", ""),
        extensions=frozenset(body.get("extensions", ())),
        measurements=None if used is None else UsedMeasurements(used["release"], used["head"]),
        columns=tuple((key, body[key]) for key in ("identified_by", "link") if key in body),
    )


def charged_event(receipt: Receipt) -> tuple[Fraction, Event]:
    """Return the cost and the event that a charge's receipt states."""
    return _charged(str(receipt.body["cost"]), receipt.body["event"])


@remembered(64)
def _charged(cost: str, event: Any) -> tuple[Fraction, Event]:
    # Charges of one batch often have the same event.
    return exact_fraction(cost), event_from_json(event)
