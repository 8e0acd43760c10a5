"""Whether a release is held, or was ended by its own thresholds.

Asked before Prefect is set up, so nothing here may import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dp_core.errors import Held, Unpublished
from dp_core.spec.plan import Plan
from dp_core.spec.quality_checks import judged
from dp_core.wall.ledger.approval import Gate
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.support.run_folder import RunFolder


def refuse_waiting(ledger: Ledger, reservation: Reservation) -> None:
    """Raise Held if a release waits for a person."""
    gate = ledger.gate(reservation)
    if reservation.outcome is None and gate.held is not None:
        raise Held(waiting_sentence(reservation.release, gate), row="held")


def waiting_sentence(release: str, gate: Gate) -> str:
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


def refuse_failed(home: Path, reservation: Reservation, plan: Plan) -> None:
    """Raise Unpublished if a release was ended by its thresholds, as its own run did.

    A run that was killed just then told nobody.
    """
    if reservation.outcome != "failed-thresholds" or reservation.plan != plan.hash:
        return
    checks = (RunFolder(home, reservation.release, reservation.link).done("check") or {}).get(
        "checks"
    )
    if isinstance(checks, dict):
        said, _ = judged(plan.spec.thresholds, checks)
        raise Unpublished(failed_sentence(reservation.release, said), row="ended-by-thresholds")


def failed_sentence(release: str, said: Sequence[Mapping[str, object]]) -> str:
    """Return what people are told of a release that its own thresholds ended."""
    why = " and ".join(
        f"{one['figure']} is {one['value']}, above {one['fail']}"
        for one in said
        if one["verdict"] == "fail"
    )
    return (
        f"Release {release!r} ended without a bundle, by the thresholds of its spec: {why}. What it"
        " spent stays spent, and its name stays used; another release takes a new name, and more"
        f" budget or another method. `dp-release look {release}` shows its internal report."
    )
