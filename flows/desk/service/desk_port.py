"""The interface through which the service uses the desks; `open_desks` implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

State = Literal["waiting", "running", "awaiting approval", "answered", "refused", "failed"]
STATES: tuple[State, ...] = (
    "waiting",
    "running",
    "awaiting approval",
    "answered",
    "refused",
    "failed",
)
OPEN: tuple[State, ...] = ("waiting", "running", "awaiting approval")
"""States of questions that are neither answered nor refused nor failed."""


class NotAllowed(Exception):
    """The desk does not know the user, or no longer does."""


@dataclass(frozen=True, slots=True)
class AdmittedQuestion:
    """A question that a desk admitted.

    Attributes:
        account: Account of the desk.
        number: Number of the question at this desk.
        user: Who asked.
        question: The question as it was understood.
        epsilon: Epsilon of its release, as text.
        state: Its state.
        reason: Why it was refused or failed, in one public sentence; empty otherwise.
    """

    account: str
    number: int
    user: str
    question: str
    epsilon: str
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt to answer a question.

    Attributes:
        state: State of the question; `interrupted` if the attempt is to be repeated.
        reason: Why it was refused or failed, in one public sentence; empty otherwise.
        cost: Epsilon that was paid, as text.
        row: Heading in `docs/runbook.md` that says what to do, for the log; empty for none.
    """

    state: State | Literal["interrupted"]
    reason: str = ""
    cost: str = "0"
    row: str = ""


class Desks(Protocol):
    """The open desks of a home. Every method may raise `ReleaseError`."""

    def plan(self, account: str, user: str, question: str, epsilon: str) -> Mapping[str, Any]:
        """Return what a question would cost, what is left, and how wide its interval would be.

        Raises:
            NotAllowed: if the desk does not know the user.
        """

    def admit(self, account: str, user: str, question: str, epsilon: str) -> int:
        """Admit a question durably, without spending anything; return its number.

        If the user asks the same question at the same epsilon again, it keeps its number.

        Raises:
            NotAllowed: if the desk does not know the user.
        """

    def known(self, account: str, user: str, question: str, epsilon: str) -> bool:
        """Return whether a question is already waiting or answered, so that it adds no work."""

    def questions(self) -> Sequence[AdmittedQuestion]:
        """Return the questions of all desks, each desk's in order of admission."""

    def answer(self, account: str, number: int) -> Mapping[str, Any]:
        """Return the answer of an answered question, with its cost and receipt."""

    def bundle(self, account: str, number: int) -> Path:
        """Return the folder of the bundle of an answered question."""

    def allowance(self, account: str, user: str) -> Mapping[str, Any]:
        """Return what a user may still spend.

        Raises:
            NotAllowed: if the desk does not know the user.
        """

    def schema(self, account: str) -> Mapping[str, Any]:
        """Return the public schema: the columns and their levels."""
