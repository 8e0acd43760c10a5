"""The statement's `decision`: what stood between the finished sets and their publication.

It is made from the plan, the settlement and the published checks alone, so that anyone can make it
again. Names and reasons stay in the ledger; days and outcome are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dp_core.documents.canonical import canonical_json
from dp_core.spec.quality_checks import Threshold, judged

if TYPE_CHECKING:
    from dp_core.bundle.verification.claims import Claims


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


def decided(document: Mapping[str, Any], claims: Claims) -> str | tuple[str, ...]:
    """Return that the release was published as its plan and its receipts have it, or what is not.

    Args:
        document: The statement.
        claims: What it claims, read from it.
    """
    wrong: list[str] = []
    body: Mapping[str, Any] = claims.settled.body if claims.settled else {}
    mode = claims.plan["spec"].get("publish", "at-once")
    gate = body.get("decision")
    if claims.reserve.body.get("publish", "at-once") != mode:
        wrong.append("The plan is published in another way than was reserved.")
    if mode == "after-approval" and gate is None:
        wrong.append("The plan has a person decide, and no receipt says that anybody did.")
    if gate is not None and gate["decided"] != "publish":
        wrong.append("The release was held, and no receipt says that it was to be published.")
    made = decision_statement(claims.plan, body, document["checks"])
    verdict = judged(thresholds_of(claims.plan), document["checks"])[1]
    if verdict == "fail":
        wrong.append("By its own thresholds the release ends without a bundle.")
    if verdict == "hold" and gate is None:
        wrong.append("By its own thresholds a person decides, and no receipt says that one did.")
    if canonical_json(document["decision"]) != canonical_json(made):
        wrong.append("The statement tells of another decision than its receipts.")
    if wrong:
        return tuple(wrong)
    if gate is None:
        return "Published at once, as the plan has it; no person decided about it."
    looks = len(gate["looks"])
    return (
        f"Held since {gate['held']} and published by a person's decision, after"
        f" {looks or 'no'} recorded look{'s' if looks != 1 else ''} at the internal report."
    )
