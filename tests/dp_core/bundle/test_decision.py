"""Anyone's check that a release was published as its thresholds and its receipts have it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dp_core.bundle.statement.sections import decision_statement
from dp_core.bundle.verification.statement_check import check_decision


@pytest.mark.parametrize(
    ("fit", "wrong"),
    [(0.05, ()), (0.15, ("require approval",)), (0.25, ("exclude",))],
)
def test_a_bundle_that_its_thresholds_forbid_does_not_verify(fit, wrong):
    threshold = {"figure": "fit", "hold": "1/10", "fail": "1/5"}
    plan = {"spec": {"checks": {"thresholds": [threshold]}}}
    checks = {"public": [{"figure": "fit", "value": fit}], "charged": []}
    claims = SimpleNamespace(plan=plan, settled=None, reserve=SimpleNamespace(body={}))
    document = {"checks": checks, "decision": decision_statement(plan, None, checks)}

    found = check_decision(document, claims)
    assert isinstance(found, tuple) == bool(wrong)
    assert [word in sentence for word, sentence in zip(wrong, found, strict=False)] == [
        True for _ in wrong
    ]
