"""Wall time and peak memory of `dp-release run`, Prefect and its server included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.auto_parts.running import Limits
from benchmarks.auto_parts.watching import watch

DELTA = "1e-9"


def measure(
    schemas: Mapping[str, Mapping[str, Any]],
    data: Mapping[str, Path],
    presets: Sequence[str],
    epsilons: Sequence[str],
    runs: int,
    limits: Limits,
) -> None:
    """Print one line for each file, preset and epsilon; the first run of all makes the home.

    Args:
        schemas: Of each file, as a document.
        data: Its path.
        presets: Values of `method`.
        epsilons: Of the releases.
        runs: Releases of each.
        limits: Of one release.
    """
    print("| file | epsilon | method | run | wall s | CPU s | peak MB of all processes |")
    print("|---|--:|---|--:|--:|--:|--:|")
    program = str(Path(sys.executable).with_name("dp-release"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        environment = {**os.environ, "DP_RELEASE_HOME": str(folder / "home")}
        opened = [
            program,
            "ledger",
            "open",
            "benchmark",
            "--epsilon",
            "100000",
            "--delta",
            "1e-3",
            "--large-epsilon",
        ]
        people = ["--by", "benchmark", "--reason", "to measure"]
        subprocess.run([*opened, *people], env=environment, check=True, capture_output=True)
        for name, schema in schemas.items():
            text = yaml.safe_dump(dict(schema), sort_keys=False)
            (folder / f"{name}.schema.yaml").write_text(text, encoding="utf-8")
            for epsilon in epsilons:
                for preset in presets:
                    for run in range(runs):
                        release = f"{name}-{preset}-{epsilon.replace('.', '-')}-{run}"
                        spec = {
                            "version": 1,
                            "release": release,
                            "data": str(data[name].absolute()),
                            "schema": f"{name}.schema.yaml",
                            "account": "benchmark",
                            "privacy": {"epsilon": float(epsilon), "delta": DELTA},
                            "method": preset,
                        }
                        path = folder / f"{release}.yaml"
                        path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
                        took = watch(
                            [program, "run", str(path), "--out", str(folder / release)],
                            folder / "log",
                            seconds=limits.seconds,
                            megabytes=limits.megabytes,
                            environment=environment,
                        )
                        said = "" if took.status == "ok" else f" {took.status}: {took.said}"
                        print(
                            f"| {name} | {epsilon} | {preset} | {run} | {took.wall:.1f}"
                            f" | {took.cpu:.1f} | {took.megabytes:.0f}{said} |",
                            flush=True,
                        )
