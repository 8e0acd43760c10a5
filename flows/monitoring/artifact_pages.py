"""The pages that a release shows in Prefect, as values and Markdown; public values only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dp_core.spec.plan import Plan
from dp_core.wall.accounting.composition import Amount
from flows.monitoring.outcome import Outcome
from tasks.ledger.accounts import Account

_PAID_IN = {"total": "basics", "one_way": "basics", "checks": "check"}
"""Stages of the flow in which stages of the plan are paid, where the names differ."""

_WIDTH = 40
"""Signs of a budget bar."""

_STATES = {
    "published": "The release is published.",
    "held": "The release is held: a person decides whether it is published.",
    "withdrawn": "The release was withdrawn; nothing is published.",
    "refused": "The release was refused.",
    "failed": "The release stopped, and can be resumed.",
    "waiting": "The release waits for the approval of its plan.",
}


def stage_rows(
    plan: Plan,
    stages: Sequence[str],
    *,
    done: Collection[str],
    failed: str | None,
    spent: Mapping[str, Fraction],
) -> list[dict[str, Any]]:
    """Return the table of stages: state, share, budget, and what is charged so far.

    Args:
        plan: Of the release.
        stages: Of the flow, in order.
        done: Those that are.
        failed: The one that stopped, None for none.
        spent: Charged so far, by stage of the plan, in the release's currency.
    """
    paying: dict[str, list[str]] = {}
    for paid, cost in plan.costs.items():
        if cost:
            paying.setdefault(_PAID_IN.get(paid, paid), []).append(paid)
    rows, at_work = [], failed is not None
    for stage in (*stages, *(name for name in paying if name not in stages)):
        if stage in done:
            state = "done"
        elif stage == failed:
            state = "failed"
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
                "share": str(share) if pays else "",
                "budget": f"{float(budget):.6g}" if pays else "",
                "spent": f"{float(charged):.6g}" if pays else "",
                "currency": plan.currency.kind if pays else "",
            }
        )
    return rows


def account_page(accounts: Sequence[Account]) -> str:
    """Return how the accounts that pay stand, the nearest first, each with a bar."""
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
        lines += ["", f"In {label} it can still promise {word} {float(account.left.main):.4g}."]
    return "\n".join(lines)


def bar(whole: Amount, spent: Amount, reserved: Amount) -> str:
    """Return a bar of text: █ spent, ▒ reserved, ░ left; whatever was used shows.

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
    """Return the table of accuracy against plan, from the public facts that the check left."""
    return [
        {
            # Runs of an earlier version compared whole tables only, and do not say so.
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


def outcome_page(outcome: Outcome, *, release: str | None, out: Path | None) -> str:
    """Return how a run ended, what it says, and what comes next."""
    lines = [f"**{_STATES[outcome.name]}**", "", outcome.sentence]
    if outcome.row is not None:
        lines += ["", f"What to do: docs/runbook.md, row `{outcome.row}`."]
    if outcome.name == "published" and out is not None:
        lines += ["", f"Bundle: `{out}`", "", f"Check it: `dp-release verify {out}`"]
    elif outcome.name == "failed" and release is not None:
        lines += ["", f"When the cause is mended: `dp-release resume {release}`"]
    elif outcome.name in ("held", "waiting", "refused") and release is not None:
        lines += ["", f"Where it stands: `dp-release status {release}`"]
    return "\n".join(lines)
