"""What is stated beyond the reserved total, and how anyone recomputes it from the receipts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_core.accounts.guarantee import PLD, Guarantee, implied, second, tightest
from dp_core.bundle.published import Published
from dp_core.bundle.verification.claims import read_charge
from dp_core.bundle.verification.verify import Check, verify
from dp_core.kernel.mechanisms.event import Event
from dp_core.kernel.privacy import Relation
from dp_core.plan.fixed_plan import fixed_beforehand
from tests.dp_core.bundle.conftest import make_published, write

BILLIONTH = Fraction(1, 10**9)


def charges_of(published: Published) -> list[tuple[Event, Mapping[str, Any]]]:
    """Return every event with what it asks, as `publish` reads them from the receipts."""
    charges = [read_charge(row) for row in published.receipts if row.kind == "charge"]
    return [(charge.event, charge.asks) for charge in charges]


def stated(published: Published) -> Published:
    """Return the release with all that its receipts show, as `publish` states it."""
    paid = (published.currency, published.privacy, charges_of(published))
    return replace(published, tightest=tightest(*paid), also=second(*paid))


@pytest.fixture
def checked(tmp_path):
    """Build a release, state what its receipts show, change that, and verify the bundle."""

    def check(change=lambda _: {}, **options) -> tuple[Check, Path]:
        published, data = make_published(**options)
        published = stated(published)
        published = replace(published, **change(published))
        folder = write(tmp_path / "out", published, data, tmp_path / "scratch")
        found = {check.name: check for check in verify(folder).checks}
        assert all(check.passed for name, check in found.items() if name != "guarantee"), found
        return found["guarantee"], folder

    return check


def test_gaussian_tables_of_a_plan_are_stated_by_their_losses_and_verify(checked):
    found, folder = checked()
    assert found.passed, found.sentence
    assert "noise of the planned tables gives epsilon 0.9" in found.sentence

    guarantee = json.loads((folder / "release.json").read_bytes())["guarantee"]
    assert guarantee["tightest"]["theorem"] == PLD
    assert guarantee["tightest"]["epsilon"]["decimal"] < 0.98
    assert guarantee["tightest"]["delta"] == guarantee["enforced"]["delta"]
    assert guarantee["also"] is None
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "The ledger reserved ε = 1" in report
    assert "<dt>Also</dt>" not in report


def test_many_laplace_tables_are_stated_twice_and_verify(checked):
    found, folder = checked(pure=True, mode="split", sets=8)
    assert found.passed, found.sentence
    assert "The reserved total implies epsilon 1 at delta 0." in found.sentence
    assert "at delta 1e-06" in found.sentence

    guarantee = json.loads((folder / "release.json").read_bytes())["guarantee"]
    assert guarantee["tightest"]["epsilon"]["exact"] == "1"
    assert guarantee["also"]["delta"]["exact"] == "1/1000000"
    assert guarantee["also"]["epsilon"]["decimal"] < 0.7
    assert guarantee["also"]["theorem"] == PLD
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert f"at most ε = {guarantee['also']['epsilon']['decimal']:.6g}" in report
    # The first statement stays the one that is quoted.
    assert "<b>ε = 1</b> privacy loss, δ = 0" in report


def test_few_laplace_tables_are_stated_once(checked):
    found, folder = checked(pure=True)
    assert found.passed
    assert json.loads((folder / "release.json").read_bytes())["guarantee"]["also"] is None


@pytest.mark.parametrize("part", ["tightest", "also"])
@pytest.mark.parametrize("word", ["epsilon", "delta"])
def test_a_claim_that_the_noise_does_not_show_is_refused(checked, part, word):
    def stronger(published):
        claim = getattr(published, part)
        share = Fraction(99_998, 100_000) if word == "epsilon" else Fraction(9, 10)
        return {part: replace(claim, **{word: getattr(claim, word) * share})}

    options = {"pure": True, "mode": "split", "sets": 8} if part == "also" else {}
    found, _ = checked(stronger, **options)
    assert not found.passed
    assert "Neither the reserved total nor the noise of the tables gives" in found.sentence


def test_a_method_that_may_look_is_held_to_what_its_total_implies(checked):
    found, _ = checked(select="densemarg")
    assert not found.passed
    assert "Neither" in found.sentence


def test_a_method_that_may_look_verifies_by_its_total(checked):
    found, _ = checked(lambda _: {"tightest": None}, select="densemarg")
    assert found.passed
    assert "reserved total implies" in found.sentence


def test_a_last_digit_that_another_machine_computes_does_not_matter(monkeypatch):
    from dp_core.accounts import guarantee as module

    published = stated(make_published()[0])
    charges = charges_of(published)
    here = module.tightest_epsilon
    factor = 1 + Fraction(9, 10**10)
    monkeypatch.setattr(module, "tightest_epsilon", lambda *args: here(*args) * factor)
    assert module.shown(charges, Relation("add-remove"), published.guarantee.epsilon, BILLIONTH)


@pytest.mark.parametrize("delta", ["0", "1e-41", "1", "2", "-1"])
def test_a_delta_at_which_nothing_can_be_read_is_refused(checked, delta):
    claim = Guarantee(epsilon=Fraction(1, 2), delta=Fraction(delta), theorem=PLD)
    found, _ = checked(lambda _: {"also": claim})
    assert not found.passed


def test_a_release_without_statement_is_stated_by_its_total(release):
    published, _ = release
    assert published.guarantee == implied(published.currency, published.privacy)


@pytest.mark.parametrize(
    ("method", "costs", "fixed"),
    [
        ("one_way", {"measure": "1"}, True),
        ("full", {"total": "1/50", "one_way": "0", "select": "0", "measure": "49/50"}, True),
        ("fixed", {"one_way": "1/2", "measure": "1/2"}, True),
        ("fixed", {"select": "1/10", "measure": "9/10"}, False),
        ("fixed", {"checks": "1/10", "measure": "9/10"}, False),
        ("densemarg", {"measure": "1"}, False),
        ("not-known-here", {"measure": "1"}, False),
    ],
)
def test_a_plan_fixes_its_events_where_nothing_looks_at_the_data(method, costs, fixed):
    assert fixed_beforehand({"spec": {"select": {"method": method}}, "costs": costs}) is fixed
