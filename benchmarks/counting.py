"""CPU of counting all pairs of 1,000,000 rows x 20 columns, against two peers in the same run.

Ours is `dp_core.counting.count_codes`; the peers are `mbi.Dataset.project` and one polars
`group_by` per pair, each on the table it likes best (built outside the clock). A peer that is not
installed is skipped. CPU seconds of the whole process, best of a few repetitions after a first one
that compiles; results are compared with each other.

    pip install mbi polars
    python benchmarks/counting.py
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import platform
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.counting import count_codes, plan_tables

SIZES = {
    "mixed": (2, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9, 10, 12, 15, 16, 20, 30, 50, 100),
    "ten each": (10,) * 20,
    "hundred each": (100,) * 20,
}
Codes = list[NDArray[np.uint8]]
Pairs = list[tuple[int, int]]


def make_codes(sizes: Sequence[int], rows: int, *, skewed: bool) -> Codes:
    """Return random columns: uniform, or with 60 % of the rows in the first code."""
    rng = np.random.default_rng(2026)
    if skewed:
        return [np.minimum(rng.geometric(0.6, rows) - 1, k - 1).astype(np.uint8) for k in sizes]
    return [rng.integers(0, size, rows).astype(np.uint8) for size in sizes]


def ours(codes: Codes, sizes: Sequence[int], pairs: Pairs) -> Callable[[], int]:
    """Return a job of ours; it returns the sum of the largest cells as a check."""

    def job() -> int:
        plan_tables.cache_clear()  # planning is part of the work
        return sum(int(table.max()) for table in count_codes(codes, sizes, pairs))

    return job


def with_mbi(codes: Codes, sizes: Sequence[int], pairs: Pairs) -> Callable[[], int]:
    """Return the same job for mbi."""
    import mbi  # type: ignore[import-not-found]

    names = [f"c{i}" for i in range(len(sizes))]
    domain = mbi.Domain(names, sizes)
    try:
        data = mbi.Dataset(dict(zip(names, codes, strict=True)), domain)
    except (TypeError, AttributeError, ValueError):  # before its columns were a dictionary
        import pandas as pd

        data = mbi.Dataset(pd.DataFrame(dict(zip(names, codes, strict=True))), domain)

    def job() -> int:
        total = 0
        for a, b in pairs:
            projected = data.project((names[a], names[b]))
            table = projected.datavector() if hasattr(projected, "datavector") else projected.values
            total += int(np.max(np.asarray(table)))
        return total

    return job


def with_polars(codes: Codes, _sizes: Sequence[int], pairs: Pairs) -> Callable[[], int]:
    """Return the same job for polars."""
    import polars as pl  # type: ignore[import-not-found]

    frame = pl.DataFrame({f"c{i}": column for i, column in enumerate(codes)})

    def job() -> int:
        counts = (frame.group_by(f"c{a}", f"c{b}").len() for a, b in pairs)
        return sum(int(count["len"].max()) for count in counts)

    return job


def best_cpu(job: Callable[[], int], repetitions: int) -> tuple[float, int]:
    """Return the least CPU seconds of a job, after one run that is not counted, and its result."""
    result = job()
    seconds = []
    for _ in range(repetitions):
        start = time.process_time()
        job()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def version(package: str) -> str:
    """Return the installed version, or `-`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "-"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    packages = ("numpy", "numba", "mbi", "jax", "polars")
    print(f"Python {platform.python_version()},", *(f"{p} {version(p)}," for p in packages))
    peers = {"mbi": with_mbi, "polars": with_polars}
    for peer in [peer for peer in peers if version(peer) == "-"]:
        print(f"{peer} is not installed and is skipped.")
        del peers[peer]
    print(f"\nAll 190 pairs of {options.rows:,} rows, CPU seconds (times ours)")
    print(f"{'columns':14} {'codes':8} {'ours':>8}", *(f"{peer:>18}" for peer in peers))
    for (name, sizes), skewed in itertools.product(SIZES.items(), (False, True)):
        codes = make_codes(sizes, options.rows, skewed=skewed)
        pairs = list(itertools.combinations(range(len(sizes)), 2))
        mine, result = best_cpu(ours(codes, sizes, pairs), options.repetitions)
        cells = []
        for make in peers.values():
            seconds, theirs = best_cpu(make(codes, sizes, pairs), options.repetitions)
            assert theirs == result, "the peer's counts differ"
            cells.append(f"{seconds:10.3f} ({seconds / mine:4.0f}x)")
        print(f"{name:14} {'skewed' if skewed else 'uniform':8} {mine:8.3f}", *cells, flush=True)


if __name__ == "__main__":
    main()
