"""The forecast time of each stage of a release, compared with the CPU time that it took.

Each case makes a generated file (random, nobody's data) and a release of it in a process of its
own. The CPU time of a stage is that of all threads of the process, so the forecast is that of one
processor. Prefect's engine is left out, and so is the stage `start` of the forecast. The unit costs
in `dp_core/plan/forecast/resource_forecast.py` were fitted to the cases before `HELD`; those after
it were not looked at.

    python benchmarks/time_forecast.py
    python benchmarks/time_forecast.py --case small
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from common import release_by_stages


@dataclass(frozen=True, slots=True)
class Case:
    """A file, and the release made of it.

    Attributes:
        rows: Rows of the file.
        columns: Its columns; every third has numbers.
        levels: Levels or bins of each column.
        method: Preset of the release.
        mode: How the sets are made.
        sets: Number of the sets.
        file: Form of the file.
    """

    rows: int
    columns: int
    levels: int
    method: str = "privsyn"
    mode: str = "posterior"
    sets: int = 5
    file: str = "csv"


CASES = {
    "small": Case(5_000, 12, 6),
    "wide": Case(20_000, 40, 5),
    "long": Case(300_000, 8, 8, file="parquet"),
    "large": Case(100_000, 30, 8, file="parquet"),
    "fine": Case(30_000, 10, 40, sets=3),
    "one-file": Case(50_000, 15, 8, mode="shared", sets=1),
    "split": Case(20_000, 10, 6, mode="split", sets=3),
    "tables": Case(100_000, 15, 8, sets=0),
    "independent": Case(200_000, 10, 10, method="independent", mode="shared", sets=2),
    "mst": Case(20_000, 10, 6, method="mst", mode="shared", sets=1),
    "privbayes": Case(20_000, 10, 5, method="privbayes", mode="shared", sets=1),
    "auto": Case(20_000, 12, 6, method="auto"),
    "mst-wide": Case(20_000, 25, 6, method="mst", mode="shared", sets=1),
    "aim": Case(10_000, 8, 5, method="aim", mode="shared", sets=2),
    "aim-wide": Case(10_000, 16, 5, method="aim", mode="shared", sets=2),
    "privbayes-wide": Case(20_000, 20, 5, method="privbayes", mode="shared", sets=2),
}
HELD = {
    "held-auto": Case(60_000, 20, 12, method="auto", sets=3),
    "held-shared": Case(15_000, 25, 4, mode="shared", sets=3),
    "held-posterior": Case(8_000, 50, 3, sets=2),
    "held-long": Case(600_000, 5, 20, method="independent", mode="shared", sets=1, file="parquet"),
    "held-mst": Case(50_000, 12, 9, method="mst", mode="shared", sets=3, file="parquet"),
    "held-aim": Case(30_000, 12, 4, method="aim", mode="shared", sets=1),
    "held-modips": Case(20_000, 6, 4, method="modips", mode="shared", sets=3),
    "held-fdh": Case(20_000, 5, 5, method="fdh", mode="shared", sets=2),
}
EVERY = CASES | HELD

LEAST_S = 0.2
"""Stages whose forecast and time are both shorter are not printed."""


def make_input(folder: Path, case: Case) -> Path:
    """Write the file, its schema and its spec; return the spec's path."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rng = np.random.default_rng(7)
    kind = rng.integers(0, 4, case.rows)
    columns, entries = {}, []
    for number in range(case.columns):
        shares = rng.dirichlet(np.full(case.levels, 0.7), 4).cumsum(axis=1)
        codes = (rng.random(case.rows)[:, None] > shares[kind]).sum(axis=1).clip(0, case.levels - 1)
        if number % 3 == 2:
            columns[f"n{number}"] = codes * 10 + rng.integers(0, 10, case.rows)
            top = case.levels * 10
            entries.append(
                f"  n{number}: {{type: integer, min: 0, max: {top}, bins: {case.levels}}}"
            )
        else:
            columns[f"c{number}"] = np.char.add("level", codes.astype(str))
            levels = ", ".join(f"level{level}" for level in range(case.levels))
            entries.append(f"  c{number}: {{type: category, levels: [{levels}]}}")
    table = pa.table(columns)
    data = folder / f"data.{case.file}"
    if case.file == "csv":
        pyarrow.csv.write_csv(table, data)
    else:
        pyarrow.parquet.write_table(table, data, row_group_size=65_536)
    head = f"version: 1\ntitle: Generated\nrows_about: {case.rows}\ncolumns:\n"
    (folder / "schema.yaml").write_text(head + "\n".join(entries) + "\n", encoding="utf-8")
    sets = f"sets: {case.sets}" + (f", mode: {case.mode}" if case.sets else "")
    spec = folder / "release.yaml"
    spec.write_text(
        f"version: 1\nrelease: generated\ndata: {data.name}\nschema: schema.yaml\naccount: a\n"
        "privacy: {epsilon: 1, delta: 1e-9}\n"
        f"method: {case.method}\nsynthesize: {{{sets}}}\n",
        encoding="utf-8",
    )
    return spec


def in_this_process(case: Case) -> dict[str, Any]:
    """Make a release; return the forecast and what it took, in seconds by stage."""
    from dp_core.plan.forecast.resource_forecast import forecast_resources
    from tasks.run.home_notes import machine_of

    with tempfile.TemporaryDirectory() as scratch:
        times = release_by_stages(make_input(Path(scratch), case), Path(scratch))
        machine = replace(machine_of(Path(scratch) / "home"), processors=1)
        takes = forecast_resources(times.plan, machine)
        foreseen = {**takes.seconds} if takes else {}
        del foreseen["start"]
        return {
            "cpu": times.cpu,
            "wall": times.wall,
            "forecast": foreseen,
            "machine": str(machine),
        }


def main() -> None:
    """Run the cases; print a table for each, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[*EVERY], action="append")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(in_this_process(EVERY[options.case[0]])))
        return
    ratios = {}
    for name in options.case or EVERY:
        command = [sys.executable, __file__, "--child", "--case", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        foreseen, cpu = found["forecast"], found["cpu"]
        print(f"{name}: {EVERY[name]}\n  {found['machine']}")
        for stage in [*foreseen, *(stage for stage in cpu if stage not in foreseen)]:
            expected, truth = foreseen.get(stage, 0.0), cpu.get(stage, 0.0)
            if max(expected, truth) >= LEAST_S:
                wall = found["wall"].get(stage, 0.0)
                print(
                    f"  {stage:<12} {expected:7.2f} s  {truth:7.2f} s of CPU  {wall:7.2f} s of wall"
                )
        ratios[name] = sum(foreseen.values()) / sum(cpu.values())
        print(f"  {'all':<12} {sum(foreseen.values()):7.2f} s  {sum(cpu.values()):7.2f} s of CPU")
        sys.stdout.flush()
    print("\nforecast / CPU time")
    for name, ratio in ratios.items():
        print(f"  {name:<16} {ratio:.2f}")
    within = sum(0.5 <= ratio <= 2 for ratio in ratios.values())
    print(f"within a factor of 2: {within} of {len(ratios)}")


if __name__ == "__main__":
    main()
