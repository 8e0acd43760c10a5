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
    tell_release(
        outcome.name,
        release,
        account,
        sentence=outcome.sentence,
        code=outcome.exit_code,
        row=outcome.row,
    )
