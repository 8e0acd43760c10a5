"""Reservations and charges as the rows tell them: what a release may spend, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dp_core.accounting.currency import Currency, Kind
from dp_core.accounting.events import event_from_json
from dp_core.errors import BadInput, StageFailed
from dp_core.ledger import Step
from dp_core.plan import Plan
from tasks.stores.database import Rows


@dataclass(frozen=True, slots=True)
class Charge:
    """A step that was paid for, and whether its result is committed."""

    number: int
    stage: str
    step: str
    cost: Fraction
    body: Mapping[str, object]
    batch: str
    attempts: int
    result: str | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The latest promise to a release."""

    number: int
    release: str
    account: str
    plan: str
    epsilon: Fraction
    delta: Fraction
    currency: Currency
    costs: Mapping[str, Fraction]
    outcome: str | None


def continued(rows: Rows, plan: Plan) -> Reservation | None:
    """Return the reservation that a release goes on with, None where it needs a new one.

    Raises:
        BadInput: if the name was used, or is under way with another plan.
    """
    name = plan.spec.release
    held = read_reservation(rows, name)
    if held is None or held.outcome == "returned":
        return None
    if held.outcome is not None:
        raise BadInput(
            f"The name {name!r} is used: that release is {held.outcome}. A release is made once;"
            " choose a new name under `release`."
        )
    if held.plan == plan.hash:
        return held
    if not read_charges(rows, held):
        # It spent nothing: a corrected spec may begin again once it is given back.
        return None
    raise BadInput(
        f"Release {name!r} is under way with another plan: spec or schema changed since. Undo the"
        f" change and `dp-release resume {name}`, or `dp-release abandon {name}` and choose a new"
        " name."
    )


def read_reservation(rows: Rows, release: str) -> Reservation | None:
    """Return the latest reservation of a release, None if it never had one."""
    found = rows.find(kind="reserve", release=release)
    if not found:
        return None
    row = found[-1]
    ends = [
        end
        for end in rows.find(kind="settle", release=release)
        if end.body["reservation"] == row.number
    ]
    currency: Any = row.body["currency"]
    costs: Any = row.body["costs"]
    kind: Kind = currency["kind"]
    return Reservation(
        number=row.number,
        release=release,
        account=row.account,
        plan=str(row.body["plan"]),
        epsilon=Fraction(str(row.body["epsilon"])),
        delta=Fraction(str(row.body["delta"])),
        currency=Currency(kind, Fraction(currency["limit"])),
        costs={stage: Fraction(cost) for stage, cost in costs.items()},
        outcome=str(ends[0].body["outcome"]) if ends else None,
    )


def read_charges(rows: Rows, reservation: Reservation) -> tuple[Charge, ...]:
    """Return the charges of a reservation, in order."""
    mine = [
        row
        for row in rows.find(release=reservation.release)
        if row.body.get("reservation") == reservation.number
    ]
    results = {row.body["batch"]: str(row.body["result"]) for row in mine if row.kind == "commit"}
    attempts = rows.attempts(reservation.number)
    return tuple(
        Charge(
            number=row.number,
            stage=str(row.body["stage"]),
            step=str(row.body["step"]),
            cost=Fraction(str(row.body["cost"])),
            body=row.body,
            batch=str(row.body["batch"]),
            attempts=attempts.get(str(row.body["batch"]), 1),
            result=results.get(row.body["batch"]),
        )
        for row in mine
        if row.kind == "charge"
    )


def identity_of(charge: Charge) -> tuple[object, ...]:
    """Return what makes a charge the one of a step."""
    event: Any = charge.body["event"]
    return charge.stage, charge.step, charge.cost, event_from_json(event)


def planned(step: Step) -> tuple[object, ...]:
    """Return the same of a step that is to be charged."""
    return step.stage, step.name, step.cost, step.event


def give_back(rows: Rows, reservation: Reservation) -> None:
    """End a reservation of which nothing was charged."""
    rows.append(
        "settle",
        account=reservation.account,
        release=reservation.release,
        body={
            "reservation": reservation.number,
            "outcome": "returned",
            "spent": "0",
            "epsilon": "0",
            "delta": "0",
        },
    )


def require_open(rows: Rows, reservation: Reservation) -> None:
    """Raise StageFailed unless the release still holds this reservation."""
    held = read_reservation(rows, reservation.release)
    if held is None or held.number != reservation.number or held.outcome is not None:
        raise StageFailed(
            f"Release {reservation.release!r} no longer holds its reservation;"
            f" `dp-release status {reservation.release}` shows what became of it."
        )
