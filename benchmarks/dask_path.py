"""What the way through Dask costs beside a direct one, for a small file and for a large one.

Every count is a Dask graph on threads of the process, whatever the file's size. The direct way is
the same counter with a loop over the files in place of the graph, as it was once for files of one
chunk. The small file is counted in fresh processes, in turns, so that Dask's imports are included;
each process has imported before what a release has imported by then, and counts as often as a
release does. The CPU of threads is included. The large file is counted in one process, in turns.
The least of all turns counts, because other work on the machine can only add. Codes are random
(nobody's data). Counts of both ways are compared.

    python benchmarks/dask_path.py
    python benchmarks/dask_path.py --small 10000 --large 1000000 --turns 21
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from common import MIXED_SIZES as SIZES

from dp_core.confidential.code_store import CHUNK_ROWS, CodeStore, StoreWriter
from dp_core.kernel.counting.cell_counts import TablePlan
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.processors import threads
from flows.engine.settings import prepare
from tasks.counting.dask_counter import DaskCounter, _count_part

DOMAIN = Domain(tuple(f"c{place}" for place in range(len(SIZES))), SIZES)
PAIRS: list[Clique] = list(combinations(DOMAIN.columns, 2))
COUNTS = 6
"""Counts of a small release: total and columns, the selection, the measured tables, the checks."""


def make_store(folder: Path, rows: int) -> CodeStore:
    """Write a store of random codes."""
    rng = np.random.default_rng(2026)
    with StoreWriter(folder, DOMAIN) as writer:
        for start in range(0, rows, CHUNK_ROWS):
            drawn = min(CHUNK_ROWS, rows - start)
            writer.append([rng.integers(0, size, drawn, np.uint8) for size in SIZES])
    return CodeStore(folder, DOMAIN)


class DirectCounter(DaskCounter):
    """Counts file after file, without Dask."""

    def _count(
        self, plan: TablePlan, progress: Callable[[float], None] | None = None
    ) -> list[np.ndarray]:
        del progress
        return plan.project(_count_part(self._store, plan))


def counted(counter: DaskCounter, cliques: Sequence[Clique]) -> list[np.ndarray]:
    """Return the counts of a counter that knows nothing from before."""
    found = counter.count(cliques)
    return [found[clique].counts for clique in cliques]


WAYS: dict[str, type[DaskCounter]] = {"direct": DirectCounter, "Dask": DaskCounter}


def one_process(way: str, folder: Path, rows: int) -> None:
    """Print the CPU seconds of the first count, and of all counts, of a fresh process."""
    with tempfile.TemporaryDirectory() as home:
        prepare(Path(home))
        import flows.release  # noqa: F401  # a release has imported it by now

        store = CodeStore(folder, DOMAIN)
        assert store.rows == rows
        counted(DirectCounter(store, DOMAIN), PAIRS[:3])  # loads the compiled loops for both ways
        before = set(sys.modules)
        spent = [time.process_time()]
        for number in range(COUNTS):
            counted(WAYS[way](store, DOMAIN), PAIRS[number::COUNTS])
            spent.append(time.process_time())
        answer = {
            "first": spent[1] - spent[0],
            "all": spent[-1] - spent[0],
            "modules": len(set(sys.modules) - before),
            "distributed": "distributed" in sys.modules,
        }
        print(json.dumps(answer))


def small(folder: Path, rows: int, turns: int) -> None:
    """Print what Dask costs in fresh processes."""
    make_store(folder, rows)
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(turns):
        for way, answers in found.items():
            command = [sys.executable, __file__, "--one", way, str(folder), str(rows)]
            answers.append(json.loads(subprocess.check_output(command)))
    print(f"\n{rows:,} rows, {COUNTS} counts; CPU ms, best of {turns} processes of each way")
    print(f"{'':12} {'first count':>12} {'all counts':>12} {'modules':>8} {'distributed':>12}")
    middle = {}
    for way, answers in found.items():
        middle[way] = [1000 * min(each[key] for each in answers) for key in ("first", "all")]
        modules = answers[0]["modules"]
        imported = "imported" if any(each["distributed"] for each in answers) else "no"
        print(f"{way:12} {middle[way][0]:12.1f} {middle[way][1]:12.1f} {modules:8} {imported:>12}")
    more = [dask - loop for loop, dask in zip(*middle.values(), strict=True)]
    print(f"{'Dask costs':12} {more[0]:12.1f} {more[1]:12.1f}")


def large(folder: Path, rows: int, turns: int) -> None:
    """Print wall and CPU seconds of both ways in one process."""
    store = make_store(folder, rows)
    best: dict[str, tuple[float, float]] = {}
    expected = counted(DirectCounter(store, DOMAIN), PAIRS)
    for turn in range(turns + 1):
        for way, counter in WAYS.items():
            start, spent = time.perf_counter(), time.process_time()
            found = counted(counter(store, DOMAIN), PAIRS)
            took = time.perf_counter() - start, time.process_time() - spent
            assert all(map(np.array_equal, found, expected)), f"{way} counts otherwise"
            if turn:
                best[way] = tuple(map(min, best.get(way, took), took))
    print(f"\n{rows:,} rows x {len(SIZES)}, {len(PAIRS)} pairs; best of {turns}")
    print(f"{'':12} {'wall ms':>12} {'CPU ms':>12}")
    for way, (wall, spent) in best.items():
        print(f"{way:12} {1000 * wall:12.1f} {1000 * spent:12.1f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, folder, rows = options.one
        one_process(way, Path(folder), int(rows))
        return
    packages = ("numpy", "numba", "dask")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    print(f"Python {platform.python_version()}, {versions}; {threads()} processors")
    with tempfile.TemporaryDirectory() as folder:
        small(Path(folder, "small"), options.small, options.turns)
        large(Path(folder, "large"), options.large, options.turns)


if __name__ == "__main__":
    main()
