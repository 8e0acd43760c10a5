from datetime import date
from fractions import Fraction

import pytest

from dp_core.errors import AwaitsApproval, BadInput, BudgetRefused
from dp_core.kernel.cost.composition import NOTHING
from dp_core.kernel.cost.curves import zcdp_epsilon
from dp_core.policies.account_balance import used_in_period
from dp_core.policies.budget_periods import Calendar
from tasks.ledger.ledger import Ledger
from tests.both_writers import both_writers
from tests.ledgers import (
    CURVE,
    GAUSSIAN,
    HOME,
    LAPLACE,
    WHO,
    amount,
    basic,
    begin,
    measure,
    monthly,
    on,
    open_town,
    reserve,
    spend,
    steps_of,
    zcdp,
)
from tests.specs import plan_of

pytestmark = pytest.mark.any_database


def pure(folder, epsilon, release="first", account="town"):
    """Return the plan of a release in pure epsilon."""
    return plan_of(
        folder, LAPLACE, privacy=f"{{epsilon: {epsilon}}}", release=release, account=account
    )


# -- opening


def test_an_account_keeps_its_terms_and_begins_whole(ledger, ledger_url):
    account = open_town(ledger)
    assert account.terms == basic()
    assert account.balance.used == NOTHING
    assert account.left == account.total_left == amount(2, "1e-5")
    charter = account.charter
    assert (charter.neighbours, charter.unit, charter.within) == ("add-remove", "row", None)
    assert (charter.owner, charter.approved_only, charter.closed) == ("officer", False, False)
    assert ledger.accounts() == (account,)
    assert Ledger(ledger_url).account("town") == account


def test_a_zcdp_account_converts_its_rho_to_no_more_than_its_epsilon(ledger):
    account = open_town(ledger, terms=zcdp(own_delta="1e-6"))
    assert account.terms == zcdp(own_delta="1e-6")
    assert account.left.delta == Fraction("1e-6")
    rho = account.left.main
    shown = Fraction("2.000000001")  # epsilons are rounded up when shown
    assert zcdp_epsilon(rho, Fraction("9e-6")) <= shown
    assert zcdp_epsilon(rho * Fraction("1.000001"), Fraction("9e-6")) > shown


def test_all_that_an_opening_fixes_is_read_back(ledger):
    open_town(ledger, "country", neighbours="replace-one")
    calendar = monthly("1/3", carry_over=True)
    account = open_town(
        ledger,
        neighbours="replace-one",
        calendar=calendar,
        within="country",
        approved_only=True,
        owner="owner",
    )
    charter = account.charter
    assert account.calendar == calendar
    assert (charter.within, charter.approved_only, charter.owner) == ("country", True, "owner")
    assert [above.name for above in ledger.lineage("town")] == ["town", "country"]


def test_an_account_is_opened_and_closed_once(town, tmp_path):
    with pytest.raises(BadInput, match="open already"):
        open_town(town)
    town.close_account("town", **WHO)
    with pytest.raises(BadInput, match="closed already"):
        town.close_account("town", **WHO)
    with pytest.raises(BudgetRefused, match="closed"):
        reserve(town, plan_of(tmp_path))
    for change in (
        lambda: town.raise_account("town", epsilon=Fraction(3), **WHO),
        lambda: town.restate_account("town", composition="zcdp", own_delta=Fraction(0), **WHO),
        lambda: open_town(town, "village", within="town"),
    ):
        with pytest.raises(BadInput, match="is closed"):
            change()


def test_a_release_that_is_under_way_ends_also_after_its_account_was_closed(town, tmp_path):
    plan = pure(tmp_path, 1)
    with both_writers(town, "first", HOME) as writer:
        reservation = begin(writer, plan)
        town.close_account("town", **WHO)
        writer.charge(reservation, "one_way-0", steps_of(plan, "one_way"))
        writer.settle(reservation, "abandoned")
    assert town.account("town").balance.spent == amount(plan.costs["one_way"])
    town.verify()


def test_an_unknown_account_names_the_nearest(town, tmp_path):
    # Without a command that would open a second budget for the same people.
    with pytest.raises(BudgetRefused, match=r"no account 'twon'\. Did you mean 'town'\?$"):
        reserve(town, plan_of(tmp_path, account="twon"))
    with pytest.raises(BudgetRefused, match=r"ledger open city --epsilon E --delta D"):
        reserve(town, plan_of(tmp_path, account="city"))
    for change in (
        lambda: town.account("twon"),
        lambda: town.lineage("twon"),
        lambda: town.close_account("twon", **WHO),
        lambda: town.raise_account("twon", epsilon=Fraction(3), **WHO),
        lambda: open_town(town, "village", within="twon"),
    ):
        with pytest.raises(BadInput, match="no account 'twon'"):
            change()
    assert town.find_account("twon") is None


# -- raising


def test_a_total_is_raised_and_never_lowered(town, ledger_url):
    before = town.verify()
    for change in ({"epsilon": Fraction("1.9")}, {"delta": Fraction("9e-6")}):
        with pytest.raises(BadInput, match="can only be raised"):
            town.raise_account("town", **change, **WHO)
    with pytest.raises(BadInput, match="nothing was raised"):
        town.raise_account("town", epsilon=Fraction(2), **WHO)
    with pytest.raises(BadInput, match="cannot be raised"):
        town.raise_account("town", delta=Fraction(1), **WHO)
    assert town.verify() == before
    account = town.raise_account("town", epsilon=Fraction(5, 2), **WHO)
    assert account.left == amount("2.5", "1e-5")
    account = town.raise_account("town", delta=Fraction("2e-5"), **WHO)
    assert account.left == amount("2.5", "2e-5")
    kinds = [(kind, terms.epsilon, terms.delta) for _, kind, terms in account.charter.changes]
    first, second = Fraction("1e-5"), Fraction("2e-5")
    assert kinds == [("raise", Fraction("2.5"), first), ("raise", Fraction("2.5"), second)]
    assert Ledger(ledger_url).account("town") == account
    town.verify()


def test_the_allowance_of_a_calendar_is_raised_and_nothing_else_of_it(ledger, monkeypatch):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, calendar=monthly("1/2", "1e-6"))
    start = date(2026, 11, 20)
    for wrong in (
        monthly("0.4", "1e-6"),
        monthly("1/2", "1e-7"),
        monthly("1", "1e-6", carry_over=True),
        Calendar("year", Fraction(1), Fraction("1e-6"), False, start),
        Calendar("month", Fraction(1), Fraction("1e-6"), False, date(2026, 10, 1)),
    ):
        with pytest.raises(BadInput, match="cannot be changed"):
            ledger.raise_account("town", calendar=wrong, **WHO)
    with pytest.raises(BadInput, match="nothing was raised"):
        ledger.raise_account("town", calendar=monthly("1/2", "1e-6"), **WHO)
    assert ledger.account("town").left == amount("1/2", "1e-6")
    account = ledger.raise_account("town", calendar=monthly("1", "2e-6"), **WHO)
    assert account.left == amount(1, "2e-6")
    assert account.terms == basic()
    ledger.raise_account("town", epsilon=Fraction(3), **WHO)
    assert ledger.account("town").calendar == monthly("1", "2e-6")
    ledger.verify()


def test_an_account_without_a_calendar_gets_none_later(town):
    """What was reserved before it came is in no period, and would be given back into one."""
    with pytest.raises(BadInput, match="cannot be added after the opening"):
        town.raise_account("town", calendar=monthly("1"), **WHO)


# -- restating


def restate(ledger, composition, name="town", own_delta="0", **more):
    own_delta = Fraction(own_delta)
    return ledger.restate_account(name, composition=composition, own_delta=own_delta, **more, **WHO)


def history(ledger, folder):
    """Spend in each way: finished, abandoned, returned, and one that is under way."""
    spend(ledger, pure(folder, "0.3"))
    spend(ledger, pure(folder, "0.2", "second"), "abandoned", ("one_way",))
    with ledger.lease("third", HOME) as writer:
        writer.settle(writer.reserve(pure(folder, "0.25", "third")), "returned")
    spend(ledger, plan_of(folder, GAUSSIAN, privacy=CURVE, release="fourth"))
    spend(ledger, pure(folder, "0.1", "fifth"), None, ("one_way",))


def test_restating_carries_the_whole_history_there_and_back(town, tmp_path):
    history(town, tmp_path)
    before = town.account("town")
    uses = town.uses("town")
    account = town.restate_account("town", composition="zcdp", own_delta=Fraction(0), **WHO)
    assert account.terms == zcdp()
    assert account.balance.reserved == amount(Fraction(1, 200))
    # Each event of a pure release has rho at most epsilon^2 / 2, and a Gaussian one its own.
    in_rho = town.uses("town")
    assert [used.release for used in in_rho] == [used.release for used in uses]
    assert [used.release for used in in_rho if used.amount == NOTHING] == ["third"]
    assert sum(used.amount.main for used in in_rho) == account.balance.used.main
    finished = next(used for used in in_rho if used.release == "first")
    assert 0 < finished.amount.main < Fraction("0.3") ** 2 / 2
    town.verify()
    again = town.restate_account("town", composition="basic", own_delta=Fraction(0), **WHO)
    assert again.balance == before.balance
    assert again.left == before.left
    assert town.uses("town") == uses
    assert [kind for _, kind, _ in again.charter.changes] == ["restate", "restate"]
    town.verify()


def test_a_restatement_keeps_the_delta_and_a_raise_may_keep_it(town):
    """So a decision based on released values costs twice the delta, or the sum of both deltas."""
    town.raise_account("town", epsilon=Fraction(5, 2), **WHO)
    town.raise_account("town", delta=Fraction("3e-5"), **WHO)
    town.restate_account("town", composition="zcdp", own_delta=Fraction("1e-6"), **WHO)
    changes = town.account("town").charter.changes
    assert [(kind, terms.delta) for _, kind, terms in changes] == [
        ("raise", Fraction("1e-5")),
        ("raise", Fraction("3e-5")),
        ("restate", Fraction("3e-5")),
    ]


def test_a_release_that_began_before_a_restatement_settles_after_it(town, tmp_path):
    plan = pure(tmp_path, "0.4")
    with both_writers(town, "first", HOME) as writer:
        reservation = measure(writer, plan, ("one_way",))
        restate(town, "zcdp")
        assert town.account("town").balance.reserved == amount("0.08")
        writer.settle(reservation, "abandoned")
    account = town.account("town")
    assert account.balance.reserved == NOTHING
    assert 0 < account.balance.spent.main < Fraction("0.08")
    town.verify()


def test_a_history_that_does_not_fit_the_new_terms_is_refused(ledger, tmp_path):
    """Many small releases fit in rho and not in epsilon."""
    open_town(ledger, terms=zcdp("1"))
    for number in range(21):
        reserve(ledger, pure(tmp_path, "0.05", f"r{number}"))
    before = ledger.verify()
    with pytest.raises(BudgetRefused, match="keeps its terms"):
        restate(ledger, "basic")
    assert ledger.verify() == before
    assert ledger.account("town").terms.composition == "zcdp"


def test_restating_needs_terms_that_can_be_and_are_others(town):
    for composition, own_delta, sentence in (
        ("basic", "0", "has these terms already"),
        ("basic", "1e-6", "cannot be restated"),
        ("zcdp", "1e-5", "cannot be restated"),
    ):
        with pytest.raises(BadInput, match=sentence):
            restate(town, composition, own_delta=own_delta)


def test_restating_counts_the_releases_of_accounts_within_and_the_periods(
    ledger, tmp_path, monkeypatch
):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, "country", calendar=monthly("1"))
    open_town(ledger, "county", within="country")
    open_town(ledger, within="county")
    spend(ledger, pure(tmp_path, "0.25"))
    reserve(ledger, pure(tmp_path, "0.25", "second"))
    on(monkeypatch, "2026-12-01")
    spend(ledger, pure(tmp_path, "0.5", "third", "county"))
    before = ledger.account("country")
    rho = restate(ledger, "zcdp", "country", period_delta=Fraction(0))
    uses = ledger.uses("country")
    assert [used.release for used in uses] == ["first", "second", "third"]
    assert sum(used.amount.main for used in uses) == rho.balance.used.main
    assert ledger.account("town").terms == basic()
    with ledger._database.reading() as rows:
        november, december = (used_in_period(rows, "country", index) for index in (0, 1))
    assert november == uses[0].amount + uses[1].amount
    assert december == uses[2].amount
    ledger.verify()
    again = restate(ledger, "basic", "country", period_delta=Fraction("1e-5"))
    assert again.calendar == before.calendar
    assert again.balance == before.balance == ledger.account("country").balance
    assert again.left == before.left
    ledger.verify()


def test_what_a_period_allows_of_delta_is_stated_anew_when_the_account_is_restated(
    ledger, tmp_path
):
    """The number means delta in one account and own delta of events in the other."""
    open_town(ledger, terms=zcdp(), calendar=monthly("2", "0"))
    with pytest.raises(BadInput, match="must be given"):
        restate(ledger, "basic")
    restate(ledger, "basic", period_delta=Fraction("2e-6"))
    calendar = ledger.account("town").calendar
    assert (calendar.epsilon, calendar.delta) == (2, Fraction("2e-6"))
    spend(ledger, plan_of(tmp_path, GAUSSIAN, privacy=CURVE))
    open_town(ledger, "other")
    with pytest.raises(BadInput, match="has no calendar"):
        restate(ledger, "zcdp", "other", period_delta=Fraction(0))
    # The same composition with another own delta leaves its meaning, and so the number.
    restate(ledger, "zcdp", period_delta=Fraction(0))
    account = restate(ledger, "zcdp", own_delta="1e-6")
    assert account.calendar.delta == 0
    ledger.verify()


# -- an account within another


def test_a_release_counts_in_every_account_above(ledger, tmp_path):
    open_town(ledger, "country")
    open_town(ledger, "county", zcdp(), within="country")
    open_town(ledger, within="county")
    plan = pure(tmp_path, "0.4")
    reserve(ledger, plan)
    assert ledger.account("town").balance.reserved == amount("0.4")
    assert ledger.account("county").balance.reserved == amount("0.08")
    assert ledger.account("country").balance.reserved == amount("0.4")
    spend(ledger, plan, "abandoned", ("one_way",))
    spent = amount(plan.costs["one_way"])
    assert ledger.account("town").balance.spent == ledger.account("country").balance.spent == spent
    assert 0 < ledger.account("county").balance.spent.main < spent.main**2 / 2
    assert ledger.account("county").balance.reserved == NOTHING
    assert [used.account for used in ledger.uses("country")] == ["town"]
    ledger.verify()


def test_a_full_account_above_refuses_and_is_named(ledger, tmp_path):
    open_town(ledger, "country", basic("1"))
    open_town(ledger, within="country")
    open_town(ledger, "village", within="country")
    spend(ledger, pure(tmp_path, "0.75"))
    village = ledger.account("village")
    assert village.left == village.total_left == amount(2, "1e-5")
    assert (village.above.name, village.above.left) == ("country", amount("0.25", "1e-5"))
    assert ledger.account("country").above is None
    before = ledger.verify()
    with pytest.raises(BudgetRefused) as refused:
        reserve(ledger, pure(tmp_path, "0.5", "second", "village"))
    message = refused.value.message
    assert "account 'country' (above 'village') has 0.25 left of 1" in message
    assert "Used by: first (0.75" in message
    assert "The largest privacy.epsilon that still fits is 0.25." in message
    assert ledger.verify() == before
    reserve(ledger, pure(tmp_path, "0.25", "second", "village"))
    ledger.verify()


def test_the_account_above_that_leaves_the_least_is_named(ledger):
    """Also where it adds up otherwise, in its own amounts."""
    open_town(ledger, "country", basic("4"))
    open_town(ledger, "county", zcdp("1"), within="country")
    open_town(ledger, within="county")
    above = ledger.account("town").above
    assert (above.name, above.terms, above.left) == ("county", zcdp("1"), zcdp("1").limit)
    assert ledger.account("county").above is None
    # Enough epsilon and too little delta is less, too.
    open_town(ledger, "pure", basic("9", "0"))
    open_town(ledger, "below", within="pure")
    assert ledger.account("below").above.name == "pure"


def test_an_account_protects_as_the_one_above_it(ledger):
    open_town(ledger, "country", neighbours="replace-one")
    with pytest.raises(BadInput, match="under replace-one"):
        open_town(ledger, within="country")
    with pytest.raises(BadInput, match="must do the same"):
        open_town(ledger, within="country", neighbours="replace-one", unit="household")


# -- budgets by the calendar


def test_without_carry_over_each_period_has_its_own_allowance(ledger, tmp_path, monkeypatch):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, calendar=monthly("1/2"))
    reserve(ledger, pure(tmp_path, "0.25"))
    with pytest.raises(BudgetRefused) as refused:
        reserve(ledger, pure(tmp_path, "0.5", "second"))
    message = refused.value.message
    assert "account 'town' in 2026-11 has 0.25 left." in message
    assert "first (0.25 on 2026-11-20, unfinished)" in message
    assert "The largest privacy.epsilon that still fits is 0.25." in message
    on(monkeypatch, "2026-12-01")
    assert ledger.account("town").left.main == Fraction(1, 2)
    reserve(ledger, pure(tmp_path, "0.5", "second"))
    on(monkeypatch, "2027-02-28")
    assert ledger.account("town").left.main == Fraction(1, 2)
    for number in (3, 4):
        on(monkeypatch, f"2027-0{number}-10")
        reserve(ledger, pure(tmp_path, "0.5", f"r{number}"))
    on(monkeypatch, "2027-05-10")
    with pytest.raises(BudgetRefused, match=r"account 'town' has 0\.25 left of 2"):
        reserve(ledger, pure(tmp_path, "0.5", "last"))
    ledger.verify()


def test_with_carry_over_what_a_period_left_stays(ledger, tmp_path, monkeypatch):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, calendar=monthly("1/2", carry_over=True))
    reserve(ledger, pure(tmp_path, "0.25"))
    on(monkeypatch, "2027-01-01")
    assert ledger.account("town").left.main == Fraction("1.25")
    reserve(ledger, pure(tmp_path, "1.25", "second"))
    with pytest.raises(BudgetRefused, match=r"in 2027-01 has 0 left\."):
        reserve(ledger, pure(tmp_path, "0.1", "third"))
    on(monkeypatch, "2027-02-01")
    reserve(ledger, pure(tmp_path, "0.5", "third"))
    on(monkeypatch, "2029-02-01")
    assert ledger.account("town").left.main == 0
    ledger.verify()


@pytest.mark.parametrize("terms", [basic(), zcdp()], ids=["basic", "zcdp"])
def test_what_settling_gives_back_goes_to_the_period_that_paid(
    ledger, writer, tmp_path, monkeypatch, terms
):
    on(monkeypatch, "2026-11-30", "23:59:59")
    open_town(ledger, terms=terms, calendar=monthly("1", "0"))
    whole = ledger.account("town").left
    plan = pure(tmp_path, "0.2")
    reservation = measure(writer, plan, ("one_way",))
    on(monkeypatch, "2026-12-01", "00:00:00")
    assert ledger.account("town").left == whole
    writer.settle(reservation, "abandoned")
    assert ledger.account("town").left == whole
    with ledger._database.reading() as rows:
        paid, other = (used_in_period(rows, "town", index) for index in (0, 1))
    assert paid == ledger.account("town").balance.spent
    assert paid.main > 0
    assert other == NOTHING
    ledger.verify()


def test_a_clock_that_goes_back_opens_no_earlier_period(ledger, tmp_path, monkeypatch):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, calendar=monthly("1/2"))
    on(monkeypatch, "2026-12-20")
    reserve(ledger, pure(tmp_path, "0.5"))
    on(monkeypatch, "2026-11-21")
    assert ledger.account("town").left.main == 0
    with pytest.raises(BudgetRefused, match="in 2026-12 has 0 left"):
        reserve(ledger, pure(tmp_path, "0.5", "second"))
    ledger.close_account("town", **WHO)
    assert ledger.head().receipt.at == "2026-12-20"
    ledger.verify()


# -- approved plans


def test_a_plan_waits_for_its_approval_and_then_runs(ledger, tmp_path):
    open_town(ledger, approved_only=True, owner="Owner Name")
    plan = plan_of(tmp_path)
    for attempt in (ledger.check, lambda plan: reserve(ledger, plan)):
        with pytest.raises(BudgetRefused, match=f"{plan.hash}.* Owner Name"):
            attempt(plan)
    ledger.approve(plan.hash, **WHO)
    approval = ledger.approval(plan.hash)
    assert (approval.body["by"], approval.body["plan"]) == ("officer", plan.hash)
    with pytest.raises(BadInput, match="approved already"):
        ledger.approve(plan.hash, **WHO)
    reserve(ledger, plan)
    with pytest.raises(AwaitsApproval):
        reserve(ledger, plan_of(tmp_path, privacy="{epsilon: 0.5}", release="second"))
    ledger.verify()


def test_a_withdrawn_plan_does_not_run_but_what_is_reserved_stays(ledger, tmp_path):
    open_town(ledger, approved_only=True)
    plan, second = plan_of(tmp_path), plan_of(tmp_path, release="second")
    with pytest.raises(BadInput, match="not approved"):
        ledger.withdraw(plan.hash, **WHO)
    for approved in (plan, second):
        ledger.approve(approved.hash, **WHO)
    reservation = reserve(ledger, plan)
    for withdrawn in (plan, second):
        ledger.withdraw(withdrawn.hash, **WHO)
        assert ledger.approval(withdrawn.hash) is None
    assert reserve(ledger, plan) == reservation
    with pytest.raises(AwaitsApproval):
        reserve(ledger, second)
    ledger.approve(second.hash, **WHO)
    reserve(ledger, second)
    ledger.verify()


def test_an_account_above_can_demand_the_approval(ledger, tmp_path):
    open_town(ledger, "country", approved_only=True, owner="Owner Name")
    open_town(ledger, within="country")
    plan = plan_of(tmp_path)
    with pytest.raises(BudgetRefused, match=r"'country'.*Owner Name"):
        reserve(ledger, plan)
    ledger.approve(plan.hash, **WHO)
    reserve(ledger, plan)


def test_a_calendar_begins_on_the_day_of_opening_whatever_is_asked(ledger_url, monkeypatch):
    """An earlier start would carry over allowances of periods that never were."""
    on(monkeypatch, "2026-11-20")
    ledger = Ledger(ledger_url)
    early = Calendar("month", Fraction(1, 10), Fraction(0), True, date(2020, 1, 1))
    opened = open_town(ledger, terms=basic("2", "0"), calendar=early)
    assert opened.calendar is not None
    assert opened.calendar.start == date(2026, 11, 20)
    assert opened.left.main == Fraction(1, 10)
