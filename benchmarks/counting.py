"""CPU of counting, against other tools on the same data in the same run.

Three questions: all pairs of 20 columns; a few tables at a time, as methods ask that choose while
they measure; and one table of all columns, of which only the cells that hold a record are wanted.
The peers, each on the table and by the query it likes best (built outside the clock):

- numpy: `bincount` of 16-bit cell numbers for each pair; `unique` of packed keys;
- polars: `group_by` of one packed key, lazily (faster than of two columns);
- duckdb: `GROUP BY` of columns of a table in memory;
- mbi: `Dataset.project`;
- pandas: `crosstab`, of 2 pairs for each set of columns, and said to be extrapolated.

CPU seconds of the whole process, best of some repetitions after a first one that compiles; every
peer's counts are compared with ours. A peer that is not installed is skipped.

    pip install mbi polars duckdb pandas
    python benchmarks/counting.py --out benchmarks/results/counting.txt
    python benchmarks/counting.py --rows 10000000 --columns mixed --repetitions 2 --only pairs
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import io
import itertools
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import MIXED_SIZES
from numpy.typing import NDArray

from dp_core.kernel.counting.sparse_cells import pack
from dp_core.tables.cell_keys import count_keys
from dp_core.tables.table_plan import count_codes, plan_tables

SIZES = {
    "mixed": MIXED_SIZES,
    "ten each": (10,) * 20,
    "hundred each": (100,) * 20,
}
CHUNK = 1 << 19
"""Rows of a chunk of the store."""
Codes = list[NDArray[np.uint8]]
Cliques = list[tuple[int, ...]]
Job = Callable[[Cliques], int]
"""Counts cliques; returns the sum of their largest cells as a check."""


def make_codes(sizes: Sequence[int], rows: int, *, skewed: bool) -> Codes:
    """Return random columns: uniform, or with 60 % of the rows in the first code."""
    rng = np.random.default_rng(2026)
    if skewed:
        return [np.minimum(rng.geometric(0.6, rows) - 1, k - 1).astype(np.uint8) for k in sizes]
    return [rng.integers(0, size, rows).astype(np.uint8) for size in sizes]


def ours(codes: Codes, sizes: Sequence[int]) -> Job:
    """Return the job of ours."""

    def job(cliques: Cliques) -> int:
        plan_tables.cache_clear()  # planning is part of the work
        return sum(int(table.max()) for table in count_codes(codes, sizes, cliques))

    return job


def with_numpy(codes: Codes, sizes: Sequence[int]) -> Job:
    """Return the job for numpy."""
    columns = [column.astype(np.uint16) for column in codes]

    def job(cliques: Cliques) -> int:
        total = 0
        for clique in cliques:
            cells = math.prod(sizes[axis] for axis in clique)
            kind = np.uint16 if cells <= 2**16 else np.uint32
            key = columns[clique[0]].astype(kind, copy=False)
            for axis in clique[1:]:
                key = key * kind(sizes[axis]) + columns[axis]
            total += int(np.bincount(key, minlength=cells).max())
        return total

    return job


def with_polars(codes: Codes, sizes: Sequence[int]) -> Job:
    """Return the job for polars."""
    import polars as pl  # type: ignore[import-not-found]

    frame = pl.DataFrame({f"c{i}": column for i, column in enumerate(codes)}).lazy()

    def job(cliques: Cliques) -> int:
        total = 0
        for clique in cliques:
            cells = math.prod(sizes[axis] for axis in clique)
            key = pl.col(f"c{clique[0]}").cast(pl.UInt16 if cells <= 2**16 else pl.UInt32)
            for axis in clique[1:]:
                key = key * sizes[axis] + pl.col(f"c{axis}")
            counted = frame.select(key.alias("key")).group_by("key").len().collect()
            total += int(counted["len"].max())
        return total

    return job


def with_duckdb(codes: Codes, _sizes: Sequence[int]) -> Job:
    """Return the job for duckdb."""
    import duckdb  # type: ignore[import-not-found]
    import pyarrow as pa

    session = duckdb.connect()
    session.register("view", pa.table({f"c{i}": column for i, column in enumerate(codes)}))
    session.execute("CREATE TABLE data AS SELECT * FROM view")

    def job(cliques: Cliques) -> int:
        total = 0
        for clique in cliques:
            names = ", ".join(f"c{axis}" for axis in clique)
            query = f"SELECT {names}, count(*) AS n FROM data GROUP BY {names}"
            total += int(session.execute(query).fetchnumpy()["n"].max())
        return total

    return job


def with_mbi(codes: Codes, sizes: Sequence[int]) -> Job:
    """Return the job for mbi."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mbi  # type: ignore[import-not-found]

    names = [f"c{i}" for i in range(len(sizes))]
    domain = mbi.Domain(names, sizes)
    try:
        data = mbi.Dataset(dict(zip(names, codes, strict=True)), domain)
    except (TypeError, AttributeError, ValueError):  # before its columns were a dictionary
        import pandas as pd

        data = mbi.Dataset(pd.DataFrame(dict(zip(names, codes, strict=True))), domain)

    def job(cliques: Cliques) -> int:
        total = 0
        for clique in cliques:
            projected = data.project(tuple(names[axis] for axis in clique))
            table = projected.datavector() if hasattr(projected, "datavector") else projected.values
            total += int(np.max(np.asarray(table)))
        return total

    return job


def with_pandas(codes: Codes, _sizes: Sequence[int]) -> Job:
    """Return the job for pandas."""
    import pandas as pd

    columns = [pd.Series(column) for column in codes]

    def job(cliques: Cliques) -> int:
        tables = (pd.crosstab(columns[a], columns[b]) for a, b in cliques)
        return sum(int(table.to_numpy().max()) for table in tables)

    return job


PEERS: dict[str, Callable[[Codes, Sequence[int]], Job]] = {
    "numpy": with_numpy,
    "polars": with_polars,
    "duckdb": with_duckdb,
    "mbi": with_mbi,
}


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


def designs(options: argparse.Namespace) -> Iterator[tuple[str, str, Sequence[int], Codes]]:
    """Yield name, kind of codes, sizes and codes of each set of columns."""
    for name, skewed in itertools.product(options.columns, (False, True)):
        kind = "skewed" if skewed else "uniform"
        yield name, kind, SIZES[name], make_codes(SIZES[name], options.rows, skewed=skewed)


def row(name: str, kind: str, mine: float, theirs: Sequence[float], note: str = "") -> str:
    """Return a line of a table."""
    cells = [f"{seconds:9.3f} ({seconds / mine:4.0f}x)" for seconds in theirs]
    return " ".join([f"{name:14} {kind:8} {mine:8.4f}", *cells, note])


def header(peers: Sequence[str]) -> str:
    """Return the heads of its columns."""
    return " ".join([f"{'columns':14} {'codes':8} {'ours':>8}", *(f"{p:>17}" for p in peers)])


def all_pairs(options: argparse.Namespace, peers: Sequence[str]) -> Iterator[str]:
    """Compare counting all pairs."""
    yield f"\nAll 190 pairs of {options.rows:,} rows, CPU seconds (times ours)"
    yield header([*peers, "pandas*"]) + "  ours, ns per row and pair"
    for name, kind, sizes, codes in designs(options):
        pairs: Cliques = list(itertools.combinations(range(len(sizes)), 2))
        mine, result = best_cpu(functools.partial(ours(codes, sizes), pairs), options.repetitions)
        seconds = []
        for peer in peers:
            job = functools.partial(PEERS[peer](codes, sizes), pairs)
            spent, theirs = best_cpu(job, options.repetitions)
            assert theirs == result, "the peer's counts differ"
            seconds.append(spent)
        if version("pandas") != "-":
            two = [pairs[60], pairs[150]]
            spent, theirs = best_cpu(functools.partial(with_pandas(codes, sizes), two), 1)
            assert theirs == ours(codes, sizes)(two), "the peer's counts differ"
            seconds.append(spent * len(pairs) / len(two))
        yield row(name, kind, mine, seconds, f"  {mine * 1e9 / options.rows / len(pairs):.3f}")
    yield "* extrapolated from 2 pairs"


def few_tables(options: argparse.Namespace, peers: Sequence[str]) -> Iterator[str]:
    """Compare counting a few tables at a time."""
    asks: dict[str, Cliques] = {
        "1 pair": [(11, 17)],
        "3 pairs": [(3, 17), (8, 12), (0, 19)],
        "3 pairs, one column": [(3, 15), (8, 15), (11, 15)],
        "10 pairs": [(a, (7 * a + 3) % 20) for a in range(0, 20, 2)],
        "5 triples": [(a, a + 4, a + 9) for a in range(0, 10, 2)],
    }
    yield f"\nA few tables at a time, {options.rows:,} rows, columns of mixed sizes, CPU seconds"
    yield header(peers).replace("columns       ", f"{'asked for':20}")
    for skewed in (False, True):
        sizes = SIZES["mixed"]
        codes = make_codes(sizes, options.rows, skewed=skewed)
        jobs = [ours(codes, sizes), *(PEERS[peer](codes, sizes) for peer in peers)]
        for name, cliques in asks.items():
            runs = [best_cpu(functools.partial(job, cliques), options.repetitions) for job in jobs]
            assert len({result for _, result in runs}) == 1, "the peer's counts differ"
            mine, *theirs = [spent for spent, _ in runs]
            yield row(f"{name:20}", "skewed" if skewed else "uniform", mine, theirs)


def one_huge_table(options: argparse.Namespace) -> Iterator[str]:
    """Compare counting the cells of one table that hold a record."""
    peers = ["numpy", *(peer for peer in ("polars", "duckdb") if version(peer) != "-")]
    yield f"\nOne table, only the cells that hold a record, {options.rows:,} rows, CPU seconds"
    yield header(peers).replace("columns       ", f"{'columns':14}") + "   cells found"
    for number, skewed in itertools.product((8, 12, 20), (False, True)):
        sizes = SIZES["mixed"][:number]
        codes = make_codes(sizes, options.rows, skewed=skewed)
        jobs = [_sparse_ours(codes, sizes), _sparse_numpy(codes, sizes)]
        jobs += [{"polars": _sparse_polars, "duckdb": _sparse_duckdb}[p](codes) for p in peers[1:]]
        runs = [best_cpu(job, options.repetitions) for job in jobs]
        assert len({found for _, found in runs}) == 1, "the peer's cells differ"
        mine, *theirs = [spent for spent, _ in runs]
        kind = "skewed" if skewed else "uniform"
        yield row(f"first {number}", kind, mine, theirs, f"{runs[0][1]:12,}")


def _sparse_ours(codes: Codes, sizes: Sequence[int]) -> Callable[[], int]:
    def job() -> int:
        parts: list[Any] = []
        for start in range(0, len(codes[0]), CHUNK):
            parts.append(count_keys(pack([c[start : start + CHUNK] for c in codes], sizes)))
        while len(parts) > 1:  # pairwise, as the store's chunks are
            pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            parts = [
                count_keys(*map(np.concatenate, zip(*pair, strict=True)))
                if len(pair) == 2
                else pair[0]
                for pair in pairs
            ]
        return len(parts[0][0])

    return job


def _sparse_numpy(codes: Codes, sizes: Sequence[int]) -> Callable[[], int]:
    def job() -> int:
        keys = np.zeros(len(codes[0]), np.int64)
        for column, size in zip(codes, sizes, strict=True):
            keys = keys * size + column
        return len(np.unique(keys, return_counts=True)[0])

    return job


def _sparse_polars(codes: Codes) -> Callable[[], int]:
    import polars as pl

    frame = pl.DataFrame({f"c{i}": column for i, column in enumerate(codes)}).lazy()
    return lambda: int(frame.group_by(pl.all()).len().collect().height)


def _sparse_duckdb(codes: Codes) -> Callable[[], int]:
    import duckdb
    import pyarrow as pa

    session = duckdb.connect()
    session.register("view", pa.table({f"c{i}": column for i, column in enumerate(codes)}))
    session.execute("CREATE TABLE data AS SELECT * FROM view")
    names = ", ".join(f"c{i}" for i in range(len(codes)))
    query = f"SELECT {names}, count(*) AS n FROM data GROUP BY {names}"
    return lambda: len(session.execute(query).fetchnumpy()["n"])


def main() -> None:
    """Measure, print, and keep what was printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--columns", nargs="+", choices=tuple(SIZES), default=tuple(SIZES))
    parser.add_argument("--only", nargs="+", choices=("pairs", "few", "sparse"))
    parser.add_argument("--out", type=Path, help="file to which the tables are added")
    options = parser.parse_args()
    written = io.StringIO()

    def say(line: str) -> None:
        print(line, flush=True)
        written.write(line + "\n")

    packages = ("numpy", "numba", "pandas", "polars", "duckdb", "mbi", "jax")
    say(f"Python {platform.python_version()}, " + ", ".join(f"{p} {version(p)}" for p in packages))
    peers = [peer for peer in PEERS if version(peer) != "-"]
    for peer in [peer for peer in PEERS if peer not in peers]:
        say(f"{peer} is not installed and is skipped.")
    wanted = options.only or ("pairs", "few", "sparse")
    tables = {
        "pairs": lambda: all_pairs(options, peers),
        "few": lambda: few_tables(options, peers),
        "sparse": lambda: one_huge_table(options),
    }
    with contextlib.suppress(KeyboardInterrupt):
        for table in wanted:
            for line in tables[table]():
                say(line)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("a") as file:
            file.write(written.getvalue())


if __name__ == "__main__":
    main()
