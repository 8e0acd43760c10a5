"""A reservation that uses an earlier release's results: it promises nothing and sees no data."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import asdict

import pytest

from dp_core.errors import BadInput, LedgerCorrupt, StageFailed
from dp_core.kernel.cost.composition import NOTHING
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.plan import Plan, make_plan
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import (
    HOME,
    KEY,
    basic,
    open_town,
    reserve,
    spend,
    steps_of,
    take_everything,
    zcdp,
)
from tests.specs import plan_of

pytestmark = pytest.mark.any_database


@pytest.fixture
def ledger(ledger_url):
    ledger = Ledger(ledger_url)
    open_town(ledger)
    open_town(ledger, "village")
    return ledger


def using(ledger: Ledger, measured: Plan, *, account: str = "town") -> Plan:
    """Return the plan of release `second`, which uses the tables of a release in the ledger."""
    reservation = ledger.reservation(measured.spec.release)
    assert reservation is not None
    earlier = EarlierRelease(
        measured.spec.release,
        measured.spec.account,
        json.loads(json.dumps(measured.document())),
        ledger.receipts(reservation),
    )
    document = {**measured.spec.document, "release": "second", "measurements": earlier.document()}
    spec = dataclasses.replace(
        measured.spec, release="second", account=account, measurements=earlier, document=document
    )
    return make_plan(spec)


@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_it_takes_nothing_of_its_account_whatever_is_left(ledger_url, tmp_path, composition):
    ledger = Ledger(ledger_url)
    measured = plan_of(tmp_path, privacy="{epsilon: 1, delta: 1e-6}")
    terms = zcdp("1.2", "1e-6") if composition == "zcdp" else basic("1", "1e-6")
    open_town(ledger, terms=terms)
    spend(ledger, measured)
    before = ledger.account("town")

    with ledger.lease("second", HOME) as writer:
        held = writer.reserve(using(ledger, measured))
        assert ledger.account("town").balance == before.balance
        writer.settle(held, "finished")

    after = ledger.account("town")
    assert (after.balance, after.left) == (before.balance, before.left)
    used = {each.release: each for each in ledger.uses("town")}
    assert used["second"].amount == NOTHING
    assert used["second"].measurements == "first"
    assert used["first"].measurements is None
    ledger.verify()
    with pytest.raises(BadInput, match="is used"), ledger.lease("second", HOME) as writer:
        writer.reserve(using(ledger, measured))


def test_it_gets_no_input_no_attempt_no_grant_and_no_charge(ledger, tmp_path):
    measured = plan_of(tmp_path)
    spend(ledger, measured)
    plan = using(ledger, measured)
    with both_writers(ledger, "second", HOME) as writer:
        held = writer.reserve(plan)
        with pytest.raises(LedgerCorrupt, match="looks at data"):
            writer.examine(held)
        with pytest.raises(LedgerCorrupt, match="looks at data"):
            writer.bind_input(held, "input of first", KEY)
        with pytest.raises(StageFailed):
            writer.grant(held, plan.hash, "measure")
        with pytest.raises(StageFailed):
            writer.charge(held, "one_way-0", steps_of(measured, "one_way"))
    ledger.verify()


@pytest.mark.parametrize("outcome", ["abandoned", None, "failed-thresholds"])
def test_only_a_finished_release_of_the_account_is_used(ledger, tmp_path, outcome):
    measured = plan_of(tmp_path)
    spend(ledger, measured, outcome)
    with pytest.raises(BadInput) as refused:
        reserve(ledger, using(ledger, measured))

    assert refused.value.row == "measurements-unusable"


def test_another_account_does_not_use_it(ledger, tmp_path):
    measured = plan_of(tmp_path)
    spend(ledger, measured)
    with pytest.raises(BadInput, match="village"):
        reserve(ledger, using(ledger, measured, account="village"))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"epsilon": "1"}, "promises a cost"),
        ({"delta": "1/1000000"}, "promises a cost"),
        ({"costs": {"measure": "1"}}, "costs of stages"),
        ({"currency": {"kind": "pure", "limit": "1", "own_delta": "0"}}, "promises a cost"),
        ({"currency": {"kind": "pure", "limit": "0", "own_delta": "1/9"}}, "promises a cost"),
        ({"measurements": {"release": "none", "head": "0" * 64}}, "its account does not have"),
        ({"measurements": {"release": "first", "head": "0" * 64}}, "its account does not have"),
        ({"measurements": {"release": "open", "head": "0" * 64}}, "its account does not have"),
        ({"measurements": None}, "does not imply its epsilon"),
    ],
)
def test_writer_and_audit_refuse_a_reservation_that_breaks_the_rule(
    ledger, tmp_path, monkeypatch, changes, rule
):
    measured = plan_of(tmp_path)
    spend(ledger, measured)
    spend(ledger, plan_of(tmp_path, release="open", privacy="{epsilon: 1/2}"), None)
    plan = using(ledger, measured)
    assert plan.spec.measurements is not None
    body = {
        "epsilon": "0",
        "delta": "0",
        "neighbours": "add-remove",
        "unit": "row",
        "plan": plan.hash,
        "sets": 1,
        "mode": "shared",
        "measurements": asdict(plan.spec.measurements.used),
        "currency": {"kind": "pure", "limit": "0", "own_delta": "0"},
        "costs": {},
    }

    def write(changed):
        with ledger._database.writing() as rows:
            about = plan.hash
            rows.append("reserve", account="town", release="second", about=about, body=changed)

    with pytest.raises(LedgerCorrupt, match=rule):
        write(body | changes)
    take_everything(monkeypatch)
    write(body | changes)
    with pytest.raises(LedgerCorrupt, match=rule):
        ledger.verify()


def test_a_release_of_an_abandoned_one_is_refused_by_the_rule_too(ledger, tmp_path, monkeypatch):
    measured = plan_of(tmp_path)
    spend(ledger, measured, "abandoned")
    monkeypatch.setattr("tasks.ledger.reservation_check._check_measurements", lambda *_: None)

    with pytest.raises(LedgerCorrupt, match="was not finished"):
        reserve(ledger, using(ledger, measured))
