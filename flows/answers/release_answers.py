"""What the commands answer of releases, as plain public values.

Of plans it is in `flows.answers.plan_answers`, of accounts in
`flows.answers.ledger_answers`; how it looks is in `flows.cli.terminal.release_views`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from fractions import Fraction
from pathlib import Path

from dp_core.errors import BadInput
from dp_core.spec.plan import Plan
from dp_core.wall.ledger.approval import Gate
from flows.answers.amounts import above_facts, amount, amount_facts, left_facts
from tasks.ledger.accounts import Account
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tasks.support.run_folder import RunFolder

STAGE_NAMES = (
    "validate",
    "discretize",
    "domain",
    "count",
    "basics",
    "select",
    "measure",
    "reconstruct",
    "synthesize",
    "check",
    "publish",
)

WITHOUT_BUNDLE = ("abandoned", "withdrawn", "failed-thresholds")
"""Outcomes of releases that spent, and published nothing."""


def stages_of(costs: Collection[str]) -> tuple[str, ...]:
    """Return the stages of a release in their order; `domain` is for private choices only.

    Args:
        costs: Paying stages of its plan.
    """
    return tuple(stage for stage in STAGE_NAMES if stage != "domain" or stage in costs)


def status_facts(home: Path, ledger: Ledger, release: str) -> dict[str, object]:
    """Return where a release stands.

    Raises:
        BadInput: if the ledger knows no such release.
    """
    held = ledger.reservation(release)
    if held is None:
        raise BadInput(
            f"There is no release {release!r} in this ledger; `dp-release status` lists them.",
            row="no-such-release",
        )
    folder = RunFolder(home, release, held.link)
    charges = ledger.charges(held)
    spent = sum((charge.cost for charge in charges), Fraction(0))
    stages = stages_of(held.costs)
    done = [stage for stage in stages if folder.done(stage) is not None]
    holder = _holder(ledger, release)
    tidy = folder.done("tidy") is not None
    gate = gate_facts(ledger, held)
    state = "at work" if holder else _state(held, done, tidy=tidy, gate=gate)
    left = [stage for stage in stages if stage not in done]
    account = ledger.account(held.account) if held.outcome in WITHOUT_BUNDLE else None
    return {
        "release": release,
        "account": held.account,
        "state": state,
        "outcome": held.outcome,
        "reserved": amount(held.epsilon, held.delta),
        "spent": _spent(ledger, account, release) if account else None,
        "spent_part": float(spent / held.currency.limit) if held.currency.limit else 0.0,
        "charges": len(charges),
        "uncommitted": sum(charge.result is None for charge in charges),
        "stages_done": done,
        "stages_open": [] if held.outcome in WITHOUT_BUNDLE else left,
        "gate": gate,
        "out": _out(folder),
        "plan_hash": held.plan,
        "here": folder.exists(),
        "holder": holder,
    }


def _spent(ledger: Ledger, account: Account, release: str) -> dict[str, object]:
    used = next(used for used in ledger.uses(account.name)[::-1] if used.release == release)
    return amount_facts(account.terms, used.amount)


def ending_facts(ledger: Ledger, over: Reservation) -> dict[str, object]:
    """Return what a release that ended without a bundle spent, and what its account has left."""
    account = ledger.account(over.account)
    return {
        "release": over.release,
        "outcome": over.outcome,
        "account": account.name,
        "composition": account.terms.composition,
        "spent": _spent(ledger, account, over.release),
        "left": left_facts(account.terms, account.left),
        "above": above_facts(account.above),
    }


def gate_facts(ledger: Ledger, held: Reservation) -> dict[str, object] | None:
    """Return since when a release is held, who looked at it and who decided what; None if never.

    For staff: names and reasons are never published.
    """
    gate = ledger.gate(held)
    if gate == Gate():
        return None
    kinds = ("look", "decide")
    found = ledger.entries(kinds=kinds, reservation=held.position)
    said = [{"day": one.receipt.at, "kind": one.kind, **one.body} for one in found]
    return {
        "held": gate.held,
        "cause": gate.cause,
        "looks": [one for one in said if one["kind"] == "look"],
        "decision": next((one for one in said if one["kind"] == "decide"), None),
    }


def _holder(ledger: Ledger, release: str) -> dict[str, object] | None:
    """Return which process works on a release now, and when its lease ends if it does not go on."""
    found = ledger.holder(release)
    if found is None:
        return None
    return {
        "process": found.process,
        "host": found.host,
        "since": found.since,
        "lease_ends": ledger.lease_ends(release),
    }


def all_statuses(home: Path, ledger: Ledger) -> list[dict[str, object]]:
    """Return where every release of the ledger stands."""
    return [status_facts(home, ledger, release) for release in ledger.releases()]


def _state(
    held: Reservation, done: list[str], *, tidy: bool, gate: Mapping[str, object] | None
) -> str:
    if held.outcome == "finished" and "publish" not in done:
        return "paid, to be published: resume it"
    if held.outcome == "finished" and not tidy:
        return "finished; resume it to delete its confidential files"
    if held.outcome is None and gate is not None:
        return f"held since {gate['held']}, waits for a person: look, publish or withdraw it"
    if held.outcome == "failed-thresholds":
        return "ended unpublished, by the thresholds of its spec"
    if held.outcome == "returned":
        return "stopped before anything was spent; its reservation was given back"
    return held.outcome or "unfinished: resume or abandon it"


def _out(folder: RunFolder) -> str | None:
    try:
        return str(folder.remembered()[1])
    except BadInput:
        return None


def made_facts(
    home: Path, ledger: Ledger, plan: Plan, out: Path, *, seconds: float
) -> dict[str, object]:
    """Return what a finished release cost, where it is, and its first public accuracy figures."""
    folder = RunFolder(home, plan.spec.release)
    account = ledger.account(plan.spec.account)
    privacy = plan.spec.privacy
    uses = ledger.uses(account.name)
    spent = next(used for used in uses[::-1] if used.release == plan.spec.release)
    synthesis = folder.done("synthesize") or {}
    return {
        "release": plan.spec.release,
        "account": account.name,
        "spent": amount(spent.epsilon, spent.delta),
        "neighbours": privacy.neighbours,
        "charges": len(_charges_of(ledger, plan.spec.release)),
        "left": left_facts(account.terms, account.left),
        "above": above_facts(account.above),
        "out": str(out.absolute()),
        "sets": plan.spec.sets,
        "rows": (synthesis.get("rows") or [None])[0],
        "accuracy": {
            name: value for name, value in (folder.done("check") or {}).items() if name != "fits"
        },
        "internal": str(folder.internal),
        "seconds": round(seconds, 1),
    }


def _charges_of(ledger: Ledger, release: str) -> tuple[object, ...]:
    held = ledger.reservation(release)
    return ledger.charges(held) if held else ()


def utility_means(internal: Path) -> dict[str, float]:
    """Return the average distances to the data itself. CONFIDENTIAL unless the data is public."""
    values = json.loads((internal / "utility.json").read_bytes())
    means: dict[str, float] = values["mean"]
    return means
