"""Checks a statement's `decision`: was the release published as its plan and receipts say?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.bundle.statement.decision import decision_statement, thresholds_of
from dp_core.bundle.verification.claims import Claims
from dp_core.documents.canonical import canonical_json
from dp_core.spec.quality_checks import judged


def check_decision(document: Mapping[str, Any], claims: Claims) -> str | tuple[str, ...]:
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
