"""How a run of the release flow ended: one word, one sentence, one exit code; and who is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from dp_core.errors import AwaitsApproval, BadInput, BudgetRefused, Held, ReleaseError, Unpublished
from flows.monitoring import log
from flows.monitoring.prefect_events import tell_release

OutcomeName = Literal["published", "held", "withdrawn", "refused", "failed", "waiting"]
"""How a run ended.

- `published`: The bundle is written.
- `held`: The release is finished and awaits a person's approval.
- `withdrawn`: A person or the release's own thresholds ended it without a bundle.
- `refused`: The input is invalid or the budget does not suffice. This run spent nothing.
- `failed`: An external cause stopped the run. It can be resumed.
- `waiting`: An account must approve the plan first. Nothing was spent.
"""

STATES: dict[OutcomeName, str] = {
    "published": "The release is published.",
    "held": "The release awaits approval: a person decides whether it is published.",
    "withdrawn": "The release was withdrawn; nothing is published.",
    "refused": "The release was refused.",
    "failed": "The release stopped and can be resumed.",
    "waiting": "The plan of the release must be approved first.",
}
"""How a run ended, as a sentence on Prefect's pages."""

TITLES: dict[OutcomeName, str] = {
    "held": "Held",
    "waiting": "AwaitingPlanApproval",
    "withdrawn": "Withdrawn",
}
"""Names of the Prefect states for runs that did not fail and published nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the release flow ended; public values only.

    Attributes:
        name: How the run ended, as one word.
        sentence: Message for people: what happened, and what to do.
        exit_code: Exit code of the command.
        waits: Error that the command ends with if nothing failed and nothing is published; None
            otherwise.
        row: Runbook row that says what to do; None for none.
    """

    name: OutcomeName
    sentence: str
    exit_code: int
    waits: ReleaseError | None = None
    row: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether something must be repaired; False if the run only awaits a decision."""
        return self.name in ("refused", "failed")

    @property
    def title(self) -> str:
        """Name of the run's state in Prefect."""
        return TITLES.get(self.name, self.name.capitalize())


def outcome_of(release: str, failure: ReleaseError | None) -> Outcome:
    """Return the outcome of a run.

    Args:
        release: Name of the release.
        failure: Error that stopped the run, without data; None if it published.
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


_COLLECTED: ContextVar[list[Outcome] | None] = ContextVar("collected", default=None)


@contextmanager
def collect_outcomes() -> Iterator[list[Outcome]]:
    """Yield a list to which each run of the release flow in the block adds its outcome.

    A caller that calls the flow as a function does not get the run's state from Prefect.
    """
    outcomes: list[Outcome] = []
    token = _COLLECTED.set(outcomes)
    try:
        yield outcomes
    finally:
        _COLLECTED.reset(token)


def announce(outcome: Outcome, *, release: str, account: str | None) -> None:
    """Give the outcome of a run to its caller, write it to the log, and emit it as a Prefect event.

    Call it once for each run, and for each `publish` and `withdraw` by a person. The latter are not
    in a flow run, so there may be no Prefect server.

    Args:
        outcome: How the run ended.
        release: Name of the release, or of the spec's file if the spec cannot be read.
        account: Account that pays; None if the spec cannot be read.
    """
    outcomes = _COLLECTED.get()
    if outcomes is not None:
        outcomes.append(outcome)
    log.log_end(
        outcome.name,
        release=release,
        account=account,
        exit_code=outcome.exit_code,
        sentence=outcome.sentence,
    )
    tell_release(
        outcome.name,
        release,
        account,
        sentence=outcome.sentence,
        code=outcome.exit_code,
        row=outcome.row,
    )
