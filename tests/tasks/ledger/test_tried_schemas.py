"""The number of schemas that a family of accounts may try on its data in a period."""

from dataclasses import replace

import pytest

from dp_core.bundle.statement.sections import refusals_statement
from dp_core.errors import BudgetRefused, LedgerCorrupt
from dp_core.policies.tried_schemas import MOST_SCHEMAS
from dp_core.schema.reading.restricted_schema import restricted_schema
from dp_core.schema.reading.schema_file import parse_schema
from tests.both_writers import both_writers
from tests.ledgers import GAUSSIAN, HOME, KEY, basic, monthly, on, open_town, refuse, reserve, spend
from tests.specs import plan_of

pytestmark = pytest.mark.any_database

WHO = {"by": "officer", "reason": "the bounds of the new register"}
SMALL = "{epsilon: 0.04, delta: 1e-9}"


@pytest.fixture
def plans(tmp_path):
    """Make plans of small releases by name, with a rule that makes the schema another one."""

    def make(name, rule=None, account="town"):
        plan = plan_of(tmp_path, GAUSSIAN, release=name, privacy=SMALL, account=account)
        if rule is None:
            return plan
        schema = other(plan.spec.schema, missing_values=["", f"no-{rule}"])
        return replace(plan, spec=replace(plan.spec, schema=schema))

    return make


def other(schema, **keys):
    return parse_schema({**schema.document, **keys})


def tried(ledger, account="town"):
    found = ledger.tried_schemas(account)
    return found.total, found.recent


def fill(ledger, plans, schemas=MOST_SCHEMAS, **of):
    """Try as many schemas as are allowed, each in a release that is published."""
    for number in range(schemas):
        spend(ledger, plans(f"probe-{number}", number, **of))


@pytest.mark.runbook("schemas-tried")
def test_after_ten_schemas_a_person_must_allow_more(ledger, plans, says):
    open_town(ledger)
    fill(ledger, plans)
    assert tried(ledger) == (10, 10)
    eleventh = plans("eleventh", 10)
    for ask in (ledger.check, lambda plan: reserve(ledger, plan)):
        with pytest.raises(BudgetRefused) as refused:
            ask(eleventh)
        says(refused.value)
        assert refused.value.exit_code == 3
        assert "`dp-release ledger allow-retry town --by NAME --reason TEXT`" in str(refused.value)
    assert ledger.reservation("eleventh") is None
    spend(ledger, plans("known", 3))  # a schema that was tried
    ledger.allow_retry("town", **WHO)
    assert (ledger.head().kind, ledger.head().body) == ("allow-retry", WHO)
    spend(ledger, eleventh)
    assert tried(ledger) == (11, 1)
    ledger.verify()


def test_the_schema_of_a_refused_attempt_counts(ledger, plans):
    open_town(ledger)
    refuse(ledger, plans("no", 1))
    refuse(ledger, plans("no-again", 1))
    assert tried(ledger) == (1, 1)


def test_another_account_of_the_family_gives_no_further_schemas(ledger, plans):
    open_town(ledger, "country", basic("9", "1e-4"))
    for name in ("town", "north"):
        open_town(ledger, name, within="country")
    fill(ledger, plans)
    for account in ("north", "country"):
        with pytest.raises(BudgetRefused, match="different schemas"):
            reserve(ledger, plans("other", 10, account=account))
    open_town(ledger, "village")  # another family, which may not use the same data
    spend(ledger, plans("of-village", 10, account="village"))
    ledger.verify()


def test_a_new_period_gives_further_schemas_and_a_clock_that_is_set_back_does_not(
    ledger, plans, monkeypatch
):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, calendar=monthly("1"))
    fill(ledger, plans)
    on(monkeypatch, "2026-12-01")
    # The schemas of earlier periods count again: the data may be others.
    spend(ledger, plans("december", 3))
    assert tried(ledger) == (11, 1)
    for number in range(MOST_SCHEMAS - 1):
        spend(ledger, plans(f"more-{number}", 20 + number))
    on(monkeypatch, "2026-11-30")
    with pytest.raises(BudgetRefused, match="different schemas"):
        reserve(ledger, plans("back", 50))
    ledger.verify()


def part_of(plan, names, release):
    """Return a plan of a release with some of the columns."""
    spec = replace(plan.spec, schema=restricted_schema(plan.spec.schema, names), release=release)
    return replace(plan, spec=spec)


def bound(ledger, plan, data):
    """Reserve, bind to data, and let the release end."""
    with both_writers(ledger, plan.spec.release, HOME) as writer:
        reservation = writer.reserve(plan)
        writer.bind_input(reservation, data, KEY)
        writer.settle(reservation, "returned")


def test_questions_about_data_that_fit_the_whole_schema_of_a_desk_count_once(
    ledger, plans, monkeypatch
):
    on(monkeypatch, "2026-11-20")
    open_town(ledger, calendar=monthly("1"))
    plan = plans("any")
    for _ in range(2):
        ledger.open_desk("town", "f" * 64, plan.spec.schema, **WHO, fits="d" * 64)
    assert tried(ledger) == (1, 1)
    on(monkeypatch, "2026-12-01")
    number = 0
    for names in (*plan.spec.schema.names, ("a", "b"), ("b", "c"), ("a", "c")):
        for _ in range(3):
            number += 1
            bound(ledger, part_of(plan, [*names], f"question-{number}"), "d" * 64)
    assert tried(ledger) == (1, 0)
    ledger.verify(KEY)


def test_a_part_of_a_desks_schema_counts_for_data_that_nobody_checked(ledger, plans):
    """A desk of other data, such as an empty copy, gives no exact answers about these."""
    open_town(ledger)
    plan = plans("any")
    ledger.open_desk("town", "f" * 64, plan.spec.schema, **WHO, fits="e" * 64)
    for number, name in enumerate(plan.spec.schema.names, start=1):
        bound(ledger, part_of(plan, [name], f"about-{name}"), "d" * 64)
        assert tried(ledger) == (1 + number, 1 + number)
    bound(ledger, part_of(plan, ["a"], "again"), "d" * 64)
    assert tried(ledger) == (4, 4)
    ledger.verify(KEY)


def test_a_desk_whose_data_were_not_checked_frees_no_question(ledger, plans):
    open_town(ledger)
    plan = plans("any")
    ledger.open_desk("town", "f" * 64, plan.spec.schema, **WHO)
    bound(ledger, part_of(plan, ["a"], "about-a"), "d" * 64)
    assert tried(ledger) == (2, 2)


def test_a_part_of_a_desks_schema_is_refused_for_other_data_when_ten_were_tried(ledger, plans):
    open_town(ledger)
    plan = plans("any")
    ledger.open_desk("town", "f" * 64, plan.spec.schema, **WHO, fits="e" * 64)
    fill(ledger, plans, MOST_SCHEMAS - 1)
    question = part_of(plan, ["a"], "question")
    with both_writers(ledger, "question", HOME) as writer:
        reservation = writer.reserve(question)
        with pytest.raises(BudgetRefused, match="Open a question desk again"):
            writer.bind_input(reservation, "d" * 64, KEY)
        assert not ledger.entries(kinds=("input",), release="question")
        writer.bind_input(reservation, "e" * 64, KEY)
        writer.settle(reservation, "returned")
    assert tried(ledger) == (10, 10)
    ledger.verify(KEY)


@pytest.mark.parametrize("of_a_desk", [False, True], ids=["reservation", "input"])
def test_what_is_beyond_the_limit_is_found(ledger, plans, monkeypatch, of_a_desk):
    open_town(ledger)
    plan = plans("any")
    if of_a_desk:
        ledger.open_desk("town", "f" * 64, plan.spec.schema, **WHO, fits="e" * 64)
    fill(ledger, plans, MOST_SCHEMAS - of_a_desk)
    with monkeypatch.context() as patch:
        patch.setattr("dp_core.policies.tried_schemas.MOST_SCHEMAS", 20)
        patch.setattr("tasks.ledger.reservation_check.MOST_SCHEMAS", 20)
        if of_a_desk:
            bound(ledger, part_of(plan, ["a"], "question"), "d" * 64)
        else:
            spend(ledger, plans("eleventh", 10))
        ledger.verify(KEY)
    with pytest.raises(LedgerCorrupt, match="more schemas than are allowed"):
        ledger.verify(KEY)


def test_part_of_a_schema_that_is_no_desk_is_another_schema(ledger, plans):
    """After the whole was refused, its rules one by one would be further answers."""
    open_town(ledger)
    plan = plans("whole")
    refuse(ledger, plan)
    part = restricted_schema(plan.spec.schema, ["a", "b"])
    plan = plans("part")
    spend(ledger, replace(plan, spec=replace(plan.spec, schema=part)))
    assert tried(ledger) == (2, 2)


def test_a_desk_with_a_further_schema_is_refused(ledger, plans):
    open_town(ledger)
    fill(ledger, plans)
    with pytest.raises(BudgetRefused, match="different schemas"):
        ledger.open_desk("town", "f" * 64, plans("desk", 10).spec.schema, **WHO)


def test_the_statement_gives_the_number(ledger, plans):
    open_town(ledger)
    fill(ledger, plans, 3)
    said = refusals_statement(ledger.head().body)
    assert said["tried_schemas"] == 3
    assert "tried on its data: 3." in said["in_words"]
    assert "tried_schemas" not in refusals_statement({"attempts": {"refused": 0}})
