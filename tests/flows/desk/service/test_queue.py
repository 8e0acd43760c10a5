"""The queue: in order, users in turn, and each question until it is ended."""

from fractions import Fraction

from flows.desk.service.queue import Queue, next_question
from flows.desk.service.service_records import (
    MOST_ATTEMPTS,
    AdmittedQuestion,
    Outcome,
    ServiceRecords,
)
from tests.flows.desk.service.small_desks import ACCOUNT, Site


def waiting(*users):
    return [
        AdmittedQuestion("rand", number, user, "q", "1", "waiting")
        for number, user in enumerate(users, 1)
    ]


def order(questions):
    """Return the numbers of questions in the order in which they are answered."""
    left, served, found = list(questions), {}, []
    while question := next_question(left, served):
        left.remove(question)
        served[question.account, question.user] = len(found)
        found.append(question.number)
    return found


def test_one_user_is_answered_in_order_of_admission():
    assert order(reversed(waiting("anna", "anna", "anna"))) == [1, 2, 3]


def test_users_take_turns():
    assert order(waiting("anna", "anna", "anna", "ben", "ben", "carl")) == [1, 4, 6, 2, 5, 3]


def test_a_user_of_two_desks_has_a_turn_at_each():
    other = AdmittedQuestion("town", 1, "anna", "q", "1", "waiting")
    assert order([*waiting("anna", "anna"), other]) == [1, 1, 2]


def test_nothing_waits_in_an_empty_queue():
    assert next_question([], {}) is None


def queue_of(site, answer):
    return Queue(site.desks, site.tokens, site.records, answer)


def emptied(queue):
    steps = 0
    while queue.step():
        steps += 1
        assert steps < 1_000
    return steps


def test_the_queue_answers_what_was_admitted(tmp_path):
    site = Site(tmp_path)
    for user in ("anna", "ben"):
        site.ask(user=user)
    assert emptied(queue_of(site, site.desks.spend)) == 2
    assert [each.state for each in site.desks.asked] == ["answered", "answered"]


def test_a_question_that_was_asked_elsewhere_is_not_taken_over(tmp_path):
    site = Site(tmp_path)
    site.desks.admit(ACCOUNT, "anna", "asked by the command", "0.1")
    queue = queue_of(site, site.desks.spend)
    assert emptied(queue) == 0
    site.ask(user="ben")
    assert emptied(queue) == 1
    assert [each.state for each in site.desks.asked] == ["waiting", "answered"]


def test_concurrent_questions_never_spend_more_than_is_left(tmp_path):
    site = Site(tmp_path)
    site.desks.left = Fraction(1, 2)
    ask = [
        ("POST", "/v1/questions", user, {"json": {"question": f"q{n}", "epsilon": "0.2"}})
        for user in ("anna", "ben", "carl")
        for n in range(4)
    ]
    assert {each.status_code for each in site.send_all(ask)} == {202}
    emptied(queue_of(site, site.desks.spend))
    states = [each.state for each in site.desks.asked]
    assert (states.count("answered"), states.count("refused")) == (2, 10)
    assert site.desks.left == Fraction(1, 10)


def test_questions_of_a_user_without_a_valid_token_wait(tmp_path):
    site = Site(tmp_path)
    site.ask(user="anna")
    site.ask(user="ben")
    site.tokens.revoke(ACCOUNT, "anna")
    queue = queue_of(site, site.desks.spend)
    assert emptied(queue) == 1
    assert [each.state for each in site.desks.asked] == ["waiting", "answered"]
    site.tokens.issue(ACCOUNT, "anna")
    assert emptied(queue) == 1


def test_a_question_that_fails_is_tried_again_later_and_the_others_go_on(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("flows.desk.service.queue.time.monotonic", lambda: now[0])
    site = Site(tmp_path)
    site.ask(user="anna")
    site.ask(user="ben")

    def answer(question):
        if question.user == "anna":
            return Outcome("failed", "The machine is full.")
        return site.desks.spend(question)

    queue = queue_of(site, answer)
    assert emptied(queue) == 2
    assert site.send("GET", "/v1/questions/1").json()["state"] == "waiting"
    for _ in range(MOST_ATTEMPTS - 1):
        now[0] += 1_000
        assert emptied(queue) == 1
    now[0] += 1_000
    assert emptied(queue) == 0
    found = site.send("GET", "/v1/questions/1").json()
    assert (found["state"], found["reason"]) == ("failed", "The machine is full.")
    # Another service, after a restart, knows of the attempts.
    assert emptied(queue_of(site, site.desks.spend)) == 0
    ServiceRecords(tmp_path / "home").forget_outcome(ACCOUNT, 1)
    assert emptied(queue_of(site, site.desks.spend)) == 1


def test_an_interrupted_question_goes_on_at_once(tmp_path):
    site = Site(tmp_path)
    site.ask()
    outcomes = iter([Outcome("interrupted")])

    def answer(question):
        return next(outcomes, None) or site.desks.spend(question)

    assert emptied(queue_of(site, answer)) == 2
    assert site.send("GET", "/v1/questions/1").json()["state"] == "answered"


def test_the_question_that_is_being_answered_is_known(tmp_path):
    site = Site(tmp_path)
    site.ask()
    seen = []

    def answer(question):
        seen.append(queue.running)
        return site.desks.spend(question)

    queue = queue_of(site, answer)
    emptied(queue)
    assert seen == [(ACCOUNT, 1)]
    assert queue.running is None


def test_a_refused_question_is_not_tried_again_unless_it_is_asked_again(tmp_path):
    site = Site(tmp_path)
    site.ask()
    outcomes = iter([Outcome("refused", "The account cannot pay.")])
    queue = queue_of(site, lambda question: next(outcomes, None) or site.desks.spend(question))
    assert emptied(queue) == 1
    found = site.send("GET", "/v1/questions/1").json()
    assert (found["state"], found["reason"]) == ("refused", "The account cannot pay.")
    assert emptied(queue) == 0
    assert site.ask().json() == {"id": 1, "state": "waiting"}
    assert emptied(queue) == 1
    assert site.send("GET", "/v1/questions/1").json()["state"] == "answered"


def test_a_plan_that_awaits_approval_is_tried_again_later(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("flows.desk.service.queue.time.monotonic", lambda: now[0])
    site = Site(tmp_path)
    site.ask()
    outcomes = iter([Outcome("awaiting approval")])
    queue = queue_of(site, lambda question: next(outcomes, None) or site.desks.spend(question))
    assert emptied(queue) == 1
    assert site.send("GET", "/v1/questions/1").json()["state"] == "awaiting approval"
    now[0] += 1_000
    assert emptied(queue) == 1
    assert site.send("GET", "/v1/questions/1").json()["state"] == "answered"
