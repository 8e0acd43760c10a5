"""How counting all pairs grows with rows, columns and levels, from the store of codes on disk.

Each measurement is a process of its own, so its CPU and its memory are its own. It counts twice:
the first time loads and compiles (or finds compiled) what counting needs, the second is measured.
Memory is the peak of the whole process: `VmHWM`, which has the pages of mapped files in it, and the
largest `RssAnon` seen, which has not (the system takes mapped pages back when somebody needs them).

    python benchmarks/growth.py --out growth.txt --plot growth.png
    python benchmarks/growth.py --most-rows 1000000
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from common import MIXED_SIZES

WRITTEN_ROWS = 1 << 20
Row = dict[str, float]


def sizes_of(question: str, value: int) -> tuple[int, ...]:
    """Return the columns of a measurement."""
    if question == "levels":
        return (value,) * 20
    return tuple(
        itertools.islice(itertools.cycle(MIXED_SIZES), value if question == "columns" else 20)
    )


def make_store(folder: Path, sizes: Sequence[int], rows: int) -> None:
    """Write a store of random codes, three quarters of them in the first few of each column."""
    from dp_core.confidential.code_store import StoreWriter
    from dp_core.kernel.codes import stored_type
    from dp_core.kernel.counting.domain import Domain

    rng = np.random.default_rng(2026)
    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), tuple(sizes))
    with StoreWriter(folder, domain) as writer:
        for start in range(0, rows, WRITTEN_ROWS):
            shape = min(WRITTEN_ROWS, rows - start)
            writer.append([(rng.random(shape) ** 2 * k).astype(stored_type(k)) for k in sizes])


def work(folder: Path, sizes: Sequence[int]) -> None:
    """Count all pairs of a store; print CPU, wall time and memory as JSON."""
    from dp_core.confidential.code_store import CodeStore
    from dp_core.kernel.counting.domain import Domain
    from dp_core.tables.table_plan import plan_tables
    from tasks.counting.dask_counter import DaskCounter

    domain = Domain(tuple(f"c{i}" for i in range(len(sizes))), tuple(sizes))
    store = CodeStore(folder, domain)
    pairs = list(itertools.combinations(domain.columns, 2))
    for _ in range(2):
        plan_tables.cache_clear()
        wall, cpu = time.perf_counter(), time.process_time()
        counted = DaskCounter(store, domain).count(pairs)
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        del counted
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({**spent, "resident": float(peak.split()[1]) * 1024}))


def measure(question: str, value: int, folder: Path) -> Row:
    """Return the figures of one measurement, made in a process of its own."""
    rows = value if question == "rows" else 1_000_000
    sizes = sizes_of(question, value)
    make_store(folder, sizes, rows)
    command = [sys.executable, __file__, "--work", str(folder), question, str(value)]
    anonymous = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        status = Path(f"/proc/{child.pid}/status")
        while child.poll() is None:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
            anonymous = max(anonymous, float(lines.get("RssAnon", "0 kB").split()[0]) * 1024)
            time.sleep(0.005)
        assert child.stdout is not None
        text = child.stdout.read()
    if child.returncode:
        raise SystemExit(child.returncode)
    pairs = len(sizes) * (len(sizes) - 1) // 2
    return {
        "value": value,
        "rows": rows,
        "pairs": pairs,
        **json.loads(text),
        "anonymous": anonymous,
    }


def questions(most_rows: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield what grows and its values."""
    rows = (100_000, 1_000_000, 10_000_000, 100_000_000)
    yield "rows", tuple(n for n in rows if n <= most_rows)
    yield "columns", (10, 20, 50, 100)
    yield "levels", (2, 5, 10, 20, 50, 100, 200)


def plot(tables: dict[str, list[Row]], path: Path) -> None:
    """Draw CPU over what grows, and memory over rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9})
    figure, axes = plt.subplots(1, 4, figsize=(12, 2.8), layout="constrained")
    marks = {"rows": "rows, 20 columns", "columns": "columns, 1M rows", "levels": "levels, 1M rows"}
    for axis, (name, table) in zip(axes, tables.items(), strict=False):
        axis.loglog([row["value"] for row in table], [row["cpu"] for row in table], "o-")
        axis.set(xlabel=marks[name], ylabel="CPU s, all pairs")
    table = tables["rows"]
    for key, label in (("resident", "with mapped files"), ("anonymous", "without")):
        axes[3].semilogx(
            [row["rows"] for row in table], [row[key] / 1e6 for row in table], "o-", label=label
        )
    axes[3].set(xlabel="rows, 20 columns", ylabel="peak of memory, MB", ylim=(0, None))
    axes[3].legend(frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def main() -> None:
    """Measure, print, and keep what was printed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most-rows", type=int, default=100_000_000)
    parser.add_argument("--out", type=Path, help="file to which the tables are added")
    parser.add_argument("--plot", type=Path, help="PNG file")
    parser.add_argument("--scratch", type=Path, help="folder with room for 20 bytes a row")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        folder, question, value = options.work
        work(Path(folder), sizes_of(question, int(value)))
        return
    lines = [f"Python {platform.python_version()}, numpy {np.__version__}"]
    print(lines[0], flush=True)
    tables: dict[str, list[Row]] = {}
    for question, values in questions(options.most_rows):
        heads = (
            "pairs",
            "CPU s",
            "wall s",
            "ns per row and pair",
            "peak MB",
            "without mapped files",
        )
        lines.append(f"\n{question:>12}" + "".join(f"{head:>21}" for head in heads))
        print(lines[-1], flush=True)
        tables[question] = []
        for value in values:
            with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
                found = measure(question, value, Path(folder) / "codes")
            tables[question].append(found)
            each = found["cpu"] * 1e9 / found["rows"] / found["pairs"]
            lines.append(
                f"{value:12,}{found['pairs']:21,}{found['cpu']:21.3f}{found['wall']:21.3f}"
                f"{each:21.3f}{found['resident'] / 1e6:21.0f}{found['anonymous'] / 1e6:21.0f}"
            )
            print(lines[-1], flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        with options.out.open("a") as file:
            file.write("\n".join(lines) + "\n")
    if options.plot:
        plot(tables, options.plot)


if __name__ == "__main__":
    main()
