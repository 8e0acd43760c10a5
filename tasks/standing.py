"""Whether a release is held. Asked before Prefect is set up, so nothing here may import it."""

from __future__ import annotations

from dp_core.errors import Held
from dp_core.ledger.gates import Gate
from tasks.stores.ledger import Ledger
from tasks.stores.reservations import Reservation


def refuse_held(ledger: Ledger, held: Reservation) -> None:
    """Raise Held if a release waits for a person."""
    gate = ledger.gate(held)
    if held.outcome is None and gate.held is not None:
        raise Held(held_sentence(held.release, gate))


def held_sentence(release: str, gate: Gate) -> str:
    """Return what people are told of a release that is held."""
    why = (
        "its spec has a person look first"
        if gate.cause == "after-approval"
        else "its own figures are beyond a threshold"
    )
    return (
        f"Release {release!r} is held since {gate.held} and waits for a person, because {why}:"
        f" `dp-release look {release}` records a look and shows where the internal report is, which"
        f" is for looking through that command only; then `dp-release publish {release}` or"
        f" `dp-release withdraw {release}`, each with --by NAME --reason TEXT."
    )
