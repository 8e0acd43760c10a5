"""How a release begins and ends: reservations, names, refusals, settlements."""

import re
from fractions import Fraction

import pytest

from dp_core.errors import BadInput, BudgetRefused, StageFailed
from dp_core.kernel.cost.composition import NOTHING, RHO_UNITS
from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.ledger.release_writer import LeasedWriter, ReleaseWriter
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
    reserve,
    spend,
    step,
    steps_of,
    zcdp,
)
from tests.specs import plan_of

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("town")]


# -- whose entries


def test_each_process_of_a_release_has_a_writer_of_its_own_entries(ledger):
    kinds = ReleaseWriter, ChargingWriter
    client, process = ({*dir(kind)} - {*dir(LeasedWriter)} for kind in kinds)
    public = {name for name in process if not name.startswith("_")}
    assert public == {
        *("examine", "judge", "bind_input", "grant", "charge", "record_redraw", "commit")
    }
    assert client & process == set()
    with ledger.lease("first", HOME) as writer:
        assert type(writer) is ReleaseWriter
        for kind in kinds:
            assert type(ledger.writer_under("first", writer.lease.fence, kind)) is kind


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


# -- the end


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
    with both_writers(ledger, "first", HOME) as writer:
        held = begin(writer, plan)
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    with both_writers(ledger, "first", "another home") as writer:
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
