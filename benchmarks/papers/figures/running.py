"""Runs the cells that are not stored yet, in parallel, and prints how much is left."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process

from threadpoolctl import threadpool_limits

from benchmarks.papers.common import versions
from benchmarks.papers.figures.experiment import Cell, Context, Experiment, Values
from benchmarks.papers.figures.store import Store


def calculate(cell: Cell, context: Context) -> tuple[Values, float]:
    """Return the values of a cell and the CPU seconds it took."""
    from benchmarks.papers.figures.register import EXPERIMENTS

    before = time.process_time()
    repeats = range(cell.first, cell.first + cell.repeats)
    # Small matrices: a second thread of the library of linear algebra only waits, and costs CPU.
    with threadpool_limits(limits=1):
        values = EXPERIMENTS[cell.experiment].run(context, cell.setting, repeats)
    return values, time.process_time() - before


def todo(
    experiments: Iterable[Experiment],
    store: Store,
    context: Context,
    repeats: int | None = None,
) -> list[Cell]:
    """Return the cells that are not stored, in the order of a run.

    All experiments advance evenly: first the first part of each, then the second part of each. So a
    run that is stopped has all figures, with fewer repeats.

    Args:
        experiments: Experiments to run.
        store: Results.
        context: Context of the run.
        repeats: Number of repeats of each setting, rounded up to whole cells; None for the
            experiment's own number.
    """
    found = []
    for experiment in experiments:
        whole = repeats or experiment.repeats
        for cell in store.missing(list(experiment.cells(context, whole))):
            found.append((cell.first / whole, cell))
    return [cell for _, cell in sorted(found, key=lambda pair: pair[0])]


def end_with_parent() -> None:
    """End this process when its parent process ends, even if the parent is killed."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Forecast:
    """Forecast of the CPU seconds of cells, by the stored ones of the setting or the experiment."""

    def __init__(self, store: Store, experiments: Iterable[Experiment]) -> None:
        """Read the CPU seconds of the stored cells."""
        self.setting: dict[tuple[str, str], list[float]] = {}
        self.whole: dict[str, list[float]] = {}
        for experiment in experiments:
            for line in store.lines(experiment.name):
                self.add(experiment.name, line["setting"], line["repeats"], line["cpu"])

    def add(self, experiment: str, setting: Mapping[str, object], repeats: int, cpu: float) -> None:
        """Add the time of a cell."""
        for known in (
            self.setting.setdefault((experiment, str(dict(setting))), [0.0, 0.0]),
            self.whole.setdefault(experiment, [0.0, 0.0]),
        ):
            known[0] += repeats
            known[1] += cpu

    def seconds(self, cells: Iterable[Cell]) -> float:
        """Return the CPU seconds that cells will take, as far as they are known."""
        total = 0.0
        for cell in cells:
            mean = self.whole.get(cell.experiment, [1.0, 0.0])
            own = self.setting.get((cell.experiment, str(dict(cell.setting))), mean)
            total += cell.repeats * own[1] / own[0]
        return total


def run(
    cells: Sequence[Cell],
    store: Store,
    context: Context,
    forecast: Forecast,
    *,
    processes: int,
    every: float = 30.0,
) -> None:
    """Run cells and store each when it is finished; print progress about twice a minute.

    Args:
        cells: Cells to run, in this order.
        store: Results; only this process writes there.
        context: Context of the run.
        forecast: Forecast of the CPU time.
        processes: Number of parallel processes; 0 runs the cells in this one.
        every: Seconds between lines of progress.
    """
    made_with, last = versions(), time.monotonic()
    left = list(cells)

    def keep(cell: Cell, found: tuple[Values, float]) -> None:
        nonlocal last
        store.add(cell, found[0], found[1], made_with)
        forecast.add(cell.experiment, cell.setting, cell.repeats, found[1])
        left.remove(cell)
        if time.monotonic() - last > every or not left:
            last = time.monotonic()
            hours = forecast.seconds(left) / 3600
            side = max(processes, 1)
            print(
                f"{len(cells) - len(left)} of {len(cells)} cells; {hours:.2f} h of CPU left,"
                f" {hours / side:.2f} h by {side} ({cell.experiment})",
                flush=True,
            )

    if processes == 0:
        for cell in cells:
            keep(cell, calculate(cell, context))
        return
    # Libraries that a process loads later, such as those of trees, read this when they are loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=end_with_parent
    ) as pool:
        waiting = iter(cells)
        running: dict[Future[tuple[Values, float]], Cell] = {}
        while True:
            # No more than one cell beside those that run: an interrupted run ends soon.
            while len(running) < processes + 1 and (cell := next(waiting, None)) is not None:
                running[pool.submit(calculate, cell, context)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                keep(running.pop(future), future.result())
