"""What the commands answer, as plain public values; how it looks is in `flows.terminal`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from fractions import Fraction
from pathlib import Path
from typing import cast

from dp_core.accounting.composition import Amount, Terms
from dp_core.bundle.provenance import listed
from dp_core.errors import BadInput
from dp_core.ledger.gates import Gate
from dp_core.plan import Plan, PlannedTable, PlannedTotal, check_reach
from dp_core.privacy import PAYING_STAGES
from dp_core.private_domain.questions import PlannedChoice
from dp_core.selection.thresholds import Thresholding, planned_threshold
from tasks.stores.accounts import Above, Account
from tasks.stores.artifacts import RunFolder
from tasks.stores.ledger import Ledger
from tasks.stores.refusals import no_account
from tasks.stores.reservations import Reservation

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


def amount(epsilon: Fraction, delta: Fraction) -> dict[str, object]:
    """Return an amount of privacy as decimals and exactly."""
    return {
        "epsilon": float(epsilon),
        "delta": float(delta),
        "epsilon_exact": str(epsilon),
        "delta_exact": str(delta),
    }


def amount_facts(terms: Terms, of: Amount) -> dict[str, object]:
    """Return an amount of an account: epsilon and delta, in a zcdp account rho as well."""
    if terms.is_basic:
        return amount(of.main, of.delta)
    epsilon = terms.epsilon_of(of)
    return amount(epsilon, terms.conversion_delta if of.main > 0 else Fraction(0)) | {
        "rho": float(of.main),
        "rho_exact": str(of.main),
        "own_delta": float(of.delta),
        "own_delta_exact": str(of.delta),
    }


def left_facts(terms: Terms, left: Amount) -> dict[str, object]:
    """Return what can still be promised; less than nothing counts as nothing."""
    nothing = Fraction(0)
    return amount_facts(terms, Amount(max(left.main, nothing), max(left.delta, nothing)))


def above_facts(above: Above | None) -> dict[str, object] | None:
    """Return the account above another that leaves less than it, and what; None for none."""
    if above is None:
        return None
    composition = above.terms.composition
    return {"account": above.name, "composition": composition} | left_facts(above.terms, above.left)


def plan_facts(plan: Plan, ledger: Ledger | None) -> dict[str, object]:
    """Return a plan's cost, noise and size, and how many such releases the account holds.

    Args:
        plan: What is planned.
        ledger: Of this home, None where there is none yet.
    """
    spec, privacy = plan.spec, plan.spec.privacy
    rows = spec.schema.rows_about
    threshold = _threshold(plan)
    return {
        "release": spec.release,
        "account": spec.account,
        "method": spec.method,
        **amount(privacy.epsilon, privacy.delta),
        "neighbours": privacy.neighbours,
        "unit": privacy.unit,
        "max_rows": privacy.max_rows,
        "currency": plan.currency.kind,
        "limit": str(plan.currency.limit),
        "plan_hash": plan.hash,
        "sets": spec.sets,
        "mode": spec.mode,
        "rows": spec.rows or "same",
        "rows_about": rows,
        "columns": len(spec.schema.columns),
        "stages": [
            {
                "stage": stage,
                "share": str(spec.shares[stage]),
                "cost": str(plan.costs[stage]),
                "what": _what(plan, stage, threshold),
            }
            for stage in PAYING_STAGES
            if plan.costs.get(stage)
        ],
        "tables": [_table(table, rows) for table in plan.tables],
        "totals": [_total(total, rows) for total in plan.totals],
        **({"choices": [_choice(choice) for choice in plan.choices]} if plan.choices else {}),
        "checks": {
            "tables": [list(table) for table in plan.spec.checks],
            "within_tvd": check_reach(plan.spec, plan.check_noise) if plan.check_noise else None,
        },
        "evenness": _evenness(plan),
        "score_noise_within": _within(plan.score_noise.half_width) if plan.score_noise else None,
        "threshold": threshold,
        "memory_bytes": plan.memory,
        **_account_of(plan, ledger),
        "spec": dict(spec.document),
    }


def _account_of(plan: Plan, ledger: Ledger | None) -> dict[str, object]:
    from dp_core.standing import room
    from flows.forecasting import fitting_now
    from flows.ledger_answers import approval_facts

    account = ledger.find_account(plan.spec.account) if ledger else None
    if ledger is None or account is None:
        known = [one.name for one in ledger.accounts()] if ledger else []
        nothing = ("account_closed", "left", "above", "more_such_releases", "approval")
        missing = no_account(known, plan.spec.account)
        return {"account_found": False, "account_missing": missing, **dict.fromkeys(nothing)}
    paying = ledger.lineage(account.name)
    closed = any(one.charter.closed for one in paying)
    own, *others = ledger.standings(account.name)
    fits, least = fitting_now(own, plan, account.day), own
    for other in others:
        count = fitting_now(other, plan, account.day)
        if count < fits:
            fits, least = count, other
    above = None if least is own else Above(least.name, least.terms, room(least, account.day))
    return {
        "account_found": True,
        "account_missing": None,
        "account_closed": closed,
        "left": left_facts(account.terms, account.left),
        "above": above_facts(above),
        "more_such_releases": 0 if closed else fits,
        "approval": approval_facts(ledger, plan),
    }


def _threshold(plan: Plan) -> dict[str, object] | None:
    """Return the threshold of a method that has one: the least noisy count it keeps, and what of.

    `rare_lost` is a sentence where the public figures alone show that rare combinations go.
    """
    spec, domain = plan.spec, plan.spec.schema.domain
    if not spec.selector.own_delta:
        return None
    method = cast(Thresholding, spec.selector)
    kept = planned_threshold(
        method,
        domain,
        plan.currency,
        plan.costs["measure"],
        relation=spec.privacy.relation,
        split=plan.replicates if spec.mode == "split" else 0,
    )
    tables, cells = method.tables(domain)
    lost, rows = None, spec.schema.rows_about
    if rows and cells > rows:
        lost = (
            f"{'The table has' if tables == 1 else 'A table has up to'} {cells:,} cells for about"
            f" {rows:,} rows: combinations that fewer than about {kept:,} records share are lost,"
            " and with many columns that can be nearly all."
        )
    return {"kept_from": kept, "tables": tables, "most_cells": cells, "rare_lost": lost}


def _what(plan: Plan, stage: str, threshold: Mapping[str, object] | None) -> str:
    tables = [table for table in plan.tables if table.stage == stage]
    times = f", {plan.replicates} times" if plan.replicates > 1 else ""
    if stage == "domain":
        return f"the bins or levels of {listed([choice.column for choice in plan.choices])}"
    if stage == "total":
        return f"the number of rows{times}"
    if stage == "checks" and plan.check_noise:
        reach = check_reach(plan.spec, plan.check_noise)
        within = "" if reach is None else f", TVD within ±{reach:.2g}"
        count = len(plan.spec.checks)
        return f"how far {count} table{'s' if count != 1 else ''} of the sets are off{within}"
    if stage == "select":
        return f"{plan.scores} scores of dependence" if plan.scores else f"private choices{times}"
    if plan.totals and stage == "measure":
        numbers = sum(total.numbers for total in plan.totals) + sum(t.cells for t in tables)
        return f"{numbers:,} sums and counts that the method needs{times}"
    if tables:
        plural = "s" if len(tables) != 1 else ""
        return f"{len(tables)} table{plural}, {sum(t.cells for t in tables):,} cells{times}"
    gives = plan.spec.selector.gives
    if "sparse" in gives:
        if threshold:
            each = "" if threshold["tables"] == 1 else f" of {threshold['tables']} tables"
            return f"cells{each} of {threshold['kept_from']:,} records or more are kept{times}"
        return f"combinations that enough records share{times}"
    if "answers" in gives:
        return f"single numbers that the selection asks for{times}"
    if "records" in gives:
        return f"records that the method makes itself{times}"
    if "totals" in gives:
        return f"sums and counts that the method needs{times}"
    return f"tables that the selection chooses{times}"


def _choice(choice: PlannedChoice) -> dict[str, object]:
    return {
        "column": choice.column,
        "of": choice.of,
        "number": choice.number,
        "among": choice.among,
        "noise": choice.noise.kind,
        "scale": choice.noise.scale,
        "within": _within(choice.within),
        "in_words": choice.in_words(),
    }


def _total(total: PlannedTotal, rows: int | None) -> dict[str, object]:
    counts = total.largest == 1  # every record is in one entry, and adds 1 to it
    moved = total.numbers * total.noise.mean_absolute / (2 * rows) if rows else 0.0
    return {
        "step": total.step,
        "columns": list(total.of),
        "numbers": total.numbers,
        "noise": total.noise.kind,
        "scale": total.noise.scale,
        # In the same unit for sums of any column: records at the end of its range.
        "within_records": total.noise.half_width / total.largest,
        "tvd": min(1.0, moved) if rows and counts else None,
        "times": total.times,
    }


def _evenness(plan: Plan) -> float | None:
    """Return the part of drawn records that will tell nothing of the file, where records are."""
    from dp_core.parametric.drawn_records import TableDraws
    from dp_core.parametric.stages import Measuring

    spec, rows = plan.spec, plan.spec.rows or plan.spec.schema.rows_about
    half = spec.selector
    if not (isinstance(half, Measuring) and isinstance(half.method, TableDraws) and rows):
        return None
    cost = plan.costs["measure"] / plan.replicates
    return half.method.evenness(half.variables, plan.currency, cost, rows, spec.privacy.max_rows)


def _table(table: PlannedTable, rows: int | None) -> dict[str, object]:
    return {
        "stage": table.stage,
        "columns": list(table.clique),
        "cells": table.cells,
        "noise": table.noise.kind,
        "scale": table.noise.scale,
        "within": _within(table.noise.half_width),
        "tvd": table.tvd(rows) if rows and table.clique else None,
        "times": table.times,
    }


def _within(half_width: float) -> float:
    """Return a half width as people say it: two digits are enough."""
    return float(f"{half_width:.2g}") if half_width < 100 else float(round(half_width))


def status_facts(home: Path, ledger: Ledger, release: str) -> dict[str, object]:
    """Return where a release stands.

    Raises:
        BadInput: if the ledger knows no such release.
    """
    held = ledger.reservation(release)
    if held is None:
        raise BadInput(
            f"There is no release {release!r} in this ledger; `dp-release status` lists them."
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
    home: Path, ledger: Ledger, spec_path: Path, out: Path, *, seconds: float
) -> dict[str, object]:
    """Return what a finished release cost, where it is, and its first public accuracy figures."""
    from dp_core.plan import make_plan
    from dp_core.spec_file import load_spec

    plan = make_plan(load_spec(spec_path))
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
