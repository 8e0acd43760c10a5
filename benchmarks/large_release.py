"""Peak memory of a whole release of a large file, Prefect and its server included.

Makes the file of `streaming.py` (random, nobody's data), then runs `dp-release run` on it and
samples the PSS of the whole process tree from outside.

    python benchmarks/large_release.py --rows 10000000
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml
from common import cpu_of_children
from streaming import make_file, make_schema, tree_pss

SPEC = """\
version: 1
release: large
data: {data}
schema: schema.yaml
account: large
privacy: {{epsilon: 1, delta: 1e-9}}
method: {method}
synthesize: {{sets: {sets}}}
"""


def schema_text(rows: int) -> str:
    """Return the benchmark's schema as a user would write it."""
    columns: dict[str, dict[str, object]] = {}
    for column in make_schema().columns:
        entry: dict[str, object] = {"type": column.kind}
        if column.levels:
            entry["levels"] = [level.text for level in column.levels]
        elif column.kind == "date":
            entry["edges"] = [datetime.date.fromordinal(int(e)).isoformat() for e in column.edges]
        else:
            entry["edges"] = [float(edge) for edge in column.edges]
            if column.kind == "integer":
                entry["edges"] = [int(edge) for edge in column.edges]
        if column.missing == "level":
            entry["missing"] = "level"
        columns[column.name] = entry
    rule = {"text0": "text0 000", "text4": "text4 005"}
    document = {
        "version": 1,
        "title": "Synthetic",
        "rows_about": rows,
        "columns": columns,
        "impossible": [rule],
    }
    return yaml.safe_dump(document, sort_keys=False)


def main() -> None:
    """Run one release and print its time and peak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--method", default="independent")
    parser.add_argument("--sets", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder that keeps the file for another run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kept = options.keep or folder
        kept.mkdir(parents=True, exist_ok=True)
        data = kept.absolute() / f"random-{options.rows}.parquet"
        if not data.exists():
            make_file(data, options.rows)
        (folder / "schema.yaml").write_text(schema_text(options.rows))
        spec = SPEC.format(data=data, method=options.method, sets=options.sets)
        (folder / "release.yaml").write_text(spec)
        environment = {**os.environ, "DP_RELEASE_HOME": str(folder / "home")}
        program = str(Path(sys.executable).with_name("dp-release"))
        opened = ["ledger", "open", "large", "--epsilon", "1", "--delta", "1e-9"]
        people = ["--by", "benchmark", "--reason", "to measure"]
        subprocess.run(
            [program, *opened, *people], env=environment, check=True, capture_output=True
        )
        started, before, peak = time.perf_counter(), cpu_of_children(), 0
        command = [program, "run", str(folder / "release.yaml"), "--out", str(folder / "out")]
        with (folder / "told").open("w+", encoding="utf-8") as told:
            with subprocess.Popen(command, env=environment, stdout=told, stderr=told) as child:
                process = psutil.Process(child.pid)
                while child.poll() is None:
                    peak = max(peak, tree_pss(process))
                    time.sleep(0.25)  # to add up the pages of large processes takes its time, too
            told.seek(0)
            # How long each stage took; of a failure everything.
            print(*(line for line in told if child.returncode or line.startswith("  ")), sep="")
        if child.returncode:
            raise SystemExit(child.returncode)
        size = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())
        print(
            f"{options.rows:,} rows x 20 columns, {data.stat().st_size / 1e6:.0f} MB,"
            f" {options.method}, {options.sets} set(s): {time.perf_counter() - started:.0f} s"
            f" ({cpu_of_children() - before:.0f} s of CPU),"
            f" peak PSS of the process tree {peak / 1e6:,.0f} MB, bundle {size / 1e6:.0f} MB"
        )


if __name__ == "__main__":
    main()
