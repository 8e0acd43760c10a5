"""Attempts that the confidential data refuse: counted, stated, and stopped after three."""

from __future__ import annotations

import pytest

from dp_core.bundle.statement.sections import refusals_statement
from dp_core.errors import BadInput, BudgetRefused, LedgerCorrupt, StageFailed
from dp_core.wall.ledger.attempts.refused_attempts import attempts_of
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservation_entries import add
from tests.ledgers import GAUSSIAN, HOME, KEY, measure, open_town, refuse, reserve, spend, steps_of
from tests.specs import plan_of

pytestmark = pytest.mark.any_database

WHO = {"by": "officer", "reason": "the file was corrected"}
SMALL = "{epsilon: 0.01, delta: 1e-8}"


@pytest.fixture
def ledger(ledger_url):
    return Ledger(ledger_url)


@pytest.fixture
def plans(tmp_path, ledger):
    """Make plans of small releases of the account `town`, by name."""
    open_town(ledger)
    return lambda name, more="", **of: plan_of(
        tmp_path, GAUSSIAN + more, release=name, privacy=SMALL, **of
    )


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


def test_other_accounts_are_not_stopped(ledger, plans):
    open_town(ledger, "village")
    for number in range(3):
        refuse(ledger, plans(f"no-{number}"))
    spend(ledger, plans("other", account="village"))
    assert ledger.attempts("village").refused == 0


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
    with ledger.lease("killed", HOME) as writer:
        held = writer.reserve(plans("killed"))
        assert writer.examine(held)
    assert attempts(ledger) == (0, 0, 1)
    # The same release goes on, however often: the question is the same, and so is the attempt.
    for _ in range(5):
        with ledger.lease("killed", HOME) as writer:
            assert not writer.examine(writer.reserve(plans("killed")))
    assert attempts(ledger) == (0, 0, 1)
    with ledger.lease("killed", HOME) as writer:
        writer.settle(writer.reserve(plans("killed")), "abandoned")
    assert attempts(ledger) == (1, 1, 0)


def test_another_plan_under_the_same_name_leaves_the_attempt_refused(ledger, plans):
    with ledger.lease("town", HOME) as writer:
        writer.examine(writer.reserve(plans("town")))
        writer.reserve(plans("town", more="synthesize: {sets: 2}\n"))
    assert attempts(ledger) == (1, 1, 0)


def test_data_that_fit_and_are_charged_or_cannot_be_read_are_not_counted(ledger, plans):
    with ledger.lease("good", HOME) as writer:
        held = writer.reserve(plans("good"))
        writer.examine(held)
        writer.bind_input(held, "input", b"k" * 32)
        writer.judge(held, "fits")
        writer.judge(held, "refused")  # a second verdict changes nothing
        assert attempts(ledger) == (0, 0, 1)
        for stage in ("one_way", "measure"):
            writer.charge(held, f"{stage}-0", steps_of(plans("good"), stage))
            assert attempts(ledger) == (0, 0, 0)
        writer.settle(held, "abandoned")
    with ledger.lease("gone", HOME) as writer:
        held = writer.reserve(plans("gone"))
        writer.examine(held)
        writer.judge(held, "unreadable")
        writer.judge(held, "refused")
        writer.settle(held, "returned")
    assert attempts(ledger) == (0, 0, 0)
    ledger.verify()


@pytest.mark.parametrize("outcome", ["abandoned", "returned"])
def test_that_the_data_fit_is_no_free_answer(ledger, plans, outcome):
    """Formerly such attempts were unlimited, and found the largest value of a column exactly."""
    for number in range(3):
        with ledger.lease(f"fits-{number}", HOME) as writer:
            held = writer.reserve(plans(f"fits-{number}"))
            writer.examine(held)
            writer.judge(held, "fits")
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
        with ledger.lease(f"open-{number}", HOME) as writer:
            writer.examine(writer.reserve(plans(f"open-{number}")))
    with ledger.lease("fourth", HOME) as writer:
        held = writer.reserve(plans("fourth"))
        with pytest.raises(StageFailed) as failed:
            writer.examine(held)
        says(failed.value)
        assert failed.value.exit_code == 4
        with ledger.lease("open-0", HOME) as first:
            fitting = first.reserve(plans("open-0"))
            first.bind_input(fitting, "input", b"k" * 32)
            first.judge(fitting, "fits")
            with pytest.raises(StageFailed):
                writer.examine(held)
            first.charge(fitting, "one_way-0", steps_of(plans("open-0"), "one_way"))
        assert writer.examine(held)


@pytest.mark.runbook("attempts-open")
def test_the_attempts_that_block_an_account_are_named_and_each_can_be_ended(ledger, plans, says):
    """Three releases of one night stop between `examine` and their first charge."""
    for name in ("stopped", "fitting", "at-work"):
        with ledger.lease(name, HOME) as writer:
            held = writer.reserve(plans(name))
            writer.examine(held)
            if name == "fitting":
                writer.bind_input(held, "input", b"k" * 32)
                writer.judge(held, "fits")

    def blocked(name):
        with ledger.lease(name, HOME) as writer, pytest.raises(StageFailed) as failed:
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
    with ledger.lease("fitting", HOME) as writer:
        held = writer.reserve(plans("fitting"))
        assert not writer.examine(held)
        writer.charge(held, "one_way-0", steps_of(plans("fitting"), "one_way"))
    with ledger.lease("morning", HOME) as writer:
        assert writer.examine(writer.reserve(plans("morning")))
    assert "Interrupted: 'stopped', 'at-work', 'morning'; type" in blocked("evening")

    with ledger.lease("stopped", HOME) as writer:
        writer.settle(writer.reserve(plans("stopped")), "abandoned")
    assert attempts(ledger) == (1, 1, 2)
    assert "Interrupted: 'at-work', 'morning'; type" in blocked("evening")
    assert allowed().recent == 0
    assert attempts(ledger) == (1, 0, 2)
    with ledger.lease("evening", HOME) as writer:
        assert writer.examine(writer.reserve(plans("evening")))
    for name in ("at-work", "morning", "evening"):
        with ledger.lease(name, HOME) as writer:
            writer.settle(writer.reserve(plans(name)), "abandoned")
    assert attempts(ledger) == (4, 3, 0)
    with pytest.raises(BudgetRefused):
        ledger.check(plans("next"))
    assert allowed().recent == 0
    ledger.check(plans("next"))
    ledger.verify()


def test_nothing_is_charged_before_the_data_were_found_to_fit(ledger, plans):
    plan = plans("eager")
    with ledger.lease("eager", HOME) as writer:
        held = writer.reserve(plan)
        writer.examine(held)
        writer.bind_input(held, "input", b"k" * 32)
        with pytest.raises(LedgerCorrupt, match="before its data were found to fit"):
            writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
        writer.judge(held, "fits")
        assert writer.charge(held, "one_way-0", steps_of(plan, "one_way"))


def test_the_settlement_states_the_attempts_so_far_and_may_not_state_others(ledger, plans):
    refuse(ledger, plans("no"))
    with ledger.lease("open", HOME) as writer:
        writer.examine(writer.reserve(plans("open")))
    spend(ledger, plans("done"))
    (end,) = ledger.entries(kinds=("settle",), release="done")
    assert end.body["attempts"] == {
        "refused": 1,
        "open": 1,
        "fitted": 0,
        "allowed": [],
        "schemas": 1,
    }
    with ledger.lease("liar", HOME) as writer:
        held = measure(writer, plans("liar"))
        with ledger._database.trying() as book:
            for stated in (
                {"refused": 0, "open": 1, "fitted": 0, "allowed": [], "schemas": 1},
                None,
            ):
                body = dict(end.body)
                body["spent"] = str(sum(c.cost for c in writer.charges(held)))
                body |= {} if stated is None else {"attempts": stated}
                if stated is None:
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
    with ledger.lease("town", HOME) as writer:
        writer.examine(held)
    assert "unknown verdict" in refused("verdict", {"verdict": "nearly"}, **of)
    for number in range(2):
        refuse(ledger, plans(f"no-{number}"))
    other = reserve(ledger, plans("other"))
    of = {"release": "other", "reservation": other.position}
    assert "too many attempts" in refused("examine", {}, **of)


def test_a_file_that_replaces_the_bound_one_is_a_refused_attempt(ledger, plans):
    plan = plans("first")
    with ledger.lease("first", HOME) as writer:
        held = measure(writer, plan, ("one_way",))
        for number in range(3):
            assert attempts(ledger) == (number, number, 0)
            with pytest.raises(BadInput, match="changed since it began"):
                writer.bind_input(held, f"guess {number}", KEY)
        # A stopped account compares no file, neither a wrong guess nor the right one.
        for file in ("guess 3", "input of first"):
            with pytest.raises(BudgetRefused, match="allow-retry"):
                writer.bind_input(held, file, KEY)
        assert attempts(ledger) == (3, 3, 0)
        ledger.allow_retry("town", **WHO)
        assert writer.examine(held)
        writer.bind_input(held, "input of first", KEY)
        writer.judge(held, "fits")
        writer.charge(held, "measure-0", steps_of(plan, "measure"))
        writer.commit(held, "measure-0", "0" * 64)
        writer.settle(held, "finished")
    assert attempts(ledger) == (3, 0, 0)
    ledger.verify(KEY)


def test_before_the_first_charge_a_replaced_file_ends_the_attempt_that_was_open(ledger, plans):
    for number in range(2):
        refuse(ledger, plans(f"no-{number}"))
    with ledger.lease("first", HOME) as writer:
        held = writer.reserve(plans("first"))
        writer.examine(held)
        writer.bind_input(held, "input of first", KEY)
        writer.judge(held, "fits")
        # Its own open attempt does not stop it.
        writer.bind_input(held, "input of first", KEY)
        assert attempts(ledger) == (2, 2, 1)
        with pytest.raises(BadInput, match="changed since it began"):
            writer.bind_input(held, "guess", KEY)
    assert attempts(ledger) == (3, 3, 0)
    ledger.verify(KEY)


def test_a_charged_release_goes_on_while_others_have_open_attempts(ledger, plans):
    """Nobody is called at night because three others are at work; a wrong file still counts."""
    plan = plans("first")
    with ledger.lease("first", HOME) as writer:
        held = writer.reserve(plan)
        writer.examine(held)
        writer.bind_input(held, "input of first", KEY)
        writer.judge(held, "fits")
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
    for number in range(3):
        with ledger.lease(f"other-{number}", HOME) as other:
            other.examine(other.reserve(plans(f"other-{number}")))
    with ledger.lease("first", HOME) as writer:
        writer.bind_input(held, "input of first", KEY)
        with pytest.raises(BadInput, match="changed since it began"):
            writer.bind_input(held, "guess", KEY)
    assert attempts(ledger) == (1, 1, 3)
    ledger.verify(KEY)


def begin_charged(writer, plan, stages=("one_way",)):
    """Let the data fit, and charge and commit whole stages."""
    held = writer.reserve(plan)
    writer.examine(held)
    writer.bind_input(held, "input of first", KEY)
    writer.judge(held, "fits")
    for stage in stages:
        writer.charge(held, f"{stage}-0", steps_of(plan, stage))
        writer.commit(held, f"{stage}-0", "0" * 64)
    return held


@pytest.mark.parametrize("read", [["unreadable"], ["wrong", "unreadable", "unreadable"]])
def test_a_charged_release_is_finished_after_wrong_and_unreadable_files(ledger, plans, read):
    """A file that is missing once must not close the release for ever."""
    plan = plans("first")
    with ledger.lease("first", HOME) as writer:
        held = begin_charged(writer, plan)
        with pytest.raises(BadInput, match="changed since it began"):
            writer.bind_input(held, "guess", KEY)
        for file in read:
            assert writer.examine(held)
            if file == "unreadable":
                writer.judge(held, "unreadable")
                continue
            with pytest.raises(BadInput, match="changed since it began"):
                writer.bind_input(held, "guess", KEY)
        assert attempts(ledger) == (1 + ("wrong" in read),) * 2 + (0,)
        assert writer.examine(held)
        writer.bind_input(held, "input of first", KEY)
        writer.judge(held, "fits")
        assert writer.grant(held, plan.hash, "measure").left
        writer.charge(held, "measure-0", steps_of(plan, "measure"))
        writer.commit(held, "measure-0", "0" * 64)
        writer.settle(held, "finished")
    ledger.verify(KEY)


def test_a_release_whose_data_could_not_be_read_begins_a_new_attempt(ledger, plans):
    """Otherwise the next answer about its data would not be counted."""
    with ledger.lease("gone", HOME) as writer:
        held = writer.reserve(plans("gone"))
        writer.examine(held)
        writer.judge(held, "unreadable")
        assert writer.examine(held)
        writer.judge(held, "refused")
        assert not writer.examine(held)
        writer.settle(held, "returned")
    assert attempts(ledger) == (1, 1, 0)
    ledger.verify()


def test_no_stage_gets_a_grant_before_the_data_were_found_to_fit(ledger, plans):
    plan = plans("first")
    with ledger.lease("first", HOME) as writer:
        held = writer.reserve(plan)
        writer.examine(held)
        writer.bind_input(held, "input of first", KEY)
        with pytest.raises(BadInput, match="stage 'count' gets no grant"):
            writer.grant(held, plan.hash, "count")
        writer.judge(held, "fits")
        writer.grant(held, plan.hash, "count")
        writer.charge(held, "one_way-0", steps_of(plan, "one_way"))
        writer.grant(held, plan.hash, "measure")
        with pytest.raises(BadInput, match="changed since it began"):
            writer.bind_input(held, "guess", KEY)
        with pytest.raises(BadInput, match="stage 'measure' gets no grant"):
            writer.grant(held, plan.hash, "measure")


@pytest.mark.parametrize("outcome", ["finished", "abandoned"])
def test_one_wrong_file_of_a_release_that_has_charged_all_is_one_refused_attempt(
    ledger, plans, outcome
):
    with ledger.lease("first", HOME) as writer:
        held = begin_charged(writer, plans("first"), ("one_way", "measure"))
        with pytest.raises(BadInput, match="changed since it began"):
            writer.bind_input(held, "guess", KEY)
        assert writer.examine(held)
        assert attempts(ledger) == (1, 1, 1)
        writer.bind_input(held, "input of first", KEY)
        writer.judge(held, "fits")
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

    with ledger.lease("first", HOME) as writer:
        held = begin_charged(writer, plans("first"), ("one_way", "measure"))
        with pytest.raises(BadInput, match="changed since it began"):
            writer.bind_input(held, "guess", KEY)
        writer.examine(held)
        with monkeypatch.context() as patch:
            patch.setattr("tasks.ledger.release_writer.add", left_open)
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
    ledger, plans, charged, body
):
    with ledger.lease("first", HOME) as writer:
        if charged:
            held = begin_charged(writer, plans("first"))
            with pytest.raises(BadInput, match="changed since it began"):
                writer.bind_input(held, "guess", KEY)
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
        with ledger.lease(f"open-{number}", HOME) as writer:
            writer.examine(writer.reserve(plans(f"open-{number}")))
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
        with ledger.lease(f"open-{name}", HOME) as writer:
            writer.examine(writer.reserve(wards(f"open-{name}", account=name)))
    with ledger.lease("fourth", HOME) as writer:
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


def fit(ledger, plan, outcome="finished"):
    with ledger.lease(plan.spec.release, HOME) as writer:
        held = writer.reserve(plan)
        writer.examine(held)
        writer.bind_input(held, "input", KEY)
        writer.judge(held, "fits")
        if outcome == "finished":
            for stage in ("one_way", "measure"):
                writer.charge(held, f"{stage}-0", steps_of(plan, stage))
                writer.commit(held, f"{stage}-0", "0" * 64)
        return writer.settle(held, outcome)


def test_attempts_that_fit_are_counted_and_stated(ledger, plans):
    """A release of a tiny epsilon buys the exact answer that the data fit."""
    for number in range(4):
        fit(ledger, plans(f"yes-{number}"))
        assert ledger.attempts("town").fitted == number + 1
    (end,) = ledger.entries(kinds=("settle",), release="yes-3")
    assert end.body["attempts"] == {
        "refused": 0,
        "open": 0,
        "fitted": 4,
        "allowed": [],
        "schemas": 1,
    }
    fit(ledger, plans("abandoned"), "abandoned")
    found = ledger.attempts("town")
    assert (found.refused, found.fitted) == (1, 5)
    refuse(ledger, plans("no"))
    assert ledger.attempts("town").fitted == 5
    ledger.verify(KEY)


def test_attempts_that_fit_in_a_ledger_of_before_are_not_counted(ledger, plans, monkeypatch):
    def stated(book, account):
        values = attempts_of(book, account).to_json()
        del values["fitted"]
        return {"attempts": values}

    def uncounted(book, reservation, kind, *, body, **more):
        values = {name: value for name, value in body.items() if name != "counted"}
        add(book, reservation, kind, body=values, **more)

    with monkeypatch.context() as patch:
        patch.setattr("tasks.ledger.reservation_entries.attempts_stated", stated)
        patch.setattr("tasks.ledger.release_writer.add", uncounted)
        fit(ledger, plans("old"))
    assert ledger.attempts("town").fitted == 0
    ledger.verify(KEY)
    fit(ledger, plans("new"))
    assert ledger.attempts("town").fitted == 1
    monkeypatch.setattr("tasks.ledger.reservation_entries.attempts_stated", stated)
    with pytest.raises(LedgerCorrupt, match="other refused"):
        fit(ledger, plans("liar"))
    ledger.verify(KEY)


def test_a_settlement_states_the_attempts_of_its_family_too(ledger, wards, monkeypatch):
    def of_the_account(book, account):
        return {"attempts": attempts_of(book, account).to_json()}

    with monkeypatch.context() as patch:
        patch.setattr("tasks.ledger.reservation_entries.attempts_stated", of_the_account)
        fit(ledger, wards("before", account="north"))  # as an earlier version wrote it
    refuse(ledger, wards("no", account="south"))
    fit(ledger, wards("done", account="north"))
    ledger.verify(KEY)
    (end,) = ledger.entries(kinds=("settle",), release="done")
    own = {"refused": 0, "open": 0, "fitted": 2, "allowed": [], "schemas": 1}
    assert end.body["attempts"] == own | {"family": {"refused": 1, "open": 0, "fitted": 2}}
    stated = refusals_statement(end.body)
    assert stated["refused_attempts"] == 0
    assert stated["family"]["refused_attempts"] == 1
    assert "1 refused, 0 open and 2" in stated["in_words"]

    def less(book, account):
        found = {"refused": 0, "open": 0, "fitted": 3}
        return {"attempts": attempts_of(book, account).to_json() | {"family": found}}

    monkeypatch.setattr("tasks.ledger.reservation_entries.attempts_stated", less)
    with pytest.raises(LedgerCorrupt, match="other refused"):
        fit(ledger, wards("liar", account="north"))


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
