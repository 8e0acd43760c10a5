"""How long one round of GUM takes: 50,000 records, 15 columns, 60 tables of two columns.

Usage: python benchmarks/gum.py

Prints versions and the CPU time of a round (median over rounds, without compilation).
"""

from __future__ import annotations

import itertools
import platform
import statistics
import time

import numba
import numpy as np

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.kernels.record_moves import Targets, start, update

ROWS, COLUMNS, TABLES, LEVELS = 50_000, 15, 60, 20
REPEATS = 15


def main() -> None:
    """Time rounds from a fresh start and from the state they lead to."""
    rng = np.random.default_rng(1)
    domain = Domain(tuple(f"c{i}" for i in range(COLUMNS)), (LEVELS,) * COLUMNS)
    columns = tuple(Table(domain.project((c,)), np.ones(LEVELS)) for c in domain.columns)
    pairs = list(itertools.combinations(domain.columns, 2))[:TABLES]
    tables = [Table(domain.project(pair), rng.gamma(0.5, size=(LEVELS, LEVELS))) for pair in pairs]
    options = {"step": 1.0, "decay": 0.9, "copies": 0.05, "tolerance": -1.0}
    targets = Targets.pack(domain, tables, ROWS, rng=rng)
    update(start(columns, 100, rng=rng), targets, rounds=1, seed=1, **options)

    first: list[float] = []
    settled: list[float] = []
    for seed in range(REPEATS):
        codes = start(columns, ROWS, rng=rng)
        for times, rounds in ((first, 1), (settled, 10)):
            before = time.thread_time()
            update(codes, targets, rounds=rounds, seed=seed, **options)
            times.append((time.thread_time() - before) / rounds)
    print(f"python {platform.python_version()}, numpy {np.__version__}, numba {numba.__version__}")
    print(f"{ROWS} records x {COLUMNS} columns, {TABLES} tables of {LEVELS} x {LEVELS} cells")
    print(f"first round             {1e3 * statistics.median(first):6.1f} ms of CPU")
    print(f"each of the next rounds {1e3 * statistics.median(settled):6.1f} ms of CPU")


if __name__ == "__main__":
    main()
