"""The bound of a release's memory that `plan` states, beside the largest memory that it took.

Each case makes a generated file (nobody's data, as in `wide.py`) and a release of it in a process
of its own, without Prefect's engine. Memory is the largest resident set of that process, as Linux
counts it, in MB (a million bytes). The constants of `dp_core/plan/forecast/resource_forecast.py`
were fitted to the cases before `HELD`; those after it were not looked at.

    python benchmarks/memory_forecast.py
    python benchmarks/memory_forecast.py --case small --stages
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import release_by_stages
from wide import make_input

ADULT = (74, 9, 16, 16, 7, 15, 6, 5, 2, 50, 50, 99, 42, 2)
"""Levels or bins of 14 columns, as of the Adult file."""


@dataclass(frozen=True, slots=True)
class Case:
    """A file, and the release made of it.

    Attributes:
        rows: Rows of the file.
        sizes: Levels of its columns; a number stands for that many columns of 2 to 20 levels.
        sets: Number of the sets; with one it is made in mode `shared`, otherwise in the default.
        method: Preset of the release.
        file: Form of the file.
    """

    rows: int
    sizes: int | tuple[int, ...]
    sets: int = 1
    method: str = "auto"
    file: str = "parquet"


CASES = {
    "small": Case(1_000, 5, sets=5, file="csv"),
    "adult": Case(50_000, ADULT, file="csv"),
    "adult-5": Case(50_000, ADULT, sets=5, file="csv"),
    "wide": Case(50_000, 100),
    "levels": Case(20_000, (10_000, 12, 4, 18, 3, 9, 15, 2)),
    "long": Case(1_000_000, 10),
    "wider": Case(50_000, 300),
}
HELD = {
    "held-large": Case(300_000, 30, sets=3, file="csv"),
    "held-levels": Case(20_000, (2_000, 12, 4, 18, 3, 9, 15, 2), sets=5),
    "held-privsyn": Case(100_000, 20, sets=2, method="privsyn"),
    "held-mst": Case(200_000, 12, method="mst", file="csv"),
    "held-cells": Case(20_000, (40,) * 40, sets=2, method="privsyn"),
    "held-longer": Case(3_000_000, 8, sets=2),
}
EVERY = CASES | HELD


def made(folder: Path, *, by_stage: bool) -> dict[str, Any]:
    """Make the release of a folder in this process; return its bound and its memory, in MB."""
    from dp_core.plan.forecast.resource_forecast import forecast_resources
    from dp_core.plan.forecast.stage_pace import Machine

    peaks: dict[str, float] = {}
    last = ""

    def note(stage: str) -> None:
        nonlocal last
        if stage != last:
            peaks[last] = max(peaks.get(last, 0.0), peak())
            last = stage
            if by_stage:
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    times = release_by_stages(folder / "release.yaml", folder, began=note)
    note("end")
    takes = forecast_resources(times.plan, Machine(processors=2))
    bound = takes.memory_mb if takes else None
    return {"bound": bound, "peak": max(peaks.values()), "stages": peaks}


def peak() -> float:
    """Return the largest resident set of this process, MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def measured(case: Case, *, by_stage: bool) -> Mapping[str, Any]:
    """Return the bound and the memory of a case, in MB."""
    with tempfile.TemporaryDirectory() as scratch:
        spec = make_input(Path(scratch), case.sizes, case.rows, 0, file=case.file)
        text = spec.read_text(encoding="utf-8").replace("method: auto", f"method: {case.method}")
        spec.write_text(text.replace("sets: 1", f"sets: {case.sets}"), encoding="utf-8")
        command = [sys.executable, __file__, "--child", scratch, *["--stages"] * by_stage]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{case}: {done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def main() -> None:
    """Print a table, one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[*EVERY], action="append")
    parser.add_argument("--stages", action="store_true", help="print the memory of each stage too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(made(Path(options.child), by_stage=options.stages)))
        return
    print(f"{'case':<14}{'rows':>10}{'columns':>9}{'sets':>6}{'bound MB':>10}{'peak MB':>9}  part")
    for name in options.case or EVERY:
        case = EVERY[name]
        found = measured(case, by_stage=options.stages)
        columns = case.sizes if isinstance(case.sizes, int) else len(case.sizes)
        print(
            f"{name:<14}{case.rows:10,}{columns:9,}{case.sets:6}{found['bound']:10,.0f}"
            f"{found['peak']:9,.0f}{found['peak'] / found['bound']:6.2f}",
            flush=True,
        )
        if options.stages:
            stages = (f"{stage or 'start'} {its:.0f}" for stage, its in found["stages"].items())
            print(f"    {', '.join(stages)}", flush=True)


if __name__ == "__main__":
    main()
