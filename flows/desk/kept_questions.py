"""The questions that a desk has admitted, and where each one stands.

Each is a file in the desk's folder. Whether it is answered follows from the ledger and the run
folder of its release, so it cannot disagree with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from dp_core.errors import BadInput, StageFailed
from dp_core.kernel.canonical import canonical_json
from flows.desk.asked_question import Kind
from flows.desk.desk import Desk
from tasks.run.home import open_ledger
from tasks.support.run_folder import RunFolder, write_atomically

VERSION = 1
Stage = Literal["admitted", "begun", "held", "answered", "ended"]
"""How far the release of a question is. `admitted`: nothing is reserved. `begun`: it is reserved.
`held`: it awaits approval. `ended`: it ended without an answer. Users see the states of
`service.service_records` instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptQuestion:
    """A question that a desk has admitted.

    Attributes:
        number: Its number at the desk, from 1.
        user: User who asked it; None if the desk has no users.
        account: Account that pays.
        kind: `regression` or `table`.
        text: The question as it was understood.
        asks: Hash of what is measured: equal for questions that the same release answers.
        epsilon: Epsilon of its release, exact, as text.
        delta: Delta of its release, exact, as text.
        answered_by: Number of the earlier question whose release answers this one; None if it has
            its own release.
        anew: Whether it has a release of its own even if the same is answered in between.
    """

    number: int
    user: str | None
    account: str
    kind: Kind
    text: str
    asks: str
    epsilon: str
    delta: str
    answered_by: int | None = None
    anew: bool = False

    @property
    def cost(self) -> Fraction:
        """Epsilon of its release."""
        return Fraction(self.epsilon)


class KeptQuestions:
    """The questions of one desk.

    Attributes:
        ledger: The ledger of its home.
    """

    def __init__(self, desk: Desk) -> None:
        """Open the ledger of a desk's home."""
        self._desk, self.ledger = desk, open_ledger(desk.home)

    def all(self) -> tuple[KeptQuestion, ...]:
        """Return all questions, by number."""
        return tuple(map(self.find, self._numbers()))

    def find(self, number: int) -> KeptQuestion:
        """Return a question.

        Raises:
            BadInput: if there is no question with that number.
            StageFailed: if its record cannot be read.
        """
        path = self._path(number)
        if not path.is_file():
            raise BadInput(
                f"The desk {self._desk.account!r} has no question {number}; `dp-release desk"
                f" show {self._desk.account}` lists them.",
                row="no-question-desk",
            )
        try:
            record: dict[str, Any] = json.loads(path.read_bytes())
            record.pop("version")
            return KeptQuestion(**record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise StageFailed(
                f"The record of question {number} ({path}) cannot be read; restore it from a"
                " backup.",
                row="desk-unreadable",
            ) from None

    def keep(self, question: KeptQuestion) -> None:
        """Store a question durably."""
        write_atomically(
            self._path(question.number), canonical_json({"version": VERSION, **asdict(question)})
        )

    def free_number(self) -> int:
        """Return the next number whose release the ledger does not know."""
        number = max(self._numbers(), default=0) + 1
        while self.ledger.reservation(self.release(number)) is not None:
            number += 1
        return number

    def release(self, number: int) -> str:
        """Return the name of a question's release."""
        return f"{self._desk.account}-question-{number:04d}"

    def spec(self, number: int) -> Path:
        """Return the path of a question's spec."""
        return self._desk.folder / f"{self.release(number)}.release.yaml"

    def schema(self, number: int) -> Path:
        """Return the path of a question's schema."""
        return self._desk.folder / f"{self.release(number)}.schema.yaml"

    def bundle(self, number: int) -> Path:
        """Return the folder of a question's bundle."""
        return self._desk.folder / self.release(number)

    def stage(self, question: KeptQuestion) -> Stage:
        """Return how far the release of a question is."""
        if question.answered_by is not None:
            return "answered"
        release = self.release(question.number)
        reservation = self.ledger.reservation(release)
        if reservation is None or reservation.outcome == "returned":
            return "admitted"
        if reservation.outcome is None:
            return "begun" if self.ledger.gate(reservation).held is None else "held"
        if reservation.outcome != "finished":
            return "ended"
        folder = RunFolder(self._desk.home, release, reservation.link)
        done = all(folder.facts_of(stage) is not None for stage in ("publish", "tidy"))
        return "answered" if done else "begun"

    def about(self, asks: str) -> Iterator[tuple[KeptQuestion, Stage]]:
        """Yield each question that measures something, and how far its own release is.

        Args:
            asks: What is measured, `KeptQuestion.asks`.
        """
        for each in self.all():
            if each.asks == asks and each.answered_by is None:
                yield each, self.stage(each)

    def best_answered(self, asks: str, least: Fraction) -> KeptQuestion | None:
        """Return the answered question with the largest epsilon that measured the same.

        Args:
            asks: What was measured.
            least: Smallest epsilon that is enough.
        """
        found = [
            each for each, stage in self.about(asks) if each.cost >= least and stage == "answered"
        ]
        return max(found, key=lambda each: each.cost, default=None)

    def withdrawn_one(self, asks: str) -> KeptQuestion | None:
        """Return a question that asks the same and whose answer was withdrawn; None if none."""
        for each, stage in self.about(asks):
            if stage == "ended":
                reservation = self.ledger.reservation(self.release(each.number))
                if reservation is not None and reservation.outcome == "withdrawn":
                    return each
        return None

    def _numbers(self) -> list[int]:
        found = [path.stem for path in self._desk.folder.glob("[0-9]*.json")]
        return sorted(int(stem) for stem in found if stem.isdecimal())

    def _path(self, number: int) -> Path:
        return self._desk.folder / f"{number:04d}.json"
