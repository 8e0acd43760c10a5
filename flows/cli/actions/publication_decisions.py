"""`look`, `publish`, `withdraw` and `abandon`: what a person decides about a release."""

from __future__ import annotations

from pathlib import Path

from dp_core.bundle.writer import check_destination
from dp_core.errors import BadInput
from dp_core.plan.plan import Plan
from dp_core.text.pages.answer import CommandAnswer
from dp_core.text.pages.page import Block, Fact, Sentence
from flows.answers.release_answers import ended_release, known_reservation
from flows.monitoring.outcome import Outcome, announce
from flows.release import carry_out
from flows.releases.start_check import plan_of_release, require_known_results
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.run.home import home_id
from tasks.run.home_notes import remove_stop
from tasks.run.release_cleanup import clear_leftovers, remove_unpublished
from tasks.run.release_run import Run
from tasks.stages.gates.publication_approval import require_unchanged
from tasks.support.run_folder import RunFolder


def look(home: Path, ledger: Ledger, name: str, *, by: str, reason: str) -> CommandAnswer:
    """Record a look at the internal files of a release, and then return their folder.

    Args:
        home: The home that made the release.
        ledger: Ledger of the home.
        name: Name of the release.
        by: Name of the person who looks.
        reason: Reason for the look.

    Raises:
        BadInput: if the release is not finished, or its files are not in this home.
    """
    reservation = known_reservation(ledger, name)
    if reservation.measurements is not None:
        raise BadInput(
            f"Release {name!r} uses the tables of release {reservation.measurements.release!r} and"
            f" opened no data, so it has no internal report; look at"
            f" {reservation.measurements.release!r}."
        )
    folder = RunFolder(home, name, reservation.link)
    if not folder.internal.is_dir():
        raise BadInput(
            f"The internal files of release {name!r} are not in this home, so nothing was recorded;"
            " look in the home that made it.",
            row="held-elsewhere",
        )
    with ledger.lease(name, home_id(home)) as writer:
        gate = writer.look(by=by, reason=reason)
    day, internal = gate.looks[-1], folder.internal_name
    page: list[Block] = [
        Sentence(f"Recorded: {by} looked at {name} on {day} (look number {len(gate.looks)})."),
        Fact("Internal", f"{internal} (confidential, for staff)", whole=True),
    ]
    if reservation.outcome is None:
        words = f"{name} --by NAME --reason TEXT"
        page.append(Fact("Decide", f"dp-release release publish {words}"))
        page.append(Fact("or", f"dp-release release withdraw {words}"))
    values = {
        "release": name,
        "by": by,
        "day": day,
        "looks": gate.looks,
        "held": gate.held,
        "outcome": reservation.outcome,
        "internal": internal,
    }
    return CommandAnswer(values, tuple(page))


def publish(
    home: Path, ledger: Ledger, name: str, *, out: Path | None, by: str, reason: str
) -> tuple[Plan, Path]:
    """Publish a release that awaits approval, from its stored files.

    After an interruption that follows the decision, call it again or resume the release.

    Args:
        home: The home that made the release.
        ledger: Ledger of the home.
        name: Name of the release.
        out: Folder of the bundle; None for the one given to `run`.
        by: Name of the person who decides.
        reason: Reason for the decision.

    Returns:
        The plan, and the folder of the bundle.

    Raises:
        BadInput: if the release does not await approval, its spec was changed, or the folder
            cannot be used.
        StageFailed: if its files are missing or were changed.
    """
    reservation = known_reservation(ledger, name)
    folder = RunFolder(home, name, reservation.link)
    decided = ledger.gate(reservation).decided == "publish" and folder.facts_of("tidy") is None
    if not decided:
        _require_held(ledger, reservation)
    spec, before = folder.recorded_paths()
    out = before if out is None else out
    plan = plan_of_release(spec, name)
    if plan.hash != reservation.plan:
        raise BadInput(
            f"The spec {spec}, its schema or the program changed since release {name!r} began to"
            " await approval, so its plan is another one now. Undo the change, then publish the"
            " release; it is never made again with another plan.",
            row="held-changed",
        )
    if not decided:
        check_destination(out)
        with ledger.lease(name, home_id(home)) as writer:
            run = Run(plan, spec, out, home, ledger, writer, reservation)
            require_unchanged(run)
            writer.decide(reservation, "publish", by=by, reason=reason)
    # Without Prefect: the tasks are short, and the ledger records the decision.
    carry_out(spec, out, plan=plan, perform=lambda task, *given: task.fn(*given))
    announce(
        Outcome("published", f"Release {name!r} is published, as {by} decided.", 0),
        release=name,
        account=reservation.account,
    )
    return plan, out


def withdraw(home: Path, ledger: Ledger, name: str, *, by: str, reason: str) -> Reservation:
    """End a release that awaits approval, without a bundle.

    Its budget stays spent and its name used. A release can be withdrawn from any home, and also if
    its folder is lost.

    Args:
        home: The home; it need not be the one that made the release.
        ledger: Ledger of the release.
        name: Name of the release.
        by: Name of the person who decides.
        reason: Reason for the decision.

    Raises:
        BadInput: if the release does not await approval.
    """
    reservation = known_reservation(ledger, name)
    folder = RunFolder(home, name, reservation.link)
    left = (
        folder.exists() and reservation.outcome == "withdrawn" and folder.facts_of("tidy") is None
    )
    if not left:
        _require_held(ledger, reservation)
    with ledger.lease(name, home_id(home)) as writer:
        if not left:
            reservation = writer.decide(reservation, "withdraw", by=by, reason=reason)
        if folder.exists():
            remove_unpublished(folder)
    announce(
        Outcome("withdrawn", f"Release {name!r} is withdrawn, as {by} decided.", 0),
        release=name,
        account=reservation.account,
    )
    return reservation


def _require_held(ledger: Ledger, reservation: Reservation) -> None:
    """Raise if a release does not await approval.

    Raises:
        BadInput: if it has ended, or is not finished.
    """
    if reservation.outcome is not None:
        raise BadInput(
            f"Release {reservation.release!r} has ended ({reservation.outcome}). It can be decided"
            " only once, and its name stays used.",
            row="not-held",
        )
    if ledger.gate(reservation).held is None:
        raise BadInput(
            f"Release {reservation.release!r} does not await approval, so there is nothing to"
            f" decide; `dp-release status {reservation.release}` shows its state.",
            row="not-held",
        )


def abandon(home: Path, ledger: Ledger, name: str) -> CommandAnswer:
    """Give back what a release reserved and did not charge, and delete its confidential files.

    The charges stay spent, and the name stays used. Where the release pays on a curve (delta above
    0, Gaussian noise) and a result was seen, the whole reservation stays spent: the curve holds for
    a total fixed beforehand, not for one that was stopped after looking (`Terms.spent`).

    A release can be given up from any home, and after its folder was lost.

    Raises:
        BadInput: if there is no such release, or it is over.
    """
    reservation = known_reservation(ledger, name)
    if reservation.outcome is not None:
        clear_leftovers(home, ledger, name)
        remove_stop(RunFolder(home, name))
        raise BadInput(
            f"Release {name!r} is {reservation.outcome} already; there is nothing to abandon."
        )
    if ledger.gate(reservation).held is not None:
        raise BadInput(
            f"Release {name!r} is held for a person; `dp-release release withdraw {name} --by NAME"
            " --reason TEXT` ends it without a bundle, and records who decided."
        )
    folder = RunFolder(home, name, reservation.link)
    with ledger.lease(name, home_id(home)) as writer:
        here = folder.exists()
        if here:
            folder.bar_results()
            require_known_results(home, ledger, reservation)
        # privacy: a crash between storing and committing leaves a result that anyone here can
        # read. Where the folder is not here, nobody knows what was in it.
        stored = bool(folder.batches()) if here else bool(ledger.charges(reservation))
        settled = writer.settle(reservation, "abandoned", stored=stored)
        folder.remove_confidential()
    began = ledger.entries(kinds=("input",), reservation=reservation.position)
    if here:
        files = "deleted"
    elif not began:
        files = "none"
    else:
        elsewhere = any(entry.body["home"] != home_id(home) for entry in began)
        files = "elsewhere" if elsewhere else "gone"
    return ended_release(ledger, settled, files=files)
