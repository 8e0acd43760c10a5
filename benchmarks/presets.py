"""How do all presets compare on NLTCS and on the coded Adult file? `dp-release compare`, overnight.

    python benchmarks/presets.py --nltcs nltcs.csv --adult adult.csv --out FOLDER

Writes schema and spec of each file into the output folder and compares there; what is finished is
kept, so that the same command goes on after an interruption. The files are public and come by path:
NLTCS as 16 columns of 0 and 1, Adult with the columns of the UCI repository (test labels without
the full stop); `education` is ignored, ages and hours are as they are, and `fnlwgt` and the capital
columns have 100 bins.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np
import yaml

# As benchmarks/adult.py has them, which is beside this file.
from adult import EDGES, LEVELS

from dp_core.errors import ReleaseError
from dp_core.plan.presets import PRESETS
from flows.comparison.comparison import ComparisonProgress, Interrupted, compare
from flows.comparison.comparison_request import request_of
from flows.engine.settings import prepare

DELTA = "1e-9"
EPSILONS = ("0.2", "1", "5")
LEFT_OUT = ("fixed",)
"""It measures the tables that a person names, and here nobody does."""
TARGETS = {"nltcs": "outside", "adult": "income"}


def nltcs_schema(path: Path) -> dict[str, object]:
    """Return the schema of 16 binary items, named as in the file's header."""
    with path.open(newline="", encoding="utf-8") as file:
        names = next(csv.reader(file))
    return {
        "version": 1,
        "title": "National Long Term Care Survey",
        "unit": "row",
        "rows_about": 21500,
        "columns": {name: {"type": "category", "levels": ["0", "1"]} for name in names},
    }


def adult_schema() -> dict[str, object]:
    """Return the schema of 14 columns of at most 100 codes."""
    columns: dict[str, object] = {
        name: {"type": "category", "levels": list(levels)} for name, levels in LEVELS.items()
    }
    for name, (low, end, bins) in EDGES.items():
        if bins == end - low:
            columns[name] = {"type": "integer", "min": low, "max": end - 1}
        else:
            columns[name] = {"type": "number", "min": low, "max": end, "bins": bins}
    return {
        "version": 1,
        "title": "Adult",
        "unit": "row",
        "rows_about": 48800,
        "missing_values": [""],  # `?` is a level
        "columns": columns,
        "ignore": ["education"],
    }


def write_spec(folder: Path, name: str, data: Path, schema: dict[str, object]) -> Path:
    """Write schema and spec of one file; return the spec's path."""
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(schema, sort_keys=False)
    (folder / f"{name}.schema.yaml").write_text(text, encoding="utf-8")
    spec = {
        "version": 1,
        "release": name,
        "data": str(data.absolute()),
        "schema": f"{name}.schema.yaml",
        "account": "none",
        "privacy": {"epsilon": 1, "delta": DELTA, "neighbours": "add-remove"},
        "method": "independent",
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return path


def main() -> None:
    """Compare on each file that is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nltcs", type=Path, help="path of nltcs.csv")
    parser.add_argument("--adult", type=Path, help="path of adult.csv")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", default="5")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--limit", default="1800", help="seconds for one run")
    parser.add_argument("--epsilon", nargs="+", default=EPSILONS)
    parser.add_argument("--method", nargs="+", default=[m for m in PRESETS if m not in LEFT_OUT])
    parser.add_argument("--hold-out", default="0", help="0: methods see every record")
    arguments = parser.parse_args()
    files = {"nltcs": arguments.nltcs, "adult": arguments.adult}
    if not any(files.values()):
        parser.error("give --nltcs FILE, --adult FILE, or both")
    os.environ["DP_RELEASE_HOME"] = str(arguments.out.absolute() / "home")
    prepare(arguments.out.absolute() / "home")
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, {os.cpu_count()} processors"
    )
    for name, data in files.items():
        if data is None:
            continue
        schema = nltcs_schema(data) if name == "nltcs" else adult_schema()
        request = request_of(
            specs=[write_spec(arguments.out / "specs", name, data, schema)],
            public_data=True,
            by="benchmarks/presets.py",
            reason="a public benchmark file",
            out=arguments.out / name,
            methods=arguments.method,
            epsilons=arguments.epsilon,
            runs=arguments.runs,
            target=TARGETS[name],
            hold_out=arguments.hold_out,
            jobs=arguments.jobs,
            limit=arguments.limit,
        )
        started = time.monotonic()
        compare(request, ComparisonProgress(quiet=False))
        print(f"{name}: {time.monotonic() - started:.0f} s\n")
        print((arguments.out / name / "table.md").read_text())


if __name__ == "__main__":
    try:
        main()
    except (ReleaseError, Interrupted) as error:
        sys.exit(error.message)
