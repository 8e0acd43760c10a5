"""What validation costs, before and after a change: CPU time and peak memory, and their ratio.

Validates a synthetic file of 20 columns (random numbers, nobody's data) in processes of their own:
the program as it is in this folder, and as it was at an earlier commit, in turn.

    python benchmarks/validation.py --rows 5000000 --before COMMIT
    python benchmarks/validation.py --rows 1000 --before COMMIT --times 5
    python benchmarks/validation.py --rows 5000000 --own 4

`--own` adds that many expectations of a team about rows, in this folder's program.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WORK = """
import dataclasses, json, resource, sys
from pathlib import Path
import pandas, pyarrow, sqlalchemy.orm, prefect  # which a release has loaded anyway
from benchmarks.streaming import make_schema
from dp_core.confidential.source import open_source
path, out, own = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
schema = make_schema()
if own:
    from dp_core.schema.expectations.offered import Expectation
    name = "expect_column_pair_values_a_to_be_greater_than_b"
    pair = {"column_A": "whole0", "column_B": "whole1", "ignore_row_if": "either_value_is_missing"}
    shares = [0.1 + 0.01 * number for number in range(own)]
    each = [Expectation(name=name, arguments={**pair, "mostly": share}) for share in shares]
    schema = dataclasses.replace(schema, expectations=tuple(each))
source = open_source(path.name, path.parent, schema.domain.columns, ())
begun = resource.getrusage(resource.RUSAGE_SELF)
from tasks.validation.expectations import validate
validate(source, schema, out / "internal", codes=out / "codes")
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime - begun.ru_utime - begun.ru_stime
print(json.dumps({"cpu": cpu, "peak": used.ru_maxrss / 1024}))
"""


def measured(program: Path, path: Path, own: int) -> dict[str, float]:
    """Return CPU seconds and peak resident MB of one validation by a program."""
    with tempfile.TemporaryDirectory(dir=path.parent) as out:
        done = subprocess.run(
            [sys.executable, "-c", WORK, str(path), out, str(own)],
            env={**os.environ, "PYTHONPATH": str(program)},
            cwd=program,
            capture_output=True,
            text=True,
            check=True,
        )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--before", help="commit to compare with")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--own", type=int, default=0)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from benchmarks.streaming import make_file

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / "random.parquet"
        make_file(path, options.rows)
        programs = {"now": ROOT}
        if options.before:
            programs = {"before": folder / "before", **programs}
            tree = ["git", "-C", str(ROOT), "worktree"]
            place = str(programs["before"])
            subprocess.run([*tree, "add", "-q", "--detach", place, options.before], check=True)
            stack.callback(subprocess.run, [*tree, "remove", "--force", place], check=True)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
        for _ in range(options.times):
            for name, program in programs.items():
                own = options.own if name == "now" else 0
                runs[name].append(measured(program, path, own))
    print(f"{options.rows:,} rows x 20 columns, Parquet; medians of {options.times}")
    print(f"{'program':10} {'CPU s':>8} {'peak MB':>8}")
    cost = {}
    for name, found in runs.items():
        cost[name] = [statistics.median(one[what] for one in found) for what in ("cpu", "peak")]
        print(f"{name:10} {cost[name][0]:8.2f} {cost[name][1]:8.0f}")
    if options.before:
        ratios = [now / before for now, before in zip(cost["now"], cost["before"], strict=True)]
        print(f"{'ratio':10} {ratios[0]:8.2f} {ratios[1]:8.2f}")


if __name__ == "__main__":
    main()
