"""Progress on a terminal: one line per stage. Public values only."""

from __future__ import annotations

import sys
import time
from typing import Any

WORDS = {
    "reuse": "Take the tables of the earlier release",
    "copy": "Copy the files from the store",
    "snapshot": "Read the table",
    "identify": "Identify the input",
    "validate": "Validate against the schema",
    "discretize": "Discretize to codes",
    "domain": "Choose bins and levels privately",
    "count": "Count marginals",
    "basics": "Measure rows and one-way tables",
    "select": "Select tables privately",
    "measure": "Measure tables",
    "analyses": "Measure declared analyses",
    "reconstruct": "Reconstruct a model",
    "synthesize": "Synthesize the sets",
    "check": "Check quality",
    "publish": "Publish the bundle",
}


class StageProgress:
    """Shows which stage is running and how far it is: bars on a terminal, lines elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
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
            self._waiting = bar.add_task(words, total=None)
        else:
            sys.stderr.write(f"{words}: {why}\n")

    def update(self, stage: str, done: float) -> None:
        """Show that a stage is `done`, 0 to 1."""
        if self._quiet or stage == "identify":
            return
        words = WORDS.get(stage, stage)
        if self._live:
            bar = self._bar()
            if self._waiting is not None:
                bar.update(self._waiting, total=1.0, completed=1.0)
                self._waiting = None
            if stage not in self._bars:
                self._bars[stage] = bar.add_task(words, total=1.0)
            bar.update(self._bars[stage], completed=min(done, 1.0))
            return
        started = self._started.setdefault(stage, time.monotonic())
        if done >= 1.0 and stage not in self._ended:
            self._ended.add(stage)
            sys.stderr.write(f"  {words}: {time.monotonic() - started:.1f} s\n")

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
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                console=Console(stderr=True, highlight=False),
            )
            progress.start()
            self._progress = progress
        return self._progress
