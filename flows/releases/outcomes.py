"""How a run of the release flow ended: one word, one sentence, and who is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
from flows.monitoring import log
from flows.monitoring.events import tell_release

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
        waits: What a command ends with where nothing failed and nothing is published; None else.
    """

    name: OutcomeName
    sentence: str
    exit_code: int
    waits: ReleaseError | None = None

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
    return Outcome(name, failure.message, failure.exit_code, waits)


_HEARD: ContextVar[list[Outcome] | None] = ContextVar("heard", default=None)


@contextmanager
def heard() -> Iterator[list[Outcome]]:
    """Give what the runs of the flow within the block ended with, each as it is told.

    Prefect returns a run's state to nobody who called the flow as a function.
    """
    outcomes: list[Outcome] = []
    token = _HEARD.set(outcomes)
    try:
        yield outcomes
    finally:
        _HEARD.reset(token)


def tell(outcome: Outcome, *, release: str, account: str | None) -> None:
    """Note how a run ended for whoever called it, and announce it."""
    outcomes = _HEARD.get()
    if outcomes is not None:
        outcomes.append(outcome)
    announce(outcome, release=release, account=account)


def announce(outcome: Outcome, *, release: str, account: str | None) -> None:
    """Tell whoever listens how a run ended, once: at the end of the flow, or of a decision.

    A person's `publish` and `withdraw` are announced outside of any flow run, where there may be no
    server of Prefect.

    Args:
        outcome: How it ended.
        release: Its name; the name of the spec's file where that cannot be read.
        account: That pays for it; None where the spec cannot be read.
    """
    log.ended(outcome, release=release, account=account)
    tell_release(outcome.name, release, account, sentence=outcome.sentence, code=outcome.exit_code)
