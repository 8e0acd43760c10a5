"""A question desk: the file, the largest epsilon of a question, and the accounts that pay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

from dp_core.plan.data_location import DatabaseTable, OnePlace
from dp_core.schema.definition import Schema
from dp_core.schema.privacy import Neighbours

Answers = Literal["at-once", "after-approval"]
"""`after-approval`: each answer waits until a person publishes or withdraws it."""

ANSWERS: tuple[Answers, ...] = get_args(Answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionDesk:
    """The terms under which questions about a file are answered.

    Attributes:
        account: Ledger account of the desk, which pays for every question.
        data: Path or glob of CSV or Parquet files, relative to `folder`; a URL; or a table.
        folder: Folder of the desk's file.
        schema: Schema of the whole file.
        delta: Delta of each question; 0 for pure differential privacy.
        neighbours: Neighbouring relation.
        largest_epsilon: Largest epsilon of one question.
        answers: Whether a person must approve each answer; `at-once` by default.
        users: Account of each user, within that of the desk; empty (the default) if the desk has no
            users, so that its own account alone pays.
    """

    account: str
    data: OnePlace
    folder: Path
    schema: Schema
    delta: Fraction
    neighbours: Neighbours
    largest_epsilon: Fraction
    answers: Answers = "at-once"
    users: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """Return the desk as plain JSON values, for its record in the home."""
        place = self.data.document() if isinstance(self.data, DatabaseTable) else self.data
        return {
            "account": self.account,
            "data": place,
            "schema": dict(self.schema.document),
            "delta": str(self.delta),
            "neighbours": self.neighbours,
            "largest_epsilon": str(self.largest_epsilon),
            "answers": self.answers,
            "users": dict(self.users),
        }
