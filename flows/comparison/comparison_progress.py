"""Progress of a comparison on a terminal: a bar, and a line for each finished run."""

from __future__ import annotations

import sys
from typing import Any

from dp_core.lab.comparison.cells import Cell, Result
from dp_core.lab.comparison.figures import shown_number


class ComparisonProgress:
    """Shows the progress of a comparison; plain lines outside a terminal, nothing if quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty() and not quiet
        self._progress: Any = None
        self._bar: Any = None
        self._total = self._done = 0

    def say(self, words: str) -> None:
        """Show one line."""
        if self._quiet:
            return
        if self._progress is not None:
            self._progress.console.print(words, markup=False, highlight=False)
        else:
            sys.stderr.write(f"{words}\n")

    def begin(self, cells: int, *, kept: int) -> None:
        """Show the number of cells to run, and how many were finished before."""
        self._total = cells
        if kept:
            self.say(f"{kept} of {cells + kept} runs were finished before and are kept.")
        if not self._live or not cells:
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
        )
        self._bar = self._progress.add_task("Compare", total=cells)
        self._progress.start()

    def told(self, cell: Cell, result: Result, seconds: float) -> None:
        """Show the result of a cell."""
        self._done += 1
        at = f" epsilon {cell.epsilon}" if cell.epsilon else ""
        words = f"  {self._done}/{self._total} {cell.file}, {cell.label}{at}, run {cell.run}: "
        pairs = result.figures.get("tvd2")
        if result.outcome != "done":
            words += f"{result.outcome}. {result.sentence}"
        else:
            words += f"{seconds:.1f} s"
            words += "" if pairs is None else f", 2-way TVD {shown_number('tvd2', pairs)}"
        self.say(words)
        if self._progress is not None:
            self._progress.advance(self._bar)

    def stop(self) -> None:
        """Leave the terminal as it was."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
