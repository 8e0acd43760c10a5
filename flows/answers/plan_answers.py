"""What `dp-release plan` answers: what a release would cost, and how much noise it would have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from dp_core.bundle.report.provenance import listed
from dp_core.methods.private_domain.questions import PlannedChoice
from dp_core.methods.selection.budget.threshold_delta import Thresholding, planned_threshold
from dp_core.schema.privacy import PAYING_STAGES
from dp_core.spec.plan import Plan, PlannedTable, PlannedTotal, check_reach, expected_error
from flows.answers.amounts import above_facts, amount, left_facts
from tasks.ledger.accounts import Above
from tasks.ledger.ledger import Ledger
from tasks.support.budget_refusals import no_account


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
        "bins_unused": _bins_unused(plan),
        "score_noise_within": _within(plan.score_noise.half_width) if plan.score_noise else None,
        "expected_error": _expected_error(plan),
        "threshold": threshold,
        "memory_bytes": plan.memory,
        **_account_of(plan, ledger),
        "spec": dict(spec.document),
    }


def _account_of(plan: Plan, ledger: Ledger | None) -> dict[str, object]:
    from dp_core.wall.ledger.account_balance import room
    from flows.answers.forecast_answers import fitting_now
    from flows.answers.ledger_answers import approval_facts

    account = ledger.find_account(plan.spec.account) if ledger else None
    if ledger is None or account is None:
        known = [one.name for one in ledger.accounts()] if ledger else []
        nothing = ("account_closed", "left", "above", "more_such_releases", "approval")
        missing = no_account(known, plan.spec.account)
        return {"account_found": False, "account_missing": missing, **dict.fromkeys(nothing)}
    paying = ledger.lineage(account.name)
    closed = any(one.charter.closed for one in paying)
    own, *others = ledger.balances(account.name)
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


def _expected_error(plan: Plan) -> dict[str, object] | None:
    """Return between which average TVDs a file like others comes out, where the method says so."""
    expected = expected_error(plan.spec, plan.currency, plan.replicates)
    if expected is None:
        return None
    least, most = expected
    return {"two_way": [least.two, most.two], "three_way": [least.three, most.three]}


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
        beyond = sum(table.interaction for table in tables)
        counted = ((len(tables) - beyond, "table"), (beyond, "interaction"))
        named = [f"{number} {noun}{'s' * (number != 1)}" for number, noun in counted if number]
        return f"{listed(named)}, {sum(t.cells for t in tables):,} cells{times}"
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
    from dp_core.methods.parametric.adapters import Measuring
    from dp_core.methods.parametric.drawn_records import TableDraws

    spec, rows = plan.spec, plan.spec.rows or plan.spec.schema.rows_about
    half = spec.selector
    if not (isinstance(half, Measuring) and isinstance(half.method, TableDraws) and rows):
        return None
    cost = plan.costs["measure"] / plan.replicates
    return half.method.evenness(half.variables, plan.currency, cost, rows, spec.privacy.max_rows)


def _bins_unused(plan: Plan) -> list[str]:
    """Return the columns whose bins are paid for, and by which the method does not draw."""
    from dp_core.methods.parametric.adapters import Measuring

    half = plan.spec.selector
    if not isinstance(half, Measuring) or half.method.by_bins:
        return []
    return [choice.column for choice in plan.choices if choice.of == "bins"]


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
        **({"interaction": True} if table.interaction else {}),
    }


def _within(half_width: float) -> float:
    """Return a half width as people say it: two digits are enough."""
    return float(f"{half_width:.2g}") if half_width < 100 else float(round(half_width))
