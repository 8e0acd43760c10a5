"""Questions from their plan to the answer: what they cost, what they answer, what is refused."""

import fcntl
import json
from fractions import Fraction

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import AwaitsApproval, BadInput, BudgetRefused, Held, StageFailed, Unpublished
from dp_core.kernel.cost.composition import Terms
from dp_core.policies.refused_attempts import MOST_REFUSED
from dp_core.policies.tried_schemas import MOST_SCHEMAS
from flows.cli.actions.publication_decisions import publish, withdraw
from flows.desk import own_process
from flows.desk.asked_question import HOW
from flows.desk.asking import admit_question, answer_question, plan_question
from flows.desk.desk import close_desk, find_desk, open_desk
from flows.desk.desk_answers import desk_answer
from flows.desk.kept_questions import KeptQuestions
from tests.flows.conftest import COLUMNS, plainly, stopping, survey
from tests.flows.desk.conftest import WHO, fits
from tests.raising import raising

row = pytest.mark.runbook


def column(name):
    place = COLUMNS.index(name)
    return [each[place] for each in survey()]


# -- the plan


def test_a_plan_says_what_a_table_costs_and_how_exact_it_is(office):
    found = office.plan("count by sex", "0.5")
    assert (found.kind, found.question, found.table) == ("table", "count by sex", ("sex",))
    assert (found.account, found.number, found.already) == ("rand", 1, None)
    assert (found.cost.epsilon, found.left_before.epsilon) == (Fraction(1, 2), 5)
    assert found.left_after.epsilon == Fraction(9, 2)
    # Discrete Laplace noise of scale 2 is at most 6 with probability .95.
    assert 5 <= found.expected_width <= 7
    assert office.spent_nothing()


@row("question-refused")
def test_an_epsilon_above_the_limit_is_refused(office, says):
    with pytest.raises(BudgetRefused, match="at most epsilon 1") as refused:
        office.plan("count by sex", "1.01")
    says(refused.value)
    for given in ("0", "-1", "much", "1e-300", Fraction(1, 10**300)):
        with pytest.raises(BadInput, match=r"^The epsilon '.*1e-"):
            office.plan("count by sex", given)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("count by sxe", "The schema (Town survey) has no column 'sxe'. Did you mean 'sex'"),
        ("incom ~ age", "The schema (Town survey) has no column 'incom'. Did you mean 'income'"),
        ("income ~ C(age)", "as levels; a regression that a desk answers is"),
        ("income ~ log(age)", "log(age) has no value where age is 0"),
        ("income ~ C(sex, Treatment('femal'))", "sex has no level 'femal'"),
        ("income = age + sex", 'a regression such as "income ~ age + sex"'),
        ("", "The question is empty"),
        ("share where sex = female", "`share of sex = female`"),
        ("share by sex where sex = male", "100 % for every file"),
        ("mean of sex", "has levels, not numbers"),
        ("median of sex", "no median or quantile"),
        ("count by\x1b[2J sex", "cannot be printed"),
        ("count by sex " * 500, "longer than"),
        ("income ~ __import__('os').system('x')", "nothing has parts here"),
    ],
)
def test_what_is_no_question_is_refused_before_anything_is_stored(office, question, says):
    with pytest.raises(BadInput) as refused:
        admit_question(office.desk, question, "1")
    assert says in refused.value.message
    assert not [*office.desk.folder.glob("*.json")][1:]
    assert office.spent_nothing()


def test_a_question_that_every_file_answers_alike_is_not_taken_for_a_formula(office):
    with pytest.raises(BadInput, match="for every file") as refused:
        office.plan("share where sex = female", "1")
    assert HOW not in refused.value.message


# -- answers


def test_a_table_is_answered_with_its_noise_and_paid_exactly(office):
    found = office.ask("count by sex")
    exact = {"1": column("sex").count("1"), "2": column("sex").count("2")}
    cells = {cell["sex"]: cell for cell in found.answer.cells}
    # Discrete Laplace noise of scale 1: each of two counts is off by more than 20 with probability
    # below 2e-9.
    assert all(abs(cells[sex]["estimate"] - count) <= 20 for sex, count in exact.items())
    assert all(0 < cell["margin"] <= 10 for cell in cells.values())
    assert (found.release, found.paid.epsilon, found.already) == ("rand-question-0001", 1, False)
    assert office.left() == 4
    assert verify(found.folder).passed
    statement = json.loads((found.folder / "release.json").read_text())
    spec = statement["method"]["plan"]["spec"]
    assert (spec["data"], spec["synthesize"]["sets"]) == ("files/town.csv", 0)


def test_a_regression_is_planned_and_answered_from_its_sums(office):
    """That such sums give the file's own coefficients is tested in test_declared_values.py."""
    wide, narrow = (office.plan("income ~ age", each).expected_width for each in ("0.1", "1"))
    assert wide > narrow > 1
    # With less epsilon noise may hide every coefficient of 400 records.
    terms = Terms("basic", Fraction(200), Fraction("1e-6"))
    office.account = "rich"
    office.project.open_account(office.account, terms=terms)
    office.open(largest="100")
    found = office.ask("income ~ age + sex", "100").answer
    assert found.answered_from == "declared"
    # Noise decides which of two levels of about the same size is the reference.
    names = {each.name for each in found.coefficients}
    assert names - {"sex[T.female]", "sex[T.male]"} == {"Intercept", "age"}
    assert len(names) == 3


def test_only_the_columns_of_the_question_are_in_its_bundle(office):
    found = office.ask("count by sex")
    schema = json.loads((found.folder / "release.json").read_text())
    assert "income" not in json.dumps(schema["method"]["plan"]["spec"])
    names = [
        name
        for each in json.loads(next(office.desk.folder.glob("*-0001.schema.yaml")).read_text())[
            "columns"
        ]
        for name in each
    ]
    assert names == ["sex"]


def test_a_question_that_is_answered_costs_nothing_again(office):
    first = office.ask("count by sex")
    left = office.left()
    again = office.ask("count by sex", "0.25")
    assert (again.already, again.paid.epsilon, again.number) == (True, 0, first.number)
    assert again.answer == first.answer
    # Any question about the same table is read from it.
    other = office.ask("share of female", "0.5")
    assert (other.release, other.number, other.already) == (first.release, 2, True)
    assert office.plan("share of female").already == first.release
    assert (office.left(), office.made) == (left, ["rand-question-0001.release.yaml"])


def test_a_larger_epsilon_or_anew_is_paid(office):
    office.ask("count by sex", "0.25")
    assert office.plan("count by sex", "0.5").already is None
    second = office.ask("count by sex", "0.25", anew=True)
    assert (second.release, second.paid.epsilon) == ("rand-question-0002", Fraction(1, 4))
    assert office.left() == Fraction(9, 2)


def test_an_answer_about_another_schema_is_not_used(office):
    office.ask("count by age")
    path = office.project.folder / "town.schema.yaml"
    path.write_text(path.read_text().replace("[0, 15, 40, 100]", "[0, 15, 50, 100]"))
    assert office.plan("count by age").already is not None  # the desk keeps its schema
    office.open()
    assert office.plan("count by age").already is None


# -- who pays


@pytest.fixture
def users(office):
    terms = Terms("basic", Fraction(1), Fraction("1e-7"))
    office.project.open_account("rand-anna", terms=terms, within="rand")
    office.open(more="users: {anna: {account: rand-anna}}\n")
    return office


def test_a_user_and_the_desk_both_pay(users):
    found = users.plan("count by sex", "0.75", "anna")
    assert [each.account for each in found.accounts] == ["rand-anna", "rand"]
    assert (found.account, found.left_after.epsilon) == ("rand-anna", Fraction(1, 4))
    users.ask("count by sex", "0.75", "anna")
    assert (users.left("rand-anna"), users.left()) == (Fraction(1, 4), Fraction(17, 4))


TWO = "users: {anna: {account: rand-anna}, bert: {account: rand-bert}}\n"


@pytest.fixture
def two(users):
    terms = Terms("basic", Fraction(1), Fraction("1e-7"))
    users.project.open_account("rand-bert", terms=terms, within="rand")
    users.open(more=TWO)
    return users


def test_users_ask_about_one_file_and_the_account_of_the_desk_pays_for_all(two):
    two.ask("count by sex", "0.5", "anna")
    two.ask("count by marital", "0.75", "bert")
    assert (two.left("rand-anna"), two.left("rand-bert")) == (Fraction(1, 2), Fraction(1, 4))
    assert two.left() == 5 - Fraction(5, 4)
    # What anna paid for is free for bert.
    assert two.ask("count by sex", "0.5", "bert").already
    two.project.ledger().verify()


def test_two_users_who_ask_the_same_together_pay_once(two):
    first = admit_question(two.desk, "count by sex", "0.25", "anna")
    second = admit_question(two.desk, "share of female", "0.125", "bert")
    larger = admit_question(two.desk, "count by sex", "0.5", "bert")
    anew = admit_question(two.desk, "count by sex", "0.0625", "bert", anew=True)
    answer_question(two.desk, first, carry_out=two.carry_out)
    found = answer_question(two.desk, second, carry_out=two.carry_out)
    assert (found.already, found.paid.epsilon, found.release) == (True, 0, "rand-question-0001")
    for number, epsilon in ((larger, Fraction(1, 2)), (anew, Fraction(1, 16))):
        paid = answer_question(two.desk, number, carry_out=two.carry_out)
        assert (paid.already, paid.paid.epsilon) == (False, epsilon)


def test_who_asks_while_the_same_is_answered_waits_and_pays_nothing(two):
    first = admit_question(two.desk, "count by sex", "0.5", "anna")
    second = admit_question(two.desk, "count by sex", "0.5", "bert")
    asks = KeptQuestions(two.desk).find(first).asks

    def while_another_asks(spec, out):
        with (
            (two.desk.folder / "answering" / asks).open() as lock,
            pytest.raises(BlockingIOError),  # another process waits here
        ):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        two.carry_out(spec, out)

    answer_question(two.desk, first, carry_out=while_another_asks)
    found = answer_question(two.desk, second, carry_out=two.carry_out)
    assert (found.already, two.left("rand-bert")) == (True, 1)
    assert two.made == ["rand-question-0001.release.yaml"]


def test_who_asks_what_awaits_approval_waits_for_that_answer(two):
    two.open(more=f"answers: after-approval\n{TWO}")
    first = admit_question(two.desk, "count by sex", "0.5", "anna")
    second = admit_question(two.desk, "count by sex", "0.5", "bert")
    for number in (first, second):
        with pytest.raises(Held, match="dp-release release publish rand-question-0001"):
            answer_question(two.desk, number, carry_out=two.carry_out)
    ledger = two.project.ledger()
    publish(two.project.home, ledger, "rand-question-0001", out=None, by="officer", reason="test")
    assert answer_question(two.desk, second, carry_out=two.carry_out).already
    assert (two.left("rand-bert"), len(two.made)) == (1, 1)


def test_an_allowance_that_is_used_up_is_refused_before_data_are_opened(users):
    users.ask("count by sex", "0.75", "anna")
    (users.project.folder / "town.csv").unlink()
    for refused in (users.plan, users.ask):
        with pytest.raises(BudgetRefused) as error:
            refused("count by marital", "0.75", "anna")
        assert error.value.row == "budget-used-up"
    assert users.made == ["rand-question-0001.release.yaml"]


@pytest.mark.parametrize("user", [None, "bert"])
def test_an_unknown_user_is_refused(users, user):
    with pytest.raises(BudgetRefused) as refused:
        users.plan("count by sex", "0.5", user)
    assert refused.value.row == "question-refused"
    assert users.spent_nothing()


def test_the_accounts_of_a_desk_are_checked_when_it_is_opened(office):
    office.project.open_account("beside")
    office.project.open_account("other", neighbours="replace-one")
    for more, says in (
        ("users: {anna: {account: nobody}}\n", "does not exist"),
        ("users: {anna: {account: beside}}\n", "is not within 'rand'"),
    ):
        with pytest.raises(BudgetRefused, match=says):
            office.open(more=more)
    path = office.project.folder / "questions.yaml"
    for account, says in (("nowhere", "There is no account"), ("other", "replace-one")):
        path.write_text(path.read_text().partition("users")[0].replace("rand", account))

        with pytest.raises(BudgetRefused, match=says):
            open_desk(path, office.project.ledger(), **WHO, fits=fits)
        path.write_text(path.read_text().replace(account, "rand"))
    assert office.desk.terms.users == {}


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"delta": "1e-3"}, "the total delta of the account 'rand' is 1e-06"),
        (
            {"delta": "1e-6", "more": "users: {anna: {account: anna}}\n"},
            "'anna' of user 'anna' is 1e-09",
        ),
    ],
)
def test_terms_that_no_question_can_meet_are_refused(office, terms, says):
    office.project.open_account(
        "anna", within="rand", terms=Terms("basic", Fraction(1), Fraction("1e-9"))
    )
    before = office.desk.terms
    with pytest.raises(BadInput) as refused:
        office.open(**terms)
    assert says in refused.value.message
    assert office.desk.terms == before


def test_gaussian_noise_is_taken_where_it_costs_less(office):
    office.project.open_account("many", terms=Terms("zcdp", Fraction(5), Fraction("1e-6")))
    path = office.project.folder / "questions.yaml"
    path.write_text(path.read_text().replace("account: rand", "account: many"))
    open_desk(path, office.project.ledger(), **WHO, fits=fits)
    found = plan_question(find_desk("many"), "count by sex", "0.5")
    # Laplace noise would cost a rho of epsilon^2 / 2.
    assert found.cost.rho < Fraction(1, 8) / 10


# -- interruptions


def test_a_question_that_stopped_continues_and_pays_once(office):
    office.perform = stopping("publish", StageFailed("Power went off."))
    with pytest.raises(StageFailed):
        office.ask("count by sex")
    charges = office.project.kinds().count("charge")
    assert charges > 0
    assert office.plan("count by sex").continues == 1
    (shown,) = desk_answer(office.desk, office.project.ledger())["questions"]
    assert (shown["state"], shown["begun"]) == ("waiting", True)
    office.perform = plainly
    found = office.ask("count by sex")
    assert (found.number, found.already) == (1, False)
    assert office.project.kinds().count("charge") == charges
    assert office.project.kinds().count("reserve") == 1
    assert (found.paid.epsilon, office.left()) == (1, 4)


def test_an_admitted_question_is_admitted_once(office):
    numbers = {admit_question(office.desk, "count by sex", "1") for _ in range(3)}
    assert numbers == {1}
    assert admit_question(office.desk, "count by sex", "0.5") == 2
    assert office.spent_nothing()


def test_a_desk_that_was_moved_to_other_data_does_not_move_an_admitted_question(office):
    admit_question(office.desk, "count by sex", "1")
    other = office.project.folder / "other"
    other.mkdir()
    (other / "town.csv").write_text((office.project.folder / "town.csv").read_text())
    path = office.project.folder / "questions.yaml"
    path.write_text(path.read_text().replace("data: town.csv", "data: other/town.csv"))
    moved = open_desk(path, office.project.ledger(), **WHO, fits=fits)
    assert moved.terms.data == "files-2/town.csv"
    spec = json.loads(next(moved.folder.glob("*-0001.release.yaml")).read_text())
    assert spec["data"] == "files/town.csv"
    assert (moved.folder / spec["data"]).resolve() == office.project.folder / "town.csv"


def test_a_desk_opens_for_data_that_fit_and_its_questions_are_no_further_schemas(office):
    for question in ("count by sex", "count by marital", "count by sex, marital"):
        office.ask(question, "0.1")
    ledger = office.project.ledger()
    assert len(ledger.entries(kinds=("reserve",))) == 3
    assert ledger.tried_schemas("rand").total == 1


def test_a_desk_whose_data_do_not_fit_is_not_opened(office):
    path = office.project.folder / "town.csv"
    path.write_text(path.read_text().replace(",1,", ",zebra,"))
    ledger = office.project.ledger()
    with pytest.raises(BadInput, match="do not fit its schema") as refused:
        office.open()
    assert "zebra" not in refused.value.message
    assert ledger.desk_terms("rand") is None
    assert (ledger.attempts("rand").refused, ledger.attempts("rand").open) == (1, 0)


@pytest.mark.parametrize("verdict", [True, False])
def test_an_opening_beyond_the_limit_of_schemas_opens_no_data(office, verdict):
    """Ever tighter schemas of a desk would find the largest value of a column."""
    path, asked = office.project.folder / "town.schema.yaml", []

    def examine(schema, data):
        asked.append((schema, data))
        return verdict

    schema = path.read_text()
    ledger, rows = office.project.ledger(), []
    for number in range(20):
        path.write_text(schema.replace('"NA"', f'"NA", no-{number}'))
        try:
            open_desk(office.project.folder / "questions.yaml", ledger, **WHO, fits=examine)
        except BudgetRefused as refused:
            rows.append(refused.row)
        except BadInput:
            assert not verdict
    assert {*rows} == {"schemas-tried" if verdict else "attempts-refused"}
    assert len(asked) == (MOST_SCHEMAS - 1 if verdict else MOST_REFUSED)
    assert ledger.attempts("rand").refused == (0 if verdict else MOST_REFUSED)
    ledger.verify()


def test_an_opening_that_stopped_goes_on_and_another_one_counts_it_as_refused(office):
    path, ledger = office.project.folder / "questions.yaml", office.project.ledger()

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            open_desk(path, ledger, **WHO, fits=raising(KeyboardInterrupt))
    assert (ledger.attempts("rand").open, ledger.desk_terms("rand")) == (1, None)
    office.open(largest="2")
    found = ledger.attempts("rand")
    assert (found.open, found.refused, found.fitted) == (0, 1, 2)
    assert ledger.desk_terms("rand") == office.desk.terms_hash
    ledger.verify()


def test_the_check_of_a_desks_data_has_its_own_process(office, tmp_path):
    schema, data = office.desk.folder / "checked.schema.yaml", office.project.folder / "town.csv"
    assert own_process.fits_in_own_process(schema, str(data))
    other = tmp_path / "other.csv"
    other.write_text(data.read_text().replace(",1,", ",zebra,"))
    assert not own_process.fits_in_own_process(schema, str(other))


# -- decisions of people


def test_an_answer_waits_for_approval_and_is_then_free(office):
    office.open(more="answers: after-approval\n")
    with pytest.raises(Held, match="dp-release release publish rand-question-0001") as held:
        office.ask("count by sex")
    assert held.value.row == "held"
    assert office.plan("count by sex").continues == 1

    home, ledger = office.project.home, office.project.ledger()
    publish(home, ledger, "rand-question-0001", out=None, by="officer", reason="test")
    left = office.left()
    found = office.ask("count by sex")
    assert (found.already, found.answer.determined, office.left()) == (True, True, left)


@row("question-ended")
def test_a_withdrawn_answer_is_not_made_again_by_itself(office, says):
    office.open(more="answers: after-approval\n")
    with pytest.raises(Held):
        office.ask("count by sex")

    withdraw(
        office.project.home,
        office.project.ledger(),
        "rand-question-0001",
        by="officer",
        reason="test",
    )
    with pytest.raises(Unpublished) as ended:
        answer_question(office.desk, 1, carry_out=office.carry_out)
    says(ended.value)
    with pytest.raises(Unpublished):
        office.ask("count by sex")
    assert office.plan("count by sex", anew=True).number == 2


def test_a_plan_that_must_be_approved_waits_before_the_data_are_opened(office):
    office.project.open_account(
        "strict", terms=Terms("basic", Fraction(5), Fraction("1e-6")), approved_only=True
    )
    path = office.project.folder / "questions.yaml"
    path.write_text(path.read_text().replace("account: rand", "account: strict"))
    open_desk(path, office.project.ledger(), **WHO, fits=fits)
    desk = find_desk("strict")
    planned = plan_question(desk, "count by sex", "1")
    assert planned.awaits
    number = admit_question(desk, "count by sex", "1")
    with pytest.raises(AwaitsApproval):
        answer_question(desk, number, carry_out=office.carry_out)
    assert office.spent_nothing()
    office.project.ledger().approve(planned.plan_hash, by="officer", reason="test")
    assert not plan_question(desk, "count by sex", "1").awaits
    assert admit_question(desk, "count by sex", "1") == number
    assert answer_question(desk, number, carry_out=office.carry_out).paid.epsilon == 1


@row("desk-closed")
def test_a_closed_desk_takes_no_new_question_and_keeps_its_answers(office, says):
    first = office.ask("count by sex")
    waiting = admit_question(office.desk, "count by marital", "1")
    close_desk(office.desk, office.project.ledger(), **WHO)
    for refused in (
        lambda: office.plan("count by age"),
        lambda: answer_question(office.desk, waiting, carry_out=office.carry_out),
    ):
        with pytest.raises(BudgetRefused) as error:
            refused()
        says(error.value)
    assert office.ask("count by sex").answer == first.answer
    assert office.open().closed is False


@row("no-question-desk")
def test_a_desk_or_question_that_is_not_there_is_named(office, says):
    with pytest.raises(BadInput, match="Did you mean 'rand'") as unknown:
        find_desk("rnad")
    says(unknown.value)
    with pytest.raises(BadInput, match="no question 7"):
        answer_question(office.desk, 7)


@row("desk-unreadable")
def test_a_damaged_record_is_named(office, says):
    number = admit_question(office.desk, "count by sex", "1")
    record = office.desk.folder / "0001.json"
    record.write_text("[]")
    with pytest.raises(StageFailed, match="question 1") as damaged:
        answer_question(office.desk, number)
    says(damaged.value)
    (office.desk.folder / "desk.json").write_text("{")
    with pytest.raises(StageFailed):
        find_desk("rand")


def test_the_ledger_records_who_opened_and_closed_a_desk_under_which_terms(office):
    first = office.desk.terms_hash
    office.open(largest="0.5")
    second = office.desk.terms_hash
    ledger = office.project.ledger()
    close_desk(office.desk, ledger, **WHO)

    entries = ledger.entries(kinds=("open-desk", "close-desk"))
    assert [(each.kind, each.receipt.account, each.body["terms"]) for each in entries] == [
        ("open-desk", "rand", first),
        ("open-desk", "rand", first),
        ("open-desk", "rand", second),
        ("open-desk", "rand", second),
        ("close-desk", "rand", second),
    ]
    assert ["examines" in each.body for each in entries] == [True, False, True, False, False]
    assert first != second
    assert all({name: each.body[name] for name in WHO} == WHO for each in entries)
    assert ledger.verify() is not None
    shown = desk_answer(office.desk, ledger)
    assert (shown["closed"], shown["terms_hash"]) == (True, second)


def test_an_opening_that_the_ledger_does_not_record_opens_no_desk(office, monkeypatch):
    before = office.desk.terms_hash
    monkeypatch.setattr(type(office.project.ledger()), "open_desk", _refusing("the disk is full"))
    with pytest.raises(StageFailed, match="the disk is full"):
        office.open(largest="0.5")
    assert office.desk.terms_hash == before


def _refusing(text):
    return raising(StageFailed(text))


def test_terms_that_nobody_decided_are_refused(office):
    record = office.desk.folder / "desk.json"
    text = record.read_text(encoding="utf-8")
    assert '"largest_epsilon"' in text
    office.ask("count by sex", ".1")
    changed = json.loads(text)
    changed["largest_epsilon"] = "3"
    record.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(BudgetRefused, match="has terms that are not those"):
        office.plan("count by age", "2")
    # Only closed in the ledger: as if an older record had been restored.
    record.write_text(text, encoding="utf-8")
    close_desk(office.desk, office.project.ledger(), **WHO)
    record.write_text(text, encoding="utf-8")
    with pytest.raises(BudgetRefused, match="has terms that are not those"):
        office.plan("count by age")
