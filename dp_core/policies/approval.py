"""Approval before publication: the hold, looks at the internal files, and the decision.

A held release is complete. The rules refuse any further charge, draw or commit for it, so it is
either published as it is or withdrawn, and never made again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from dp_core.kernel.canonical import canonical_json

if TYPE_CHECKING:
    from dp_core.kernel.ledger.entries import Entry
    from dp_core.kernel.ledger.receipts import Receipt
    from dp_core.kernel.ledger.running_totals import Book

Cause = Literal["after-approval", "thresholds"]
"""Why a release is held: its spec requires approval, or a published figure exceeds a threshold."""

CAUSES: tuple[Cause, ...] = get_args(Cause)

Decision = Literal["publish", "withdraw"]
"""A person's decision about a held release."""

DECISIONS: tuple[Decision, ...] = get_args(Decision)

ENDS: Mapping[Decision, str] = {"publish": "finished", "withdraw": "withdrawn"}
"""The outcome of a held release for each decision."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The approval state of one release.

    Attributes:
        held: Day in UTC on which the release was held; None if it was not.
        cause: Why it was held; None if it was not.
        looks: Days in UTC of the recorded looks at its internal files, in order.
        decided: The person's decision; None before it.
        day: Day in UTC of the decision; None before it.
    """

    held: str | None = None
    cause: Cause | None = None
    looks: tuple[str, ...] = ()
    decided: Decision | None = None
    day: str | None = None

    def text(self) -> str:
        """Return the text of its running total."""
        values = [self.held, self.cause, list(self.looks), self.decided, self.day]
        return canonical_json(values).decode()

    def to_json(self) -> dict[str, object]:
        """Return what the settlement publishes about it: days and decision, no names."""
        return {
            "held": self.held,
            "cause": self.cause,
            "looks": list(self.looks),
            "decided": self.decided,
        }


def gate_total(position: int) -> str:
    """Return the subject of a reservation's running total of its approval state."""
    return f"gate/{position}"


def gate_of(book: Book, reservation: int) -> Gate:
    """Return the current approval state of a reservation."""
    text = book.total(gate_total(reservation))
    if text is None:
        return Gate()
    held, cause, looks, decided, day = json.loads(text)
    return Gate(held, cause, tuple(looks), decided, day)


def passed(gate: Gate, receipt: Receipt) -> Gate:
    """Return the approval state after a receipt of kind `hold`, `look` or `decide`."""
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
    """Return the fields that approval adds to a settlement; empty if the release was not held."""
    return {"decision": gate.to_json()} if gate.held is not None else {}


def gate_after(entry: Entry, book: Book) -> dict[str, str]:
    """Return the running total that a `hold`, `look` or `decide` changes."""
    if entry.kind not in ("hold", "look", "decide"):
        return {}
    assert entry.reservation is not None
    after = passed(gate_of(book, entry.reservation), entry.receipt)
    return {gate_total(entry.reservation): after.text()}


def broken_by_gate(entry: Entry, book: Book) -> str | None:
    """Return how an entry of a release breaks the rules of approval; None if it does not."""
    if entry.reservation is None or entry.kind == "reserve":
        return None
    promise = book.promise(entry.reservation)
    assert promise is not None
    gate, body = gate_of(book, promise.position), entry.body
    match entry.kind:
        case "look":
            # Before the release is complete, a look could influence how it is made.
            allowed = gate.held is not None or book.has(f"settle/{promise.position}")
            return None if allowed else "looks at a release that is neither held nor settled"
        case "hold":
            known = body["cause"] in CAUSES and isinstance(body["sets"], list)
            return None if known else "holds a release without a valid cause and list of sets"
        case "decide":
            if gate.held is None:
                return "decides about a release that is not held"
            return None if body["decision"] in DECISIONS else "states an unknown decision"
        case "settle":
            waits = promise.publish == "after-approval"
            return _broken_by_end(body, gate, after_approval=waits)
        case "examine" | "verdict":
            # Other data than the release's own are refused, and counted, as long as it is open.
            return None
        case _:
            # privacy: what a person looked at is never drawn or measured again.
            return None if gate.held is None else "comes after its release was held"


def _broken_by_end(body: Mapping[str, Any], gate: Gate, *, after_approval: bool) -> str | None:
    outcome = body["outcome"]
    stated = {"decision": body["decision"]} if "decision" in body else {}
    if stated != settled_with(gate):
        return "states another decision, or other looks, than the ledger recorded"
    if gate.held is None:
        if outcome == "withdrawn":
            return "withdraws a release that was not held"
        if outcome == "finished" and after_approval:
            return "publishes a release that was not approved"
        return None
    if gate.decided is None:
        return "ends a held release without a decision"
    return None if outcome == ENDS[gate.decided] else "has another outcome than the decision"
