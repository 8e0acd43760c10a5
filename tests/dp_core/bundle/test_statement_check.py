"""The plan against the reservation, and the decision against thresholds and receipts."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from dp_core.bundle.statement.sections import decision_statement
from dp_core.bundle.verification.statement_check import check_decision
from dp_core.bundle.verification.verify import verify
from dp_core.kernel.canonical import digest
from tests.dp_core.bundle.conftest import written
from tests.dp_core.bundle.forgery import relinked, statement_of

# What is forged, in the plan or in the reservation, and the word by which it is told.
FORGED = {
    "epsilon": (("privacy", "epsilon", "1/10"), "privacy"),
    "max_rows": (("privacy", "max_rows", 5), "privacy"),
    "unit": (("privacy", "unit", "row"), "privacy"),
    "neighbours": (("privacy", "neighbours", "replace-one"), "privacy"),
    "costs of the stage domain": (("costs", "domain", "1/1000"), "costs"),
}


@pytest.fixture(scope="module")
def persons(tmp_path_factory) -> Path:
    """A whole bundle that protects persons of at most two rows."""
    folder = tmp_path_factory.mktemp("persons")
    return written(folder, max_rows=2)


@pytest.fixture
def forged(persons, tmp_path) -> Path:
    return Path(shutil.copytree(persons, tmp_path / "forged"))


def test_the_bundle_that_is_forged_passes_as_it_is(persons):
    assert verify(persons).passed


@pytest.mark.parametrize("place", ["plan", "reservation"])
@pytest.mark.parametrize("what", FORGED)
def test_another_guarantee_in_the_plan_than_was_reserved_fails_by_name(forged, what, place):
    (section, key, value), named = FORGED[what]
    document = statement_of(forged)
    plan = document["method"]["plan"]
    reserved = document["ledger"]["receipts"][0]["body"]
    if place == "plan":
        part = plan["spec"]["privacy"] if section == "privacy" else plan["costs"]
    else:
        part = reserved if section == "privacy" else reserved["costs"]
    assert part.get(key) != value
    part[key] = value
    # Every hash fits again: of the plan, of each receipt, of the statement.
    document["method"]["plan_sha256"] = reserved["plan"] = digest(plan)
    found = relinked(forged, document)
    assert found["wording"].startswith(f"The plan in release.json states {named!r} ")
    if place == "plan":
        # Budgets of stages stand in the kernel's document, whose hash was reserved.
        assert set(found) - {"guarantee"} == {"wording"}


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

    found = check_decision(SimpleNamespace(document=document, claims=claims))
    assert isinstance(found, tuple) == bool(wrong)
    assert [word in sentence for word, sentence in zip(wrong, found, strict=False)] == [
        True for _ in wrong
    ]
