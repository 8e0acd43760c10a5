"""Attempts that the confidential data refuse: counted, stated, and stopped after three."""

import pytest

from dp_core.bundle.statement.sections import refusals_statement
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.policies.refused_attempts import attempts_of
from tasks.ledger.reservation_entries import add
from tests.both_writers import both_writers
from tests.ledgers import (
    GAUSSIAN,
    HOME,
    KEY,
    fit,
    measure,
    open_town,
    pay,
    refuse,
    reserve,
    spend,
    steps_of,
)
from tests.specs import plan_of

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("town")]

WHO = {"by": "officer", "reason": "the file was corrected"}
SMALL = "{epsilon: 0.01, delta: 1e-8}"


@pytest.fixture
def plans(tmp_path):
    """Make plans of small releases of the account `town`, by name."""
    return lambda name, more="", **of: plan_of(
        tmp_path, GAUSSIAN + more, release=name, privacy=SMALL, **of
    )


def examine(ledger, plan):
    """Let a release stop between `examine` and its verdict."""
    with both_writers(ledger, plan.spec.release, HOME) as writer:
        writer.examine(writer.reserve(plan))


def guess(writer, held, file="guess"):
    """Come with another file than the one that was bound."""
    with pytest.raises(BadInput, match="changed since it began"):
        writer.bind_input(held, file, KEY)


def stated(**more):
    """Return the attempts that a settlement states."""
    return {"refused": 0, "open": 0, "fitted": 0, "allowed": [], "schemas": 1} | more


def attempts(ledger):
    found = ledger.attempts("town")
    return found.refused, found.recent, found.open


@pytest.mark.runbook("attempts-refused")
def test_after_three_refused_attempts_a_person_must_allow_more(ledger, plans, says):
    for number in range(3):
        assert attempts(ledger) == (number, number, 0)
        refuse(ledger, plans(f"no-{number}"))
    fourth = plans("fourth")
    for ask in (ledger.check, lambda plan: reserve(ledger, plan)):
        with pytest.raises(BudgetRefused) as refused:
            ask(fourth)
        says(refused.value)
        assert refused.value.exit_code == 3
        assert "`dp-release ledger allow-retry town --by NAME --reason TEXT`" in str(refused.value)
    assert ledger.reservation("fourth") is None

    after = ledger.allow_retry("town", **WHO)
    assert (after.refused, after.recent, len(after.allowed)) == (3, 0, 1)
    entry = ledger.head()
    assert (entry.kind, entry.receipt.account) == ("allow-retry", "town")
    assert entry.body == WHO
    for number in range(3):
        refuse(ledger, plans(f"again-{number}"))
    assert attempts(ledger) == (6, 3, 0)
    with pytest.raises(BudgetRefused):
        ledger.check(fourth)
    ledger.verify()


def test_retries_are_allowed_only_where_attempts_were_stopped(ledger, plans):
    with pytest.raises(BadInput, match="nothing to allow"):
        ledger.allow_retry("town", **WHO)
    refuse(ledger, plans("no"))
    with pytest.raises(BadInput, match="nothing to allow"):
        ledger.allow_retry("town", **WHO)
    with pytest.raises(BadInput, match="no account"):
        ledger.allow_retry("tow", **WHO)


def test_an_attempt_is_in_the_ledger_before_its_verdict_and_counts_if_it_never_gets_one(
    ledger, plans
):
    """Whoever kills a run once the internal folder told the answer has paid for it."""
    with both_writers(ledger, "killed", HOME) as writer:
        held = writer.reserve(plans("killed"))
        assert writer.examine(held)
    assert attempts(ledger) == (0, 0, 1)
    # The same release goes on, however often: the question is the same, and so is the attempt.
    for _ in range(5):
        with both_writers(ledger, "killed", HOME) as writer:
            assert not writer.examine(writer.reserve(plans("killed")))
    assert attempts(ledger) == (0, 0, 1)
    with both_writers(ledger, "killed", HOME) as writer:
        writer.settle(writer.reserve(plans("killed")), "abandoned")
    assert attempts(ledger) == (1, 1, 0)


def test_another_plan_under_the_same_name_leaves_the_attempt_refused(ledger, plans):
    examine(ledger, plans("town"))
    reserve(ledger, plans("town", more="synthesize: {sets: 2}\n"))
    assert attempts(ledger) == (1, 1, 0)


def test_data_that_fit_and_are_charged_are_not_counted_and_those_that_cannot_be_read_are(
    ledger, plans
):
    with both_writers(ledger, "good", HOME) as writer:
        held = fit(writer, plans("good"))
        writer.judge(held, "refused")  # a second verdict changes nothing
        assert attempts(ledger) == (0, 0, 1)
        for stage in ("one_way", "measure"):
            writer.charge(held, f"{stage}-0", steps_of(plans("good"), stage))
            assert attempts(ledger) == (0, 0, 0)
        writer.settle(held, "abandoned")
    with both_writers(ledger, "gone", HOME) as writer:
        held = writer.reserve(plans("gone"))
        writer.examine(held)
        assert writer.judge(held, "unreadable") == "unreadable"
        assert attempts(ledger) == (1, 1, 0)
        assert writer.judge(held, "refused") == "unreadable"
        writer.settle(held, "returned")
    assert attempts(ledger) == (1, 1, 0)
    ledger.verify()


def test_a_ledger_of_before_in_which_unreadable_data_were_not_counted_still_verifies(
    ledger, plans, monkeypatch
):
    def uncounted(book, reservation, kind, *, body, **more):
        add(book, reservation, kind, body={"verdict": body["verdict"]}, **more)

    with both_writers(ledger, "gone", HOME) as writer:
        held = writer.reserve(plans("gone"))
        writer.examine(held)
        with monkeypatch.context() as patch:
            patch.setattr("tasks.ledger.charging.charging_writer.add", uncounted)
            writer.judge(held, "unreadable")
        writer.settle(held, "returned")
    assert attempts(ledger) == (0, 0, 0)
    ledger.verify()


@pytest.mark.parametrize("outcome", ["abandoned", "returned"])
def test_that_the_data_fit_is_no_free_answer(ledger, plans, outcome):
    """Unlimited attempts would find the largest value of a column exactly."""
    for number in range(3):
        with both_writers(ledger, f"fits-{number}", HOME) as writer:
            held = fit(writer, plans(f"fits-{number}"))
            assert attempts(ledger) == (number, number, 1)
            writer.settle(held, outcome)
    assert attempts(ledger) == (3, 3, 0)
    with pytest.raises(BudgetRefused):
        ledger.check(plans("fourth"))
    ledger.verify()


@pytest.mark.runbook("attempts-open")
def test_no_more_attempts_are_begun_than_may_be_refused(ledger, plans, says):
    """Otherwise 180 releases that begin together would give 180 answers."""
    for number in range(3):
        examine(ledger, plans(f"open-{number}"))
    with both_writers(ledger, "fourth", HOME) as writer:
        held = writer.reserve(plans("fourth"))
        with pytest.raises(StageFailed) as failed:
            writer.examine(held)
        says(failed.value)
        assert failed.value.exit_code == 4
        with both_writers(ledger, "open-0", HOME) as first:
            fitting = fit(first, plans("open-0"))
            with pytest.raises(StageFailed):
                writer.examine(held)
            first.charge(fitting, "one_way-0", steps_of(plans("open-0"), "one_way"))
        assert writer.examine(held)


@pytest.mark.runbook("attempts-open")
def test_the_attempts_that_block_an_account_are_named_and_each_can_be_ended(ledger, plans, says):
    """Three releases of one night stop between `examine` and their first charge."""
    examine(ledger, plans("stopped"))
    with both_writers(ledger, "fitting", HOME) as writer:
        fit(writer, plans("fitting"))
    examine(ledger, plans("at-work"))

    def blocked(name):
        with both_writers(ledger, name, HOME) as writer, pytest.raises(StageFailed) as failed:
            writer.examine(writer.reserve(plans(name)))
        says(failed.value)
        return failed.value.message

    def allowed():
        return ledger.allow_retry("town", **WHO)

    with ledger.lease("at-work", HOME):
        message = blocked("morning")
    assert "At work: 'at-work'; wait." in message
    assert "Interrupted: 'stopped', 'fitting'; type `dp-release resume NAME`" in message
    assert "`dp-release abandon NAME`, which counts as a refused attempt" in message
    with pytest.raises(BadInput, match="Interrupted: 'stopped', 'fitting', 'at-work'; type"):
        allowed()

    # A release that has an attempt goes on with it, although the account takes no new one.
    with both_writers(ledger, "fitting", HOME) as writer:
        held = writer.reserve(plans("fitting"))
        assert not writer.examine(held)
        writer.charge(held, "one_way-0", steps_of(plans("fitting"), "one_way"))
    with both_writers(ledger, "morning", HOME) as writer:
        assert writer.examine(writer.reserve(plans("morning")))
    assert "Interrupted: 'stopped', 'at-work', 'morning'; type" in blocked("evening")

    with both_writers(ledger, "stopped", HOME) as writer:
        writer.settle(writer.reserve(plans("stopped")), "abandoned")
    assert attempts(ledger) == (1, 1, 2)
    assert "Interrupted: 'at-work', 'morning'; type" in blocked("evening")
    assert allowed().recent == 0
    assert attempts(ledger) == (1, 0, 2)
    with both_writers(ledger, "evening", HOME) as writer:
        assert writer.examine(writer.reserve(plans("evening")))
    for name in ("at-work", "morning", "evening"):
        with both_writers(ledger, name, HOME) as writer:
            writer.settle(writer.reserve(plans(name)), "abandoned")
    assert attempts(ledger) == (4, 3, 0)
    with pytest.raises(BudgetRefused):
        ledger.check(plans("next"))
    assert allowed().recent == 0
    ledger.check(plans("next"))
    ledger.verify()


def test_the_settlement_states_the_attempts_so_far_and_may_not_state_others(ledger, plans):
    refuse(ledger, plans("no"))
    examine(ledger, plans("open"))
    spend(ledger, plans("done"))
    (end,) = ledger.entries(kinds=("settle",), release="done")
    assert end.body["attempts"] == stated(refused=1, open=1)
    with both_writers(ledger, "liar", HOME) as writer:
        held = measure(writer, plans("liar"))
        with ledger._database.trying() as book:
            for false in (stated(open=1), None):
                spent = str(sum(charge.cost for charge in writer.charges(held)))
                body = {**end.body, "spent": spent, "attempts": false}
                if false is None:
                    del body["attempts"]
                with pytest.raises(LedgerCorrupt, match="other refused attempts"):
                    book.append(
                        "settle",
                        account="town",
                        release="liar",
                        reservation=held.position,
                        body=body,
                    )


def test_a_ledger_of_before_has_settlements_without_attempts(ledger, plans, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tasks.ledger.reservation_entries.attempts_stated", lambda *_: {})
        spend(ledger, plans("old"))
    (end,) = ledger.entries(kinds=("settle",), release="old")
    assert "attempts" not in end.body
    spend(ledger, plans("new"))
    refuse(ledger, plans("no"))
    ledger.verify()


def test_what_the_rules_of_attempts_forbid_is_not_added(ledger, plans):
    def refused(kind, body, **more):
        with ledger._database.trying() as book, pytest.raises(LedgerCorrupt) as broken:
            book.append(kind, account="town", body=body, **more)
        return str(broken.value)

    assert "nothing had stopped" in refused("allow-retry", WHO)
    held = reserve(ledger, plans("town"))
    of = {"release": "town", "reservation": held.position}
    assert "were not opened" in refused("verdict", {"verdict": "fits"}, **of)
    with both_writers(ledger, "town", HOME) as writer:
        writer.examine(held)
    assert "unknown verdict" in refused("verdict", {"verdict": "nearly"}, **of)
    for number in range(2):
        refuse(ledger, plans(f"no-{number}"))
    other = reserve(ledger, plans("other"))
    of = {"release": "other", "reservation": other.position}
    assert "too many attempts" in refused("examine", {}, **of)


def test_a_file_that_replaces_the_bound_one_is_a_refused_attempt(ledger, plans, writer):
    plan = plans("first")
    held = measure(writer, plan, ("one_way",))
    for number in range(3):
        assert attempts(ledger) == (number, number, 0)
        guess(writer, held, f"guess {number}")
    # A stopped account compares no file, neither a wrong guess nor the right one.
    for file in ("guess 3", "input of first"):
        with pytest.raises(BudgetRefused, match="allow-retry"):
            writer.bind_input(held, file, KEY)
    assert attempts(ledger) == (3, 3, 0)
    ledger.allow_retry("town", **WHO)
    writer.settle(fit(writer, plan, stages=["measure"]), "finished")
    assert attempts(ledger) == (3, 0, 0)
    ledger.verify(KEY)


def test_before_the_first_charge_a_replaced_file_ends_the_attempt_that_was_open(
    ledger, plans, writer
):
    for number in range(2):
        refuse(ledger, plans(f"no-{number}"))
    held = fit(writer, plans("first"))
    # Its own open attempt does not stop it.
    writer.bind_input(held, "input of first", KEY)
    assert attempts(ledger) == (2, 2, 1)
    guess(writer, held)
    assert attempts(ledger) == (3, 3, 0)
    ledger.verify(KEY)


def test_a_charged_release_goes_on_while_others_have_open_attempts(ledger, plans, writer):
    """Nobody is called at night because three others are at work; a wrong file still counts."""
    held = fit(writer, plans("first"), stages=["one_way"])
    for number in range(3):
        examine(ledger, plans(f"other-{number}"))
    writer.bind_input(held, "input of first", KEY)
    guess(writer, held)
    assert attempts(ledger) == (1, 1, 3)
    ledger.verify(KEY)


@pytest.mark.parametrize("read", [["unreadable"], ["wrong", "unreadable"]])
def test_a_charged_release_is_finished_after_wrong_and_unreadable_files(
    ledger, plans, writer, read
):
    """A file that is damaged once must not close the release for ever."""
    plan = plans("first")
    held = fit(writer, plan, stages=["one_way"])
    guess(writer, held)
    for file in read:
        assert writer.examine(held)
        if file == "unreadable":
            writer.judge(held, "unreadable")
        else:
            guess(writer, held)
    assert attempts(ledger) == (1 + len(read),) * 2 + (0,)
    if len(read) > 1:
        with pytest.raises(BudgetRefused):
            writer.examine(held)
        ledger.allow_retry("town", **WHO)
    fit(writer, plan)
    assert writer.grant(held, plan.hash, "measure").left
    writer.settle(pay(writer, held, plan, ["measure"]), "finished")
    ledger.verify(KEY)


def test_a_release_whose_data_could_not_be_read_begins_a_new_attempt(ledger, plans):
    """Otherwise the next answer about its data would not be counted."""
    with both_writers(ledger, "gone", HOME) as writer:
        held = writer.reserve(plans("gone"))
        writer.examine(held)
        writer.judge(held, "unreadable")
        assert writer.examine(held)
        writer.judge(held, "refused")
        assert not writer.examine(held)
        writer.settle(held, "returned")
    assert attempts(ledger) == (2, 2, 0)
    ledger.verify()


def test_nothing_is_granted_or_charged_before_the_data_were_found_to_fit(plans, writer):
    plan = plans("first")
    held = writer.reserve(plan)
    writer.examine(held)
    writer.bind_input(held, "input of first", KEY)
    with pytest.raises(BadInput, match="stage 'count' gets no grant"):
        writer.grant(held, plan.hash, "count")
    with pytest.raises(LedgerCorrupt, match="before its data were found to fit"):
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    writer.judge(held, "fits")
    writer.grant(held, plan.hash, "count")
    assert writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    writer.grant(held, plan.hash, "measure")
    guess(writer, held)
    with pytest.raises(BadInput, match="stage 'measure' gets no grant"):
        writer.grant(held, plan.hash, "measure")


@pytest.mark.parametrize("outcome", ["finished", "abandoned"])
def test_one_wrong_file_of_a_release_that_has_charged_all_is_one_refused_attempt(
    ledger, plans, writer, outcome
):
    held = fit(writer, plans("first"), stages=["one_way", "measure"])
    guess(writer, held)
    assert writer.examine(held)
    assert attempts(ledger) == (1, 1, 1)
    fit(writer, plans("first"))
    assert attempts(ledger) == (1, 1, 0)
    writer.settle(held, outcome)
    assert attempts(ledger) == (1, 1, 0)
    (end,) = ledger.entries(kinds=("settle",), release="first")
    assert end.body["attempts"]["refused"] == 1
    ledger.verify(KEY)


def test_a_ledger_of_before_in_which_one_wrong_file_counted_twice_still_verifies(
    ledger, plans, monkeypatch
):
    def left_open(book, reservation, kind, *, body, **more):
        values = {name: value for name, value in body.items() if name != "charged"}
        add(book, reservation, kind, body=values, **more)

    with both_writers(ledger, "first", HOME) as writer:
        held = fit(writer, plans("first"), stages=["one_way", "measure"])
        guess(writer, held)
        writer.examine(held)
        with monkeypatch.context() as patch:
            patch.setattr("tasks.ledger.charging.charging_writer.add", left_open)
            writer.judge(held, "fits")
        assert attempts(ledger) == (1, 1, 1)
        writer.settle(held, "finished")
    assert attempts(ledger) == (2, 2, 0)
    spend(ledger, plans("second"))
    ledger.verify(KEY)


@pytest.mark.parametrize(
    ("charged", "body"),
    [
        (False, {"verdict": "fits", "charged": True}),
        (True, {"verdict": "refused", "charged": True}),
        (True, {"verdict": "fits", "charged": "yes"}),
    ],
)
def test_a_verdict_ends_an_attempt_only_if_it_fits_and_the_release_has_charged(
    ledger, writer, plans, charged, body
):
    if charged:
        held = fit(writer, plans("first"), stages=["one_way"])
        guess(writer, held)
    else:
        held = writer.reserve(plans("first"))
    writer.examine(held)
    with (
        ledger._database.trying() as book,
        pytest.raises(LedgerCorrupt, match="ends an attempt without a charge"),
    ):
        add(book, held, "verdict", body={**body, "again": 2} if charged else body)
    assert attempts(ledger)[2] == 1


# -- data of an account that a person declares public


@pytest.mark.runbook("public-data-known")
def test_data_declared_public_that_belong_to_an_account_are_refused_attempts(ledger, plans, says):
    spend(ledger, plans("first"))
    known, fine = ["a public file", "input of first"], ["a public file"]
    for number in range(3):
        assert attempts(ledger) == (number, number, 0)
        ledger.refuse_known(fine, **WHO)
        with pytest.raises(BadInput) as refused:
            ledger.refuse_known(known, **WHO)
        says(refused.value)
        assert (ledger.head().kind, ledger.head().about) == ("refuse-public", "input of first")
    before = ledger.head()
    for hashes in (known, fine):
        with pytest.raises(BudgetRefused, match="allow-retry"):
            ledger.refuse_known(hashes, **WHO)
    with pytest.raises(BudgetRefused, match="allow-retry"):
        reserve(ledger, plans("second"))
    assert ledger.head() == before
    ledger.allow_retry("town", **WHO)
    ledger.refuse_known(fine, **WHO)
    spend(ledger, plans("second"))
    assert ledger.head().body["attempts"]["refused"] == 3
    ledger.verify(KEY)


@pytest.mark.runbook("attempts-open")
def test_open_attempts_keep_a_comparison_from_a_fourth_answer(ledger, plans, says):
    spend(ledger, plans("first"))
    for number in range(3):
        examine(ledger, plans(f"open-{number}"))
    with pytest.raises(StageFailed, match="Repeat the comparison when fewer") as failed:
        ledger.refuse_known(["input of first"], **WHO)
    says(failed.value)
    assert "town" not in failed.value.message
    assert "open-" not in failed.value.message
    assert attempts(ledger) == (0, 0, 3)


def test_each_account_whose_data_are_declared_public_counts_an_attempt(ledger, plans):
    open_town(ledger, "village")
    open_town(ledger, "empty")
    spend(ledger, plans("first"))
    spend(ledger, plans("other", account="village"))
    with pytest.raises(BadInput, match="'town', 'village'"):
        ledger.refuse_known(["input of first", "input of other"], **WHO)
    refused = [ledger.attempts(name).refused for name in ("town", "village", "empty")]
    assert refused == [1, 1, 0]
    ledger.verify(KEY)


def test_a_refused_declaration_names_an_input_of_its_account(ledger, plans):
    spend(ledger, plans("first"))
    open_town(ledger, "village")
    for account, about in (("village", "input of first"), ("town", "another"), ("town", None)):
        with (
            ledger._database.trying() as book,
            pytest.raises(LedgerCorrupt, match="do not belong"),
        ):
            book.append("refuse-public", account=account, about=about, body=WHO)
    with ledger._database.trying() as book, pytest.raises(LedgerCorrupt, match="unknown account"):
        book.append("refuse-public", account="nowhere", about="input of first", body=WHO)


# -- accounts within accounts share three refused attempts


@pytest.fixture
def wards(ledger, plans):
    """Open `north` and `south` within `town`; make plans of their releases, by name."""
    for name in ("north", "south"):
        open_town(ledger, name, within="town")
    return plans


@pytest.mark.runbook("attempts-refused")
def test_accounts_within_one_account_share_three_refused_attempts(ledger, wards, says):
    for name in ("town", "north", "north"):
        refuse(ledger, wards(f"no-{len(ledger.releases())}", account=name))
    open_town(ledger, "west", within="south")
    open_town(ledger, "village")
    for name in ("town", "north", "south", "west"):
        with pytest.raises(BudgetRefused, match=r"\('town' 1, 'north' 2\)") as refused:
            reserve(ledger, wards(f"more-{name}", account=name))
        says(refused.value)
        named = name if name == "north" else "town"
        assert f"`dp-release ledger allow-retry {named} --by NAME" in refused.value.message
    spend(ledger, wards("other", account="village"))

    with pytest.raises(BadInput, match="these have refused attempts: town, north"):
        ledger.allow_retry("south", **WHO)
    assert ledger.new_attempts("west") == 0
    ledger.allow_retry("north", **WHO)
    assert ledger.new_attempts("west") == 2
    for name in ("west", "south"):
        refuse(ledger, wards(f"again-{name}", account=name))
    with pytest.raises(BudgetRefused):
        reserve(ledger, wards("last", account="north"))
    ledger.verify()


def test_open_attempts_of_the_family_count_too(ledger, wards):
    for name in ("town", "north", "south"):
        examine(ledger, wards(f"open-{name}", account=name))
    with both_writers(ledger, "fourth", HOME) as writer:
        held = writer.reserve(wards("fourth", account="north"))
        with pytest.raises(StageFailed, match="'open-town', 'open-north', 'open-south'"):
            writer.examine(held)
    with pytest.raises(BadInput, match="'open-town', 'open-north', 'open-south'"):
        ledger.allow_retry("north", **WHO)


def test_a_ledger_of_before_in_which_each_account_had_three_still_verifies(
    ledger, wards, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(
            "tasks.ledger.reservation_check.attempts_of_family",
            lambda book, name: attempts_of(book, name),
        )
        for name in ("north", "south"):
            for number in range(3):
                refuse(ledger, wards(f"{name}-{number}", account=name))
    ledger.verify()
    with pytest.raises(BudgetRefused):
        reserve(ledger, wards("more", account="town"))
    ledger.allow_retry("north", **WHO)
    assert ledger.new_attempts("town") == 0
    ledger.allow_retry("south", **WHO)
    assert ledger.new_attempts("town") == 3
    ledger.verify()


# -- the answer that the data fit


def fitted(ledger, plan, outcome="finished"):
    """Let a release fit the data and end, charged if it is finished."""
    with both_writers(ledger, plan.spec.release, HOME) as writer:
        stages = ("one_way", "measure") if outcome == "finished" else ()
        return writer.settle(fit(writer, plan, "input", stages), outcome)


def test_attempts_that_fit_are_counted_and_stated(ledger, plans):
    """A release of a tiny epsilon buys the exact answer that the data fit."""
    for number in range(4):
        fitted(ledger, plans(f"yes-{number}"))
        assert ledger.attempts("town").fitted == number + 1
    (end,) = ledger.entries(kinds=("settle",), release="yes-3")
    assert end.body["attempts"] == stated(fitted=4)
    fitted(ledger, plans("abandoned"), "abandoned")
    found = ledger.attempts("town")
    assert (found.refused, found.fitted) == (1, 5)
    refuse(ledger, plans("no"))
    assert ledger.attempts("town").fitted == 5
    ledger.verify(KEY)


def test_attempts_that_fit_in_a_ledger_of_before_are_not_counted(ledger, plans, monkeypatch):
    def unstated(book, account):
        values = attempts_of(book, account).to_json()
        del values["fitted"]
        return {"attempts": values}

    def uncounted(book, reservation, kind, *, body, **more):
        values = {name: value for name, value in body.items() if name != "counted"}
        add(book, reservation, kind, body=values, **more)

    with monkeypatch.context() as patch:
        patch.setattr("tasks.ledger.reservation_entries.attempts_stated", unstated)
        patch.setattr("tasks.ledger.charging.charging_writer.add", uncounted)
        fitted(ledger, plans("old"))
    assert ledger.attempts("town").fitted == 0
    ledger.verify(KEY)
    fitted(ledger, plans("new"))
    assert ledger.attempts("town").fitted == 1
    monkeypatch.setattr("tasks.ledger.reservation_entries.attempts_stated", unstated)
    with pytest.raises(LedgerCorrupt, match="other refused"):
        fitted(ledger, plans("liar"))
    ledger.verify(KEY)


def test_a_settlement_states_the_attempts_of_its_family_too(ledger, wards, monkeypatch):
    def of_the_account(book, account):
        return {"attempts": attempts_of(book, account).to_json()}

    with monkeypatch.context() as patch:
        patch.setattr("tasks.ledger.reservation_entries.attempts_stated", of_the_account)
        fitted(ledger, wards("before", account="north"))  # as an earlier version wrote it
    refuse(ledger, wards("no", account="south"))
    fitted(ledger, wards("done", account="north"))
    ledger.verify(KEY)
    (end,) = ledger.entries(kinds=("settle",), release="done")
    family = {"refused": 1, "open": 0, "fitted": 2}
    assert end.body["attempts"] == stated(fitted=2, family=family)
    statement = refusals_statement(end.body)
    assert statement["refused_attempts"] == 0
    assert statement["family"]["refused_attempts"] == 1

    def less(book, account):
        found = {"refused": 0, "open": 0, "fitted": 3}
        return {"attempts": attempts_of(book, account).to_json() | {"family": found}}

    monkeypatch.setattr("tasks.ledger.reservation_entries.attempts_stated", less)
    with pytest.raises(LedgerCorrupt, match="other refused"):
        fitted(ledger, wards("liar", account="north"))


def test_a_desk_whose_data_another_family_used_is_closed_and_counted_once(ledger, plans):
    open_town(ledger, "rand")
    plan = plans("r")
    spend(ledger, plan)
    data = ["never used", "input of r"]
    ledger.open_desk("rand", "terms", plan.spec.schema, **WHO)
    assert ledger.desk_data_owner("rand", data[:1]) is None
    assert ledger.desk_terms("rand") == "terms"
    for _ in range(3):
        assert ledger.desk_data_owner("rand", data) == "town"
    assert (ledger.attempts("rand").refused, ledger.attempts("town").refused) == (1, 0)
    assert ledger.desk_terms("rand") is None
    assert ledger.head().body["refused"] == "input of r"
    for _ in range(2):
        ledger.open_desk("rand", "terms", plan.spec.schema, **WHO)
        assert ledger.desk_data_owner("rand", data) == "town"
    with pytest.raises(BudgetRefused):
        ledger.open_desk("rand", "terms", plan.spec.schema, **WHO)
    assert (ledger.attempts("rand").refused, ledger.verify().entries) == (3, ledger.head().position)


@pytest.mark.parametrize(
    ("used", "broken"),
    [("never used", "belong to no other account"), ("input of r", "that was stopped")],
)
def test_a_refusal_of_a_desk_that_breaks_a_rule_is_not_written(ledger, plans, used, broken):
    open_town(ledger, "rand")
    spend(ledger, plans("r"))
    body = {"terms": "terms", **WHO, "refused": used}
    with ledger._database.writing() as book:
        for _ in range(3 if used == "input of r" else 0):
            book.append("close-desk", account="rand", about="terms", body=body)
        with pytest.raises(LedgerCorrupt, match=broken):
            book.append("close-desk", account="rand", about="terms", body=body)
