"""Accounts and promises: what the ledger's receipts say, read strictly.

A `Charter` is what an account is after its opening and every change; a `Promise` is what one
reservation set aside for a release.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, assert_never, cast, get_args

from dp_core.documents.canonical import canonical_json
from dp_core.documents.exact import exact_fraction
from dp_core.schema.privacy import Neighbours
from dp_core.wall.accounting.composition import Terms
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.events import Event, event_from_json
from dp_core.wall.ledger.budget_periods import Calendar
from dp_core.wall.ledger.receipts import AccountKind, Receipt

OF_ACCOUNT: tuple[AccountKind, ...] = get_args(AccountKind)
"""Kinds that say what an account is; `amended` knows what each of them changes."""


@dataclass(frozen=True, slots=True)
class Charter:
    """What an account is, as it stands now.

    Attributes:
        name: Unique in the ledger.
        terms: Total, and how releases add up.
        calendar: Allowance per period, None without one.
        neighbours: The relation every release of it uses.
        unit: Who is protected.
        within: Account whose total also covers this one, None for none.
        approved_only: Whether only approved plans run.
        owner: Who answers for it.
        opened: Day of opening.
        changes: Days of raising and restating, with the kind and the terms that held from then on.
        closed: Whether it takes no more releases.
    """

    name: str
    terms: Terms
    calendar: Calendar | None
    neighbours: Neighbours
    unit: str
    within: str | None
    approved_only: bool
    owner: str
    opened: datetime.date
    changes: tuple[tuple[datetime.date, str, Terms], ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Promise:
    """What one reservation set aside for a release, from its receipt alone.

    `tasks.ledger.reservations.Reservation` adds how the release ended; `books.promised` is what a
    promise takes of one account; `dp_core.wall.ledger.account_balance.promise` supposes one in a
    forecast.

    Attributes:
        position: Of its entry.
        release: Name.
        account: Account that pays.
        plan: Hash of the plan.
        epsilon, delta: Guarantee of the release.
        currency: What the release pays in, and its total.
        costs: Of each stage, in that currency.
        day: On which it was made; its period pays.
        publish: `at-once`, or `after-approval`: then a person decides before it is published.
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
    publish: str = "at-once"


def charter_of(receipts: Sequence[Receipt]) -> Charter:
    """Return the account that its own receipts (opening, raising, ...) make, in order."""
    charter: Charter | None = None
    for receipt in receipts:
        charter = amended(charter, receipt)
    if charter is None:
        raise ValueError("An account begins with its opening.")
    return charter


def amended(charter: Charter | None, receipt: Receipt) -> Charter:
    """Return what an account is after one more receipt of its own; None before its opening.

    Raises:
        ValueError: if it does not begin with its opening.
    """
    body: Mapping[str, Any] = receipt.body
    day = datetime.date.fromisoformat(receipt.at)
    kind = cast(AccountKind, receipt.kind)
    if kind == "open":
        return _opened(receipt, day)
    if charter is None:
        raise ValueError("An account begins with its opening.")
    terms, calendar = charter.terms, charter.calendar
    match kind:
        case "close":
            return replace(charter, closed=True)
        case "raise":
            epsilon, delta = exact_fraction(body["epsilon"]), exact_fraction(body["delta"])
            terms = replace(terms, epsilon=epsilon, delta=delta)
            calendar = _calendar(body)
        case "restate":
            own_delta = exact_fraction(body["own_delta"])
            terms = replace(terms, composition=body["composition"], own_delta=own_delta)
            calendar = _calendar(body)
        case _:
            assert_never(kind)
    changes = (*charter.changes, (day, kind, terms))
    return replace(charter, terms=terms, calendar=calendar, changes=changes)


def _opened(receipt: Receipt, day: datetime.date) -> Charter:
    body: Mapping[str, Any] = receipt.body
    if body["calendar"] and body["calendar"]["start"] != receipt.at:
        raise ValueError("A calendar begins on the day of opening.")
    return Charter(
        name=receipt.account,
        terms=Terms(
            composition=body["composition"],
            epsilon=exact_fraction(body["epsilon"]),
            delta=exact_fraction(body["delta"]),
            own_delta=exact_fraction(body["own_delta"]),
        ),
        calendar=_calendar(body),
        neighbours=cast(Neighbours, body["neighbours"]),
        unit=body["unit"],
        within=body["within"],
        approved_only=body["approved_only"],
        owner=body["owner"],
        opened=day,
    )


def _calendar(body: Mapping[str, Any]) -> Calendar | None:
    return Calendar.from_json(body["calendar"]) if body["calendar"] else None


def promise_of(position: int, receipt: Receipt) -> Promise:
    """Return what the receipt of a reservation promises."""
    body: Mapping[str, Any] = receipt.body
    currency = body["currency"]
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
        publish=body.get("publish", "at-once"),
    )


def charged_event(receipt: Receipt) -> tuple[Fraction, Event]:
    """Return the cost and the event of a charge."""
    return _charged(str(receipt.body["cost"]), canonical_json(receipt.body["event"]))


@lru_cache(maxsize=64)
def _charged(cost: str, event: bytes) -> tuple[Fraction, Event]:
    # As text, in which 1, 1.0 and true differ. Charges of one batch often have the same event.
    return exact_fraction(cost), event_from_json(json.loads(event))
