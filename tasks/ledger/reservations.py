"""Reservations and charges, read from the ledger's entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from dp_core.errors import BadInput
from dp_core.kernel.ledger.account_terms import Promise, promise_of
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import EntryKind
from dp_core.kernel.ledger.running_totals import use
from dp_core.kernel.mechanisms.event_reading import event_from_json
from dp_core.kernel.mechanisms.grant import Step
from dp_core.plan.plan import Plan
from dp_core.policies.approval import Gate, gate_of
from tasks.ledger.database.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Charge:
    """A step that was paid for, as the ledger records it.

    `dp_core.bundle.verification.claims.Charge` is the same step as a bundle states it.

    Attributes:
        number: Number of its receipt within the release.
        stage: Stage that paid.
        step: Name of the step.
        cost: Cost in the release's currency.
        body: Body of its receipt.
        batch: Name of the steps that are drawn and committed together.
        draws: Number of draws so far.
        result: Hash of the committed result; None before the commit.
    """

    number: int
    stage: str
    step: str
    cost: Fraction
    body: Mapping[str, object]
    batch: str
    draws: int
    result: str | None


@dataclass(frozen=True, slots=True)
class Reservation(Promise):
    """The latest reservation of a release, and its outcome.

    Attributes:
        link: Link of its entry, unique among all ledgers.
        outcome: One of `dp_core.kernel.ledger.rules.OUTCOMES`; None if it is not settled.
    """

    link: str = ""
    outcome: str | None = None


def continued(book: Transaction, plan: Plan) -> Reservation | None:
    """Return the open reservation of a release, None if it needs a new one.

    Raises:
        BadInput: if the name was used, or the release was charged under another plan.
    """
    name = plan.spec.release
    reservation = read_reservation(book, name)
    if reservation is None or reservation.outcome == "returned":
        return None
    if reservation.outcome is not None:
        raise BadInput(
            f"The name {name!r} is used: that release is {reservation.outcome}. A release is"
            " made once; choose a new name under `release`.",
            row="name-used",
        )
    if reservation.plan == plan.hash:
        return reservation
    if not is_charged(book, reservation):
        # Without charges, a corrected spec may start again after this reservation is returned.
        return None
    raise BadInput(
        f"Release {name!r} was begun with another plan: the spec, the schema or the version of the"
        f" program changed since then. Undo the change and run `dp-release resume {name}`, or run"
        f" `dp-release abandon {name}` and choose a new name.",
        row="plan-changed",
    )


def read_reservation(book: Transaction, release: str) -> Reservation | None:
    """Return the latest reservation of a release, None if it never had one."""
    found = book.latest(kinds=("reserve",), release=release)
    if found is None:
        return None
    end = book.settlement_of(found.position)
    promise = promise_of(found.position, found.receipt)
    values = {field.name: getattr(promise, field.name) for field in fields(Promise)}
    return Reservation(**values, link=found.link, outcome=str(end.body["outcome"]) if end else None)


def read_gate(book: Transaction, reservation: Promise) -> Gate:
    """Return the approval state of a release: hold, looks and decision."""
    return gate_of(book, reservation.position)


def is_charged(book: Transaction, reservation: Promise) -> bool:
    """Return whether anything was charged to a reservation."""
    return use(book, reservation.position).tally.charges > 0


def read_charges(
    book: Transaction, reservation: Promise, batch: str | None = None
) -> tuple[Charge, ...]:
    """Return the charges of a reservation, or of one batch of it, in order."""
    kinds: tuple[EntryKind, ...] = ("charge", "attempt", "commit")
    found = book.find(kinds=kinds, reservation=reservation.position, about=batch)
    results: dict[str, str] = {}
    draws: dict[str, int] = {}
    for entry in found:
        body: Mapping[str, Any] = entry.body
        if entry.kind == "commit":
            results[body["batch"]] = body["result"]
        elif entry.kind == "attempt":
            draws[body["batch"]] = body["attempt"]
    return tuple(_charge(entry, draws, results) for entry in found if entry.kind == "charge")


def _charge(entry: Entry, draws: Mapping[str, int], results: Mapping[str, str]) -> Charge:
    body: Mapping[str, Any] = entry.body
    return Charge(
        number=entry.receipt.number,
        stage=body["stage"],
        step=body["step"],
        cost=Fraction(body["cost"]),
        body=body,
        batch=body["batch"],
        draws=draws.get(body["batch"], 1),
        result=results.get(body["batch"]),
    )


def identity_of(charge: Charge) -> tuple[object, ...]:
    """Return the values that identify the step that a charge paid for."""
    event: Any = charge.body["event"]
    return charge.stage, charge.step, charge.cost, event_from_json(event), charge.body["asks"]


def planned(step: Step) -> tuple[object, ...]:
    """Return the `identity_of` of the charge that a step will have."""
    return step.stage, step.name, step.cost, step.event, dict(step.asks)
