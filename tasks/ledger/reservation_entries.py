"""Writes the entries of one reservation, inside the transaction that checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from dp_core.accounts.ledger_position import whereabouts
from dp_core.accounts.memory_session import check_left
from dp_core.errors import BudgetRefused, StageFailed
from dp_core.kernel.document import document_hash
from dp_core.kernel.ledger.receipts import EntryKind
from dp_core.kernel.ledger.running_totals import use
from dp_core.kernel.mechanisms.grant import Step
from dp_core.plan.compiled_plan import compiled_document
from dp_core.plan.plan import Plan
from dp_core.policies.approval import settled_with
from dp_core.policies.refused_attempts import attempts_stated
from tasks.ledger.database.transaction import Transaction
from tasks.ledger.reservation_check import check_reservation
from tasks.ledger.reservations import Reservation, continued, read_gate, read_reservation


def reserve(book: Transaction, plan: Plan) -> Reservation:
    """Reserve a plan's whole cost; see `ReleaseWriter.reserve`."""
    spec, privacy, (epsilon, delta) = plan.spec, plan.spec.privacy, plan.promise
    unfinished = continued(book, plan)
    if unfinished is not None:
        return unfinished
    earlier = read_reservation(book, spec.release)
    if earlier is not None and earlier.outcome is None:
        # It is for another plan and has no charges. It must be ended, since a release can only
        # settle its latest reservation.
        add_settlement(book, earlier, "returned", seen=False)
    parts = check_reservation(book, plan)
    book.append(
        "reserve",
        account=spec.account,
        release=spec.release,
        about=plan.hash,
        body={
            "epsilon": str(epsilon),
            "delta": str(delta),
            "neighbours": privacy.neighbours,
            **privacy.protects.stated,
            **privacy.protects.columns,
            "plan": plan.hash,
            "document": document_hash(compiled_document(plan)),
            **({"extensions": list(plan.extensions)} if plan.extensions else {}),
            "sets": spec.sets,
            "mode": spec.mode,
            **({"measurements": asdict(spec.measurements.used)} if spec.measurements else {}),
            **({"schema": parts} if parts else {}),
            **({"revises": spec.revises} if spec.revises else {}),
            **({"publish": spec.publish} if spec.publish != "at-once" else {}),
            "currency": plan.currency.to_json(),
            "costs": {stage: str(cost) for stage, cost in plan.costs.items()},
        },
    )
    reservation = read_reservation(book, spec.release)
    assert reservation is not None
    return reservation


def require_open(book: Transaction, reservation: Reservation) -> None:
    """Check that a reservation is the latest of its release and is not settled.

    Raises:
        StageFailed: if it is settled, or there is a later one.
    """
    now = read_reservation(book, reservation.release)
    if now is None or now.position != reservation.position or now.outcome is not None:
        raise StageFailed(
            f"The reservation of release {reservation.release!r} is closed;"
            f" `dp-release status {reservation.release}` shows how it ended.",
            row="reservation-gone",
        )


def check_stages(book: Transaction, reservation: Reservation, steps: Sequence[Step]) -> None:
    """Check that the stages' shares and the release's own delta suffice for the steps.

    Raises:
        BudgetRefused: if they do not.
    """
    used = use(book, reservation.position)
    for stage in dict.fromkeys(step.stage for step in steps):
        asked = sum((step.cost for step in steps if step.stage == stage), Fraction(0))
        limit = reservation.costs.get(stage, Fraction(0))
        if asked + used.of(stage) > limit:
            raise BudgetRefused(
                f"Stage {stage!r} of release {reservation.release!r} needs"
                f" {float(asked):.6g} but has {float(limit - used.of(stage)):.6g} left of the"
                f" {float(limit):.6g} its plan reserved."
            )
    check_left(reservation.currency, reservation.currency.limit - used.tally.cost, steps)
    own = sum((step.event.own_delta() for step in steps), used.tally.own_delta)
    if own > reservation.currency.own_delta:
        raise BudgetRefused(
            f"Release {reservation.release!r} needs {float(own):.6g} of delta for thresholds, but"
            f" its plan reserved {float(reservation.currency.own_delta):.6g}."
        )


def add(
    book: Transaction,
    reservation: Reservation,
    kind: EntryKind,
    *,
    body: Mapping[str, object],
    about: str | None = None,
    key: str | None = None,
) -> None:
    """Add an entry that belongs to a reservation."""
    book.append(
        kind,
        account=reservation.account,
        release=reservation.release,
        reservation=reservation.position,
        about=about,
        key=key,
        body=body,
    )


def add_settlement(
    book: Transaction, reservation: Reservation, outcome: str, *, seen: bool
) -> None:
    """Add the entry that ends a reservation.

    Args:
        book: The ledger, inside the transaction.
        reservation: The one to end.
        outcome: One of `dp_core.kernel.ledger.rules.OUTCOMES`; see `ReleaseWriter.settle`.
        seen: Whether any result may have been seen.
    """
    tally = use(book, reservation.position).tally
    body: dict[str, Any] = {"outcome": outcome, "spent": str(tally.cost), "seen": seen}
    body |= whereabouts(book, reservation.account)
    body |= attempts_stated(book, reservation.account)
    body |= settled_with(read_gate(book, reservation))
    add(book, reservation, "settle", body=body)
