"""Progress for the person who makes a release: one bar or line for each stage.

How long a stage takes depends on the size of the data, so it is shown to that person only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from dp_core.plan.forecast.stage_pace import StagePace
from flows.monitoring.stage_clock import SHORT_S, Lines
from tasks.run.stage_table import STAGE_WORDS

WORDS = {
    "copy": "Copy the files from the store",
    "snapshot": "Read the table",
    "identify": "Identify the input",
    **STAGE_WORDS,
}


class StageProgress:
    """Shows which stage is running, how far it is and how long it will still take.

    On a terminal it shows bars. Elsewhere it writes a line for each stage that ends, and a line
    about every ten seconds of a stage that takes longer than five.
    """

    def __init__(
        self,
        *,
        quiet: bool,
        expected: Mapping[str, float] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show nothing yet.

        Args:
            quiet: Whether to show nothing at all.
            expected: Forecast seconds by name of the stage; None (the default) without a forecast.
            now: Clock in seconds; others are for tests.
        """
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._now = now
        self._pace, self._lines = StagePace(expected or {}, now=now), Lines()
        self._started: dict[str, float] = {}
        self._bars: dict[str, int] = {}
        self._ended: set[str] = set()
        self._waiting: Any = None
        self._progress: Any = None

    def wait(self, words: str, why: str) -> None:
        """Show until the first stage that something of unknown length is running."""
        if self._quiet:
            return
        if self._live:
            bar = self._bar()
            bar.console.print(f"[dim]{words}: {why}[/dim]")
            self._waiting = bar.add_task(words, total=None, left="")
        else:
            sys.stderr.write(f"{words}: {why}\n")

    def update(self, stage: str, done: float) -> None:
        """Show that a stage is `done`, 0 to 1."""
        self._pace.update(stage, done)
        if self._quiet or stage == "identify":
            return
        words = WORDS.get(stage, stage)
        if self._live:
            bar = self._bar()
            if self._waiting is not None:
                bar.update(self._waiting, total=1.0, completed=1.0)
                self._waiting = None
            if stage not in self._bars:
                self._bars[stage] = bar.add_task(words, total=1.0, left="")
            moment = self._pace.moment()
            if moment is None:
                bar.update(self._bars[stage], completed=1.0, left="")
            else:
                bar.update(self._bars[stage], completed=moment.done)
            return
        started = self._started.setdefault(stage, self._now())
        if done >= 1.0 and stage not in self._ended:
            self._ended.add(stage)
            sys.stderr.write(f"  {words}: {self._now() - started:.1f} s\n")

    def tick(self) -> None:
        """Show how far the running stage is; call it about every second, from any thread."""
        moment = self._pace.moment()
        if self._quiet or moment is None or moment.stage == "identify":
            return
        if self._live:
            if moment.stage in self._bars and moment.seconds >= SHORT_S:
                self._bar().update(
                    self._bars[moment.stage], completed=moment.done, left=moment.in_words()
                )
        elif self._lines.due(moment):
            words = WORDS.get(moment.stage, moment.stage)
            sys.stderr.write(f"  {words}: {moment.in_words()}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._progress is not None:
            self._bar().stop()
            self._progress = None

    def _bar(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        if self._progress is None:
            progress = Progress(
                TextColumn("{task.description:<34}"),
                # All columns fit in 80 characters.
                BarColumn(bar_width=14),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}", style="dim"),
                console=Console(stderr=True, highlight=False),
            )
            progress.start()
            self._progress = progress
        return self._progress
