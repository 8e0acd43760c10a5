"""The content of a release's artifacts in Prefect, as tables and Markdown; public values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.plan.plan import Plan
from dp_core.schema.privacy import cost_unit
from dp_core.wall.accounting.composition import Amount
from dp_core.wall.stage_grant import PAYS
from flows.monitoring.outcome import Outcome
from tasks.ledger.accounts import Account

_PAID_IN = {share: stage for stage, shares in PAYS.items() for share in shares}
"""Stage of the flow that pays for a share of the plan; the last one, if there are two."""

_WIDTH = 40
"""Length of a budget bar in characters."""

_STATES = {
    "published": "The release is published.",
    "held": "The release awaits approval: a person decides whether it is published.",
    "withdrawn": "The release was withdrawn; nothing is published.",
    "refused": "The release was refused.",
    "failed": "The release stopped and can be resumed.",
    "waiting": "The plan of the release must be approved first.",
}

_NOT_BEGUN = "This run stopped before its first stage."
"""The state of a run that failed before it reached its release, begun or not."""

_RETRY = (
    "press Retry on the page of this run. A worker continues the release where it stopped. Stages"
    " that are done return at once, and nothing is charged twice."
)
_NO_RETRY = "Prefect has no Retry for this run, because a command started it."


def unit_words(plan: Plan) -> str:
    """Return what the budgets of a release's stages add up to, in their unit and as epsilon."""
    if plan.spec.measurements is not None:
        return "Its stages have no budget, because nothing is measured."
    unit, privacy = cost_unit(plan.currency.kind), plan.spec.privacy
    total = f"epsilon {float(privacy.epsilon):g}"
    if unit != "epsilon":
        total = (
            f"{float(plan.currency.limit):.4g}, which is {total} at delta {float(privacy.delta):g}"
        )
    return f"The budgets of its stages are in {unit} and add up to {total}."


def stage_rows(
    plan: Plan,
    stages: Sequence[str],
    *,
    done: Collection[str],
    failed: str | None,
    spent: Mapping[str, Fraction],
    stopped: str | None = None,
) -> list[dict[str, Any]]:
    """Return the table of stages: state, share in percent, budget, and budget spent so far.

    Args:
        plan: Plan of the release.
        stages: Names of the flow's stages, in order.
        done: Names of the stages that are done.
        failed: Name of the stage that failed; None if none did.
        spent: Budget charged so far by stage of the plan, in the release's currency.
        stopped: Name of the stage at which the run was interrupted or cancelled; None (the default)
            if it was not.

    Returns:
        One row for each stage, all values as texts. Budgets are in the release's unit, which has a
        column of its own.
    """
    paying: dict[str, list[str]] = {}
    for paid, cost in plan.costs.items():
        if cost:
            paying.setdefault(_PAID_IN.get(paid, paid), []).append(paid)
    rows, at_work = [], failed is not None or stopped is not None
    for stage in (*stages, *(name for name in paying if name not in stages)):
        if stage in done:
            state = "done"
        elif stage == failed:
            state = "failed"
        elif stage == stopped:
            state = "stopped"
        elif not at_work and stage in stages:
            state, at_work = "at work", True
        else:
            state = "open"
        pays = paying.pop(stage, [])
        budget = sum((plan.costs[paid] for paid in pays), Fraction(0))  # type: ignore[index]
        charged = sum((spent.get(paid, Fraction(0)) for paid in pays), Fraction(0))
        share = sum((plan.spec.shares[paid] for paid in pays), Fraction(0))  # type: ignore[index]
        rows.append(
            {
                "stage": stage,
                "state": state,
                "share of the release": f"{float(100 * share):.4g} %" if pays else "",
                "budget": f"{float(budget):.6g}" if pays else "",
                "spent": f"{float(charged):.6g}" if pays else "",
                "unit": cost_unit(plan.currency.kind) if pays else "",
            }
        )
    return rows


def account_page(accounts: Sequence[Account]) -> str:
    """Return a Markdown page with the balance of each account that pays.

    Args:
        accounts: The release's account, then the accounts that limit it.
    """
    return "\n\n".join(map(_account, accounts))


def _account(account: Account) -> str:
    terms, balance = account.terms, account.balance
    word = "epsilon" if terms.is_basic else "rho"
    whole, left = terms.limit, account.total_left
    parts = [("spent", balance.spent), ("reserved", balance.reserved), ("left", left)]
    lines = [
        f"**Account {account.name}**: {word} {float(whole.main):.4g}, delta"
        f" {float(terms.delta):.4g} ({account.charter.neighbours}, {terms.composition})",
        "",
        bar(whole, balance.spent, balance.reserved),
        "",
        f"| | {word} | of the total | delta |",
        "|---|---|---|---|",
        *(
            f"| {name} | {float(max(part.main, Fraction(0))):.4g} |"
            f" {_percent(part.main, whole.main)} | {float(max(part.delta, Fraction(0))):.4g} |"
            for name, part in parts
        ),
    ]
    calendar = account.charter.calendar
    if calendar is not None:
        label = calendar.label(calendar.index(account.day))
        lines += ["", f"Left in {label}: {word} {float(account.left.main):.4g}."]
    return "\n".join(lines)


def bar(whole: Amount, spent: Amount, reserved: Amount) -> str:
    """Return a bar of text: █ spent, ▒ reserved, ░ left; a used part has at least one character.

    >>> tenth = Amount(Fraction(1, 10), Fraction(0))
    >>> bar(tenth.times(10), tenth.times(5), tenth)
    '`████████████████████▒▒▒▒░░░░░░░░░░░░░░░░` spent 50 %, reserved 10 %, left 40 %'
    """
    used = [_signs(part.main, whole.main) for part in (spent, reserved)]
    signs = ("█" * used[0] + "▒" * used[1])[:_WIDTH]
    left = whole - spent - reserved
    return (
        f"`{signs:░<{_WIDTH}}` spent {_percent(spent.main, whole.main)}, reserved"
        f" {_percent(reserved.main, whole.main)}, left {_percent(left.main, whole.main)}"
    )


def _signs(part: Fraction, whole: Fraction) -> int:
    return max(round(_WIDTH * part / whole), 1) if part > 0 else 0


def _percent(part: Fraction, whole: Fraction) -> str:
    return f"{float(100 * max(part, Fraction(0)) / whole):.0f} %"


def accuracy_rows(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the table of planned and actual accuracy.

    Args:
        facts: Public figures that the stage `check` stored.
    """
    return [
        {
            # Runs of earlier versions lack this key, because they compared whole tables only.
            "table": " x ".join(fit["columns"])
            + (" (beyond its margins)" if fit.get("beyond") else ""),
            "cells": fit["cells"],
            "noise: a count is within": f"±{fit['within']}",
            "TVD planned (noise and drawing)": f"{fit['expected_tvd']:.4f}",
            "TVD found": f"{fit['tvd']:.4f}",
            "ratio": f"{fit['ratio']:.2f}",
        }
        for fit in facts.get("fits", ())
    ]


def outcome_page(
    outcome: Outcome, *, release: str | None, out: Path | None, deployed: bool = False
) -> str:
    """Return a Markdown page about how a run ended and what to do next.

    Args:
        outcome: How the run ended.
        release: Name of the release; None if the run stopped before its first stage.
        out: Folder of the bundle; None if the run stopped before its first stage.
        deployed: Whether the run belongs to a deployment; False (the default) if a command
            started it.
    """
    state = _STATES[outcome.name]
    if outcome.name == "failed" and release is None:
        state = _NOT_BEGUN
    lines = [f"**{state}**", "", outcome.sentence]
    if outcome.row is not None:
        lines += ["", f"What to do: docs/runbook.md, row `{outcome.row}`."]
    if outcome.name == "published" and out is not None:
        lines += ["", f"Bundle: `{out}`", "", f"Check it: `dp-release verify {out}`"]
    elif outcome.is_failure and deployed:
        lines += ["", f"After the cause is repaired: {_RETRY}"]
    elif outcome.name == "failed" and release is not None:
        resume = f"`dp-release resume {release}`"
        lines += ["", f"After the cause is repaired: {resume}. {_NO_RETRY}"]
    elif outcome.name == "failed":
        lines += ["", "After the cause is repaired: repeat the same command."]
    elif outcome.name in ("held", "waiting", "refused") and release is not None:
        lines += ["", f"Current state: `dp-release status {release}`"]
    return "\n".join(lines)
