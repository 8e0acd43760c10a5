"""Choices on the Gaussian curve: the ledger refuses one that leaves too little of its release."""

from fractions import Fraction

import pytest

from dp_core.errors import BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.kernel.cost.covered_choices import COVER
from dp_core.kernel.cost.currency import choice_event
from dp_core.kernel.mechanisms.grant import Step
from tasks.ledger.charging import charging_writer as writer_module
from tests.ledgers import basic, begin, open_town, step, zcdp
from tests.specs import plan_of

pytestmark = pytest.mark.any_database

SHARES = "select: {method: privbayes, share: 1/10}\nreconstruct: {method: bayes_network}\n"
SHARES += "one_way: {share: 0}\ntotal: {share: 1/100}\nmeasure: {share: 89/100}\n"


def choice(currency, cost, name="column-1"):
    return Step("select", name, cost, choice_event(currency, cost, 4), (1,))


@pytest.mark.parametrize("terms", [basic(), zcdp("8")], ids=["basic", "zcdp"])
def test_a_choice_is_charged_only_while_enough_is_left(
    ledger, writer, tmp_path, monkeypatch, terms
):
    open_town(ledger, terms=terms)
    plan = plan_of(tmp_path, SHARES, method="privbayes", privacy="{epsilon: 1, delta: 1e-9}")
    assert plan.currency.kind == "mixed"
    cost = plan.costs["select"] / 2
    most = plan.currency.limit - cost
    # What is measured before the last choice leaves just too little for it.
    before = most - COVER * cost + plan.currency.limit / 10**6 - cost
    held = begin(writer, plan)
    first = choice(held.currency, cost)
    writer.charge(held, "one", [first])
    writer.commit(held, "one", "0" * 64)
    writer.charge(held, "two", [step(held, "measure", "table", before)])
    writer.commit(held, "two", "0" * 64)
    second = choice(held.currency, cost, "column-2")
    with pytest.raises(BudgetRefused, match="too little for a choice"):
        writer.charge(held, "three", [second])
    with monkeypatch.context() as careless:
        careless.setattr(writer_module, "check_stages", lambda *_: None)
        with pytest.raises(LedgerCorrupt, match="too little of its promise"):
            writer.charge(held, "three", [second])
    # A smaller one leaves enough.
    writer.charge(held, "three", [choice(held.currency, cost / 2, "column-2")])
    writer.commit(held, "three", "0" * 64)
    writer.settle(held, "finished")
    spent = ledger.account("town").balance.spent
    if terms.is_basic:
        assert spent.main == 1
    else:
        # The account adds up rho, which is less than what the release paid.
        assert 0 < spent.main < plan.currency.limit - cost / 2
    ledger.verify()


def test_one_batch_of_choices_cannot_leave_too_little_either(ledger, writer, tmp_path):
    open_town(ledger)
    plan = plan_of(tmp_path, SHARES, method="privbayes", privacy="{epsilon: 1, delta: 1e-9}")
    cost = plan.costs["select"] / 2
    held = begin(writer, plan)
    room = plan.currency.limit - (COVER + 1) * cost
    writer.charge(held, "table", [step(held, "measure", "table", room)])
    writer.commit(held, "table", "0" * 64)
    steps = [choice(held.currency, cost * Fraction(99, 100), name) for name in "ab"]
    with pytest.raises(BudgetRefused, match="too little for a choice"):
        writer.charge(held, "both", steps)
    writer.charge(held, "one", steps[:1])


def test_a_batch_is_charged_only_after_the_one_before_it_was_committed(ledger, writer, tmp_path):
    open_town(ledger)
    plan = plan_of(tmp_path, SHARES, method="privbayes", privacy="{epsilon: 1, delta: 1e-9}")
    cost = plan.costs["select"] / 4
    held = begin(writer, plan)
    first, second = choice(held.currency, cost), choice(held.currency, cost, "column-2")
    writer.charge(held, "one", [first])
    with pytest.raises(StageFailed, match="before the result of 'one' is committed"):
        writer.charge(held, "two", [second])
    assert [charge.batch for charge in writer.charges(held)] == ["one"]
    assert len(writer.charge(held, "one", [first])) == 1
    writer.commit(held, "one", "0" * 64)
    assert len(writer.charge(held, "two", [second])) == 1
    ledger.verify()
