"""`look`, `publish` and `withdraw`: what a person does with a release that awaits approval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import Task

from dp_core.bundle.writer import check_destination
from dp_core.errors import BadInput
from dp_core.spec.plan import Plan
from flows.answers.release_answers import RecordedLook, known_reservation
from flows.monitoring.announcement import tell
from flows.monitoring.outcome import Outcome
from flows.release import carry_out
from flows.releases.start_check import plan_of_release
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.run.home import home_id
from tasks.run.release_cleanup import remove_unpublished
from tasks.run.release_run import Run
from tasks.stages.publication_approval import require_unchanged
from tasks.support.run_folder import RunFolder


def look(home: Path, ledger: Ledger, name: str, *, by: str, reason: str) -> RecordedLook:
    """Record a look at the internal files of a release; only then return where they are.

    Raises:
        BadInput: if the release is still made, or its files are not in this home.
    """
    reservation = known_reservation(ledger, name)
    folder = RunFolder(home, name, reservation.link)
    if not folder.internal.is_dir():
        raise BadInput(
            f"The internal files of release {name!r} are not in this home, so nothing was recorded;"
            " look in the home that made it.",
            row="held-elsewhere",
        )
    with ledger.lease(name, home_id(home)) as writer:
        gate = writer.look(by=by, reason=reason)
    return RecordedLook(
        release=name,
        by=by,
        day=gate.looks[-1],
        looks=gate.looks,
        held=gate.held,
        outcome=reservation.outcome,
        internal=folder.internal_name,
    )


def publish(
    home: Path, ledger: Ledger, name: str, *, out: Path | None, by: str, reason: str
) -> tuple[Plan, Path]:
    """Publish a held release from what is stored; return its plan and the folder of its bundle.

    After an interruption, repeat the call or resume the release; the decision stays recorded.

    Args:
        home: The home that made it.
        ledger: The ledger of the home.
        name: Name of the release.
        out: Folder of the bundle. The default is the one that `run` was given.
        by: Who decides.
        reason: Why.

    Raises:
        BadInput: if it is not held, its spec was changed, or no bundle can be put there.
        StageFailed: if a stored file of the held release is missing or changed.
    """
    reservation = known_reservation(ledger, name)
    folder = RunFolder(home, name, reservation.link)
    decided = ledger.gate(reservation).decided == "publish" and folder.done("tidy") is None
    if not decided:
        _require_held(ledger, reservation)
    spec, before = folder.remembered()
    out = before if out is None else out
    plan = plan_of_release(spec, name)
    if plan.hash != reservation.plan:
        raise BadInput(
            f"The spec {spec} or its schema changed since release {name!r} was held, or the"
            " program, whose versions may resolve a spec differently. Undo the change, then publish"
            " it; it is not made again by another spec.",
            row="held-changed",
        )
    if not decided:
        check_destination(out)
        with ledger.lease(name, home_id(home)) as writer:
            run = Run(plan, spec, out, home, ledger, writer, reservation)
            require_unchanged(run)
            writer.decide(reservation, "publish", by=by, reason=reason)
    carry_out(spec, out, plan=plan, perform=_plainly)
    tell(
        Outcome("published", f"Release {name!r} is published, as {by} decided.", 0),
        release=name,
        account=reservation.account,
    )
    return plan, out


def withdraw(home: Path, ledger: Ledger, name: str, *, by: str, reason: str) -> Reservation:
    """End a held release without a bundle; what it spent stays spent, its name used.

    It can be withdrawn from any home, and after its folder was lost.

    Raises:
        BadInput: if it is not held.
    """
    reservation = known_reservation(ledger, name)
    folder = RunFolder(home, name, reservation.link)
    left = folder.exists() and reservation.outcome == "withdrawn" and folder.done("tidy") is None
    if not left:
        _require_held(ledger, reservation)
    with ledger.lease(name, home_id(home)) as writer:
        if not left:
            reservation = writer.decide(reservation, "withdraw", by=by, reason=reason)
        if folder.exists():
            remove_unpublished(folder)
    tell(
        Outcome("withdrawn", f"Release {name!r} is withdrawn, as {by} decided.", 0),
        release=name,
        account=reservation.account,
    )
    return reservation


def _plainly(stage: Task[[Any], None], run: Run) -> None:
    """Run a stage without Prefect, since the remaining stages are short."""
    stage.fn(run)


def _require_held(ledger: Ledger, reservation: Reservation) -> None:
    """Raise `BadInput` if a release does not wait for a decision."""
    if reservation.outcome is not None:
        raise BadInput(
            f"Release {reservation.release!r} is over ({reservation.outcome}); it is decided about"
            " once, and its name stays used.",
            row="not-held",
        )
    if ledger.gate(reservation).held is None:
        raise BadInput(
            f"Release {reservation.release!r} is not held, so there is nothing to decide about it;"
            f" `dp-release status {reservation.release}` shows where it stands.",
            row="not-held",
        )
