"""What a release does with its data: inputs, charges and results, each once."""

import uuid
from fractions import Fraction

import pytest

from dp_core.accounts.chain_audit import first_bad_link
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.kernel.ledger.entries import charge_key
from dp_core.kernel.ledger.receipts import PUBLISHED
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent
from dp_core.kernel.mechanisms.grant import Step
from tasks.ledger.charging import charging_writer as writer_module
from tasks.ledger.charging.charging_writer import MOST_DRAWS
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import (
    CURVE,
    GAUSSIAN,
    HOME,
    KEY,
    LAPLACE,
    amount,
    basic,
    begin,
    measure,
    on,
    open_town,
    step,
    steps_of,
    zcdp,
)
from tests.specs import plan_of

CRUMB = Fraction(1, 10**12)

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("town")]


# -- charges


def test_the_charges_of_a_plan_sum_to_it_exactly(ledger, writer, tmp_path):
    plan = plan_of(tmp_path, LAPLACE, privacy="{epsilon: 1/3}")
    held = measure(writer, plan)
    assert sum(charge.cost for charge in writer.charges(held)) == plan.currency.limit
    for stage, cost in plan.costs.items():
        of_stage = [charge.cost for charge in ledger.charges(held) if charge.stage == stage]
        assert sum(of_stage) == cost
    assert writer.settle(held, "finished").outcome == "finished"
    assert ledger.account("town").balance.spent == amount("1/3")
    body = dict(ledger.head().body)
    assert body.pop("ledger") == ledger.identity()
    assert [total["account"] for total in body.pop("totals")] == ["town"]
    assert body.pop("attempts") == {
        "refused": 0,
        "open": 0,
        "fitted": 0,
        "allowed": [],
        "schemas": 1,
    }
    assert body == {"outcome": "finished", "spent": "1/3", "seen": True}
    ledger.verify(KEY)


def test_the_key_of_a_charge_is_what_is_measured_and_no_process(ledger, writer, tmp_path):
    plan = plan_of(tmp_path)
    held = measure(writer, plan, ("one_way",))
    found = ledger.entries(kinds=("charge",), release="first")
    expected = [
        charge_key("first", "one_way", each.name, "input of first", plan.hash)
        for each in steps_of(plan, "one_way")
    ]
    assert [entry.key for entry in found] == expected
    assert {entry.reservation for entry in found} == {held.position}
    different = [
        ("second", "one_way", "a", "input", "plan"),
        ("first", "measure", "a", "input", "plan"),
        ("first", "one_way", "b", "input", "plan"),
        ("first", "one_way", "a", "other", "plan"),
        ("first", "one_way", "a", "input", "other"),
        ("first", "one_way", "a", "input", "plan"),
    ]
    assert len({charge_key(*values) for values in different}) == 6


def test_nothing_is_charged_before_the_input_is_known(writer, tmp_path):
    plan = plan_of(tmp_path)
    held = writer.reserve(plan)
    with pytest.raises(StageFailed, match="not bound to its input"):
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    assert writer.charges(held) == ()


def test_a_stage_spends_its_own_budget_and_not_the_others(ledger, writer, tmp_path):
    held = begin(writer, plan_of(tmp_path))
    before = ledger.verify()
    whole = held.costs["one_way"]
    with pytest.raises(BudgetRefused, match="Stage 'one_way' "):
        writer.charge(held, "x", [step(held, "one_way", "a", whole + CRUMB)])
    with pytest.raises(BudgetRefused):
        writer.charge(held, "x", [step(held, "one_way", name, whole / 2 + CRUMB) for name in "ab"])
    with pytest.raises(BudgetRefused):
        writer.charge(held, "x", [step(held, "checks", "a", CRUMB)])
    good_and_bad = [step(held, "one_way", "a", CRUMB), step(held, "select", "b", CRUMB)]
    with pytest.raises(BudgetRefused):
        writer.charge(held, "x", good_and_bad)
    assert ledger.verify() == before
    writer.charge(held, "x", [step(held, "one_way", "a", whole)])
    with pytest.raises(BudgetRefused, match="has 0 left"):
        writer.charge(held, "y", [step(held, "one_way", "b", CRUMB)])
    ledger.verify()


def test_an_event_that_costs_more_than_is_set_aside_is_refused(writer, tmp_path):
    held = begin(writer, plan_of(tmp_path, GAUSSIAN, privacy=CURVE))
    cost = held.costs["one_way"]
    cheap = held.currency.noise_event(cost, l1=1, l2_squared=1)
    louder = GaussianEvent(cheap.scale * Fraction(999_999, 10**6), 1)
    with pytest.raises(ValueError, match="costs more"):
        writer.charge(held, "x", [Step("one_way", "a", cost, louder, (2,))])
    with pytest.raises(ValueError, match="no budget"):
        writer.charge(held, "x", [Step("one_way", "a", Fraction(0), cheap, (2,))])
    assert writer.charges(held) == ()


@pytest.mark.parametrize("terms", [basic(), zcdp()], ids=["basic", "zcdp"])
def test_an_event_with_a_delta_of_its_own_is_refused_before_it_is_charged(
    ledger, writer, tmp_path, monkeypatch, terms
):
    """Where no delta was set aside for it, it would be counted nowhere."""
    open_town(ledger, "village", terms)
    plan = plan_of(tmp_path, GAUSSIAN, privacy=CURVE, account="village")
    steps = steps_of(plan, "one_way")
    held = begin(writer, plan)
    with monkeypatch.context() as failing:
        failing.setattr(GaussianEvent, "own_delta", lambda _: Fraction("1e-8"))
        with pytest.raises(ValueError, match="a delta of its own"):
            writer.charge(held, "one_way-0", steps)
        # Also where whoever writes forgets to ask.
        failing.setattr(writer_module, "check_steps", lambda *_: None)
        with pytest.raises(BudgetRefused, match="of delta for thresholds"):
            writer.charge(held, "one_way-0", steps)
        failing.setattr(writer_module, "check_stages", lambda *_: None)
        with pytest.raises(LedgerCorrupt, match="its reservation does not cover"):
            writer.charge(held, "one_way-0", steps)
    assert writer.charges(held) == ()
    writer.charge(held, "one_way-0", steps)
    assert writer.settle(held, "finished").outcome == "finished"


@pytest.mark.runbook("charged-otherwise")
def test_a_batch_is_paid_once_and_only_for_the_same_steps(writer, tmp_path, says):
    plan = plan_of(tmp_path)
    held = begin(writer, plan)
    steps = steps_of(plan, "one_way")
    first = writer.charge(held, "one_way-0", steps)
    assert writer.charge(held, "one_way-0", steps) == first
    assert sum(charge.cost for charge in writer.charges(held)) == held.costs["one_way"]
    for other in (steps[:-1], list(reversed(steps))):
        with pytest.raises(StageFailed, match="charged for other measurements") as failed:
            writer.charge(held, "one_way-0", other)
        says(failed.value)


@pytest.mark.runbook("taken-over")
def test_a_step_is_charged_once_whatever_its_batch_is_called(writer, tmp_path, says):
    held = begin(writer, plan_of(tmp_path))
    small = held.costs["measure"] / 4
    writer.charge(held, "one", [step(held, "measure", "a", small)])
    with pytest.raises(StageFailed, match="already holds this entry"):
        writer.charge(held, "two", [step(held, "measure", "a", small)])
    twice = [step(held, "measure", "b", small)] * 2
    with pytest.raises(StageFailed, match="already holds this entry") as failed:
        writer.charge(held, "three", twice)
    says(failed.value)
    assert len(writer.charges(held)) == 1


def test_a_result_is_committed_once_and_then_not_drawn_again(writer, tmp_path):
    held = measure(writer, plan_of(tmp_path), ("one_way",))
    with pytest.raises(StageFailed, match="already holds"):
        writer.commit(held, "one_way-0", "1" * 64)
    with pytest.raises(StageFailed, match="is committed"):
        writer.record_redraw(held, "one_way-0")
    with pytest.raises(ValueError, match="was not charged"):
        writer.record_redraw(held, "measure-0")


def test_draws_are_counted_and_end_with_a_person(ledger, writer, tmp_path):
    plan = plan_of(tmp_path)
    held = begin(writer, plan)
    writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    for draws in range(2, MOST_DRAWS + 1):
        writer.record_redraw(held, "one_way-0")
        assert {charge.draws for charge in writer.charges(held)} == {draws}
    with pytest.raises(StageFailed, match=f"drawn {MOST_DRAWS} times"):
        writer.record_redraw(held, "one_way-0")
    ledger.verify()


def test_nothing_is_added_to_a_release_that_is_over(ledger, writer, tmp_path):
    plan = plan_of(tmp_path)
    held = measure(writer, plan, ("one_way",))
    writer.settle(held, "abandoned")
    before = ledger.verify()
    for attempt in (
        lambda: writer.bind_input(held, "input of first", KEY),
        lambda: writer.charge(held, "measure-0", steps_of(plan, "measure")),
        lambda: writer.commit(held, "measure-0", "0" * 64),
        lambda: writer.record_redraw(held, "one_way-0"),
        lambda: writer.settle(held, "finished"),
    ):
        with pytest.raises(StageFailed, match="is closed"):
            attempt()
    assert ledger.verify() == before


# -- inputs


@pytest.mark.parametrize("known", ["both", "homes", "people"])
def test_each_table_of_an_input_belongs_to_one_account(ledger, writer, tmp_path, known):
    open_town(ledger, "village")
    first = writer.reserve(plan_of(tmp_path))
    writer.bind_input(first, "both", KEY, {"homes": "homes", "people": "people"})
    writer.bind_input(first, "both", KEY, {"homes": "homes", "people": "people"})
    with both_writers(ledger, "other", HOME) as other_writer:
        other = other_writer.reserve(plan_of(tmp_path, release="other", account="village"))
        for input_hash, parts in ((known, {}), ("new", {"homes": known}), ("new", {"x": known})):
            with pytest.raises(BadInput, match=r"belongs to account 'town' \(release 'first'\)"):
                other_writer.bind_input(other, input_hash, KEY, parts)
        other_writer.bind_input(other, "new", KEY, {"homes": "newer"})
    with pytest.raises(BadInput):
        ledger.refuse_known([known], by="Ana", reason="a test")
    bound = ledger.entries(kinds=("input",), reservation=first.position)
    assert [entry.about for entry in bound] == ["homes", "people", "both"]
    ledger.verify(KEY)


def test_a_release_is_bound_to_all_its_tables_together(writer, tmp_path):
    held = writer.reserve(plan_of(tmp_path))
    writer.bind_input(held, "both", KEY, {"homes": "homes", "people": "people"})
    for other in ("homes", "people"):
        with pytest.raises(BadInput, match="changed since it began"):
            writer.bind_input(held, other, KEY)


def test_a_home_with_another_key_cannot_pass_known_data_for_new(ledger, writer, tmp_path):
    open_town(ledger, "village")
    first = writer.reserve(plan_of(tmp_path))
    writer.bind_input(first, "hash under k", KEY)
    with pytest.raises(StageFailed, match="another key than this home's"):
        writer.bind_input(first, "hash under k", b"l" * 32)
    with both_writers(ledger, "other", "another home") as other_writer:
        other = other_writer.reserve(plan_of(tmp_path, release="other", account="village"))
        with pytest.raises(StageFailed, match="another key than this home's"):
            other_writer.bind_input(other, "hash under l", b"l" * 32)


def test_a_release_is_carried_on_in_the_home_that_bound_its_input(ledger, tmp_path):
    """Two homes may share a ledger and its key; results lie in one of them."""
    plan = plan_of(tmp_path)
    with both_writers(ledger, "first", HOME) as writer:
        held = writer.reserve(plan)
    with both_writers(ledger, "first", "another home") as writer:
        assert writer.reserve(plan) == held
        writer.bind_input(held, "hash", KEY)
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    before = ledger.verify(KEY)
    with both_writers(ledger, "first", HOME) as writer:
        for attempt in (
            lambda: writer.bind_input(held, "hash", KEY),
            lambda: writer.charge(held, "one_way-0", steps_of(plan, "one_way")),
            lambda: writer.charge(held, "measure-0", steps_of(plan, "measure")),
        ):
            with pytest.raises(StageFailed, match="begun in another home"):
                attempt()
    assert ledger.verify(KEY) == before


def test_the_hash_of_an_input_is_in_no_receipt_that_is_published(ledger, writer, tmp_path):
    plan = plan_of(tmp_path)
    held = writer.reserve(plan)
    writer.bind_input(held, "canary", KEY)
    writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    writer.record_redraw(held, "one_way-0")
    writer.commit(held, "one_way-0", "0" * 64)
    settled = writer.settle(held, "abandoned")
    receipts = ledger.receipts(settled)
    assert {receipt.kind for receipt in receipts} == set(PUBLISHED)
    assert [receipt.number for receipt in receipts] == list(range(1, len(receipts) + 1))
    assert all("canary" not in str(receipt.to_json()) for receipt in receipts)
    assert first_bad_link(receipts) is None


@pytest.mark.parametrize("redraws", [0, 3])
def test_published_receipts_tell_neither_the_time_of_day_nor_what_else_is_there(
    tmp_path, monkeypatch, redraws
):
    """Each says how the confidential stages went; none may reach a receipt or its hash."""
    monkeypatch.setattr(uuid, "uuid4", lambda: "the same ledger")

    def hashes(name, clock, redraws):
        folder = tmp_path / name
        folder.mkdir()
        on(monkeypatch, "2026-11-20", clock)
        ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
        open_town(ledger)
        plan = plan_of(folder)
        with both_writers(ledger, "first", HOME) as writer:
            if redraws:
                open_town(ledger, "village")
                writer.settle(begin(writer, plan), "returned")
            held = begin(writer, plan)
            writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
            for _ in range(redraws):
                writer.record_redraw(held, "one_way-0")
            writer.commit(held, "one_way-0", "0" * 64)
            settled = writer.settle(held, "abandoned")
        return [receipt.hash for receipt in ledger.receipts(settled)]

    assert hashes("morning", "08:00:00", 0) == hashes("night", "23:59:59", redraws)
