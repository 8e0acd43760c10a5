from __future__ import annotations

import multiprocessing
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.accounting.events import GaussianEvent
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.ledger.session import Step
from dp_core.ledger.receipts import first_bad_link
from tasks.stores import database
from tasks.stores.ledger import MOST_ATTEMPTS, Ledger
from tests.specs import FIXED, plan_of

KEY = b"k" * 32
GAUSSIAN = FIXED + "measure: {noise: gaussian}\n"


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.db'}"


def open_town(ledger, name="town", *, epsilon="2", delta="1e-5", neighbours="add-remove"):
    return ledger.open_account(
        name,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        neighbours=neighbours,
        unit="row",
        composition="basic",
        by="officer",
        reason="test",
    )


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(url(tmp_path))
    open_town(ledger)
    return ledger


def steps_of(plan, stage):
    """Return the steps that a stage of the plan charges, one per table."""
    steps = []
    for table in plan.tables:
        if table.stage == stage:
            event = plan.currency.noise_event(table.cost, l1=1, l2_squared=1)
            steps.append(Step(stage, " x ".join(table.clique), table.cost, event, (table.cells,)))
    return steps


def step(reservation, stage, name, cost):
    event = reservation.currency.noise_event(cost, l1=1, l2_squared=1)
    return Step(stage, name, cost, event, (2,))


def spend(ledger, plan, *, stages=("one_way", "measure")):
    """Reserve, and charge and commit whole stages."""
    held = ledger.reserve(plan, sets=1)
    ledger.bind_input(held, f"input of {plan.spec.release}", KEY)
    for stage in stages:
        ledger.charge(held, f"{stage}-0", steps_of(plan, stage))
        ledger.commit(held, f"{stage}-0", "0" * 64)
    return held


# -- accounts


def test_an_account_keeps_its_terms_and_begins_whole(ledger):
    account = ledger.account("town")
    assert (account.epsilon, account.delta) == (2, Fraction("1e-5"))
    assert (account.left_epsilon, account.left_delta) == (2, Fraction("1e-5"))
    assert account.neighbours == "add-remove"
    assert account.holds(Fraction("0.3"), Fraction(0)) == 6
    assert account.holds(Fraction("0.3"), Fraction("4e-6")) == 2
    assert ledger.accounts() == (account,)
    assert Ledger(ledger._database.url).account("town") == account


def test_an_account_is_opened_and_closed_once(ledger, tmp_path):
    with pytest.raises(BadInput, match="open already"):
        open_town(ledger)
    ledger.close_account("town", by="officer", reason="over")
    with pytest.raises(BadInput, match="closed already"):
        ledger.close_account("town", by="officer", reason="over")
    with pytest.raises(BudgetRefused, match="closed"):
        ledger.reserve(plan_of(tmp_path), sets=1)


def test_an_unknown_account_names_the_nearest(ledger, tmp_path):
    with pytest.raises(BadInput, match="Did you mean 'town'"):
        ledger.reserve(plan_of(tmp_path, account="twon"), sets=1)
    with pytest.raises(BadInput, match="no account"):
        ledger.close_account("twon", by="officer", reason="x")
    assert ledger.find_account("twon") is None


def test_a_refusal_says_what_was_asked_what_is_left_and_what_used_it(ledger, tmp_path):
    ledger.reserve(plan_of(tmp_path, privacy="{epsilon: 1.5}"), sets=1)
    before = ledger.verify()
    second = plan_of(tmp_path, release="second", privacy="{epsilon: 0.75}")
    for attempt in (ledger.check, lambda plan: ledger.reserve(plan, sets=1)):
        with pytest.raises(BudgetRefused) as refused:
            attempt(second)
        message = refused.value.message
        assert "asks for epsilon 0.75" in message
        assert "has 0.5 left of 2" in message
        assert "first (1.5, unfinished)" in message
        assert "The largest privacy.epsilon that still fits is 0.5." in message
    assert ledger.verify() == before


def test_delta_is_refused_by_itself(ledger, tmp_path):
    with pytest.raises(BudgetRefused, match=r"asks for delta 0\.0001"):
        ledger.reserve(plan_of(tmp_path, privacy="{epsilon: 1, delta: 1e-4}"), sets=1)


def test_other_neighbours_than_the_accounts_are_refused(ledger, tmp_path):
    plan = plan_of(tmp_path, privacy="{epsilon: 1, neighbours: replace-one}")
    with pytest.raises(BudgetRefused, match=r"set privacy\.neighbours to add-remove"):
        ledger.reserve(plan, sets=1)


# -- reservations and names


def test_a_reservation_takes_its_whole_cost_at_once_and_is_kept_for_the_same_plan(ledger, tmp_path):
    plan = plan_of(tmp_path, privacy="{epsilon: 1, delta: 1e-6}")
    held = ledger.reserve(plan, sets=1)
    assert ledger.account("town").left_epsilon == 1
    assert ledger.account("town").left_delta == Fraction("9e-6")
    assert ledger.reserve(plan, sets=1) == held
    assert ledger.reservation("first") == held
    assert ledger.account("town").left_epsilon == 1
    assert dict(held.costs) == dict(plan.costs)
    assert held.currency == plan.currency


def test_another_plan_replaces_one_that_spent_nothing_and_leaves_nothing_reserved(ledger, tmp_path):
    old = ledger.reserve(plan_of(tmp_path, privacy="{epsilon: 1.5}"), sets=1)
    corrected = plan_of(tmp_path, privacy="{epsilon: 1.25}")
    ledger.check(corrected)
    held = ledger.reserve(corrected, sets=1)
    assert held.number != old.number
    assert ledger.account("town").reserved_epsilon == Fraction("1.25")
    with pytest.raises(StageFailed, match="no longer holds"):
        ledger.charge(old, "x", [step(old, "measure", "x", Fraction(1, 10))])


def test_a_corrected_plan_that_is_refused_leaves_the_old_reservation(ledger, tmp_path):
    old = ledger.reserve(plan_of(tmp_path), sets=1)
    with pytest.raises(BudgetRefused):
        ledger.reserve(plan_of(tmp_path, privacy="{epsilon: 3}"), sets=1)
    assert ledger.reservation("first") == old


def test_another_plan_is_refused_once_something_was_charged(ledger, tmp_path):
    spend(ledger, plan_of(tmp_path), stages=("one_way",))
    for attempt in (ledger.check, lambda plan: ledger.reserve(plan, sets=1)):
        with pytest.raises(BadInput, match="under way with another plan"):
            attempt(plan_of(tmp_path, privacy="{epsilon: 0.5}"))


@pytest.mark.parametrize("outcome", ["finished", "abandoned"])
def test_the_name_of_a_release_that_is_over_is_used_for_good(ledger, tmp_path, outcome):
    plan = plan_of(tmp_path)
    ledger.settle(spend(ledger, plan), outcome)
    for other in (plan, plan_of(tmp_path, privacy="{epsilon: 0.5}")):
        with pytest.raises(BadInput, match=f"that release is {outcome}"):
            ledger.reserve(other, sets=1)


def test_a_name_that_was_given_back_can_be_used_again(ledger, tmp_path):
    plan = plan_of(tmp_path)
    first = ledger.reserve(plan, sets=1)
    assert ledger.settle(first, "returned").outcome == "returned"
    assert ledger.account("town").left_epsilon == 2
    second = ledger.reserve(plan, sets=1)
    assert second.number > first.number
    assert ledger.releases() == ("first",)


def test_what_was_charged_is_not_given_back(ledger, tmp_path):
    held = spend(ledger, plan_of(tmp_path), stages=("one_way",))
    with pytest.raises(ValueError, match="not returned"):
        ledger.settle(held, "returned")


# -- charges


def test_the_charges_of_a_plan_sum_to_it_exactly(ledger, tmp_path):
    plan = plan_of(tmp_path, privacy="{epsilon: 1/3}")
    held = spend(ledger, plan)
    assert sum(charge.cost for charge in ledger.charges(held)) == plan.currency.limit
    settled = ledger.settle(held, "finished")
    assert settled.outcome == "finished"
    assert ledger.account("town").spent_epsilon == Fraction(1, 3)
    assert ledger.rows(release="first")[-1].body["spent"] == "1/3"


def test_a_stage_spends_its_own_budget_and_not_the_others(ledger, tmp_path):
    plan = plan_of(tmp_path)
    held = ledger.reserve(plan, sets=1)
    before = ledger.verify()
    crumb = Fraction(1, 10**30)
    with pytest.raises(BudgetRefused, match=r"Stage 'one_way' .* asks for"):
        ledger.charge(held, "x", [step(held, "one_way", "a", held.costs["one_way"] + crumb)])
    two = [step(held, "one_way", name, held.costs["one_way"] / 2 + crumb) for name in "ab"]
    with pytest.raises(BudgetRefused):
        ledger.charge(held, "x", two)
    with pytest.raises(BudgetRefused):
        ledger.charge(held, "x", [step(held, "checks", "a", crumb)])
    good_and_bad = [step(held, "one_way", "a", crumb), step(held, "select", "b", crumb)]
    with pytest.raises(BudgetRefused):
        ledger.charge(held, "x", good_and_bad)
    assert ledger.verify() == before
    ledger.charge(held, "x", [step(held, "one_way", "a", held.costs["one_way"])])
    with pytest.raises(BudgetRefused, match="has 0 left"):
        ledger.charge(held, "y", [step(held, "one_way", "b", crumb)])


def test_an_event_that_costs_more_than_is_set_aside_is_refused(ledger, tmp_path):
    plan = plan_of(tmp_path, GAUSSIAN, privacy="{epsilon: 1, delta: 1e-6}")
    held = ledger.reserve(plan, sets=1)
    cost = held.costs["one_way"]
    cheap = held.currency.noise_event(cost, l1=1, l2_squared=1)
    louder = GaussianEvent(cheap.scale * Fraction(999_999, 10**6), 1)
    with pytest.raises(ValueError, match="costs more"):
        ledger.charge(held, "x", [Step("one_way", "a", cost, louder, (2,))])
    with pytest.raises(ValueError, match="no budget"):
        ledger.charge(held, "x", [Step("one_way", "a", Fraction(0), cheap, (2,))])
    assert ledger.charges(held) == ()


def test_a_batch_is_paid_once_and_only_for_the_same_steps(ledger, tmp_path):
    plan = plan_of(tmp_path)
    held = ledger.reserve(plan, sets=1)
    steps = steps_of(plan, "one_way")
    first = ledger.charge(held, "one_way-0", steps)
    assert ledger.charge(held, "one_way-0", steps) == first
    assert sum(charge.cost for charge in ledger.charges(held)) == held.costs["one_way"]
    with pytest.raises(StageFailed, match="charged for other measurements"):
        ledger.charge(held, "one_way-0", steps[:-1])
    with pytest.raises(StageFailed, match="charged for other measurements"):
        ledger.charge(held, "one_way-0", list(reversed(steps)))


def test_a_step_is_charged_once_whatever_its_batch_is_called(ledger, tmp_path):
    held = ledger.reserve(plan_of(tmp_path), sets=1)
    small = held.costs["measure"] / 4
    ledger.charge(held, "one", [step(held, "measure", "a", small)])
    with pytest.raises(StageFailed, match="already holds this entry"):
        ledger.charge(held, "two", [step(held, "measure", "a", small)])
    assert len(ledger.charges(held)) == 1


def test_a_result_is_committed_once_and_then_not_drawn_again(ledger, tmp_path):
    held = spend(ledger, plan_of(tmp_path), stages=("one_way",))
    with pytest.raises(StageFailed, match="already holds"):
        ledger.commit(held, "one_way-0", "1" * 64)
    with pytest.raises(StageFailed, match="is committed"):
        ledger.attempt(held, "one_way-0")


def test_attempts_are_counted_and_end_with_a_person(ledger, tmp_path):
    plan = plan_of(tmp_path)
    held = ledger.reserve(plan, sets=1)
    ledger.charge(held, "one_way-0", steps_of(plan, "one_way"))
    for attempt in range(2, MOST_ATTEMPTS + 1):
        ledger.attempt(held, "one_way-0")
        assert ledger.charges(held)[0].attempts == attempt
    with pytest.raises(StageFailed, match="without a person"):
        ledger.attempt(held, "one_way-0")


def test_nothing_is_added_to_a_release_that_is_over(ledger, tmp_path):
    plan = plan_of(tmp_path)
    held = spend(ledger, plan, stages=("one_way",))
    ledger.settle(held, "abandoned")
    before = ledger.verify()
    for attempt in (
        lambda: ledger.charge(held, "measure-0", steps_of(plan, "measure")),
        lambda: ledger.commit(held, "measure-0", "0" * 64),
        lambda: ledger.attempt(held, "one_way-0"),
        lambda: ledger.settle(held, "finished"),
    ):
        with pytest.raises(StageFailed, match="no longer holds"):
            attempt()
    assert ledger.verify() == before


# -- settling


def test_pure_epsilon_that_was_not_charged_goes_back_exactly(ledger, tmp_path):
    laplace = FIXED + "measure: {noise: laplace}\n"
    plan = plan_of(tmp_path, laplace, privacy="{epsilon: 1/7, delta: 1e-6}")
    assert plan.currency.kind == "pure"
    ledger.settle(spend(ledger, plan, stages=("one_way",)), "abandoned")
    account = ledger.account("town")
    assert account.spent_epsilon == plan.costs["one_way"]
    assert account.spent_delta == 0
    assert account.reserved_epsilon == 0


def test_on_a_curve_stopping_after_a_result_was_seen_returns_nothing(ledger, tmp_path):
    """The epsilon of a part holds for a part that was fixed beforehand, not chosen by looking."""
    plan = plan_of(tmp_path, GAUSSIAN, privacy="{epsilon: 1, delta: 1e-6}")
    assert plan.currency.kind == "gaussian"
    ledger.settle(spend(ledger, plan, stages=("one_way",)), "abandoned")
    account = ledger.account("town")
    assert (account.spent_epsilon, account.spent_delta) == (1, Fraction("1e-6"))


def test_on_a_curve_what_was_charged_but_never_stored_costs_its_own_part(ledger, tmp_path):
    plan = plan_of(tmp_path, GAUSSIAN, privacy="{epsilon: 1, delta: 1e-6}")
    held = ledger.reserve(plan, sets=1)
    ledger.charge(held, "one_way-0", steps_of(plan, "one_way"))
    ledger.settle(held, "abandoned")
    account = ledger.account("town")
    exact = plan.currency.epsilon(plan.costs["one_way"], Fraction("1e-6"))
    assert account.spent_epsilon == exact < 1
    assert account.spent_delta == Fraction("1e-6")


# -- inputs


def test_an_input_belongs_to_one_account(ledger, tmp_path):
    open_town(ledger, "village")
    first = ledger.reserve(plan_of(tmp_path), sets=1)
    ledger.bind_input(first, "hash", KEY)
    ledger.bind_input(first, "hash", KEY)
    other = ledger.reserve(plan_of(tmp_path, release="other", account="village"), sets=1)
    with pytest.raises(BadInput, match=r"belongs to account 'town' \(release 'first'\)"):
        ledger.bind_input(other, "hash", KEY)
    ledger.bind_input(other, "another hash", KEY)
    same_account = ledger.reserve(plan_of(tmp_path, release="third"), sets=1)
    ledger.bind_input(same_account, "hash", KEY)


def test_a_release_keeps_its_input(ledger, tmp_path):
    held = ledger.reserve(plan_of(tmp_path), sets=1)
    ledger.bind_input(held, "hash", KEY)
    with pytest.raises(BadInput, match="changed since it began"):
        ledger.bind_input(held, "another hash", KEY)


def test_a_home_with_another_key_cannot_pass_known_data_for_new(ledger, tmp_path):
    open_town(ledger, "village")
    ledger.bind_input(ledger.reserve(plan_of(tmp_path), sets=1), "hash under k", KEY)
    other = ledger.reserve(plan_of(tmp_path, release="other", account="village"), sets=1)
    with pytest.raises(StageFailed, match="another key than this home's"):
        ledger.bind_input(other, "hash under l", b"l" * 32)


def test_the_hash_of_an_input_is_in_no_row(ledger, tmp_path):
    held = ledger.reserve(plan_of(tmp_path), sets=1)
    ledger.bind_input(held, "canary", KEY)
    ledger.settle(held, "returned")
    assert all("canary" not in str(row.to_json()) for row in ledger.rows())


# -- rows that stay


def tamper(folder, *statements, parameters=()):
    """Do to the database what only its owner can: drop the triggers first."""
    with sqlite3.connect(folder / "ledger.db") as connection:
        for table in ("entries", "inputs"):
            for verb in ("update", "delete"):
                connection.execute(f"DROP TRIGGER {table}_no_{verb}")
        for statement in statements:
            assert connection.execute(statement, parameters).rowcount == 1
    connection.close()


@pytest.fixture
def used(ledger, tmp_path):
    """A ledger with a finished and an unfinished release."""
    ledger.settle(spend(ledger, plan_of(tmp_path)), "finished")
    spend(ledger, plan_of(tmp_path, release="second", privacy="{epsilon: 0.5}"))
    return ledger


@pytest.mark.parametrize("table", ["entries", "inputs"])
@pytest.mark.parametrize("change", ["UPDATE {} SET account = 'x'", "DELETE FROM {}"])
def test_the_database_refuses_to_change_or_remove_a_row(used, tmp_path, table, change):
    connection = sqlite3.connect(tmp_path / "ledger.db")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(change.format(table))
    connection.close()
    used.verify(KEY)


def test_a_ledger_that_nobody_touched_verifies(used):
    rows = used.rows()
    assert used.verify(KEY) == (len(rows), rows[-1].hash)
    for release in used.releases():
        assert first_bad_link(used.rows(release=release)) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "commit"),
        ("account", "elsewhere"),
        ("release", "elsewhere"),
        ("key", "elsewhere"),
        ("key", None),
        ("at", "2020-01-01T00:00:00+00:00"),
        ("body", '{"cost":"1/1000"}'),
        ("body", '{"cost": "1/1000"}'),
        ("body", "[]"),
        ("body", "3"),
        ("body", "no json"),
        ("body", b"\xff"),
        ("body", '{"cost":NaN}'),
        ("previous", "0" * 64),
        ("previous_in_release", "f" * 64),
        ("hash", "f" * 64),
    ],
)
def test_a_change_of_any_column_is_found_and_the_row_is_named(used, tmp_path, column, value):
    number = next(row.number for row in used.rows() if row.kind == "charge")
    tamper(tmp_path, f"UPDATE entries SET {column} = ? WHERE number = {number}", parameters=[value])
    with pytest.raises(LedgerCorrupt, match=rf"^Row {number} \("):
        used.verify()


def test_a_change_of_any_row_is_found(used, tmp_path):
    for row in used.rows():
        with sqlite3.connect(tmp_path / "ledger.db") as connection:
            before = (tmp_path / "ledger.db").read_bytes()
            connection.execute("DROP TRIGGER entries_no_update")
            connection.execute("UPDATE entries SET at = 'x' WHERE number = ?", [row.number])
        connection.close()
        with pytest.raises(LedgerCorrupt, match=rf"^Row {row.number} \("):
            used.verify()
        (tmp_path / "ledger.db").write_bytes(before)
    used.verify()


def test_the_same_body_in_another_spelling_is_found(used, tmp_path):
    row = next(row for row in used.rows() if row.kind == "charge")
    tamper(
        tmp_path,
        f"UPDATE entries SET body = replace(body, ':', ': ') WHERE number = {row.number}",
    )
    with pytest.raises(LedgerCorrupt, match=f"Row {row.number} "):
        used.verify()


def test_a_row_that_was_written_again_with_its_hash_is_found_by_the_next(used, tmp_path):
    """Whoever recomputes one hash has to recompute every later one."""
    from dp_core.canonical import canonical_json
    from dp_core.ledger.receipts import make_row

    row = next(row for row in used.rows() if row.kind == "charge")
    values = row.to_json() | {"body": {**row.body, "cost": "1/1000"}}
    del values["hash"]
    forged = make_row(**values)
    tamper(
        tmp_path,
        f"UPDATE entries SET body = ?, hash = ? WHERE number = {row.number}",
        parameters=[canonical_json(forged.body).decode(), forged.hash],
    )
    with pytest.raises(LedgerCorrupt, match=f"Row {row.number + 1} .* does not follow row"):
        used.verify()


@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_missing_row_is_found_and_named(used, tmp_path, place):
    number = used.rows()[place].number
    tamper(tmp_path, f"DELETE FROM entries WHERE number = {number}")
    with pytest.raises(LedgerCorrupt, match=f"^Row {number} of the ledger is missing"):
        used.verify()


def test_rows_moved_up_to_close_a_gap_are_found(used, tmp_path):
    last = used.rows()[-1].number
    tamper(
        tmp_path,
        f"DELETE FROM entries WHERE number = {last - 1}",
        f"UPDATE entries SET number = {last - 1} WHERE number = {last}",
    )
    with pytest.raises(LedgerCorrupt, match=f"Row {last - 1} "):
        used.verify()


def test_the_last_row_can_only_be_missed_by_who_noted_its_hash(used, tmp_path):
    """A chain that is cut at its end is a whole chain; its count and last hash are not the same."""
    before = used.verify(KEY)
    tamper(tmp_path, f"DELETE FROM entries WHERE number = {before[0]}")
    after = used.verify(KEY)
    assert after[0] == before[0] - 1
    assert after[1] != before[1]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("input", "another"),
        ("account", "village"),
        ("seal", "0" * 64),
        ("reservation", 4711),
        ("release", "other"),
    ],
)
def test_a_change_of_a_sealed_input_is_found(used, tmp_path, column, value):
    tamper(tmp_path, f"UPDATE inputs SET {column} = ? WHERE release = 'second'", parameters=[value])
    used.verify()
    with pytest.raises(LedgerCorrupt, match="input recorded for release"):
        used.verify(KEY)


def test_the_missing_input_of_a_release_that_was_charged_is_found(used, tmp_path):
    tamper(tmp_path, "DELETE FROM inputs WHERE release = 'second'")
    with pytest.raises(LedgerCorrupt, match="release 'second' is missing"):
        used.verify(KEY)


def test_an_unreadable_row_is_one_sentence_and_not_a_traceback(used, tmp_path):
    tamper(tmp_path, "UPDATE entries SET body = 'no json' WHERE kind = 'open'")
    with pytest.raises(LedgerCorrupt, match=r"Row 2 \(open\) was changed"):
        used.account("town")


def test_a_file_that_is_no_ledger_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "ledger.db").write_text("This is a letter and not a database." * 100)
    with pytest.raises(StageFailed, match="cannot be opened or is not a ledger"):
        Ledger(url(tmp_path))


# -- many at once


def _reserve_one(folder, number, start, results):
    ledger = Ledger(url(folder))
    plan = plan_of(folder / f"p{number}", release=f"r{number}", privacy="{epsilon: 1}")
    start.wait()
    try:
        ledger.reserve(plan, sets=1)
        results.put(True)
    except BudgetRefused:
        results.put(False)


def test_processes_that_reserve_at_once_are_never_promised_the_same_budget(ledger, tmp_path):
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(4), context.Queue()
    workers = [
        context.Process(target=_reserve_one, args=(tmp_path, number, start, results))
        for number in range(4)
    ]
    for worker in workers:
        worker.start()
    granted = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    assert sum(granted) == 2
    assert ledger.account("town").left_epsilon == 0
    ledger.verify()


actions = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "charge", "settle"]),
        st.integers(0, 3),
        st.integers(1, 12),
    ),
    max_size=14,
)


@settings(max_examples=15)
@given(actions=actions)
def test_no_sequence_of_events_spends_more_than_the_total(tmp_path_factory, actions):
    folder = tmp_path_factory.mktemp("sequence")
    ledger = Ledger(url(folder))
    open_town(ledger, epsilon="1", delta="0")
    held = {}
    charged = Fraction(0)
    for count, (action, which, size) in enumerate(actions):
        name = f"r{which}"
        try:
            if action == "reserve":
                plan = plan_of(folder, release=name, privacy=f"{{epsilon: {size}/12}}")
                held[name] = ledger.reserve(plan, sets=1)
            elif name in held and action == "charge":
                cost = Fraction(size, 24)
                asked = step(held[name], "measure", f"t{count}", cost)
                ledger.charge(held[name], f"b{count}", [asked])
                charged += cost
            elif name in held:
                ledger.settle(held[name], "abandoned")
        except (BudgetRefused, BadInput, StageFailed):
            pass
        account = ledger.account("town")
        assert account.left_epsilon >= 0
        assert charged <= account.reserved_epsilon + account.spent_epsilon <= 1
    ledger.verify()


@pytest.mark.parametrize("attempts", [0, 3])
def test_published_rows_tell_neither_the_time_of_day_nor_the_attempts(
    tmp_path, monkeypatch, attempts
):
    """Both say how the confidential stages went; neither may reach a receipt or its hash."""
    monkeypatch.setattr(database.uuid, "uuid4", lambda: "one")

    def hashes(name, clock, attempts):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setattr(database, "now", lambda: f"2026-11-20T{clock}+00:00")
        ledger = Ledger(url(folder))
        open_town(ledger)
        plan = plan_of(folder)
        held = ledger.reserve(plan, sets=1)
        ledger.charge(held, "one_way-0", steps_of(plan, "one_way"))
        for _ in range(attempts):
            ledger.attempt(held, "one_way-0")
        ledger.commit(held, "one_way-0", "0" * 64)
        return [row.hash for row in ledger.rows()]

    assert hashes("morning", "08:00:00", 0) == hashes("night", "23:59:59", attempts)


@pytest.mark.parametrize("damage", ["UPDATE attempts SET attempt = 9", "DELETE FROM attempts"])
def test_a_changed_attempt_is_found_and_refused_by_the_database(ledger, tmp_path, damage):
    plan = plan_of(tmp_path)
    held = ledger.reserve(plan, sets=1)
    ledger.charge(held, "one_way-0", steps_of(plan, "one_way"))
    for _ in range(2):
        ledger.attempt(held, "one_way-0")
    ledger.verify()
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(damage)
        connection.execute("DROP TRIGGER attempts_no_update")
        connection.execute("DROP TRIGGER attempts_no_delete")
        connection.execute(damage + " WHERE number = 1")
    with pytest.raises(LedgerCorrupt, match="Attempt 1"):
        ledger.verify()
