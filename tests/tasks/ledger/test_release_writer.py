"""What the holder of a release may write: reservations, inputs, charges, results, the end."""

import re
import uuid
from fractions import Fraction

import pytest

from dp_core.accounts.chain_audit import first_bad_link
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.kernel.cost.composition import NOTHING, RHO_UNITS
from dp_core.kernel.ledger.entries import charge_key
from dp_core.kernel.ledger.receipts import PUBLISHED
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent
from dp_core.kernel.mechanisms.grant import Step
from tasks.ledger import release_writer as writer_module
from tasks.ledger.ledger import Ledger
from tasks.ledger.release_writer import MOST_DRAWS
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
    reserve,
    spend,
    step,
    steps_of,
    zcdp,
)
from tests.specs import plan_of

CRUMB = Fraction(1, 10**12)

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("town")]


# -- reservations and names


def test_a_reservation_takes_its_whole_cost_at_once_and_is_kept_for_the_same_plan(
    ledger, writer, tmp_path
):
    plan = plan_of(tmp_path, privacy=CURVE)
    held = writer.reserve(plan)
    assert ledger.account("town").balance.reserved == amount(1, "1e-6")
    assert ledger.account("town").left == amount(1, "9e-6")
    assert writer.reserve(plan) == held
    assert ledger.reservation("first") == writer.reservation() == held
    assert ledger.account("town").balance.reserved == amount(1, "1e-6")
    assert dict(held.costs) == dict(plan.costs)
    assert held.currency == plan.currency
    ledger.verify()


def test_a_hold_reserves_for_its_own_release_only(writer, tmp_path):
    with pytest.raises(ValueError, match="'first', not 'second'"):
        writer.reserve(plan_of(tmp_path, release="second"))


def test_another_plan_replaces_one_that_spent_nothing_and_leaves_nothing_reserved(
    ledger, writer, tmp_path
):
    old = writer.reserve(plan_of(tmp_path, privacy="{epsilon: 1.5}"))
    corrected = plan_of(tmp_path, privacy="{epsilon: 1.25}")
    ledger.check(corrected)
    assert writer.reservation() == old
    held = writer.reserve(corrected)
    assert held.position > old.position
    assert ledger.account("town").balance.reserved == amount("1.25")
    with pytest.raises(StageFailed, match="is closed"):
        writer.charge(old, "x", [step(old, "measure", "x", Fraction(1, 10))])
    ledger.verify()


def test_a_corrected_plan_that_is_refused_leaves_the_old_reservation(writer, tmp_path):
    old = writer.reserve(plan_of(tmp_path))
    with pytest.raises(BudgetRefused):
        writer.reserve(plan_of(tmp_path, privacy="{epsilon: 3}"))
    assert writer.reservation() == old


def test_another_plan_is_refused_once_something_was_charged(ledger, writer, tmp_path):
    measure(writer, plan_of(tmp_path), ("one_way",))
    for attempt in (ledger.check, writer.reserve):
        with pytest.raises(BadInput, match="begun with another plan"):
            attempt(plan_of(tmp_path, privacy="{epsilon: 0.5}"))


@pytest.mark.parametrize("outcome", ["finished", "abandoned"])
def test_the_name_of_a_release_that_is_over_is_used_for_good(writer, tmp_path, outcome):
    plan = plan_of(tmp_path)
    assert writer.settle(measure(writer, plan), outcome).outcome == outcome
    for other in (plan, plan_of(tmp_path, privacy="{epsilon: 0.5}")):
        with pytest.raises(BadInput, match=f"that release is {outcome}"):
            writer.reserve(other)


def test_a_name_that_was_given_back_can_be_used_again(ledger, writer, tmp_path):
    plan = plan_of(tmp_path)
    first = begin(writer, plan)
    assert writer.settle(first, "returned").outcome == "returned"
    assert ledger.account("town").balance.used == NOTHING
    second = begin(writer, plan)
    assert second.position > first.position
    writer.charge(second, "one_way-0", steps_of(plan, "one_way"))
    assert ledger.releases() == ("first",)
    ledger.verify(KEY)


def test_what_was_charged_is_not_given_back(writer, tmp_path):
    held = measure(writer, plan_of(tmp_path), ("one_way",))
    with pytest.raises(ValueError, match="cannot be returned"):
        writer.settle(held, "returned")


def test_a_revision_names_a_finished_release_of_its_account(ledger, tmp_path):
    spend(ledger, plan_of(tmp_path, privacy="{epsilon: 0.5}"))
    reserve(ledger, plan_of(tmp_path, privacy="{epsilon: 0.5}", release="second"))
    text = "select: {method: fixed, cliques: [[a, b]]}\nrevises: "
    for wrong in ("second", "nobody"):
        plan = plan_of(tmp_path, text + wrong, release="third", privacy="{epsilon: 0.5}")
        with pytest.raises(BadInput, match=f"{wrong!r} is not a finished release") as refused:
            reserve(ledger, plan)
        assert str(ledger.refusal(plan)) == str(refused.value)  # as `plan` says beforehand
    revision = plan_of(tmp_path, text + "first", release="third", privacy="{epsilon: 0.5}")
    assert ledger.refusal(revision) is None
    held = reserve(ledger, revision)
    receipts = ledger.receipts(held)
    assert receipts[0].body["revises"] == "first"
    assert ledger.account("town").balance.used == amount("1.5")
    ledger.verify()


# -- refusals


def test_a_refusal_says_what_was_asked_what_is_left_and_what_used_it_and_when(
    ledger, tmp_path, monkeypatch
):
    on(monkeypatch, "2026-11-20")
    spend(ledger, plan_of(tmp_path, privacy="{epsilon: 0.25}"))
    on(monkeypatch, "2026-11-21")
    reserve(ledger, plan_of(tmp_path, release="second", privacy="{epsilon: 1.25}"))
    before = ledger.verify()
    third = plan_of(tmp_path, release="third", privacy="{epsilon: 0.75}")
    for attempt in (ledger.check, lambda plan: reserve(ledger, plan)):
        with pytest.raises(BudgetRefused) as refused:
            attempt(third)
        assert advised(refused.value) == "0.5"
        for told in (
            "epsilon 0.75",
            "0.5 left of 2",
            "first (0.25 on 2026-11-20)",
            "second (1.25 on 2026-11-21, unfinished)",
        ):
            assert told in refused.value.message
    assert ledger.verify() == before


def test_who_used_it_are_the_latest_few(ledger, tmp_path):
    for number in range(7):
        reserve(ledger, plan_of(tmp_path, release=f"r{number}", privacy="{epsilon: 0.25}"))
    with pytest.raises(BudgetRefused) as refused:
        reserve(ledger, plan_of(tmp_path, release="last"))
    message = refused.value.message
    assert "r1 (" not in message
    assert all(f"r{number} (" in message for number in range(2, 7))
    assert "and earlier ones" in message


def test_delta_is_refused_by_itself_and_the_largest_one_fits(ledger, tmp_path):
    ledger.raise_account("town", delta=Fraction("2e-5") / 3 * 2, by="officer", reason="test")
    with pytest.raises(BudgetRefused, match=r"delta 0\.0001") as refused:
        reserve(ledger, plan_of(tmp_path, privacy="{epsilon: 1, delta: 1e-4}"))
    largest = advised(refused.value, "delta")
    assert largest == "1.33333e-05"
    reserve(ledger, plan_of(tmp_path, privacy=f"{{epsilon: 1, delta: {largest}}}"))


def advised(refused, what="epsilon"):
    return (
        refused.message.partition(f"privacy.{what} that still fits is ")[2]
        .split(";")[0]
        .strip(". ")
    )


@pytest.mark.parametrize("text", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("terms", [basic("2/3"), zcdp("2/3")], ids=["basic", "zcdp"])
def test_the_largest_epsilon_fits_and_one_percent_more_does_not(tmp_path, ledger, terms, text):
    open_town(ledger, "village", terms)

    def plan(epsilon, name):
        privacy = f"{{epsilon: {epsilon}, delta: 1e-6}}"
        return plan_of(tmp_path, text, account="village", release=name, privacy=privacy)

    reserve(ledger, plan("0.07", "first"))
    with pytest.raises(BudgetRefused) as refused:
        ledger.check(plan("3", "second"))
    largest = Fraction(advised(refused.value))
    assert 0 < largest < 1
    with pytest.raises(BudgetRefused):
        ledger.check(plan(largest * Fraction("1.01"), "second"))
    reserve(ledger, plan(largest, "second"))
    ledger.verify()


def test_the_largest_epsilon_fits_in_every_account_that_pays(ledger, tmp_path):
    open_town(ledger, "country", basic("0.25"))
    open_town(ledger, "county", basic("0.5"), within="country")

    def plan(epsilon):
        return plan_of(tmp_path, LAPLACE, account="county", privacy=f"{{epsilon: {epsilon}}}")

    with pytest.raises(BudgetRefused, match=r"'county' has 0\.5 left") as refused:
        ledger.check(plan(1))
    assert advised(refused.value) == "0.25"
    ledger.check(plan(advised(refused.value)))


def test_in_split_mode_the_sets_that_fit_are_told(ledger, tmp_path):
    def plan(epsilon, sets, release="first"):
        text = LAPLACE + f"synthesize: {{mode: split, sets: {sets}}}\n"
        return plan_of(tmp_path, text, release=release, privacy=f"{{epsilon: {epsilon}}}")

    with pytest.raises(BudgetRefused) as refused:
        ledger.check(plan(4, 8))
    message = refused.value.message
    assert (
        "largest privacy.epsilon that still fits is 2; with it, synthesize.sets: 4 keeps" in message
    )
    ledger.check(plan(2, 4))
    reserve(ledger, plan("4/3", 1))
    with pytest.raises(BudgetRefused) as refused:
        ledger.check(plan(1, 3, "second"))
    assert "still fits is 2/3; with it, synthesize.sets: 2 keeps" in refused.value.message
    ledger.check(plan("2/3", 2, "second"))
    with pytest.raises(BudgetRefused) as refused:
        ledger.check(plan(1, 5, "second"))
    said = "still fits is 2/3; with privacy.epsilon 0.6, synthesize.sets: 3 keeps each set's noise"
    assert said in refused.value.message
    with pytest.raises(BudgetRefused, match="not even one set keeps its noise as planned"):
        ledger.check(plan(3, 3, "second"))


def test_a_refusal_names_who_can_raise_the_account_and_nobody_is_sent_to_another(ledger, tmp_path):
    with pytest.raises(BudgetRefused) as refused:
        ledger.check(plan_of(tmp_path, privacy="{epsilon: 3}"))
    raised = "Its owner, officer, can raise it: `dp-release ledger raise town`."
    assert raised in refused.value.message
    open_town(ledger, "country", basic("9", "0"), owner="Grace")
    open_town(ledger, "village", within="country")
    with pytest.raises(BudgetRefused) as refused:
        ledger.check(plan_of(tmp_path, LAPLACE, account="village", privacy=CURVE))
    message = refused.value.message
    assert "account 'country' (above 'village') has 0 left of 0." in message
    assert "Grace" in message
    assert message.endswith("With privacy.delta 0 it fits.")
    assert "another account" not in message


def test_gaussian_noise_without_a_delta_is_not_said_to_be_nothing_left(ledger, tmp_path):
    open_town(ledger, "pure", basic("9", "0"))
    with pytest.raises(BudgetRefused) as refused:
        ledger.check(plan_of(tmp_path, GAUSSIAN, account="pure", privacy=CURVE))
    message = refused.value.message
    assert "Nothing is left" not in message
    assert "measure.noise laplace and privacy.delta 0" in message
    ledger.check(plan_of(tmp_path, LAPLACE, account="pure", privacy="{epsilon: 1}"))


def test_in_a_zcdp_account_a_refusal_gives_the_epsilon_beside_each_rho(ledger, tmp_path):
    open_town(ledger, "village", zcdp("1"))
    with pytest.raises(BudgetRefused) as refused:
        ledger.check(
            plan_of(tmp_path, GAUSSIAN, account="village", privacy="{epsilon: 2, delta: 1e-5}")
        )
    found = re.search(
        r"rho \S+ \(epsilon (\S+)\), but .* has \S+ \(epsilon (\S+)\) left of",
        refused.value.message,
    )
    asked, left = map(float, found.groups())
    assert asked > 1 >= left > 0.999


def test_other_neighbours_than_the_accounts_are_refused(ledger, tmp_path):
    plan = plan_of(tmp_path, privacy="{epsilon: 1, neighbours: replace-one}")
    with pytest.raises(BudgetRefused, match=r"set privacy\.neighbours to add-remove"):
        reserve(ledger, plan)


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


def test_a_settlement_states_what_all_who_paid_allow_and_keeps_to_it(ledger, tmp_path):
    open_town(ledger, "country", basic("9", "1e-4"))
    open_town(ledger, "village", within="country")
    ledger.raise_account("country", epsilon=Fraction(10), by="officer", reason="test")
    held = spend(ledger, plan_of(tmp_path, account="village"))
    before = ledger.totals(held)
    assert [(total.account, total.epsilon) for total in before] == [("village", 2), ("country", 10)]
    assert [change[1:] for change in before[1].changed] == [
        ("raise", "basic", Fraction(10), Fraction("1e-4"))
    ]
    ledger.raise_account("country", epsilon=Fraction(11), by="officer", reason="test")
    assert ledger.totals(held) == before
    assert [total.to_json() for total in before] == ledger.receipts(held)[-1].body["totals"]
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


# -- the end


def test_pure_epsilon_that_was_not_charged_goes_back_exactly(ledger, writer, tmp_path):
    plan = plan_of(tmp_path, LAPLACE, privacy="{epsilon: 1/7, delta: 1e-6}")
    assert plan.currency.kind == "pure"
    writer.settle(measure(writer, plan, ("one_way",)), "abandoned")
    account = ledger.account("town")
    assert account.balance.spent == amount(plan.costs["one_way"])
    assert account.balance.reserved == NOTHING


def test_on_a_curve_stopping_after_a_result_was_seen_returns_nothing(ledger, writer, tmp_path):
    """The epsilon of a part holds for a part that was fixed beforehand, not chosen by looking."""
    plan = plan_of(tmp_path, GAUSSIAN, privacy=CURVE)
    assert plan.currency.kind == "gaussian"
    writer.settle(measure(writer, plan, ("one_way",)), "abandoned")
    assert ledger.account("town").balance.spent == amount(1, "1e-6")


@pytest.mark.parametrize("stored", [False, True])
def test_on_a_curve_what_was_charged_costs_its_own_part_only_if_it_was_never_stored(
    ledger, writer, tmp_path, stored
):
    plan = plan_of(tmp_path, GAUSSIAN, privacy=CURVE)
    held = begin(writer, plan)
    writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    writer.settle(held, "abandoned", stored=stored)
    spent = ledger.account("town").balance.spent
    part = plan.currency.epsilon(plan.costs["one_way"], Fraction("1e-6"))
    assert part < 1
    assert spent == amount(1 if stored else part, "1e-6")


def test_on_a_curve_another_home_cannot_know_that_nothing_was_stored(ledger, tmp_path):
    plan = plan_of(tmp_path, GAUSSIAN, privacy=CURVE)
    with ledger.lease("first", HOME) as writer:
        held = begin(writer, plan)
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    with ledger.lease("first", "another home") as writer:
        writer.settle(held, "abandoned", stored=False)
    assert ledger.account("town").balance.spent == amount(1, "1e-6")
    ledger.verify()


@pytest.mark.parametrize("text", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_in_a_zcdp_account_a_release_takes_the_rho_of_its_events_seen_or_not(
    ledger, tmp_path, text
):
    open_town(ledger, "village", zcdp("5"))
    plan = plan_of(tmp_path, text, account="village", privacy="{epsilon: 0.5, delta: 1e-6}")
    held = spend(ledger, plan, "abandoned", ("one_way",))
    rho = sum(each.event.rho() for each in steps_of(plan, "one_way"))
    account = ledger.account("village")
    spent = account.balance.spent
    assert spent.delta == 0
    assert rho <= spent.main <= rho + Fraction(len(ledger.charges(held)), RHO_UNITS)
    assert spent.main < account.terms.promised(plan.currency, held.epsilon, held.delta).main
    assert account.balance.reserved == NOTHING
    ledger.verify()


def test_a_result_without_any_charge_keeps_the_whole_promise_spent(ledger, writer, tmp_path):
    """So it is after a backup was restored that knows neither charge nor commit."""
    writer.settle(begin(writer, plan_of(tmp_path, LAPLACE)), "abandoned", stored=True)
    assert ledger.account("town").balance.spent == amount(1)
    ledger.verify()


# -- inputs


@pytest.mark.parametrize("known", ["both", "homes", "people"])
def test_each_table_of_an_input_belongs_to_one_account(ledger, writer, tmp_path, known):
    open_town(ledger, "village")
    first = writer.reserve(plan_of(tmp_path))
    writer.bind_input(first, "both", KEY, {"homes": "homes", "people": "people"})
    writer.bind_input(first, "both", KEY, {"homes": "homes", "people": "people"})
    with ledger.lease("other", HOME) as other_writer:
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
    with ledger.lease("other", "another home") as other_writer:
        other = other_writer.reserve(plan_of(tmp_path, release="other", account="village"))
        with pytest.raises(StageFailed, match="another key than this home's"):
            other_writer.bind_input(other, "hash under l", b"l" * 32)


def test_a_release_is_carried_on_in_the_home_that_bound_its_input(ledger, tmp_path):
    """Two homes may share a ledger and its key; results lie in one of them."""
    plan = plan_of(tmp_path)
    with ledger.lease("first", HOME) as writer:
        held = writer.reserve(plan)
    with ledger.lease("first", "another home") as writer:
        assert writer.reserve(plan) == held
        writer.bind_input(held, "hash", KEY)
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    before = ledger.verify(KEY)
    with ledger.lease("first", HOME) as writer:
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
        with ledger.lease("first", HOME) as writer:
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
