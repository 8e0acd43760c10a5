"""Peak memory and time of the passes over a large file: digest, validate and code, count.

Makes a synthetic Parquet file of mixed types (random numbers, nobody's data), then runs the
confidential stages on it in a process of their own, whose peak PSS over the whole process tree is
sampled from outside.

    python benchmarks/streaming.py --rows 10000000
    python benchmarks/streaming.py --rows 1000000 --format csv --keep /tmp/million
    python benchmarks/streaming.py --rows 10000000 --files 300

Of several files the largest is as many times larger than the smallest as there are files.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from dp_core.schema.column_types.registry import Kind
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros

GROUP_ROWS = 1 << 20
FIRST, LAST = datetime.date(1930, 1, 1), datetime.date(2026, 1, 1)


def column(name: str, kind: Kind, edges: tuple[float, ...] | range) -> Column:
    """Return a column of bins with a missing level."""
    exact = tuple(Fraction(edge) for edge in edges)
    top = exact[-1] if kind == "number" else exact[-1] - 1
    return Column(name=name, kind=kind, edges=exact, minimum=exact[0], maximum=top, missing="level")


def category(name: str, size: int, kind: Kind = "category") -> Column:
    """Return a column of `size` levels."""
    levels = tuple(Level(f"{name} {code:03}", f"{name} {code:03}") for code in range(size))
    return Column(name=name, kind=kind, levels=levels)


def make_schema() -> Schema:
    """Return 20 columns: 8 of text, 6 of whole numbers, 4 of numbers, 2 of dates, and a rule."""
    sizes = (2, 2, 3, 5, 6, 9, 16, 52)
    years = [datetime.date(year, 1, 1).toordinal() for year in range(1930, 2027, 4)]
    days = tuple(sorted({*years, LAST.toordinal()}))
    columns = [
        *(
            category(f"text{i}", size, "ordinal" if i == 3 else "category")
            for i, size in enumerate(sizes)
        ),
        *(
            column(f"whole{i}", "integer", range(0, 101, step))
            for i, step in enumerate((1, 2, 5, 10, 20, 50))
        ),
        *(
            column(f"number{i}", "number", tuple(np.linspace(0, 1, bins + 1)))
            for i, bins in enumerate((10, 20, 24, 50))
        ),
        column("born", "date", days),
        column("seen", "date", days),
    ]
    rule = Rule(("text0", "text4"), ((0,), (5,)), 'text0: "text0 000", text4: "text4 005"')
    return Schema(
        title="Synthetic", columns=tuple(columns), zeros=StructuralZeros((rule,)), document={}
    )


def make_rows(schema: Schema, rows: int, rng: np.random.Generator) -> pa.Table:
    """Return legal random rows."""
    arrays: dict[str, pa.Array] = {}
    for one in schema.columns:
        if one.levels:
            codes = np.minimum(rng.geometric(0.25, rows) - 1, len(one.levels) - 1)
            if one.name == "text4":
                codes = np.where(arrays["text0"].indices.to_numpy() == 0, codes % 5, codes)
            texts = pa.array([level.text for level in one.levels])
            arrays[one.name] = pa.DictionaryArray.from_arrays(
                pa.array(codes.astype(np.int8)), texts
            )
            continue
        missing = rng.random(rows) < 0.02
        if one.kind == "integer":
            arrays[one.name] = pa.array(rng.integers(0, 100, rows), pa.int32(), mask=missing)
        elif one.kind == "number":
            arrays[one.name] = pa.array(rng.random(rows), pa.float64(), mask=missing)
        else:
            span = (LAST - FIRST).days
            offset = (FIRST - datetime.date(1970, 1, 1)).days
            days = (rng.integers(0, span, rows) + offset).astype(np.int32)
            arrays[one.name] = pa.array(days, pa.int32(), mask=missing).cast(pa.date32())
    return pa.table(
        {
            name: a.cast(pa.string()) if pa.types.is_dictionary(a.type) else a
            for name, a in arrays.items()
        }
    )


def make_files(folder: Path, rows: int, files: int, suffix: str) -> None:
    """Write files of very different sizes, with all rows together."""
    folder.mkdir()
    weights = 1 / np.arange(1, files + 1)
    ends = np.round(np.cumsum(weights) / weights.sum() * rows).astype(int)
    for number, part in enumerate(np.diff(ends, prepend=0).tolist()):
        make_file(folder / f"{number:05}{suffix}", part, seed=number)


def make_file(path: Path, rows: int, group_rows: int = GROUP_ROWS, *, seed: int = 2026) -> None:
    """Write the file, a row group at a time; a larger group than GROUP_ROWS is put together."""
    schema, rng = make_schema(), np.random.default_rng(seed)
    writer: pq.ParquetWriter | pv.CSVWriter | None = None
    for start in range(0, rows, group_rows):
        group = range(start, min(start + group_rows, rows), GROUP_ROWS)
        stop = min(start + group_rows, rows)
        parts = [make_rows(schema, min(GROUP_ROWS, stop - first), rng) for first in group]
        table = pa.concat_tables(parts)
        if path.suffix == ".csv":
            writer = writer or pv.CSVWriter(path, table.schema)
            writer.write(table)
        else:
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=group_rows)
    assert writer is not None
    writer.close()


def work(path: Path) -> None:
    """Run the stages on the file; print time and CPU of each as JSON lines."""
    from dp_core.confidential.coding import write_codes
    from dp_core.confidential.source import keyed_digest, open_source
    from tasks.counting.dask_counter import DaskCounter
    from tasks.validation.expectations import validate

    schema = make_schema()
    domain = schema.domain
    pattern = f"{path.name}/*" if path.is_dir() else path.name
    source = open_source(pattern, path.parent, domain.columns, ())
    store = None
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        folder = Path(scratch)
        for name in ("digest", "validate, code", "code alone", "count 1-way", "count pairs"):
            wall, cpu = time.perf_counter(), time.process_time()
            print(json.dumps({"begin": name}), flush=True)
            if name == "digest":
                keyed_digest(source, b"a key for a benchmark")
            elif name == "validate, code":
                validate(source, schema, folder / "internal", codes=folder / "codes")
            elif name == "code alone":  # as where the codes were lost
                store = write_codes(source, schema, folder / "again")
            elif name == "count 1-way":
                assert store is not None
                DaskCounter(store, domain).count([(one,) for one in domain.columns])
            else:
                assert store is not None
                names = domain.columns
                pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
                DaskCounter(store, domain).count(pairs)
            spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            print(json.dumps({"stage": name, **spent}), flush=True)


def tree_pss(root: psutil.Process) -> int:
    """Return the bytes of a process and its children, shared pages divided."""
    total = 0
    for process in (root, *root.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total


def watch(path: Path) -> None:
    """Run `work` in a child and print a table of its stages with their peaks."""
    command = [sys.executable, __file__, "--work", str(path)]
    peaks: dict[str, int] = {}
    stage, lines, pending = "start", [], b""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        os.set_blocking(child.stdout.fileno(), False)
        process = psutil.Process(child.pid)
        while child.poll() is None:
            peaks[stage] = max(peaks.get(stage, 0), tree_pss(process))
            pending += child.stdout.read() or b""
            *complete, pending = pending.split(b"\n")
            for line in map(json.loads, complete):
                if "begin" in line:
                    stage = line["begin"]
                else:
                    lines.append(line)
            time.sleep(0.02)
        for line in (pending + (child.stdout.read() or b"")).split(b"\n"):
            if line and b"stage" in line:
                lines.append(json.loads(line))
        if child.returncode:
            raise SystemExit(child.returncode)
    print(f"{'stage':14} {'wall s':>8} {'CPU s':>8} {'peak PSS MB':>12}")
    print(f"{'imports':14} {'':>8} {'':>8} {peaks['start'] / 1e6:12.0f}")
    for line in lines:
        name = line["stage"]
        peak = peaks.get(name, 0) / 1e6
        print(f"{name:14} {line['wall']:8.2f} {line['cpu']:8.2f} {peak:12.0f}")
    needed = [line for line in lines if line["stage"] != "code alone"]
    total = sum(line["wall"] for line in needed), sum(line["cpu"] for line in needed)
    print(f"{'a release':14} {total[0]:8.2f} {total[1]:8.2f} {max(peaks.values()) / 1e6:12.0f}")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--format", choices=("parquet", "csv"), default="parquet")
    parser.add_argument("--group-rows", type=int, default=GROUP_ROWS, help="rows of a row group")
    parser.add_argument("--files", type=int, default=1, help="of uneven sizes")
    parser.add_argument("--keep", type=Path, help="folder that keeps the file for another run")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        groups = "" if options.group_rows == GROUP_ROWS else f"-groups-of-{options.group_rows}"
        path = folder / f"random-{options.rows}{groups}.{options.format}"
        if options.files > 1:
            path = folder / f"random-{options.rows}-{options.files}-{options.format}"
        if not path.exists():
            if options.files > 1:
                make_files(path, options.rows, options.files, f".{options.format}")
            else:
                make_file(path, options.rows, options.group_rows)
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
        size = sum(each.stat().st_size for each in paths) / 1e6
        many = f" in {options.files} files" if options.files > 1 else ""
        print(f"{options.rows:,} rows x 20 columns{many}, {options.format}, {size:.0f} MB")
        watch(path)


if __name__ == "__main__":
    main()
