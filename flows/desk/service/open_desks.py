"""The desks of the home, as the service shows them to their users."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from dp_core.bundle.statement.release_json import STATEMENT
from dp_core.errors import BadInput, BudgetRefused, StageFailed
from dp_core.policies.account_balance import room
from dp_core.text.pages.answer import plain
from flows.answers.amounts import PrivacyAmount, amount_left
from flows.desk.asked_question import read_asked
from flows.desk.asking import QuestionPlan, admit_question, answer_question, paid_for, plan_question
from flows.desk.desk import Desk, all_desks, find_desk, is_open
from flows.desk.kept_questions import KeptQuestion, KeptQuestions, Stage
from flows.desk.service.service_records import (
    ENDED,
    STATES,
    AdmittedQuestion,
    ServiceRecords,
    State,
)
from tasks.run.home import open_ledger

KEPT_ANSWERS = 200
"""Answers that are kept in memory, so that reading one again needs no new analysis."""
SEEN_AS: Mapping[Stage, State] = {
    "admitted": "waiting",
    "begun": "waiting",
    "held": "awaiting approval",
    "answered": "answered",
    "ended": "refused",
}
ABOVE = (
    "The ledger does not allow this question now; ask the privacy officer whether and when it will."
)
_PLANNED = (
    *("kind", "question", "account", "epsilon", "epsilon_exact", "delta", "delta_exact"),
    *("expected_width", "expected_points", "table", "already_epsilon"),
)


class NotAllowed(Exception):
    """The desk does not know the user, or no longer does."""


class OpenDesks:
    """The desks of the home that DP_RELEASE_HOME names. Every method may raise `ReleaseError`.

    Methods with a user raise `NotAllowed` if the desk does not know the user.
    """

    def __init__(self) -> None:
        self._answer = lru_cache(KEPT_ANSWERS)(_answer)
        self._ended: dict[tuple[str, int], Stage] = {}
        self._lock = threading.Lock()

    def plan(self, account: str, user: str, question: str, epsilon: str) -> Mapping[str, Any]:
        """Return what a question costs the user's own account."""
        planned = self._question_plan(account, user, question, epsilon)
        found = planned.to_json()
        own = found["accounts"][0]
        known = planned.continues is not None
        return plain(
            {key: found[key] for key in _PLANNED if key in found}
            | {"account": own["account"], "cost": own["cost"]}
            | {"left_before": own["left_before"], "left_after": own["left_after"]}
            | {"already_answered": planned.already is not None}
            | {"awaits_approval": planned.awaits, "id": planned.number if known else None}
        )

    def is_known(self, account: str, user: str, question: str, epsilon: str) -> bool:
        """Return whether a question is answered, or waits as a question of this user."""
        planned = self._question_plan(account, user, question, epsilon)
        return planned.already is not None or planned.continues is not None

    def _question_plan(self, account: str, user: str, question: str, epsilon: str) -> QuestionPlan:
        desk = _desk_of(account, user)
        try:
            return plan_question(desk, question, epsilon, user)
        except BudgetRefused as error:
            _refuse(desk, user, error)

    def admit(self, account: str, user: str, question: str, epsilon: str) -> int:
        """Admit a question; return its number."""
        desk = _desk_of(account, user)
        try:
            number = admit_question(desk, question, epsilon, user)
        except BudgetRefused as error:
            _refuse(desk, user, error)
        kept = KeptQuestions(desk).find(number)
        if kept.text != read_asked(question, desk.terms.schema).text:
            raise BudgetRefused(
                f"Your question {number} measures the same table and is not answered yet. When it"
                " is, ask this question again; it will then cost nothing.",
                row="question-refused",
            )
        return number

    def questions(self) -> Sequence[AdmittedQuestion]:
        """Return the questions of the users of all desks."""
        found = []
        for desk in all_desks():
            kept = KeptQuestions(desk)
            for each in kept.all():
                if each.user is not None:
                    found.append(_admitted_question(desk, each, self._stage(desk, kept, each)))
        return found

    def _stage(self, desk: Desk, kept: KeptQuestions, question: KeptQuestion) -> Stage:
        """Return the stage of a question; `answered` is remembered, because it is final."""
        key = desk.account, question.number
        known = self._ended.get(key)
        if known is None:
            known = kept.stage(question)
            if known == "answered":
                self._ended[key] = known
        return known

    def answer(self, account: str, number: int) -> Mapping[str, Any]:
        """Return an answer as `query --json` or `infer --json` does, with its cost and receipt."""
        with self._lock:  # one analysis at a time
            return self._answer(account, number)

    def bundle(self, account: str, number: int) -> Path:
        """Return the folder of the bundle that answers a question."""
        desk = find_desk(account)
        kept = KeptQuestions(desk)
        return kept.bundle(kept.find(number).answered_by or number)

    def allowance(self, account: str, user: str) -> Mapping[str, Any]:
        """Return what the user's own account has left, and the limit of one question."""
        desk = _desk_of(account, user)
        ledger, own = open_ledger(desk.home), desk.terms.users[user]
        standing, day = ledger.balances(own)[0], ledger.account(own).day
        left = amount_left(standing.terms, room(standing, day))
        return plain(
            {
                "user": user,
                "account": own,
                "left": left.to_json(),
                "largest_epsilon": float(desk.terms.largest_epsilon),
                "largest_epsilon_exact": desk.terms.largest_epsilon,
                "open": is_open(desk, ledger),
            }
        )

    def schema(self, account: str) -> Mapping[str, Any]:
        """Return the desk's schema, which is public, and its privacy terms."""
        terms = find_desk(account).terms
        return plain(
            {
                "neighbours": terms.neighbours,
                "delta": float(terms.delta),
                "delta_exact": terms.delta,
                "schema": dict(terms.schema.document),
            }
        )


def questions_as_seen(desk: Desk, kept: KeptQuestions) -> list[AdmittedQuestion]:
    """Return the questions of a desk by number, in the states that its users see.

    Args:
        desk: The desk.
        kept: Its questions.
    """
    found = [_admitted_question(desk, each, kept.stage(each)) for each in kept.all()]
    return (
        ServiceRecords(desk.home).with_outcomes(found) if ServiceRecords.exist(desk.home) else found
    )


def counts_by_state(questions: Sequence[AdmittedQuestion]) -> dict[str, int]:
    """Return how many questions are in each state, without empty states."""
    counts = Counter(each.state for each in questions)
    return {state: counts[state] for state in STATES if counts[state]}


def _admitted_question(desk: Desk, question: KeptQuestion, stage: Stage) -> AdmittedQuestion:
    return AdmittedQuestion(
        desk.account,
        question.number,
        question.user or "",
        question.text,
        question.epsilon,
        SEEN_AS[stage],
        ENDED if stage == "ended" else "",
    )


def _desk_of(account: str, user: str) -> Desk:
    """Return a desk that knows a user.

    Raises:
        NotAllowed: if there is none.
    """
    try:
        desk = find_desk(account)
    except BadInput:
        raise NotAllowed from None
    if user not in desk.terms.users:
        raise NotAllowed
    return desk


def _refuse(desk: Desk, user: str, error: BudgetRefused) -> NoReturn:
    """Raise a refusal that reveals nothing about what others spent.

    Raises:
        BudgetRefused: with the ledger's own sentence if it is about the user's own account, or
            about a limit of the desk; otherwise with a fixed sentence.
    """
    own, accounts = desk.terms.users[user], open_ledger(desk.home).accounts()
    about_others = any(repr(each.name) in error.message for each in accounts if each.name != own)
    if error.row in ("question-refused", "desk-closed") or not about_others:
        raise error
    raise BudgetRefused(ABOVE, row=error.row) from None


def _answer(account: str, number: int) -> Mapping[str, Any]:
    desk = find_desk(account)
    found = answer_question(desk, number, carry_out=_carry_out_nothing)
    kept = KeptQuestions(desk)
    asked = kept.find(number)
    statement = json.loads((found.folder / STATEMENT).read_bytes())
    free = asked.answered_by is not None
    nothing = PrivacyAmount(Fraction(0), Fraction(0))
    cost = (nothing if free else paid_for(kept, asked)).to_json()
    receipt = {"release": found.release, "ledger_head": statement["ledger"]["head"]}
    answer = found.answer.to_json()
    if "folder" in answer:  # a path of this machine
        answer["folder"] = f"/v1/questions/{number}/bundle"
    return plain({**answer, "cost": cost, "receipt": receipt})


def _carry_out_nothing(_spec: Path, _out: Path) -> None:
    raise StageFailed("The question is not answered yet.")
