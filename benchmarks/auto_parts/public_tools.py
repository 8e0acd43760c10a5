"""Public tools to compare with: each in a venv of its own, from versions pinned here.

A tool gets the codes and the public numbers of levels, the same epsilon and delta, and writes
codes. Its guarantee is by its own accounting, which is not audited here: most mean add-remove, some
take the number of rows as public, and DataSynthesizer has pure epsilon, which it spends on the
columns' histograms and once more on its network.
"""

from __future__ import annotations

import csv
import json
import subprocess
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.auto_parts import made
from benchmarks.auto_parts.running import Job
from dp_core.kernel.counting.dataset import Dataset

SCRIPTS = Path(__file__).resolve().parent / "peers"


@dataclass(frozen=True, slots=True)
class Tool:
    """A package and how it is installed.

    Attributes:
        alone: Requirements that are installed without what they depend on.
        requirements: The others, with all that they depend on.
        methods: Those compared by default.
    """

    requirements: tuple[str, ...]
    methods: tuple[str, ...]
    alone: tuple[str, ...] = ()


TOOLS: Mapping[str, Tool] = {
    "mbi": Tool(
        ("mbi==2.0.0", "jax==0.10.2", "numpy==2.4.6", "pandas==2.3.3"),
        # The mechanisms are ours over its estimator: its wheel has none. See peers/run_mbi.py.
        ("mst", "aim", "aim-48"),
    ),
    "smartnoise": Tool(
        (
            "mbi==1.1.0",
            "jax==0.10.2",
            "smartnoise-sql==1.0.10",
            "disjoint-set==0.9.0",
            "Faker>=17",
            "numpy==2.4.6",
            "pandas==2.3.3",
        ),
        ("mst", "aim"),
        # It also asks for opacus, and so for torch, which only its GANs import.
        alone=("smartnoise-synth==1.0.8",),
    ),
    "dpmm": Tool(("dpmm==0.1.9",), ("mst", "aim", "privbayes")),
    "datasynthesizer": Tool(
        # It writes numbers of NumPy as text and reads them back, which NumPy 2 broke.
        ("DataSynthesizer==0.1.13", "pandas==2.2.3", "numpy==1.26.4"),
        ("privbayes", "privbayes-2", "privbayes-1"),
    ),
}
METHODS = tuple(f"{name}:{method}" for name, tool in TOOLS.items() for method in tool.methods)


def install(folder: Path) -> None:
    """Make the venvs that are not there yet.

    Raises:
        SystemExit: if pip cannot install a tool.
    """
    for name, tool in TOOLS.items():
        home = folder / name
        if (home / "installed").exists():
            continue
        venv.create(home, with_pip=True, clear=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        for command in ([*pip, *tool.requirements], [*pip, "--no-deps", *tool.alone]):
            if command[-1] == "--no-deps":
                continue
            if subprocess.run(command, check=False).returncode:
                raise SystemExit(f"{name} cannot be installed: see pip's message above.")
        (home / "installed").touch()
        print(f"{name}: {', '.join((*tool.alone, *tool.requirements))}", flush=True)


def check(methods: list[str], folder: Path) -> None:
    """Refuse methods of tools that are unknown or not installed."""
    for method in methods:
        name, _, what = method.partition(":")
        if name not in TOOLS or not what:
            raise SystemExit(f"There is no public tool {method}; known are {', '.join(METHODS)}.")
        if not (folder / name / "installed").exists():
            raise SystemExit(f"{name} is not in {folder}: run `auto.py install --venvs {folder}`.")


def command(job: Job, source: Path, target: Path, folder: Path) -> list[str]:
    """Write the file as the tool reads it, and return what to run."""
    data = made.read(source)
    table, sizes = source.with_suffix(".csv"), source.with_suffix(".json")
    np.savetxt(
        table,
        data.codes.T,
        fmt="%d",
        delimiter=",",
        header=",".join(data.domain.columns),
        comments="",
    )
    sizes.write_text(json.dumps(dict(zip(data.domain.columns, data.domain.sizes, strict=True))))
    name, _, method = job.method.partition(":")
    options = ["--method", method, "--epsilon", float(job.epsilon), "--delta", float(made.DELTA)]
    options += ["--seed", job.run, "--data", table, "--sizes", sizes, "--made", target]
    python = folder.absolute() / name / "bin" / "python"
    return [str(part) for part in (python, SCRIPTS / f"run_{name}.py", *options)]


def read(path: Path, data: Dataset) -> Dataset:
    """Return the records that a tool wrote.

    Raises:
        ValueError: if they are not codes of the file's levels.
    """
    with path.open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
        rows = np.loadtxt(file, delimiter=",", ndmin=2)
    position = {name: axis for axis, name in enumerate(header)}
    codes = rows.T[[position[name] for name in data.domain.columns]]
    sizes = np.array(data.domain.sizes)[:, None]
    if not ((codes >= 0) & (codes < sizes) & (codes == np.floor(codes))).all():
        raise ValueError("The tool wrote values that are not codes of the file.")
    return Dataset(data.domain, np.ascontiguousarray(codes.astype(np.uint16)))
