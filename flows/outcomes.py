"""How a run of the release flow ended: one word, one sentence, and who is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dp_core.errors import BadInput, BudgetRefused, ReleaseError
from flows.events import tell_release

OutcomeName = Literal["published", "held", "withdrawn", "refused", "failed", "waiting"]
"""How it ended.

- `published`: the bundle is written.
- `held`: all is made, and a person decides whether it is published.
- `withdrawn`: it ended without a bundle, by a person or by its thresholds.
- `refused`: its input will not do, or the budget; nothing was spent by this run.
- `failed`: for an outside reason; it can be resumed.
- `waiting`: for the approval of its plan; nothing was spent.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the release flow ended; public values only.

    Attributes:
        name: One word.
        sentence: What is told to people: what happened, and what to do.
        exit_code: Of the command that ran it.
    """

    name: OutcomeName
    sentence: str
    exit_code: int

    @property
    def is_failure(self) -> bool:
        """Whether somebody has to repair something, which no decision of a person does."""
        return self.name in ("refused", "failed")


def outcome_of(release: str, failure: ReleaseError | None) -> Outcome:
    """Return how a run ended.

    Args:
        release: Its name.
        failure: What stopped it, without data; None for nothing.
    """
    if failure is None:
        return Outcome("published", f"Release {release!r} is published.", 0)
    refused = isinstance(failure, (BadInput, BudgetRefused))
    return Outcome("refused" if refused else "failed", failure.message, failure.exit_code)


def announce(outcome: Outcome, *, release: str, account: str | None) -> None:
    """Tell whoever listens how a run ended; called once, at the end of the flow.

    Args:
        outcome: How it ended.
        release: Its name; the name of the spec's file where that cannot be read.
        account: That pays for it; None where the spec cannot be read.
    """
    tell_release(outcome.name, release, account, sentence=outcome.sentence, code=outcome.exit_code)
