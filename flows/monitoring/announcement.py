"""Announces how a run of the release flow ended: to its caller, the log, and Prefect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from flows.monitoring import log
from flows.monitoring.outcome import Outcome
from flows.monitoring.prefect_events import tell_release

_HEARD: ContextVar[list[Outcome] | None] = ContextVar("heard", default=None)


@contextmanager
def heard() -> Iterator[list[Outcome]]:
    """Yield a list to which each run of the release flow in the block adds its outcome.

    A caller that calls the flow as a function does not get the run's state from Prefect.
    """
    outcomes: list[Outcome] = []
    token = _HEARD.set(outcomes)
    try:
        yield outcomes
    finally:
        _HEARD.reset(token)


def tell(outcome: Outcome, *, release: str, account: str | None) -> None:
    """Give the outcome of a run to its caller (`heard`), and announce it.

    Args:
        outcome: How the run ended.
        release: Name of the release, or of the spec's file if the spec cannot be read.
        account: Account that pays; None if the spec cannot be read.
    """
    outcomes = _HEARD.get()
    if outcomes is not None:
        outcomes.append(outcome)
    announce(outcome, release=release, account=account)


def announce(outcome: Outcome, *, release: str, account: str | None) -> None:
    """Write the outcome of a run to the log, and emit it as a Prefect event.

    Call it once for each run, and for each `publish` and `withdraw` by a person. The latter are not
    in a flow run, so there may be no Prefect server.

    Args:
        outcome: How the run ended.
        release: Name of the release, or of the spec's file if the spec cannot be read.
        account: Account that pays; None if the spec cannot be read.
    """
    log.log_end(outcome, release=release, account=account)
    tell_release(
        outcome.name,
        release,
        account,
        sentence=outcome.sentence,
        code=outcome.exit_code,
        row=outcome.row,
    )
