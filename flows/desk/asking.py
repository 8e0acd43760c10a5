"""Plans, admits and answers questions: the functions that commands and services call.

`plan_question` checks a question and returns what it costs. `admit_question` also stores it, and
returns its number. `answer_question` makes its release, or continues it, and reads the answer from
the bundle. `release_to_make` returns this release if it is not made yet, for a flow that makes it.
Only the release spends anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.analysis.planned.plan_values import wanted_margins
from dp_core.errors import BudgetRefused, Held, Unpublished, similar
from dp_core.kernel.canonical import canonical_json, digest
from dp_core.plan.forecast.error_forecast import forecast_error
from dp_core.plan.plan import Plan
from dp_core.policies.account_balance import room
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.text.documents.typed_text import exact_epsilon
from dp_core.text.pages.answer import OMITTED, Answer, exact_json
from dp_core.text.pages.page import Fact, Page, Title
from flows.answers.amounts import PrivacyAmount, amount_left, amount_of
from flows.answers.forecast_answers import asked_of, fitting_now
from flows.desk import own_process
from flows.desk.asked_question import (
    AskedQuestion,
    Kind,
    plan_of,
    question_document,
    question_schema,
    read_asked,
)
from flows.desk.desk import Desk
from flows.desk.kept_questions import KeptQuestion, KeptQuestions
from tasks.support.run_folder import write_atomically

if TYPE_CHECKING:
    from dp_core.analysis.query.query_answer import QueryAnswer
    from dp_core.analysis.regression.regression_answer import RegressionAnswer
    from tasks.ledger.ledger import Ledger

CarryOut = Callable[[Path, Path], None]
"""Makes the release of a spec and writes its bundle to a folder, or continues it."""


@dataclass(frozen=True, slots=True)
class PayingAccount:
    """An account that pays for a question: the cost by its composition, and what it has left."""

    account: str
    composition: str
    cost: PrivacyAmount
    left_before: PrivacyAmount
    left_after: PrivacyAmount


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class QuestionPlan(Answer):
    """What a question costs, and how wide the intervals of its answer will be.

    Attributes:
        kind: `regression` or `table`.
        question: The question as it was understood.
        user: User who asks; None if the desk has no users.
        account: Account that pays; those above it pay too.
        epsilon: Epsilon that was asked for.
        delta: Delta of its release.
        cost: What the answer costs the paying account that can afford the fewest such questions; 0
            if it is already answered.
        left_before: What this account has left.
        left_after: What it has left afterwards.
        accounts: All accounts that pay.
        expected_width: For a regression, the expected width of its intervals relative to those
            from the file without noise; None without `rows_about`. For a table, the 95 % margin of
            one of its counts, in records.
        expected_points: For a table, this margin in percentage points of all records; None without
            `rows_about`, and for a regression.
        table: Columns of the table that is measured; None for a regression.
        already: Name of the release that answers the question at no cost; None if there is none.
        already_epsilon: Epsilon of that release.
        continues: Number of the same question, if it was admitted and is not answered yet.
        number: Number that the question has or will get.
        plan_hash: Hash of the plan, for an approval.
        awaits: Whether a person must still approve the plan before it runs.
    """

    kind: Kind
    question: str
    user: str | None
    account: str
    epsilon: Fraction
    delta: Fraction
    cost: PrivacyAmount
    left_before: PrivacyAmount
    left_after: PrivacyAmount
    accounts: tuple[PayingAccount, ...]
    expected_width: float | None
    expected_points: float | None = field(default=None, metadata=OMITTED)
    table: tuple[str, ...] | None = field(default=None, metadata=OMITTED)
    already: str | None
    already_epsilon: Fraction | None = field(default=None, metadata=OMITTED)
    continues: int | None
    number: int
    plan_hash: str
    awaits: bool

    def to_json(self) -> Any:
        """Return the fields, with epsilon and delta as numbers and exactly."""
        return Answer.to_json(self) | exact_json(epsilon=self.epsilon, delta=self.delta)

    def page(self) -> Page:
        """Return the cost, the expected width and what must happen before."""
        return (
            Title(self.question, f"   ({self.kind})"),
            *self._costs(),
            *self._width(),
            *self._state(),
        )

    def _costs(self) -> Iterator[Fact]:
        if self.already is not None:
            assert self.already_epsilon is not None
            yield Fact(
                "Cost",
                f"nothing; it is answered from {self.already} (epsilon"
                f" {float(self.already_epsilon):g}). --anew pays for another answer.",
            )
            return
        for each in self.accounts:
            yield Fact(
                "Cost",
                f"{each.cost.in_words}, from account {each.account}, which has"
                f" {each.left_before.in_words} left, and {each.left_after.in_words} afterwards.",
            )

    def _width(self) -> Iterator[Fact]:
        if self.kind == "regression":
            width = "unknown without `rows_about` in the schema"
            if self.expected_width is not None:
                width = (
                    f"about {self.expected_width:.2g} times as wide as from the file without noise;"
                    " often wider with long tails, and occasionally far wider at low epsilon"
                )
            yield Fact("Intervals", f"{width}.")
        elif self.expected_width is not None and self.table is not None:
            points = "" if self.expected_points is None else f" ({self.expected_points:g} % of all)"
            yield Fact(
                "Margin",
                f"±{self.expected_width:g} records{points} for one count of"
                f" {' x '.join(self.table)} (95 %).",
            )

    def _state(self) -> Iterator[Fact]:
        if self.awaits:
            yield Fact(
                "Approval",
                "a person must approve the plan first: `dp-release ledger approve"
                f" {self.plan_hash} --by NAME --reason TEXT`.",
            )
        if self.continues is not None:
            again = f"asking again continues question {self.continues}"
            yield Fact("State", f"not finished; {again}.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class QuestionAnswer(Answer):
    """The answer to a question, and what it cost.

    Attributes:
        number: Number of the question at the desk.
        kind: `regression` or `table`.
        question: The question as it was understood.
        user: User who asked; None if the desk has no users.
        account: Account that pays.
        release: Name of the release that answers it.
        paid: What this answer cost the account; 0 if the question was answered before.
        epsilon: Epsilon of the release that answers it.
        already: Whether the question was answered before, so that nothing was paid now.
        folder: Folder of the bundle.
        answer: The answer, with its intervals.
    """

    number: int
    kind: Kind
    question: str
    user: str | None
    account: str
    release: str
    paid: PrivacyAmount
    epsilon: Fraction
    already: bool
    folder: Path
    answer: QueryAnswer | RegressionAnswer

    @property
    def exit_code(self) -> int:
        """Exit code of the answer."""
        return self.answer.exit_code

    def to_json(self) -> Any:
        """Return the fields, with epsilon as a number and exactly."""
        return Answer.to_json(self) | exact_json(epsilon=self.epsilon)

    @property
    def fault(self) -> str | None:
        """Why the tables do not determine the answer."""
        return self.answer.fault

    def page(self) -> Page:
        """Return the page of the answer, what it cost, and where its bundle is."""
        paid = f"{self.paid.in_words}, from account {self.account}"
        if self.already:
            paid = f"nothing; answered from {self.release} (epsilon {float(self.epsilon):g})"
        where = Fact("Bundle", str(self.folder), whole=True)
        return (*self.answer.page(), Fact("Paid", f"{paid}."), where)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A release that must be made to answer a question: its name, spec and bundle folder."""

    release: str
    spec: Path
    bundle: Path


@dataclass(frozen=True, slots=True)
class _Considered:
    """A question that the desk would admit."""

    asked: AskedQuestion
    schema: Schema
    document: dict[str, Any]
    plan: Plan
    answer: QuestionPlan
    asks: str
    earlier: KeptQuestion | None


def plan_question(
    desk: Desk,
    question: str,
    epsilon: Fraction | str | float,
    user: str | None = None,
    *,
    anew: bool = False,
) -> QuestionPlan:
    """Return what a question costs; opens no data, records nothing and spends nothing.

    Args:
        desk: The desk.
        question: A formula, or a question in the language of `query`.
        epsilon: Epsilon of the answer; a text or fraction is exact.
        user: User who asks; None (the default) for a desk without users.
        anew: Whether to pay again if the question is already answered; False by default.

    Raises:
        BadInput: if it is not a question about this file, or cannot be measured.
        BudgetRefused: if the user is unknown, epsilon is above the desk's limit, the desk is
            closed, an account does not allow the cost, or another account has used the desk's data
            since it was opened. The ledger then closes the desk and counts one refused attempt.
        Unpublished: if a person withdrew an answer to the same question, unless `anew`.
    """
    return _consider(desk, question, epsilon, user, anew).answer


def admit_question(
    desk: Desk,
    question: str,
    epsilon: Fraction | str | float,
    user: str | None = None,
    *,
    anew: bool = False,
) -> int:
    """Store a question with its spec, and return its number; spends nothing.

    If the same question was admitted before and is not answered yet, it keeps its number. So it is
    paid for once, however often it is asked. Arguments and errors are those of `plan_question`.
    """
    with desk.admission_lock():
        found = _consider(desk, question, epsilon, user, anew)
        kept = KeptQuestions(desk)
        answer, earlier, number = found.answer, found.earlier, found.answer.number
        if answer.continues is not None:
            return answer.continues
        if earlier is not None:
            if (earlier.text, earlier.user) == (found.asked.text, user):
                return earlier.number
        else:
            # The record comes last: files without a record belong to no question.
            write_atomically(
                kept.schema(number), canonical_json(dict(found.schema.document)) + b"\n"
            )
            write_atomically(kept.spec(number), canonical_json(found.document) + b"\n")
        kept.keep(
            KeptQuestion(
                number=number,
                user=user,
                account=answer.account,
                kind=answer.kind,
                text=found.asked.text,
                asks=found.asks,
                epsilon=str(answer.epsilon if earlier is None else earlier.epsilon),
                delta=str(desk.terms.delta if earlier is None else earlier.delta),
                answered_by=None if earlier is None else earlier.number,
                anew=anew,
            )
        )
        return number


def answer_question(
    desk: Desk,
    number: int,
    *,
    level: float = 0.95,
    sampling: bool = False,
    carry_out: CarryOut | None = None,
) -> QuestionAnswer:
    """Return the answer to an admitted question; make its release first, or continue it.

    If another process answers a question that measures the same, this call waits for it, and uses
    its answer free of charge if its epsilon is enough.

    Args:
        desk: The desk.
        number: Number of the question.
        level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
        sampling: Whether the intervals of a table include the sampling error of the file; False by
            default. Those of a regression always do.
        carry_out: Makes the release; by default in its own process.

    Raises:
        BadInput: if there is no such question, or the data are wrong.
        BudgetRefused: if the ledger refuses, or the desk was closed before the release began.
        StageFailed: if a stage failed; the question can be asked again.
        Held: if the answer waits for a person.
        Unpublished: if its release ended without an answer.
    """
    kept = KeptQuestions(desk)
    asked, make = kept.find(number), carry_out or own_process.ReleaseProcess()
    if kept.stage(asked) == "answered":
        return _answer(desk, number, level, sampling, make)
    with desk.answer_lock(asked.asks):
        _use_earlier(desk, kept, number)
        return _answer(desk, number, level, sampling, make)


def _answer(
    desk: Desk, number: int, level: float, sampling: bool, carry_out: CarryOut
) -> QuestionAnswer:
    work = release_to_make(desk, number)
    kept = KeptQuestions(desk)
    asked = kept.find(number)
    source = asked if asked.answered_by is None else kept.find(asked.answered_by)
    if work is not None:
        if kept.stage(source) == "held":
            raise _waits(kept, source)
        try:
            carry_out(work.spec, work.bundle)
        except Held:
            raise _waits(kept, source) from None
        if kept.stage(source) == "held":  # the flow returned a state instead of an error
            raise _waits(kept, source)
    own = work is not None and asked.answered_by is None
    release = kept.release(source.number)
    return QuestionAnswer(
        number=number,
        kind=asked.kind,
        question=asked.text,
        user=asked.user,
        account=asked.account,
        release=release,
        paid=paid_for(kept, source) if own else PrivacyAmount(Fraction(0), Fraction(0)),
        epsilon=source.cost,
        already=not own,
        folder=kept.bundle(source.number),
        answer=_read_answer(asked, kept.bundle(source.number), level, sampling),
    )


def _use_earlier(desk: Desk, kept: KeptQuestions, number: int) -> None:
    """Let the release of another question answer this one, if it was made since the admission.

    Raises:
        Held: if that answer awaits approval.
    """
    with desk.admission_lock():
        asked = kept.find(number)
        if asked.anew or asked.answered_by is not None or kept.stage(asked) != "admitted":
            return
        earlier = kept.best_answered(asked.asks, asked.cost)
        if earlier is not None:
            answered = replace(asked, answered_by=earlier.number)
            kept.keep(replace(answered, epsilon=earlier.epsilon, delta=earlier.delta))
            return
        for each, stage in kept.about(asked.asks):
            if each.cost >= asked.cost and stage == "held":
                raise _waits(kept, each)


def release_to_make(desk: Desk, number: int) -> Unanswered | None:
    """Return the release that must be made, or continued, to answer a question; None if answered.

    Args:
        desk: The desk.
        number: Number of the question.

    Raises:
        BadInput: if there is no such question.
        BudgetRefused: if the desk was closed before the release began.
        Unpublished: if its release ended without an answer.
    """
    kept = KeptQuestions(desk)
    asked = kept.find(number)
    if asked.answered_by is not None:
        return None
    release, stage = kept.release(number), kept.stage(asked)
    if stage == "ended":
        raise _no_answer(desk, number, release)
    if stage == "admitted":
        _require_open(desk)
    if stage == "answered":
        return None
    return Unanswered(release, kept.spec(number), kept.bundle(number))


def paid_for(kept: KeptQuestions, asked: KeptQuestion) -> PrivacyAmount:
    """Return what the release of a question cost the account that pays."""
    ledger, release = kept.ledger, kept.release(asked.number)
    account = ledger.find_account(asked.account)
    assert account is not None
    (used,) = (each for each in ledger.uses(asked.account) if each.release == release)
    return amount_of(account.terms, used.amount)


def _read_answer(
    asked: KeptQuestion, folder: Path, level: float, sampling: bool
) -> QueryAnswer | RegressionAnswer:
    from dp_core.bundle.reading import read_bundle

    bundle = read_bundle(folder)
    if asked.kind == "regression":
        from dp_core.analysis.regression.regression_inference import infer

        return infer(bundle, asked.text, level=level)
    from dp_core.analysis.query.query_answer import answer_query
    from dp_core.analysis.query.sources import sources_of

    return answer_query(bundle, sources_of(bundle), asked.text, level=level, sampling=sampling)


def _waits(kept: KeptQuestions, asked: KeptQuestion) -> Held:
    release = kept.release(asked.number)
    return Held(
        f"Question {asked.number} is measured, and its answer awaits approval. A privacy officer"
        f" can publish it with `dp-release release publish {release} --by NAME --reason TEXT`."
        " Then ask the same question again; that costs nothing.",
        row="held",
    )


def _no_answer(desk: Desk, number: int, release: str) -> Unpublished:
    return Unpublished(
        f"Question {number} of desk {desk.account!r} ended without an answer (release {release!r});"
        f" `dp-release status {release}` shows why. Ask it with --anew to pay for another answer.",
        row="question-ended",
    )


def _closed_desk(sentence: str) -> BudgetRefused:
    return BudgetRefused(f"The question desk {sentence}", row="desk-closed")


def _require_open(desk: Desk) -> None:
    if desk.closed:
        raise _closed_desk(f"{desk.account!r} is closed; it takes no new questions.")


def _consider(
    desk: Desk, question: str, epsilon: Fraction | str | float, user: str | None, anew: bool
) -> _Considered:
    terms = desk.terms
    asked = read_asked(question, terms.schema)
    cost, payer = _epsilon(desk, epsilon), _payer(desk, user)
    kept = KeptQuestions(desk)
    ledger = kept.ledger
    if ledger.desk_data_owner(desk.account, desk.data) is not None:  # since it was opened
        raise _closed_desk(
            f"{desk.account!r} is closed, because its data belong to an account of another family;"
            " a privacy officer can open it again with other data."
        )
    schema = question_schema(asked, terms.schema)
    asks = digest([[*asked.measured], schema_hash(schema), terms.document()["data"]])
    earlier = None if anew else kept.best_answered(asks, cost)
    same = (
        each
        for each, stage in kept.about(asks)
        if (each.cost, each.account) == (cost, payer) and stage in ("admitted", "begun", "held")
    )
    again = None if earlier else next(same, None)
    if earlier is None and again is None and not anew and (gone := kept.withdrawn_one(asks)):
        raise _no_answer(desk, gone.number, kept.release(gone.number))
    number = again.number if again else kept.free_number()
    charters = [one.charter for one in ledger.lineage(payer)]
    document = question_document(
        terms,
        asked,
        release=kept.release(number),
        account=payer,
        epsilon=earlier.cost if earlier else cost,
        schema=kept.schema(number).name,
        # A zcdp account pays much less for Gaussian noise at the same epsilon.
        gaussian=bool(terms.delta) and any(not each.terms.is_basic for each in charters),
    )
    plan = plan_of(document, schema, desk.folder)
    awaits = False
    if earlier is None:
        if again is None or kept.stage(again) == "admitted":
            _require_open(desk)
            if ledger.desk_terms(desk.account) != desk.terms_hash:
                raise _closed_desk(
                    f"{desk.account!r} has terms that are not those that the ledger recorded when a"
                    " person opened it. Open the desk again: `dp-release desk open FILE --by NAME"
                    " --reason TEXT`."
                )
            refusal = ledger.refusal(plan)
            if refusal is not None:
                raise refusal
        awaits = any(each.approved_only for each in charters) and not ledger.approval(plan.hash)
    accounts, least = _accounts(ledger, payer, plan, free=earlier is not None)
    width, points = _width(plan)
    answer = QuestionPlan(
        kind=asked.kind,
        question=asked.text,
        user=user,
        account=payer,
        epsilon=cost,
        delta=terms.delta,
        cost=least.cost,
        left_before=least.left_before,
        left_after=least.left_after,
        accounts=accounts,
        expected_width=width,
        expected_points=points,
        table=asked.table or None,
        already=kept.release(earlier.number) if earlier else None,
        already_epsilon=earlier.cost if earlier else None,
        continues=again.number if again else None,
        number=number,
        plan_hash=plan.hash,
        awaits=awaits,
    )
    return _Considered(asked, schema, document, plan, answer, asks, earlier)


def _epsilon(desk: Desk, given: Fraction | str | float) -> Fraction:
    """Return the exact epsilon of a question.

    Raises:
        BadInput: if it is no epsilon.
        BudgetRefused: if it is above the desk's limit.
    """
    epsilon = exact_epsilon(given, what="The epsilon")
    largest = desk.terms.largest_epsilon
    if epsilon > largest:
        raise BudgetRefused(
            f"A question to the desk {desk.account!r} may cost at most epsilon {float(largest):g},"
            f" not {float(epsilon):g}; ask with a smaller epsilon.",
            row="question-refused",
        )
    return epsilon


def _payer(desk: Desk, user: str | None) -> str:
    """Return the account that pays for a user's question.

    Raises:
        BudgetRefused: if the desk does not know the user, or has users and none is named.
    """
    users = desk.terms.users
    if user is None:
        if not users:
            return desk.account
        raise BudgetRefused(
            f"The desk {desk.account!r} answers only its users; name one with --user.",
            row="question-refused",
        )
    if user not in users:
        hint = similar(user, users) if users else " It has no users; leave --user out."
        raise BudgetRefused(
            f"The desk {desk.account!r} has no user {user!r:.60}.{hint}", row="question-refused"
        )
    return users[user]


def _accounts(
    ledger: Ledger, payer: str, plan: Plan, *, free: bool
) -> tuple[tuple[PayingAccount, ...], PayingAccount]:
    """Return the accounts that pay, the nearest first, and that which affords the fewest such."""
    account = ledger.find_account(payer)
    assert account is not None
    found, affords = [], []
    for standing in ledger.balances(payer):
        left, asked, terms = room(standing, account.day), asked_of(standing, plan), standing.terms
        cost = PrivacyAmount(Fraction(0), Fraction(0)) if free else amount_of(terms, asked)
        before, after = amount_left(terms, left), amount_left(terms, left if free else left - asked)
        found.append(PayingAccount(standing.name, terms.composition, cost, before, after))
        affords.append(fitting_now(standing, plan, account.day))
    return tuple(found), found[affords.index(min(affords))]


def _width(plan: Plan) -> tuple[float | None, float | None]:
    if plan.spec.analyses:
        return forecast_error(plan).widths[0], None
    margins = wanted_margins(plan)
    return (margins[0]["within"], margins[0]["within_points"]) if margins else (None, None)
