"""What stands between a finished release and its publication: the hold, looks at it, the decision.

A held release has all that it will ever have. The rules let nothing be charged, drawn or committed
for it any more, so it is published as it is or withdrawn, and never made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from dp_core.documents.canonical import canonical_json

if TYPE_CHECKING:
    from dp_core.wall.ledger.receipts import Receipt
    from dp_core.wall.ledger.running_totals import Book

Cause = Literal["after-approval", "thresholds"]
"""Why a release is held: its spec has a person look first, or one of its own figures does."""

CAUSES: tuple[Cause, ...] = get_args(Cause)

Decision = Literal["publish", "withdraw"]
"""What a person decides about a held release."""

DECISIONS: tuple[Decision, ...] = get_args(Decision)

ENDS: Mapping[Decision, str] = {"publish": "finished", "withdraw": "withdrawn"}
"""How a held release ends, by what was decided."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What became of one reservation between its last result and its end.

    Attributes:
        held: Day in UTC on which it was held, None if it never was.
        cause: Why, None if it was not.
        looks: Days of the looks at its internal files that are on record, in order.
        decided: What a person decided, None before.
        day: Of the decision.
    """

    held: str | None = None
    cause: Cause | None = None
    looks: tuple[str, ...] = ()
    decided: Decision | None = None
    day: str | None = None

    def text(self) -> str:
        """Return it as its running total spells it."""
        values = [self.held, self.cause, list(self.looks), self.decided, self.day]
        return canonical_json(values).decode()

    def to_json(self) -> dict[str, object]:
        """Return what a settlement says of it, which is published: days, and no name."""
        return {
            "held": self.held,
            "cause": self.cause,
            "looks": list(self.looks),
            "decided": self.decided,
        }


def gate_total(position: int) -> str:
    """Return the subject of the running total that tells what a gate amounts to."""
    return f"gate/{position}"


def gate_of(book: Book, reservation: int) -> Gate:
    """Return what became of a reservation at its gate so far."""
    text = book.total(gate_total(reservation))
    if text is None:
        return Gate()
    held, cause, looks, decided, day = json.loads(text)
    return Gate(held, cause, tuple(looks), decided, day)


def passed(gate: Gate, receipt: Receipt) -> Gate:
    """Return a gate after a receipt of kind `hold`, `look` or `decide`."""
    body: Mapping[str, Any] = receipt.body
    match receipt.kind:
        case "hold":
            return replace(gate, held=receipt.at, cause=cast(Cause, body["cause"]))
        case "look":
            return replace(gate, looks=(*gate.looks, receipt.at))
        case _:
            decided = cast(Decision, body["decision"])
            return replace(gate, decided=decided, day=receipt.at)


def settled_with(gate: Gate) -> dict[str, object]:
    """Return what a gate adds to the body of a settlement: nothing, where it was never held."""
    return {"decision": gate.to_json()} if gate.held is not None else {}


def broken_by_gate(receipt: Receipt, gate: Gate, *, over: bool, after_approval: bool) -> str | None:
    """Return how an entry of a release breaks the rules of its gate, None if it keeps them.

    Args:
        receipt: Of any kind that belongs to a reservation.
        gate: As it stands before it.
        over: Whether the reservation is settled.
        after_approval: Whether its release was promised to wait for a person.
    """
    body: Mapping[str, Any] = receipt.body
    match receipt.kind:
        case "look":
            # A look at a release that is still made could decide how it is made.
            free = over or gate.held is not None
            return None if free else "looks at a release that is neither held nor over"
        case "hold":
            known = body["cause"] in CAUSES and isinstance(body["sets"], list)
            return None if known else "holds a release for no reason there is"
        case "decide":
            if gate.held is None:
                return "decides about a release that is not held"
            return None if body["decision"] in DECISIONS else "decides nothing there is to decide"
        case "settle":
            return _broken_by_end(body, gate, after_approval=after_approval)
        case _:
            # privacy: what a person looked at is never drawn or measured again.
            return None if gate.held is None else "comes after its release was held"


def _broken_by_end(body: Mapping[str, Any], gate: Gate, *, after_approval: bool) -> str | None:
    outcome = body["outcome"]
    stated = {"decision": body["decision"]} if "decision" in body else {}
    if stated != settled_with(gate):
        return "states another decision, or other looks, than there were"
    if gate.held is None:
        if outcome == "withdrawn":
            return "withdraws a release that was not held"
        if outcome == "finished" and after_approval:
            return "publishes a release that no person decided about"
        return None
    if gate.decided is None:
        return "ends a held release without a decision"
    return None if outcome == ENDS[gate.decided] else "ends otherwise than was decided"
