"""The answers about releases: status, publication, approval and end."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.errors import BadInput
from dp_core.plan.plan import Plan
from dp_core.schema.privacy import OCCASIONAL
from dp_core.text.pages.answer import OMITTED, Answer
from dp_core.wall.ledger.approval import Gate
from flows.answers.amounts import (
    AccountAbove,
    PrivacyAmount,
    account_above,
    amount_left,
    amount_of,
)
from tasks.ledger.accounts import Account, Used
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.run.progress_note import read_note
from tasks.run.release_run import CONFIDENTIAL_STAGES, OF_SETS
from tasks.run.verification_note import Verified, last_verified
from tasks.support.run_folder import RunFolder

STAGE_NAMES = (
    "reuse",
    "validate",
    "discretize",
    "domain",
    "count",
    "basics",
    "select",
    "measure",
    "analyses",
    "reconstruct",
    "synthesize",
    "check",
    "publish",
)

WITHOUT_BUNDLE = ("abandoned", "withdrawn", "failed-thresholds")
"""Outcomes of releases that spent, and published nothing."""


_OF_PUBLIC = ("reuse", "reconstruct", "synthesize", "check", "publish")
"""Stages of a release that uses the tables of an earlier one."""


def stages_of(costs: Collection[str], sets: int = 1, *, reuses: bool = False) -> tuple[str, ...]:
    """Return the stages of a release in their order; some are only in some releases.

    Args:
        costs: Paying stages of its plan.
        sets: Number of its synthetic sets; without any, no stage makes or checks them.
        reuses: Whether it uses the tables of an earlier release; False by default.
    """
    if reuses:
        return _OF_PUBLIC
    left_out = {"reuse"} | (set() if sets else set(OF_SETS))
    left_out |= set(OCCASIONAL) - set(costs)
    return tuple(stage for stage in STAGE_NAMES if stage not in left_out)


@dataclass(frozen=True, slots=True)
class Holder(Answer):
    """The process that has the lease of a release."""

    process: int
    host: str
    since: str
    lease_ends: str | None


@dataclass(frozen=True, slots=True)
class RunningStage(Answer):
    """How far the running stage of a release is. For staff, as all durations of stages.

    Attributes:
        stage: Name of the stage.
        percent: Estimated percentage of it that is done; None if it is unknown.
        seconds: Seconds since its begin.
        seconds_left: Expected seconds until its end; None if that is unknown, or if the stage takes
            longer than expected.
        in_words: The same for people.
    """

    stage: str
    percent: int | None
    seconds: int
    seconds_left: int | None
    in_words: str


@dataclass(frozen=True, slots=True)
class Approval(Answer):
    """Since when a release waits for approval, who looked at it, and the decision.

    Looks and decision are ledger entries, for staff: names and reasons are never published.
    """

    held: str | None
    cause: str | None
    looks: tuple[Mapping[str, Any], ...]
    decision: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ReleaseStatus(Answer):
    """The stages, budget and state of a release.

    Attributes:
        spent: What stays spent of a release that ended without a bundle; None for others.
        spent_part: Charged share of the reservation, 0 to 1.
        here: Whether its folder is in this home.
        measurements: The release whose noisy tables it uses at no cost; None if it measures.
        stopped: Why the ledger does not let the release open its data, and who must act before it
            can be resumed; None if nothing stops it.
        running: How far its running stage is; None if no process works on it, or if another
            machine's process does.
    """

    release: str
    account: str
    state: str
    outcome: str | None
    reserved: PrivacyAmount
    spent: PrivacyAmount | None
    spent_part: float
    charges: int
    uncommitted: int
    stages_done: list[str]
    stages_open: list[str]
    gate: Approval | None
    out: Path | None
    plan_hash: str
    here: bool
    holder: Holder | None
    measurements: str | None = field(default=None, metadata=OMITTED)
    stopped: str | None = field(default=None, metadata=OMITTED)
    running: RunningStage | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Need(Answer):
    """What a person has to do about a release."""

    release: str
    do: str


@dataclass(frozen=True, slots=True)
class AllStatuses(Answer):
    """The status of every release, and what a person has to do."""

    releases: tuple[ReleaseStatus, ...]
    needs: tuple[Need, ...]
    ledger_verified: Verified | None


@dataclass(frozen=True, slots=True)
class EndedRelease(Answer):
    """What a release that ended without a bundle spent, and what its account has left.

    Attributes:
        files: What became of the confidential files of an abandoned release: `deleted`, `none` (it
            never read the data), `gone` (its folder is no longer in this home), or `elsewhere`
            (another home began it and may still have them).
        by: Who withdrew it.
    """

    release: str
    outcome: str | None
    account: str
    composition: str
    spent: PrivacyAmount
    left: PrivacyAmount
    above: AccountAbove | None
    files: str | None = field(default=None, metadata=OMITTED)
    by: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class PublishedRelease(Answer):
    """What a published release cost, where it is, and how accurate it is.

    Attributes:
        accuracy: The public figures of the check stage.
        utility: Distances to the data, by number of columns; for the demo's public data only.
        measurements: The release whose noisy tables it used at no cost; None if it measured.
        rows: Records of the first set; of linked tables they are households.
        persons: Persons of the first set of linked tables; otherwise None.
    """

    release: str
    account: str
    spent: PrivacyAmount
    neighbours: str
    charges: int
    left: PrivacyAmount
    above: AccountAbove | None
    out: Path
    sets: int
    rows: int | None
    accuracy: Mapping[str, Any]
    internal: Path
    seconds: float
    utility: Mapping[str, float] | None = field(default=None, metadata=OMITTED)
    measurements: str | None = field(default=None, metadata=OMITTED)
    persons: int | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class RecordedLook(Answer):
    """A look at the internal report of a release, now in the ledger."""

    release: str
    by: str
    day: str
    looks: tuple[str, ...]
    held: str | None
    outcome: str | None
    internal: Path


@dataclass(frozen=True, slots=True)
class DataDocs(Answer):
    """Great Expectations' pages of a validation, in the internal folder."""

    release: str
    page: Path


def known_reservation(ledger: Ledger, release: str) -> Reservation:
    """Return the reservation of a release.

    Raises:
        BadInput: if the ledger knows no such release.
    """
    found = ledger.reservation(release)
    if found is None:
        raise BadInput(
            f"There is no release {release!r} in this ledger; `dp-release status` lists them.",
            row="no-such-release",
        )
    return found


def release_status(home: Path, ledger: Ledger, release: str) -> ReleaseStatus:
    """Return the status of a release.

    Raises:
        BadInput: if the ledger knows no such release.
    """
    reservation = known_reservation(ledger, release)
    folder = RunFolder(home, release, reservation.link)
    charges = ledger.charges(reservation)
    spent = sum((charge.cost for charge in charges), Fraction(0))
    reuses = reservation.measurements is not None
    stages = stages_of(reservation.costs, reservation.sets, reuses=reuses)
    done = [stage for stage in stages if folder.done(stage) is not None]
    holder = _holder(ledger, release)
    tidy = folder.done("tidy") is not None
    gate = _approval(ledger, reservation)
    state = "at work" if holder else _state(reservation, done, tidy=tidy, gate=gate)
    left = [stage for stage in stages if stage not in done]
    ended = reservation.outcome in WITHOUT_BUNDLE
    stopped = None
    if not holder and reservation.outcome in (None, "returned") and not reuses:
        looks = set(CONFIDENTIAL_STAGES).intersection(left)
        stopped = ledger.opening_refusal(reservation) if looks else None
    if stopped is not None and reservation.outcome is None:
        state = "stopped by the ledger until a person has acted"
    return ReleaseStatus(
        release=release,
        account=reservation.account,
        state=state,
        outcome=reservation.outcome,
        reserved=PrivacyAmount(reservation.epsilon, reservation.delta),
        spent=_spent(ledger, ledger.account(reservation.account), release) if ended else None,
        spent_part=float(spent / reservation.currency.limit) if reservation.currency.limit else 0.0,
        charges=len(charges),
        uncommitted=sum(charge.result is None for charge in charges),
        stages_done=done,
        stages_open=[] if ended else left,
        gate=gate,
        out=_out(folder),
        plan_hash=reservation.plan,
        here=folder.exists(),
        holder=holder,
        measurements=reservation.measurements.release if reservation.measurements else None,
        stopped=None if stopped is None else str(stopped),
        running=_running(folder, holder),
    )


def _running(folder: RunFolder, holder: Holder | None) -> RunningStage | None:
    """Return how far the running stage is, from the note of the process that works on it."""
    moment = None if holder is None else read_note(folder, holder.process)
    if moment is None:
        return None
    return RunningStage(
        moment.stage,
        moment.percent,
        round(moment.seconds),
        None if moment.left is None else round(moment.left),
        moment.in_words(),
    )


def _use(ledger: Ledger, account: str, release: str) -> Used:
    """Return what a release took of its account."""
    return next(used for used in ledger.uses(account)[::-1] if used.release == release)


def _spent(ledger: Ledger, account: Account, release: str) -> PrivacyAmount:
    return amount_of(account.terms, _use(ledger, account.name, release).amount)


def ended_release(
    ledger: Ledger, over: Reservation, *, files: str | None = None, by: str | None = None
) -> EndedRelease:
    """Return what a release that ended without a bundle spent, and what its account has left."""
    account = ledger.account(over.account)
    return EndedRelease(
        release=over.release,
        outcome=over.outcome,
        account=account.name,
        composition=account.terms.composition,
        spent=_spent(ledger, account, over.release),
        left=amount_left(account.terms, account.left),
        above=account_above(account.above),
        files=files,
        by=by,
    )


def _approval(ledger: Ledger, reservation: Reservation) -> Approval | None:
    """Return the looks and the decision of a release; None if it never waited for approval."""
    gate = ledger.gate(reservation)
    if gate == Gate():
        return None
    kinds = ("look", "decide")
    found = ledger.entries(kinds=kinds, reservation=reservation.position)
    said = [{"day": one.receipt.at, "kind": one.kind, **one.body} for one in found]
    return Approval(
        held=gate.held,
        cause=gate.cause,
        looks=tuple(one for one in said if one["kind"] == "look"),
        decision=next((one for one in said if one["kind"] == "decide"), None),
    )


def _holder(ledger: Ledger, release: str) -> Holder | None:
    """Return the process that works on a release, None if there is none."""
    found = ledger.holder(release)
    if found is None:
        return None
    return Holder(found.process, found.host, found.since, ledger.lease_ends(release))


def all_statuses(home: Path, ledger: Ledger) -> AllStatuses:
    """Return the status of every release in the ledger, and what a person has to do."""
    found = tuple(release_status(home, ledger, release) for release in ledger.releases())
    needs = [(release.release, _to_do(release)) for release in found]
    needed = tuple(Need(release, do) for release, do in needs if do is not None)
    return AllStatuses(found, needed, last_verified(home))


def _to_do(status: ReleaseStatus) -> str | None:
    """Return what a person has to do about a release, None for nothing."""
    name, outcome = status.release, status.outcome
    if status.holder:
        return None
    if outcome == "finished" and status.state != "finished":
        return f"dp-release resume {name}"
    if outcome is not None:
        return None
    if status.gate is not None:
        return f"somebody decides: dp-release release look {name}, then publish or withdraw"
    if status.charges and not status.here:
        return "resume it in the home that began it, or abandon it"
    stage = status.stages_open[0] if status.stages_open else "publish"
    if status.stopped is not None:
        return f"{status.stopped} `dp-release resume {name}` then continues with {stage!r}."
    return f"it stopped before {stage!r} was done: dp-release resume {name}"


def _state(reservation: Reservation, done: list[str], *, tidy: bool, gate: Approval | None) -> str:
    if reservation.outcome == "finished" and "publish" not in done:
        return "paid, to be published: resume it"
    if reservation.outcome == "finished" and not tidy:
        return "finished; resume it to delete its confidential files"
    if reservation.outcome is None and gate is not None:
        return f"held since {gate.held}, waits for a person: look, publish or withdraw it"
    if reservation.outcome == "failed-thresholds":
        return "ended unpublished, by the thresholds of its spec"
    if reservation.outcome == "returned":
        return "stopped before anything was spent; its reservation was given back"
    return reservation.outcome or "unfinished: resume or abandon it"


def _out(folder: RunFolder) -> Path | None:
    try:
        return folder.remembered()[1]
    except BadInput:
        return None


def published_release(
    home: Path, ledger: Ledger, plan: Plan, out: Path, *, seconds: float
) -> PublishedRelease:
    """Return what a published release cost, where it is, and its public accuracy figures."""
    release = plan.spec.release
    folder = RunFolder(home, release)
    account = ledger.account(plan.spec.account)
    reservation = known_reservation(ledger, release)
    synthesis, check = folder.done("synthesize") or {}, folder.done("check") or {}
    return PublishedRelease(
        release=release,
        account=account.name,
        spent=_spent(ledger, account, release),
        neighbours=plan.spec.privacy.neighbours,
        charges=len(ledger.charges(reservation)),
        left=amount_left(account.terms, account.left),
        above=account_above(account.above),
        out=out.absolute(),
        sets=plan.spec.sets,
        rows=(synthesis.get("rows") or [None])[0],
        accuracy={name: value for name, value in check.items() if name != "fits"},
        internal=folder.internal,
        seconds=round(seconds, 1),
        measurements=reservation.measurements.release if reservation.measurements else None,
        persons=(synthesis.get("persons") or [None])[0],
    )


def utility_means(internal: Path) -> dict[str, float]:
    """Return the average distances to the data itself. CONFIDENTIAL unless the data is public."""
    values = json.loads((internal / "utility.json").read_bytes())
    means: dict[str, float] = values["mean"]
    return means
