"""How a run of the release flow ended: one word, one sentence, one exit code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dp_core.errors import (
    AwaitsApproval,
    BadInput,
    BudgetRefused,
    Held,
    ReleaseError,
    Unpublished,
)

OutcomeName = Literal["published", "held", "withdrawn", "refused", "failed", "waiting"]
"""How it ended.

- `published`: the bundle is written.
- `held`: all is made, and a person decides whether it is published.
- `withdrawn`: it ended without a bundle, by a person or by its thresholds.
- `refused`: its input will not do, or the budget; nothing was spent by this run.
- `failed`: for an outside reason; it can be resumed.
- `waiting`: for the approval of its plan; nothing was spent.
"""

TITLES: dict[OutcomeName, str] = {
    "held": "Held",
    "waiting": "AwaitingApproval",
    "withdrawn": "Withdrawn",
}
"""Names of the state in which Prefect shows a run that did its part and published nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the release flow ended; public values only.

    Attributes:
        name: One word.
        sentence: What is told to people: what happened, and what to do.
        exit_code: Of the command that ran it.
        row: Heading of the runbook that says what to do; None for none.
        waits: What a command ends with where nothing failed and nothing is published; None else.
    """

    name: OutcomeName
    sentence: str
    exit_code: int
    waits: ReleaseError | None = None
    row: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether somebody has to repair something, which no decision of a person does."""
        return self.name in ("refused", "failed")

    @property
    def title(self) -> str:
        """Name of the state in Prefect."""
        return TITLES.get(self.name, self.name.capitalize())


def outcome_of(release: str, failure: ReleaseError | None) -> Outcome:
    """Return how a run ended.

    Args:
        release: Its name.
        failure: What stopped it, without data; None for nothing.
    """
    name: OutcomeName
    match failure:
        case None:
            return Outcome("published", f"Release {release!r} is published.", 0)
        case Held():
            name = "held"
        case AwaitsApproval():
            name = "waiting"
        case Unpublished():
            name = "withdrawn"
        case BadInput() | BudgetRefused():
            name = "refused"
        case _:
            name = "failed"
    waits = failure if name in TITLES else None
    return Outcome(name, failure.message, failure.exit_code, waits, failure.row)
