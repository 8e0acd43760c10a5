"""What `dp-release desk` shows: a desk, what its users have left, and its questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.text.pages.answer import Answer
from flows.answers.amounts import PrivacyAmount, amount_left
from flows.desk.desk import Desk, is_open
from flows.desk.kept_questions import KeptQuestions
from flows.desk.service.open_desks import counts_by_state, questions_as_seen

if TYPE_CHECKING:
    from tasks.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Allowance(Answer):
    """An account of a desk: that of a user, or that of the desk itself (user None)."""

    user: str | None
    account: str
    left: PrivacyAmount


@dataclass(frozen=True, slots=True)
class QuestionShown(Answer):
    """A question of a desk.

    Attributes:
        number: Its number.
        user: User who asked it; None if the desk has no users.
        kind: `regression` or `table`.
        question: The question as it was understood.
        epsilon: Epsilon of the release that answers it.
        state: Its state, as its user sees it: `waiting`, `running`, `awaiting approval`,
            `answered`, `refused` or `failed`.
        begun: Whether its release was begun.
        reason: Why it was refused or failed; empty otherwise.
        release: Name of the release that answers it.
        free: Whether an earlier question paid for the measurement.
    """

    number: int
    user: str | None
    kind: str
    question: str
    epsilon: float
    state: str
    begun: bool
    reason: str
    release: str
    free: bool


@dataclass(frozen=True, slots=True)
class DeskShown(Answer):
    """A desk: its terms, what is left, and its questions by number.

    Attributes:
        terms_hash: Hash of its terms, as in the ledger's entry of the person who opened it.
        counts: Number of questions in each state; states without questions are left out.
    """

    account: str
    closed: bool
    terms_hash: str
    file: Path
    title: str
    unit: str
    neighbours: str
    delta: Fraction
    largest_epsilon: Fraction
    answers: str
    columns: tuple[str, ...]
    allowances: tuple[Allowance, ...]
    counts: Mapping[str, int]
    questions: tuple[QuestionShown, ...]

    def to_json(self) -> Any:
        """Return the fields, with epsilon and delta as numbers."""
        found = Answer.to_json(self)
        return found | {name: float(found[name]) for name in ("delta", "largest_epsilon")}


@dataclass(frozen=True, slots=True)
class AllDesks(Answer):
    """All desks of a home, by account."""

    desks: tuple[DeskShown, ...]


def desk_shown(desk: Desk, ledger: Ledger) -> DeskShown:
    """Return a desk as the privacy officer sees it.

    Args:
        desk: The desk.
        ledger: The ledger of its home.
    """
    terms, kept = desk.terms, KeptQuestions(desk, ledger)
    allowances = []
    for user, name in ((None, terms.account), *terms.users.items()):
        account = ledger.find_account(name)
        if account is not None:
            allowances.append(Allowance(user, name, amount_left(account.terms, account.left)))
    seen = questions_as_seen(desk, kept)
    return DeskShown(
        account=terms.account,
        closed=not is_open(desk, ledger),
        terms_hash=desk.terms_hash,
        file=desk.file,
        title=terms.schema.title,
        unit=terms.schema.unit.word,
        neighbours=terms.neighbours,
        delta=terms.delta,
        largest_epsilon=terms.largest_epsilon,
        answers=terms.answers,
        columns=terms.schema.names,
        allowances=tuple(allowances),
        counts=counts_by_state(seen),
        questions=tuple(
            QuestionShown(
                number=each.number,
                user=each.user,
                kind=each.kind,
                question=each.text,
                epsilon=float(each.cost),
                state=state.state,
                begun=kept.stage(each) != "admitted",
                reason=state.reason,
                release=kept.release(each.answered_by or each.number),
                free=each.answered_by is not None,
            )
            for each, state in zip(kept.all(), seen, strict=True)
        ),
    )
