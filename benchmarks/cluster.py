"""What Dask costs, and what workers gain: all pairs of a store of codes, in five ways.

The same store is counted by a plain loop over its chunks, by Dask on one thread and on all threads
of this process, and by Dask on worker processes of one thread each under TLS, as `--dask tls://`
would find them. How much faster several processes can be at all on this machine is what plain loops
in as many processes show, each over its part, with nobody who hands out tasks. Strong scaling: the
same rows whatever the workers; weak scaling: each worker brings its rows. Codes are random
(nobody's data), written once and mapped from the page cache. Ways take turns; the best wall time of
the turns, and the CPU of all processes in that turn. Every way's counts are compared with the
loop's. Other work on the machine spoils the speed-up: see `uptime`. With `--cpu` only CPU seconds
are compared, which other work hardly changes: 1, 2 and 4 workers, even where there are fewer
processors, each cluster started when the one before it has ended. Every worker has imported and
loaded its code before.

    python benchmarks/cluster.py
    python benchmarks/cluster.py --rows 100000000 --turns 9 --keep /tmp/codes
    python benchmarks/cluster.py --cpu --rows 10000000
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import logging
import multiprocessing
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import psutil
from common import MIXED_SIZES as SIZES
from distributed import Client, LocalCluster

from dp_core.confidential.code_store import CHUNK_ROWS, CodeStore, StoreWriter
from dp_core.kernel.counting.cell_counts import count_tables
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.processors import threads
from dp_core.tables.table_plan import plan_tables
from tasks.counting.dask_counter import DaskCounter

if TYPE_CHECKING:
    pass

DOMAIN = Domain(tuple(f"c{place}" for place in range(len(SIZES))), SIZES)
PAIRS: list[Clique] = list(itertools.combinations(DOMAIN.columns, 2))
WORKERS = (1, 2, 4)

Count = Callable[[CodeStore], Sequence[np.ndarray]]


def make_store(folder: Path, rows: int) -> CodeStore:
    """Return a store of random codes, from the folder if it is there."""
    if not folder.exists():
        rng = np.random.default_rng(2026)
        with StoreWriter(folder, DOMAIN) as writer:
            for start in range(0, rows, CHUNK_ROWS):
                drawn = min(CHUNK_ROWS, rows - start)
                writer.append([rng.integers(0, size, drawn, np.uint8) for size in SIZES])
    store = CodeStore(folder, DOMAIN)
    if store.rows != rows:
        raise SystemExit(f"{folder} holds {store.rows:,} rows: give another folder.")
    return store


def loop(store: CodeStore) -> list[np.ndarray]:
    """Count chunk after chunk, without Dask."""
    plan = plan_tables(SIZES, tuple(DOMAIN.axes(pair) for pair in PAIRS))
    total = count_tables(store.read(0), plan)
    for chunk in range(1, store.chunks):
        for counts, more in zip(total, count_tables(store.read(chunk), plan), strict=True):
            counts += more
    return plan.project(total)


def by_dask(client: Client | None) -> Count:
    """Return a count by Dask: a counter of its own, so that nothing is known from before."""

    def count(store: CodeStore) -> list[np.ndarray]:
        found = DaskCounter(store, DOMAIN, client).count(PAIRS)
        return [found[pair].counts for pair in PAIRS]

    return count


def in_processes(pool: ProcessPoolExecutor, number: int) -> Count:
    """Return a count by plain loops in processes that are there, each over as many chunks."""

    def count(store: CodeStore) -> list[np.ndarray]:
        edges = [store.chunks * place // number for place in range(number + 1)]
        parts = [store.part(*edge) for edge in itertools.pairwise(edges)]
        return [sum(tables) for tables in zip(*pool.map(loop, parts), strict=True)]

    return count


@contextmanager
def on_processors(number: int) -> Iterator[None]:
    """Let this process use some of its processors only, and so as many threads."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def on_one(count: Count) -> Count:
    """Return a count on one processor."""

    def counted(store: CodeStore) -> Sequence[np.ndarray]:
        with on_processors(1):
            return count(store)

    return counted


def cpu() -> float:
    """Return the CPU seconds of this process and its children so far."""
    me = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (me, *me.children(recursive=True)))


def measure(ways: dict[str, tuple[Count, CodeStore]], turns: int) -> dict[str, tuple[float, float]]:
    """Return wall and CPU seconds of each way's best turn; a first one is not counted."""
    best: dict[str, tuple[float, float]] = {}
    for turn in range(turns + 1):
        for name, (count, store) in ways.items():
            spent, start = cpu(), time.perf_counter()
            found = count(store)
            wall, spent = time.perf_counter() - start, cpu() - spent
            if turn == 0:
                expected = loop(store)
                pairs = zip(found, expected, strict=True)
                assert all(np.array_equal(*pair) for pair in pairs), f"{name} counts otherwise"
            else:
                best[name] = min(best.get(name, (wall, spent)), (wall, spent))
    return best


@contextmanager
def one_cluster(workers: int, folder: Path) -> Iterator[Client]:
    """Give a client of a cluster of so many worker processes."""
    cluster: Any = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        security=True,
        protocol="tls",
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        local_directory=str(folder / f"dask-{workers}"),
        silence_logs=logging.CRITICAL,
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client


def clusters(stack: ExitStack, folder: Path) -> dict[int, Client]:
    """Return clients of clusters of 1, 2 and 4 workers, as far as there are processors for them."""
    numbers = [number for number in WORKERS if number <= max(threads(), 1)]
    return {number: stack.enter_context(one_cluster(number, folder)) for number in numbers}


def least_cpu(work: Callable[[], object], turns: int) -> float:
    """Return the CPU seconds of this process and its children in the turn with the fewest."""
    spent = []
    for _ in range(turns):
        before = cpu()
        work()
        spent.append(cpu() - before)
    return min(spent)


def compare_cpu(store: CodeStore, folder: Path, turns: int) -> None:
    """Print the CPU seconds of counting on one processor here, and on 1, 2 and 4 workers."""
    expected, spent = loop(store), {}

    def count(client: Client | None) -> None:
        found = loop(store) if client is None else by_dask(client)(store)
        pairs = zip(found, expected, strict=True)
        assert all(np.array_equal(*pair) for pair in pairs), "counts differ"

    for number in (0, *WORKERS):
        place: AbstractContextManager[Client | None]
        place = one_cluster(number, folder) if number else nullcontext()
        with place as client, nullcontext() if number else on_processors(1):
            count(client)
            spent[number] = least_cpu(partial(count, client), turns)
    what = f"{len(PAIRS)} pairs of {store.rows:,} rows"
    print(f"{what:40}{'CPU s':>8}{'of one worker':>16}")
    for number, seconds in spent.items():
        name = f"Dask, {number} worker(s)" if number else "1 thread here, without Dask"
        print(f"{name:40}{seconds:8.2f}{seconds / spent[1]:15.2f}x")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="folder that keeps the codes for another run")
    parser.add_argument("--cpu", action="store_true", help="compare CPU seconds only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = make_store((options.keep or scratch) / f"codes-{options.rows}", options.rows)
        if options.cpu:
            compare_cpu(store, scratch, options.turns)
            return
        clients = clusters(stack, scratch)
        packages = ("numpy", "numba", "dask", "distributed")
        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
        print(f"Python {platform.python_version()}, {versions}; {threads()} processors")
        print(f"{options.rows:,} rows x 20 columns, {len(PAIRS)} pairs; best of {options.turns}")
        strong: dict[str, tuple[Count, CodeStore]] = {
            "plain loop": (on_one(loop), store),
            "Dask, 1 thread here": (on_one(by_dask(None)), store),
            f"Dask, {threads()} threads here": (by_dask(None), store),
        }
        for workers, client in clients.items():
            strong[f"Dask, {workers} worker(s)"] = (by_dask(client), store)
        spawned = multiprocessing.get_context("spawn")
        for number in clients:
            pool = stack.enter_context(ProcessPoolExecutor(number, mp_context=spawned))
            strong[f"plain, {number} process(es)"] = (in_processes(pool, number), store)
        report(measure(strong, options.turns), "plain loop", "the same rows")
        most = max(clients)
        weak: dict[str, tuple[Count, CodeStore]] = {
            f"Dask, {workers} worker(s)": (
                by_dask(client),
                store.part(0, max(1, store.chunks * workers // most)),
            )
            for workers, client in clients.items()
        }
        report(measure(weak, options.turns), "Dask, 1 worker(s)", f"1/{most} of them per worker")


def report(found: dict[str, tuple[float, float]], first: str, rows: str) -> None:
    """Print a table; the last two columns are ratios to one way."""
    print(f"\n{rows:24} {'wall s':>8} {'CPU s':>8} {'times faster':>13} {'CPU':>7}")
    for name, (wall, spent) in found.items():
        ratios = f"{found[first][0] / wall:13.2f} {spent / found[first][1]:6.2f}x"
        print(f"{name:24} {wall:8.3f} {spent:8.3f} {ratios}", flush=True)


if __name__ == "__main__":
    main()
