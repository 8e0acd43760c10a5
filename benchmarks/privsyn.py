"""PrivSyn on several files: when does it pay to select pairs, and how should GUM move records?

Usage:
    python benchmarks/privsyn.py selection --adult adult.csv [--nltcs F] [--cells F ...] [--runs 6]
    python benchmarks/privsyn.py gum       --adult adult.csv [--nltcs F] [--cells F ...] [--runs 4]

Files: the census income file as `adult.py` codes it, a 0/1 file with a header (`--nltcs`), the
demo's survey (it comes with the program), and binary cell tables whose last column is the count
(`--cells`). Figures are the average TVD of all pairs of columns between a synthetic file of the
noisy number of rows and the real one; add-remove, exact noise. delta is 1e-9 where it is not 0.

`selection`: `independent`, `privsyn`, and the paper's greedy rule at small epsilon. The last column
is the mean difference of `privsyn` to `independent` and its standard error.
`gum`: from the same noisy tables, rounds and sweeps. Prints versions and one table.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import itertools
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from adult import load as load_adult
from papers.common import measured, models, preset_plan, read_cells, versions

from dp_core.confidential.encoding import Encoder
from dp_core.confidential.source import open_source
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.gum import Gum, GumModel
from dp_core.metrics.marginal_error import average_tvd
from dp_core.plan.procedure import fits
from dp_core.schema.reading.schema_file import load_schema

DELTA = 1e-9
DEMO = Path(__file__).parent.parent / "flows" / "demo"


def load_binary(path: Path) -> Dataset:
    """Return a file of 0 and 1 with a header."""
    codes = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.uint16).T
    names = tuple(path.open(encoding="utf-8").readline().strip().split(","))
    return Dataset(Domain(names, (2,) * len(names)), np.ascontiguousarray(codes))


def load_demo() -> Dataset:
    """Return the demo's survey, as its schema codes it."""
    schema = load_schema(DEMO / "yrbss.schema.yaml")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "yrbss.csv"
        file.write_bytes(gzip.decompress((DEMO / "yrbss.csv.gz").read_bytes()))
        source = open_source(file.name, file.parent, schema.reads, schema.ignore)
        batches = [batch.records for batch in source.batches()]
    codes = [
        np.concatenate([Encoder(column).encode(records.column(index)).codes for records in batches])
        for index, column in enumerate(schema.columns)
    ]
    return Dataset(schema.domain, np.stack(codes))


def files(arguments: argparse.Namespace) -> dict[str, Dataset]:
    """Return the files asked for."""
    found = {"adult": load_adult(arguments.adult)} if arguments.adult else {}
    if arguments.nltcs:
        found["nltcs"] = load_binary(arguments.nltcs)
    found["yrbss"] = load_demo()
    return found | {path.stem: read_cells(path) for path in arguments.cells}


def figure(data: Dataset, made: Dataset) -> float:
    """Return the average TVD of all pairs."""
    return average_tvd(data, made, 2).mean


def selection(name: str, data: Dataset, epsilons: Sequence[float], runs: int) -> None:
    """Print one line for each guarantee."""
    methods: Mapping[str, tuple[str, Mapping[str, object]]] = {
        "independent": ("independent", {}),
        "privsyn": ("privsyn", {}),
        "greedy": ("privsyn", {"rule": "greedy"}),
    }
    for delta, epsilon in itertools.product((0.0, DELTA), epsilons):
        found: dict[str, list[float]] = {label: [] for label in methods}
        tables = []
        for run in range(runs):
            for label, (method, options) in methods.items():
                plan = preset_plan(
                    method, data.domain, select=options, epsilon=epsilon, delta=delta, seed=run
                )
                model = models(plan, data, public_rows=False)[0]
                made = model.sample(model.rows, rng=np.random.default_rng(run))
                found[label].append(figure(data, made))
                if label == "privsyn":
                    tables.append(sum(len(table.clique) > 1 for table in model.tables))
        differences = np.array(found["privsyn"]) - np.array(found["independent"])
        error = differences.std(ddof=1) / len(differences) ** 0.5
        means = " | ".join(f"{statistics.fmean(values):.4f}" for values in found.values())
        print(
            f"| {name} | {'zCDP' if delta else 'pure'} | {epsilon:g} | {means} |"
            f" {statistics.fmean(tables):.1f} | {differences.mean():+.4f} ({error:.4f}) |",
            flush=True,
        )


def gum(name: str, data: Dataset, epsilons: Sequence[float], runs: int) -> None:
    """Print, for each way to move records, the figure at each guarantee."""
    ways: dict[str, Gum] = {"default": Gum()}
    ways |= {f"sweeps {sweeps}": Gum(sweeps=sweeps) for sweeps in (0, 1, 10)}
    ways |= {f"rounds {rounds}": Gum(rounds=rounds) for rounds in (5, 10, 40, 100)}
    ways |= {"without shrinking": Gum(shrink=False)}
    found: dict[str, list[str]] = {label: [] for label in ways}
    for delta, epsilon in itertools.product((0.0, DELTA), epsilons):
        values: dict[str, list[float]] = {label: [] for label in ways}
        seconds: dict[str, float] = dict.fromkeys(ways, 0.0)
        for run in range(runs):
            plan = preset_plan("privsyn", data.domain, epsilon=epsilon, delta=delta, seed=run)
            released = measured(plan, data)
            ((_, shrunk),) = fits(plan, released, (), rows=None)
            assert isinstance(shrunk, GumModel)
            for label, way in ways.items():
                model = dataclasses.replace(shrunk, options=way)
                if not way.shrink:
                    other = dataclasses.replace(plan.spec, reconstructor=way)
                    other_plan = dataclasses.replace(plan, spec=other)
                    ((_, found_model),) = fits(other_plan, released, (), rows=None)
                    assert isinstance(found_model, GumModel)
                    model = found_model
                before = time.process_time()
                made = model.sample(model.rows, rng=np.random.default_rng(run))
                seconds[label] += time.process_time() - before
                values[label].append(figure(data, made))
        for label in ways:
            found[label].append(
                f"{statistics.fmean(values[label]):.4f}, {seconds[label] / runs:.2f} s"
            )
    for label, cells in found.items():
        print(f"| {name} | {label} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", choices=["selection", "gum"])
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--nltcs", type=Path)
    parser.add_argument("--cells", type=Path, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", help="names of the files to take")
    parser.add_argument("--epsilon", type=float, nargs="+")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print(versions(), f"{arguments.runs} runs")
    if arguments.question == "selection":
        epsilons = arguments.epsilon or [0.05, 0.1, 0.2, 0.5]
        print("| file | noise | epsilon | independent | privsyn | greedy | pairs | difference |")
        print("|---|---|---|---|---|---|---|---|")
    else:
        epsilons = arguments.epsilon or [0.2, 1.0]
        columns = [f"{kind} {e:g}" for kind in ("pure", "zCDP") for e in epsilons]
        print("| file | GUM | " + " | ".join(columns) + " |\n|---|---|" + "---|" * len(columns))
    for name, data in files(arguments).items():
        if not arguments.only or name in arguments.only:
            ask = selection if arguments.question == "selection" else gum
            ask(name, data, epsilons, arguments.runs)


if __name__ == "__main__":
    main()
