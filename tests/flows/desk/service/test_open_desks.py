"""The desks of a home, as the service shows them to their users."""

import json
from fractions import Fraction

import pytest

from dp_core.errors import BudgetRefused
from dp_core.kernel.cost.composition import Terms
from dp_core.text.pages.answer import plain
from flows.desk.asking import answer_question
from flows.desk.desk import close_desk
from flows.desk.service.open_desks import ABOVE, NotAllowed, OpenDesks
from tests.flows.desk.conftest import WHO

USERS = "users: {anna: {account: rand-anna}, ben: {account: rand-ben}}\n"


@pytest.fixture
def desks(office):
    """A desk whose account has 5, of which anna may spend 1 and ben 5."""
    for name, epsilon in (("rand-anna", 1), ("rand-ben", 5)):
        terms = Terms("basic", Fraction(epsilon), Fraction("1e-6"))
        office.project.open_account(name, terms=terms, within="rand")
    office.open(largest="5", more=USERS)
    return OpenDesks()


def answered(office, number):
    return answer_question(office.desk, number, carry_out=office.carry_out)


def test_a_plan_names_the_user_s_own_account_only(desks, office):
    found = desks.plan("rand", "anna", "count by sex", "0.25")
    assert (found["account"], found["cost"]["epsilon"]) == ("rand-anna", 0.25)
    assert (found["left_before"]["epsilon"], found["left_after"]["epsilon"]) == (1.0, 0.75)
    assert (found["already_answered"], found["awaits_approval"], found["id"]) == (
        False,
        False,
        None,
    )
    assert found["expected_width"] > 0
    # The desk's account has 5, which is nobody's business.
    assert "5.0" not in json.dumps(found)
    assert '"rand"' not in json.dumps(found)
    assert office.spent_nothing()


def test_an_answer_is_that_of_query_with_its_cost_and_receipt(desks, office):
    number = desks.admit("rand", "anna", "count by sex", "0.25")
    assert [each.state for each in desks.questions()] == ["waiting"]
    assert desks.is_known("rand", "anna", "count by sex", "0.25")
    assert not desks.is_known("rand", "anna", "count by age", "0.25")
    made = answered(office, number)
    assert [each.state for each in desks.questions()] == ["answered"]
    found = desks.answer("rand", number)
    assert list(found) == [*made.answer.to_json(), "cost", "receipt"]
    assert found["cells"] == plain(made.answer.to_json()["cells"])
    assert found["cost"]["epsilon"] == 0.25
    assert found["cost"]["delta"] == 0  # Laplace noise, although the desk allows a delta
    assert found["receipt"]["release"] == made.release
    assert len(found["receipt"]["ledger_head"]) == 64
    assert str(office.project.home) not in json.dumps(found, allow_nan=False)
    assert desks.bundle("rand", number) == made.folder
    assert desks.allowance("rand", "anna")["left"]["epsilon"] == 0.75


def test_a_question_that_another_user_paid_for_costs_nothing(desks, office):
    answered(office, desks.admit("rand", "anna", "count by sex", "0.25"))
    found = desks.plan("rand", "ben", "share by sex", "0.25")
    assert found["already_answered"]
    assert found["cost"]["epsilon"] == 0
    number = desks.admit("rand", "ben", "share by sex", "0.25")
    assert [(each.user, each.state) for each in desks.questions()] == [
        ("anna", "answered"),
        ("ben", "answered"),
    ]
    assert desks.answer("rand", number)["cost"]["epsilon_exact"] == "0"
    assert desks.answer("rand", number)["question"] == "share by sex"
    assert desks.allowance("rand", "ben")["left"]["epsilon"] == 5


def test_another_question_about_a_table_that_waits_is_not_taken_for_the_first(desks, office):
    number = desks.admit("rand", "anna", "count by sex", "0.25")
    with pytest.raises(BudgetRefused, match=f"question {number} measures the same table"):
        desks.admit("rand", "anna", "share by sex", "0.25")
    answered(office, number)
    desks.admit("rand", "anna", "share by sex", "0.25")


def test_a_refusal_tells_amounts_of_the_user_s_own_account_only(desks, office):
    with pytest.raises(BudgetRefused, match="'rand-anna'"):
        desks.plan("rand", "anna", "count by sex", "1.25")
    answered(office, desks.admit("rand", "ben", "count by sex", "4.5"))
    for refused in (desks.plan, desks.admit):
        with pytest.raises(BudgetRefused) as error:
            refused("rand", "anna", "count by age", "0.75")
        assert error.value.message == ABOVE


@pytest.mark.parametrize(("account", "user"), [("rand", "carl"), ("other", "anna"), ("rand", "")])
def test_who_is_not_a_user_of_the_desk_learns_nothing(desks, account, user):
    for asked in (desks.plan, desks.admit, desks.is_known):
        with pytest.raises(NotAllowed):
            asked(account, user, "count by sex", "0.25")
    with pytest.raises(NotAllowed):
        desks.allowance(account, user)
    assert desks.questions() == []


def test_a_closed_desk_takes_no_question_and_keeps_its_answers(desks, office):
    number = desks.admit("rand", "anna", "count by sex", "0.25")
    answered(office, number)
    close_desk(office.desk, office.project.ledger(), **WHO)
    with pytest.raises(BudgetRefused, match="closed"):
        desks.admit("rand", "anna", "count by age", "0.25")
    assert not desks.allowance("rand", "anna")["open"]
    assert desks.answer("rand", number)["cost"]["epsilon"] == 0.25


def test_the_schema_is_the_public_one(desks, office):
    found = desks.schema("rand")
    names = [next(iter(each)) for each in found["schema"]["columns"]]
    assert names == list(office.desk.terms.schema.names)
    assert (found["neighbours"], found["delta_exact"]) == ("add-remove", "1/1000000000")


def test_numbers_that_are_none_are_null():
    assert plain({"a": float("nan"), "b": [float("inf"), Fraction(1, 3)], "c": True}) == {
        "a": None,
        "b": [None, "1/3"],
        "c": True,
    }
