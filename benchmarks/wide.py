"""Releases of wide files and of columns with many levels: CPU by stage, and memory.

Each file is generated (nobody's data): blocks of six columns, each column depending on the one
before it, with 2 to 20 levels of uneven shares. A release with `auto`, epsilon 1 and one set is
made of it in a process of its own, without Prefect's engine. Memory is the largest resident set of
that process. `plan` is the CPU of `dp-release plan`, with its start. `silent` is the longest time
between two reports of progress, with its stage. With `--command`, a last column has the CPU of
`dp-release run` from file to bundle, with its start and its own Prefect server.

    python benchmarks/wide.py
    python benchmarks/wide.py --columns 100 300
    python benchmarks/wide.py --levels 65000
    python benchmarks/wide.py --levels 65000 --kept 200
    python benchmarks/wide.py --levels 10 65000 --command
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import cpu_of_children, release_by_stages

COLUMNS = (50, 100, 200, 300, 400)
ROWS = 50_000
BLOCK = 6
FEW_ROWS = 20_000
"""Rows of the files with a column of many levels."""
FEW_COLUMNS = 8
STAGES = ("count", "select", "measure", "reconstruct", "synthesize", "check", "publish")
MINUTES = 30


def make_input(
    folder: Path,
    columns: int | Sequence[int],
    rows: int,
    levels: int,
    kept: int = 0,
    file: str = "parquet",
) -> Path:
    """Write a file, its schema and its spec; return the spec's path.

    Args:
        folder: Where to write.
        columns: Number of columns, or the number of levels of each.
        rows: Number of rows.
        levels: Levels of the first column; 0 for as few as those of the others.
        kept: Levels of the first column to keep, whose others are drawn again; 0 (the default) to
            carry all levels.
        file: Form of the file: `parquet` (the default) or `csv`.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet
    from scipy.special import ndtr

    rng = np.random.default_rng(7)
    sizes = rng.integers(2, 21, columns) if isinstance(columns, int) else np.array(columns)
    sizes[0] = levels or sizes[0]
    values, entries = {}, []
    scale = np.zeros(rows)
    for number, size in enumerate(sizes):
        own = rng.normal(size=rows)
        scale = own if number % BLOCK == 0 else 0.8 * scale + 0.6 * own
        shares = np.sort(rng.dirichlet(np.full(size, 2.0)))
        codes = np.searchsorted(np.cumsum(shares)[:-1], ndtr(scale))
        values[f"c{number}"] = np.char.add("v", codes.astype(str))
        names = ", ".join(f"v{code}" for code in range(size))
        its = f"levels: [{names}]"
        if kept and number == 0:
            its = f"levels: {{private: {kept}, rest: drawn}}, groups: {{codes: [{names}]}}"
        entries.append(f"  c{number}: {{type: category, {its}}}")
    if file == "csv":
        pyarrow.csv.write_csv(pa.table(values), folder / "data.csv")
    else:
        pyarrow.parquet.write_table(pa.table(values), folder / "data.parquet")
    head = f"version: 1\ntitle: Generated\nrows_about: {rows}\ncolumns:\n"
    (folder / "schema.yaml").write_text(head + "\n".join(entries) + "\n", encoding="utf-8")
    spec = folder / "release.yaml"
    spec.write_text(
        f"version: 1\nrelease: generated\ndata: data.{file}\nschema: schema.yaml\naccount: a\n"
        "privacy: {epsilon: 1, delta: 1e-9}\nmethod: auto\nsynthesize: {sets: 1}\n",
        encoding="utf-8",
    )
    return spec


def in_this_process(folder: Path) -> dict[str, Any]:
    """Make the release of a folder; return CPU seconds by stage and the memory in megabytes."""
    from flows.cli.main import SEARCH_EVERY

    gc.set_threshold(SEARCH_EVERY)  # as the command does
    times = release_by_stages(folder / "release.yaml", folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu": times.cpu,
        "silence": times.silence,
        "all": used.ru_utime + used.ru_stime,
        "memory": _peak(),
    }


def _peak() -> float:
    """Return the largest resident set of this process, MB.

    Linux counts into `ru_maxrss` what the process that started this one had.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def of_command(folder: Path) -> float:
    """Return the CPU seconds of `dp-release run` and of every process that it starts."""
    release = [sys.executable, "-m", "flows.cli.main"]
    account = ["a", "--epsilon", "1", "--delta", "1e-9", "--by", "benchmark", "--reason", "measure"]
    home = {"DP_RELEASE_HOME": str(folder / "own"), "XDG_STATE_HOME": str(folder / "own state")}
    options: dict[str, Any] = {"capture_output": True, "check": True, "env": os.environ | home}
    subprocess.run([*release, "ledger", "open", *account], **options)
    before = cpu_of_children()
    spec, out = str(folder / "release.yaml"), str(folder / "bundle")
    subprocess.run([*release, "run", spec, "--out", out], **options)
    return cpu_of_children() - before


def measured(columns: int, rows: int, levels: int, kept: int = 0, *, command: bool = False) -> str:
    """Return a line of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_input(folder, columns, rows, levels, kept)
        before = cpu_of_children()
        planned = [sys.executable, "-m", "flows.cli.main", "plan", str(folder / "release.yaml")]
        subprocess.run(planned, capture_output=True, check=False)  # 3: there is no account
        plan = cpu_of_children() - before
        child = [sys.executable, __file__, "--child", scratch]
        start = f"{columns:7,}{rows:9,}{levels or 20:9,}{plan:7.1f}"
        try:
            done = subprocess.run(
                child, capture_output=True, text=True, check=False, timeout=60 * MINUTES
            )
        except subprocess.TimeoutExpired:
            return f"{start}  did not end in {MINUTES} minutes"
        if done.returncode:
            raise SystemExit(f"{columns} columns: {done.stderr[-2000:]}")
        whole = f"{of_command(folder):10.1f}" if command else ""
    found = json.loads(done.stdout.splitlines()[-1])
    stages = "".join(f"{found['cpu'].get(stage, 0.0):12.1f}" for stage in STAGES)
    quiet = max(found["silence"], key=lambda stage: found["silence"][stage])
    silent = f"{found['silence'][quiet]:9.1f} {quiet:11}"
    return f"{start}{stages}{found['all']:9.1f}{found['memory']:9.0f}{silent}{whole}".rstrip()


def main() -> None:
    """Print a table, one line per file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, nargs="*")
    parser.add_argument("--levels", type=int, nargs="*")
    parser.add_argument("--kept", type=int, default=0)
    parser.add_argument("--command", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(in_this_process(Path(options.child))))
        return
    if options.columns is None and options.levels is None:
        options.columns, options.levels = COLUMNS, (1_000, 65_000)
    heads = "".join(f"{stage:>12}" for stage in STAGES)
    last = f"{'':11}command" if options.command else ""
    print(
        f"columns     rows   levels   plan{heads}      all       MB   silent{last}  (CPU seconds)"
    )
    for columns in options.columns or ():
        print(measured(columns, ROWS, 0, command=options.command), flush=True)
    for levels in options.levels or ():
        line = measured(FEW_COLUMNS, FEW_ROWS, levels, options.kept, command=options.command)
        print(line, flush=True)


if __name__ == "__main__":
    main()
