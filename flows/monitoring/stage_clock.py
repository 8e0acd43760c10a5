"""Tells staff how far the running stage is: in the log, and in a note that `status` reads.

Stages report the part that they have done, and a thread passes it on. So a stage also shows its
time left while it reports nothing. Prefect gets none of it, because durations of stages depend on
the size of the data and everybody can read Prefect's pages.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dp_core.plan.forecast.resource_forecast import forecast_resources
from dp_core.plan.forecast.stage_pace import Moment, StagePace
from dp_core.plan.plan import Plan
from flows.monitoring import log
from tasks.run.home_notes import machine_of, remove_progress, write_progress
from tasks.run.release_run import Run

TICK_S = 1.0
"""Seconds between two looks at the running stage."""
LINE_S = 10.0
"""Seconds between two lines of a running stage in a log."""
SHORT_S = 5.0
"""A stage that takes at most so many seconds needs no line."""


@contextmanager
def ticking(tick: Callable[[], None], *, seconds: float | None = None) -> Iterator[None]:
    """Call a function again and again during a block, in a thread of its own.

    Args:
        tick: The function; its exceptions are ignored.
        seconds: Seconds between two calls; `TICK_S` by default.
    """
    stop, pause = threading.Event(), TICK_S if seconds is None else seconds

    def work() -> None:
        while not stop.wait(pause):
            with suppress(Exception):
                tick()

    thread = threading.Thread(target=work, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Lines:
    """Decides when a running stage is worth another line: after 5 s, then every 10 s."""

    def __init__(self) -> None:
        """Start without any line."""
        self._stage, self._next = "", SHORT_S

    def due(self, moment: Moment | None) -> bool:
        """Return whether to write a line now, and note that it is written."""
        if moment is None:
            return False
        if moment.stage != self._stage:
            self._stage, self._next = moment.stage, SHORT_S
        if moment.seconds < self._next:
            return False
        self._next = moment.seconds + LINE_S
        return True


@contextmanager
def follow_stages(run: Run) -> Iterator[None]:
    """Follow the stages of a run during a block: note and log how far they are.

    Args:
        run: The run; its `progress` is called as before.
    """
    pace, lines, before = StagePace(expected_seconds(run.planned, run.home)), Lines(), run.progress

    def update(stage: str, done: float) -> None:
        pace.update(stage, done)
        before(stage, done)

    def tick() -> None:
        moment = pace.moment()
        if moment is None:
            return
        write_progress(run.folder, moment, os.getpid())
        if lines.due(moment):
            log.log_progress(run, moment)

    run.progress = update
    try:
        with ticking(tick):
            yield
    finally:
        run.progress = before
        remove_progress(run.folder)


def expected_seconds(plan: Plan, home: Path) -> Mapping[str, float]:
    """Return the forecast seconds of each stage; empty if the plan allows no forecast.

    Args:
        plan: Plan of the release.
        home: The home, which knows the speed of this machine.
    """
    try:
        takes = forecast_resources(plan, machine_of(home))
        return takes.seconds if takes else {}
    except Exception:
        # A release does not fail because of its forecast.
        return {}
