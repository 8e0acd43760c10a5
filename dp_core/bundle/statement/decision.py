"""The statement's `decision`: thresholds and approval between finished sets and publication.

It follows from plan, settlement and published checks alone, so anyone can recompute it. It states
days and outcome; names and reasons stay in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.plan.quality_checks import Threshold, verdicts


def decision_statement(
    plan: Mapping[str, Any], settled: Mapping[str, Any] | None, checks: Mapping[str, Any]
) -> dict[str, object]:
    """Return the section `decision` of a statement.

    Args:
        plan: The plan's document.
        settled: Body of the settlement's receipt; None without a settlement.
        checks: The statement's public and charged figures.
    """
    approval: Mapping[str, Any] = (settled or {}).get("decision") or {}
    return {
        "mode": plan["spec"].get("publish", "at-once"),
        "held": approval.get("held"),
        "cause": approval.get("cause"),
        "looks": list(approval.get("looks", ())),
        "thresholds": verdicts(thresholds_of(plan), checks)[0],
        "outcome": "published",
    }


def thresholds_of(plan: Mapping[str, Any]) -> list[Threshold]:
    """Return the thresholds of a plan."""
    return [
        Threshold.from_json(each) for each in plan["spec"].get("checks", {}).get("thresholds", ())
    ]
