"""Anyone's check that a release was published as its thresholds and its receipts have it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dp_core.bundle.statement.decision import decision_statement
from dp_core.bundle.verification.decision_check import check_decision


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        (0.05, "Published at once, as the plan has it; no person decided about it."),
        (0.15, ("By its own thresholds a person decides, and no receipt says that one did.",)),
        (0.25, ("By its own thresholds the release ends without a bundle.",)),
    ],
)
def test_a_bundle_that_its_thresholds_forbid_does_not_verify(fit, said):
    threshold = {"figure": "fit", "hold": "1/10", "fail": "1/5"}
    plan = {"spec": {"checks": {"thresholds": [threshold]}}}
    checks = {"public": [{"figure": "fit", "value": fit}], "charged": []}
    claims = SimpleNamespace(plan=plan, settled=None, reserve=SimpleNamespace(body={}))
    document = {"checks": checks, "decision": decision_statement(plan, None, checks)}

    assert check_decision(document, claims) == said
