"""A delta that a release sets aside for thresholds, from its reservation to its account's total."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.errors import BudgetRefused, LedgerCorrupt
from dp_core.kernel.cost.composition import NOTHING, Amount
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.mechanisms.grant import Step
from dp_core.methods.drawn_events import threshold_event
from dp_core.plan.currency_choice import threshold_currency
from tasks.ledger.charging import charging_writer as writer_module
from tests.both_writers import both_writers
from tests.ledgers import HOME, basic, begin, open_town, zcdp
from tests.specs import plan_of

pytestmark = pytest.mark.any_database

DELTA = Fraction(1, 10**6)
NANO = Fraction(1, 10**9)


def plan_with_threshold(tmp_path, **changes):
    """A plan that sets its whole delta aside for one table with a threshold."""
    text = "select: {method: sba}\nreconstruct: {method: sparse}\none_way: {share: 0}\n"
    text += "total: {share: 0.02}\nmeasure: {share: 0.98}\n"
    plan = plan_of(tmp_path, text, privacy="{epsilon: 1, delta: 1e-6}", **changes)
    assert plan.currency == threshold_currency(Fraction(1), DELTA)
    return plan


def table(currency, cost, delta, name="sparse", stage="measure"):
    event = threshold_event(currency, cost, delta, l1=1)
    assert currency.cost(event) <= cost
    assert 0 < event.own_delta() <= delta
    return Step(stage, name, cost, event, (10, 2), {"name": "sparse-table"})


def test_the_reservation_says_how_much_delta_is_set_aside(ledger, writer, tmp_path):
    open_town(ledger)
    plan = plan_with_threshold(tmp_path)
    held = begin(writer, plan)
    assert held.currency == Currency("pure", Fraction(1), DELTA)
    reserve = next(entry for entry, _ in ledger.all_entries() if entry.kind == "reserve")
    assert reserve.body["currency"]["own_delta"] == "1/1000000"
    assert ledger.account("town").balance.reserved == Amount(Fraction(1), DELTA)
    ledger.verify()


@pytest.mark.parametrize("terms", [basic(), zcdp("8", own_delta="4e-6")], ids=["basic", "zcdp"])
def test_charges_sum_to_at_most_the_delta_that_was_set_aside(
    ledger, writer, tmp_path, monkeypatch, terms
):
    open_town(ledger, terms=terms)
    plan = plan_with_threshold(tmp_path)
    cost = plan.costs["measure"] / 40
    held = begin(writer, plan)
    first = table(held.currency, cost, DELTA * Fraction(6, 10), "first")
    second = table(held.currency, cost, DELTA * Fraction(6, 10), "second")
    fitting = table(held.currency, cost, DELTA * Fraction(4, 10), "second")
    writer.charge(held, "one", [first])
    with pytest.raises(BudgetRefused, match="of delta for thresholds"):
        writer.charge(held, "two", [second])
    with monkeypatch.context() as careless:
        careless.setattr(writer_module, "check_stages", lambda *_: None)
        with pytest.raises(LedgerCorrupt, match="its reservation does not cover"):
            writer.charge(held, "two", [second])
    writer.charge(held, "two", [fitting])
    for batch in ("one", "two"):
        writer.commit(held, batch, "0" * 64)
    writer.settle(held, "finished")
    own = first.event.own_delta() + fitting.event.own_delta()
    state = ledger.account("town").balance
    assert state.reserved == NOTHING
    assert state.spent.delta == own
    if terms.is_basic:
        assert state.spent.main == 2 * cost
    else:
        rho = first.event.rho() + fitting.event.rho()
        assert rho <= state.spent.main <= rho + Fraction(2, 10**15)
    ledger.verify()


def test_one_batch_cannot_spend_more_either(ledger, writer, tmp_path):
    open_town(ledger)
    plan = plan_with_threshold(tmp_path)
    held = begin(writer, plan)
    cost = plan.costs["measure"] / 60
    steps = [table(held.currency, cost, DELTA * Fraction(6, 10), name) for name in "ab"]
    with pytest.raises(BudgetRefused, match="of delta for thresholds"):
        writer.charge(held, "both", steps)
    assert writer.charges(held) == ()


def test_a_zcdp_account_pays_own_delta_from_its_own_part(ledger, writer, tmp_path):
    open_town(ledger, terms=zcdp("8", own_delta="15e-7"))
    begin(writer, plan_with_threshold(tmp_path))
    state = ledger.account("town").balance
    assert state.reserved == Amount(Fraction(1, 2), DELTA)
    second = plan_with_threshold(tmp_path, release="second")
    with (
        both_writers(ledger, "second", HOME) as writer,
        pytest.raises(
            BudgetRefused,
            match=r"own delta 1e-06, but .* has 5e-07 left of 1.5e-06.*still fits is 5e-07",
        ),
    ):
        writer.reserve(second)
    # An account without a part for it takes none at all.
    open_town(ledger, "village", zcdp("8"))
    third = plan_with_threshold(tmp_path, release="third", account="village")
    with (
        both_writers(ledger, "third", HOME) as writer,
        pytest.raises(
            BudgetRefused,
            match=r"own delta 1e-06, but .* has 0 left.*officer\. .*--own-delta",
        ),
    ):
        writer.reserve(third)
    ledger.verify()


def test_more_own_delta_than_delta_is_refused(ledger, tmp_path):
    open_town(ledger)
    plan = plan_with_threshold(tmp_path)
    for own_delta in (DELTA + NANO, -NANO):
        currency = replace(plan.currency, own_delta=own_delta)
        with (
            both_writers(ledger, "first", HOME) as writer,
            pytest.raises(LedgerCorrupt, match="does not imply its epsilon and delta"),
        ):
            writer.reserve(replace(plan, currency=currency))


def test_another_own_delta_is_another_plan(tmp_path):
    plan = plan_with_threshold(tmp_path)
    less = replace(plan, currency=replace(plan.currency, own_delta=DELTA / 2))
    assert plan.hash != less.hash


def test_the_session_in_memory_keeps_the_same_rule():
    currency = threshold_currency(Fraction(1), DELTA)
    session = MemorySession(currency, "add-remove")
    draw = lambda grants: [None for _ in grants]  # noqa: E731
    first = table(currency, Fraction(1, 99), DELTA * Fraction(6, 10), "first")
    session.perform("one", [first], draw)
    with pytest.raises(BudgetRefused, match="not enough of the delta"):
        session.perform("two", [replace(first, name="second")], draw)
    plain = MemorySession(Currency("pure", Fraction(1)), "add-remove")
    with pytest.raises(ValueError, match="a delta of its own"):
        plain.perform("one", [first], draw)
