"""Refusals of a release that awaits approval, or that its own thresholds ended.

They come before Prefect is set up, so nothing here may import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dp_core.errors import Held, Unpublished
from dp_core.plan.plan import Plan
from dp_core.plan.quality_checks import verdicts
from dp_core.policies.approval import Gate
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.support.run_folder import RunFolder


def refuse_waiting(ledger: Ledger, reservation: Reservation) -> None:
    """Raise if a release awaits approval.

    Raises:
        Held: if it does; the message says what to do.
    """
    gate = ledger.gate(reservation)
    if reservation.outcome is None and gate.held is not None:
        raise Held(waiting_sentence(reservation.release, gate), row="held")


def waiting_sentence(release: str, gate: Gate) -> str:
    """Return the sentence about a release that awaits approval."""
    why = (
        "its spec requires approval"
        if gate.cause == "after-approval"
        else "its own figures are beyond a threshold"
    )
    return (
        f"Release {release!r} awaits approval since {gate.held}, because {why}."
        f" `dp-release release look {release}` records a look and shows where the internal report"
        f" is; open the report only after it. Then `dp-release release publish {release}` or"
        f" `dp-release release withdraw {release}`, each with --by NAME --reason TEXT."
    )


def refuse_failed(home: Path, reservation: Reservation, plan: Plan) -> None:
    """Raise if the thresholds of a release ended it.

    The run that it ended raised the same error, unless it was killed first.

    Raises:
        Unpublished: if its thresholds ended it.
    """
    if reservation.outcome != "failed-thresholds" or reservation.plan != plan.hash:
        return
    checks = (RunFolder(home, reservation.release, reservation.link).facts_of("check") or {}).get(
        "checks"
    )
    if isinstance(checks, dict):
        said, _ = verdicts(plan.spec.thresholds, checks)
        raise Unpublished(failed_sentence(reservation.release, said), row="ended-by-thresholds")


def failed_sentence(release: str, said: Sequence[Mapping[str, object]]) -> str:
    """Return the sentence about a release that its own thresholds ended."""
    why = " and ".join(
        f"{one['figure']} is {one['value']}, above {one['fail']}"
        for one in said
        if one["verdict"] == "fail"
    )
    return (
        f"The thresholds of its spec ended release {release!r} without a bundle: {why}. Its budget"
        " stays spent and its name used. Make another release with a new name, and with more budget"
        f" or another method. `dp-release release look {release}` shows the internal report."
    )
