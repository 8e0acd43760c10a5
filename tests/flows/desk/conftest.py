"""A desk of the small survey, and answers without an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dp_core.kernel.cost.composition import Terms
from flows.cli.actions.file_check import check
from flows.desk import asking
from flows.desk.desk import Desk, find_desk, open_desk
from flows.release import carry_out
from tests.flows.conftest import Project, plainly

WHO = {"by": "Ana Officer", "reason": "a test"}
"""Who opens and closes desks, and why."""


def fits(schema: Path, data: str) -> bool:
    """Return whether data fit a schema, in this process."""
    return check(schema, [data]).fits


@dataclass
class Office:
    """A project with a question desk.

    Attributes:
        project: The project with data, schema and home.
        account: Account of the desk, `rand` by default.
        made: Names of the specs whose release was begun.
        perform: Runs one task.
    """

    project: Project
    account: str = "rand"
    made: list[str] = field(default_factory=list)
    perform: Any = plainly

    def open(self, largest: str = "1", delta: str = "1e-9", more: str = "") -> Desk:
        path = self.project.folder / "questions.yaml"
        path.write_text(
            f"version: 1\naccount: {self.account}\ndata: town.csv\nschema: town.schema.yaml\n"
            f"privacy: {{delta: {delta}}}\nlargest_epsilon: {largest}\n{more}"
        )
        return open_desk(path, self.project.ledger(), **WHO, fits=fits)

    @property
    def desk(self) -> Desk:
        return find_desk(self.account)

    def carry_out(self, spec: Path, out: Path) -> None:
        self.made.append(spec.name)
        carry_out(spec, out, perform=self.perform)

    def ask(self, question: str, epsilon: str = "1", user: str | None = None, **how: Any) -> Any:
        number = asking.admit_question(self.desk, question, epsilon, user, **how)
        return asking.answer_question(self.desk, number, carry_out=self.carry_out)

    def plan(self, question: str, epsilon: str = "1", user: str | None = None, **how: Any) -> Any:
        return asking.plan_question(self.desk, question, epsilon, user, **how)

    def left(self, account: str = "rand") -> Fraction:
        """Return the epsilon (of a zcdp account: the rho) that an account can still promise."""
        found = self.project.ledger().find_account(account)
        assert found is not None
        return found.left.main

    def spent_nothing(self) -> bool:
        kinds = {*self.project.kinds()}
        return not kinds & {"reserve", "charge"}


@pytest.fixture
def office(project, quick) -> Office:  # noqa: ARG001
    project.open_account("rand", terms=Terms("basic", Fraction(5), Fraction("1e-6")))
    found = Office(project)
    found.open()
    return found
