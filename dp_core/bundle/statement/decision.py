"""The statement's `decision`: what stood between the finished sets and their publication.

It is made from the plan, the settlement and the published checks alone, so that anyone can make it
again. Names and reasons stay in the ledger; days and outcome are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.spec.quality_checks import Threshold, judged


def decision_statement(
    plan: Mapping[str, Any], settled: Mapping[str, Any] | None, checks: Mapping[str, Any]
) -> dict[str, object]:
    """Return the section `decision` of a statement.

    Args:
        plan: The plan's document.
        settled: Body of the settlement's receipt, None without one.
        checks: The statement's public and charged figures.
    """
    gate: Mapping[str, Any] = (settled or {}).get("decision") or {}
    return {
        "mode": plan["spec"].get("publish", "at-once"),
        "held": gate.get("held"),
        "cause": gate.get("cause"),
        "looks": list(gate.get("looks", ())),
        "thresholds": judged(thresholds_of(plan), checks)[0],
        "outcome": "published",
    }


def thresholds_of(plan: Mapping[str, Any]) -> list[Threshold]:
    """Return the thresholds of a plan."""
    return [
        Threshold.from_json(each) for each in plan["spec"].get("checks", {}).get("thresholds", ())
    ]
