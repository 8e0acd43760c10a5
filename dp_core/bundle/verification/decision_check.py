"""Check of the statement's `decision` against plan and receipts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.bundle.statement.sections import decision_statement, thresholds_of
from dp_core.bundle.verification.claims import Claims
from dp_core.plan.quality_checks import verdicts
from dp_core.text.canonical import canonical_json


def check_decision(document: Mapping[str, Any], claims: Claims) -> str | tuple[str, ...]:
    """Return that the release was published as plan and receipts say, or what differs.

    Args:
        document: The statement.
        claims: Its claims.
    """
    wrong: list[str] = []
    body: Mapping[str, Any] = claims.settled.body if claims.settled else {}
    mode = claims.plan["spec"].get("publish", "at-once")
    approval = body.get("decision")
    if claims.reserve.body.get("publish", "at-once") != mode:
        wrong.append("The plan states another way of publishing than was reserved.")
    if mode == "after-approval" and approval is None:
        wrong.append("The plan requires approval, but no receipt records a decision.")
    if approval is not None and approval["decided"] != "publish":
        wrong.append("The release waited for approval, but no receipt records an approval.")
    made = decision_statement(claims.plan, body, document["checks"])
    verdict = verdicts(thresholds_of(claims.plan), document["checks"])[1]
    if verdict == "fail":
        wrong.append("Its own thresholds exclude the release from publication.")
    if verdict == "hold" and approval is None:
        wrong.append("Its own thresholds require approval, but no receipt records a decision.")
    if canonical_json(document["decision"]) != canonical_json(made):
        wrong.append("The statement reports another decision than its receipts.")
    if wrong:
        return tuple(wrong)
    if approval is None:
        return "Published when it was finished, as the plan specifies; no approval was needed."
    looks = len(approval["looks"])
    return (
        f"Waited for approval from {approval['held']} on; approved and published after"
        f" {looks or 'no'} recorded look{'s' if looks != 1 else ''} at the internal report."
    )
