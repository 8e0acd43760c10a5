"""Defects that were found in the budget ledgers of other systems, each shown not to be here."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from fractions import Fraction

import pytest
import sqlalchemy as sa

from dp_core.errors import BadInput, BudgetRefused, StageFailed
from dp_core.schema.privacy import Relation
from dp_core.wall.accounting.composition import Terms
from dp_core.wall.accounting.events import event_from_json
from dp_core.wall.curator import Curator
from tasks.ledger.ledger_session import LedgerSession
from tests.flows.conftest import plainly, stopping

pytestmark = pytest.mark.usefixtures("quick")


class Touched(Exception):
    """The data were looked at."""


class Untouchable:
    """A counter that must not be asked."""

    def count(self, _cliques):
        raise Touched


@pytest.fixture
def begun(project):
    """A release that is bound to its input, has charged nothing, and is still held."""
    from dp_core.plan.plan import make_plan
    from dp_core.plan.reading.spec_file import load_spec
    from flows.releases.opening import Opening
    from tasks.stages.identify import identify

    with ExitStack() as opened:
        opening = Opening(make_plan(load_spec(project.spec)), project.spec, project.out, opened)
        opening.open()
        plainly(identify, opening.run)
        opening.run.writer.judge(opening.run.reservation, "fits")
        yield opening.run


def curator_of(run, counter):
    grant = run.writer.grant(run.reservation, run.plan.hash, "basics")
    ledger_session = LedgerSession(
        run.writer, run.reservation, Relation("add-remove"), run.folder.noisy, grant
    )
    return Curator(run.spec.schema.domain, counter, ledger_session)


def test_a_request_over_the_budget_touches_no_data_and_harms_no_later_one(begun):
    """Filters that query first and compare then touch the data, and are dead afterwards."""
    curator = curator_of(begun, Untouchable())
    too_much = begun.reservation.costs["one_way"] * 2
    with pytest.raises(BudgetRefused):
        curator.measure("one_way", [("age",)], [too_much])
    assert begun.ledger.charges(begun.reservation) == ()
    curator = curator_of(begun, begun_counter(begun))
    assert curator.measure("one_way", [("age",)], [begun.reservation.costs["one_way"]])


def begun_counter(run):
    import numpy as np

    from dp_core.tables.marginal import Marginal

    class Counter:
        def count(self, cliques):
            return {
                clique: Marginal(
                    run.spec.schema.domain.project(clique),
                    np.ones(run.spec.schema.domain.project(clique).sizes, dtype=np.int64),
                )
                for clique in cliques
            }

    return Counter()


def test_a_measurement_that_raises_an_error_leaves_its_charge(begun):
    """Where the charge comes after the query, an error makes the query free."""
    curator = curator_of(begun, Untouchable())
    cost = begun.reservation.costs["one_way"]
    with pytest.raises(Touched):
        curator.measure("one_way", [("age",)], [cost])
    (charge,) = begun.ledger.charges(begun.reservation)
    assert (charge.cost, charge.result) == (cost, None)


def test_the_charge_is_durable_before_the_data_are_counted(begun, project):
    """A check that "ran" as a lazy step, which no action ever executed, checks nothing."""
    seen = []

    class Looking:
        def count(self, cliques):
            engine = sa.create_engine(f"sqlite:///{project.home / 'ledger.db'}")
            with engine.connect() as other:
                rows = other.exec_driver_sql("SELECT kind FROM entries").scalars().all()
            engine.dispose()
            seen.append(rows.count("charge"))
            return begun_counter(begun).count(cliques)

    curator_of(begun, Looking()).measure(
        "one_way", [("age",)], [begun.reservation.costs["one_way"]]
    )
    assert seen == [1]


def test_a_crash_between_deduction_and_result_loses_neither(project):
    """Elsewhere the budget is deducted and the answer lost, or the user is locked for ever."""

    def dies(stage, run, *given):
        if stage.name != "measure":
            return plainly(stage, run, *given)
        run.__dict__["counter"] = Untouchable()
        return stage.fn(run, *given)

    with pytest.raises(StageFailed):
        project.release(perform=dies)
    spent = project.ledger().account("town").balance
    assert spent.reserved.main == 1
    project.release()
    settled = project.ledger().account("town").balance
    assert (settled.reserved.main, settled.spent.main) == (0, 1)


def test_two_users_of_one_data_set_do_not_have_two_budgets(project):
    """Budgets by user let two users together spend what the data set does not have."""
    project.release()
    project.open_account("second-user")
    project.write_spec(release="again", account="second-user")
    with pytest.raises(BadInput, match="belongs to account 'town'"):
        project.release(project.folder / "again")
    assert project.ledger().account("second-user").balance.used.main == 0


def test_the_budget_above_bounds_the_accounts_within_it(project):
    ledger = project.ledger()
    project.open_account("people", terms=Terms("basic", Fraction("1.5"), Fraction("1e-5")))
    for name in ("labour", "health"):
        project.open_account(name, within="people")
    project.write_spec(account="labour")
    project.release()
    project.write_spec(release="second", account="health")
    with pytest.raises(BudgetRefused, match="account 'people'") as refused:
        project.release(project.folder / "second")
    assert "town (1 on " in refused.value.message
    assert "largest privacy.epsilon that still fits is 0.5" in refused.value.message
    assert ledger.account("people").balance.used.main == 1


def test_checks_at_the_same_moment_cannot_both_pass(project):
    """A check and an insert at default isolation let two requests see the same budget as free."""
    from dp_core.plan.plan import make_plan
    from dp_core.plan.reading.spec_file import load_spec

    plans = []
    for number in range(4):
        project.write_spec(release=f"r{number}")
        plans.append(make_plan(load_spec(project.spec)))
    together = threading.Barrier(len(plans))
    granted = []

    def reserve(plan):
        with project.ledger().lease(plan.spec.release, "home") as writer:
            together.wait()
            try:
                writer.reserve(plan)
                granted.append(plan.spec.release)
            except BudgetRefused:
                pass

    threads = [threading.Thread(target=reserve, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 2
    assert project.ledger().account("town").left.main == 0


def test_amounts_are_exact_however_long_the_sum(project):
    """In 32-bit floats 0.1 is not a tenth, and small amounts vanish beside large ones."""
    project.open_account("exact", terms=Terms("basic", Fraction(1), Fraction(0)))
    from dp_core.plan.plan import make_plan
    from dp_core.plan.reading.spec_file import load_spec

    ledger = project.ledger()
    for number in range(10):
        project.write_spec(release=f"e{number}", account="exact", privacy="{epsilon: 0.1}")
        plan = make_plan(load_spec(project.spec))
        with ledger.lease(plan.spec.release, "home") as writer:
            writer.reserve(plan)
    assert ledger.account("exact").left.main == 0
    with sa.create_engine(f"sqlite:///{project.home / 'ledger.db'}").connect() as connection:
        types = {
            column["name"]: str(column["type"])
            for table in ("entries", "totals")
            for column in sa.inspect(connection).get_columns(table)
        }
    assert set(types.values()) <= {"TEXT", "BIGINT"}


def test_a_change_of_composition_carries_the_whole_history(project):
    """Where costs are stored and events are not, a new accountant begins with a fresh budget."""
    project.open_account("town-2", terms=Terms("basic", Fraction(2), Fraction("1e-5")))
    # With few tables, each would cost more than the account has under zcdp composition.
    project.write_spec(
        "select: {method: fixed, cliques: [[age, sex], [age, marital], [age, income], [age, moved],"
        " [sex, marital], [sex, income], [sex, moved], [marital, moved]]}\n"
    )
    project.release()
    ledger = project.ledger()
    before = ledger.account("town").balance.used
    after = ledger.restate_account(
        "town", composition="zcdp", own_delta=Fraction(0), by="officer", reason="more releases"
    )
    events = [
        event_from_json(entry.body["event"])
        for entry in ledger.entries(account="town", kinds=("charge",))
    ]
    rho = sum(event.rho() for event in events)
    assert before.main == 1
    assert rho <= after.balance.used.main <= rho + Fraction(len(events), 10**15)
    back = ledger.restate_account(
        "town", composition="basic", own_delta=Fraction(0), by="officer", reason="undo"
    )
    assert back.balance.used == before
    ledger.verify()


def test_a_failed_write_consumes_nothing_for_good(project, monkeypatch):
    """Elsewhere the budget is gone when the result could not be written."""
    from tasks.ledger import ledger_session

    link = os.link

    def full(source, target):
        if str(target).endswith(".noise"):
            raise OSError(28, "No space left on device")
        link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_session.os, "link", full)
        with pytest.raises(StageFailed, match="disk is full"):
            project.release()
    project.release()
    balance = project.ledger().account("town").balance
    assert (balance.reserved.main, balance.spent.main) == (0, 1)


def test_what_was_reserved_and_never_used_comes_back(project):
    """Elsewhere two locked states are never returned."""
    from flows.cli.actions.abandonment import abandon

    with pytest.raises(StageFailed):
        project.release(perform=stopping("discretize", StageFailed("outside")))
    assert project.ledger().account("town").balance.reserved.main == 1
    abandon(project.home, project.ledger(), "town")
    balance = project.ledger().account("town").balance
    assert (balance.reserved.main, balance.spent.main) == (0, 0)


def test_no_setting_turns_the_ledger_off(project, monkeypatch):
    """A production configuration elsewhere said `check_budget = off`."""
    from dp_core.errors import ReleaseError

    for name in ("DP_RELEASE_CHECK_BUDGET", "CHECK_BUDGET", "DP_RELEASE_LEDGER_OFF"):
        monkeypatch.setenv(name, "off")
    project.write_spec(privacy="{epsilon: 3, delta: 1e-6}")
    with pytest.raises(BudgetRefused):
        project.release()
    for key in ("check_budget: off", "ledger: none", "budget: {check: false}"):
        project.write_spec(text=key + "\n")
        with pytest.raises(ReleaseError, match="key"):
            project.release()
    monkeypatch.setenv("DP_RELEASE_LEDGER", "none")
    project.write_spec()
    with pytest.raises(BadInput, match="DP_RELEASE_LEDGER"):
        project.release()


def test_budgets_survive_the_process(project):
    project.release()
    assert project.ledger().account("town").left.main == 1
    assert project.ledger().account("town").balance.spent.main == 1
