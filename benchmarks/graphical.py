"""MST, AIM and MWEM on a graphical model, ours and over the authors' package, side by side.

Usage: python benchmarks/graphical.py --adult path/to/adult.csv --nltcs path/to/nltcs.csv
           [--epsilon 1] [--runs 3] [--peer-rounds 4]

Both files are coded as in `adult.py` (Adult) and as they are (NLTCS: 16 columns of 0 and 1). The
budget is (epsilon, 1e-9) under zCDP, add-remove. Every line is a process of its own, whose CPU
seconds and memory are those from its start to the drawn records, imports and compilation included.
TVD is the total variation distance to the real file, averaged over all pairs of columns and 300
triples.

The package `mbi` brings the model, not the mechanisms: `mbi mst` and `mbi aim` are the papers'
pseudocode over its estimator, its answers and its sampler, with floating-point noise, which is
enough for a comparison and not for a release. Levels of few records are merged as the paper of MST
does. A round of `mbi aim` takes long enough (it compiles for every structure) that only a few are
run; the line says how many, and the last table compares the cost of one round.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.adult import load as load_adult
from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.client.released import Released
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.kernel import Kernel
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.methods.selection.aim import Aim
from dp_core.methods.selection.mst import Mst
from dp_core.methods.selection.mwem_pgm import MwemPgm
from dp_core.methods.selection.one_way import OneWay
from dp_core.schema.structure.structural_zeros import StructuralZeros

DELTA = Fraction("1e-9")
METHODS: Mapping[str, tuple[Any, Any, Mapping[str, Fraction]]] = {
    "mst": (Mst, Pgm, {"one_way": Fraction(3, 10), "select": Fraction(1, 5)}),
    "mst + gum": (Mst, Gum, {"one_way": Fraction(3, 10), "select": Fraction(1, 5)}),
    "aim": (Aim, Pgm, {"select": Fraction(1, 5)}),
    "aim + gum": (Aim, Gum, {"select": Fraction(1, 5)}),
    "mwem-pgm": (MwemPgm, Pgm, {"select": Fraction(1, 5)}),
}


def load(name: str, path: Path) -> Dataset:
    """Return a file as codes."""
    if name == "adult":
        return load_adult(path)
    with path.open(encoding="utf-8") as file:
        columns = tuple(file.readline().strip().split(","))
        codes = np.loadtxt(file, delimiter=",", dtype=np.uint16)
    return Dataset(Domain(columns, (2,) * len(columns)), np.ascontiguousarray(codes.T))


def ours(data: Dataset, method: str, epsilon: Fraction, seed: int) -> tuple[Dataset, int]:
    """Return records, and how many tables they were made from."""
    select, reconstruct, shares = METHODS[method]
    currency = Currency("zcdp", largest_limit("zcdp", epsilon, DELTA))
    curator = Curator(
        Kernel(data.domain, MemoryCounter(data), MemorySession(currency, "add-remove"))
    )
    costs = {stage: share * currency.limit for stage, share in shares.items()}
    measure_cost = currency.limit - sum(costs.values())
    known: list[Released] = []
    if "one_way" in costs:
        columns = OneWay().fixed_selection(data.domain)
        parts = [weight * costs["one_way"] for weight in columns.weights]
        known += curator.measure("one_way", columns.cliques, parts)
    zeros, rng = StructuralZeros(), np.random.default_rng(seed)
    chosen = select().select(
        MethodInputs(
            curator=curator,
            known=known,
            domain=data.domain,
            select_cost=costs["select"],
            measure_cost=measure_cost,
            zeros=zeros,
            rng=rng,
        )
    )
    known += chosen.measured
    if chosen.cliques:
        parts = [weight * measure_cost for weight in chosen.weights]
        known += curator.measure("measure", chosen.cliques, parts)
    model = reconstruct().fit(data.domain, known, rows=None, zeros=zeros, rng=rng)
    return model.sample(model.rows, rng=rng), len(known)


class Peer:
    """The papers' mechanisms over the package `mbi`."""

    def __init__(self, data: Dataset, epsilon: Fraction, seed: int) -> None:
        """Hold the data and the budget."""
        import warnings

        warnings.simplefilter("ignore")
        import jax
        import mbi

        jax.config.update("jax_enable_compilation_cache", False)
        self.mbi = mbi
        self.data = data
        self.rho = float(largest_limit("zcdp", epsilon, DELTA))
        self.rng = np.random.default_rng(seed)
        np.random.seed(seed)  # noqa: NPY002  (the package draws from it)
        self.estimator = mbi.estimation.MirrorDescent()

    def _measure(self, data: Dataset, clique: Clique, sigma: float) -> Any:
        exact = table(data, clique).ravel()
        return self.mbi.LinearMeasurement(
            exact + self.rng.normal(0, sigma, exact.size), clique, sigma
        )

    def _choose(self, scores: Sequence[float], epsilon: float, sensitivity: float) -> int:
        noisy = np.asarray(scores) + self.rng.gumbel(0, 2 * sensitivity / epsilon, len(scores))
        return int(np.argmax(noisy))

    def _answers(self, model: Any, cliques: Sequence[Clique]) -> Mapping[Clique, Any]:
        found = self.mbi.marginal_oracles.calculate_many_marginals(
            model.potentials, list(cliques), float(model.total)
        )
        return {c: np.asarray(found[c].datavector(flatten=False)) for c in cliques}

    def mst(self) -> tuple[Dataset, int]:
        """Return records by MST: a third of the budget each for columns, choice and pairs."""
        columns = self.data.domain.columns
        sigma = (len(columns) / (2 * self.rho / 3)) ** 0.5
        small, back = self._merged(sigma)
        domain = self.mbi.Domain(small.domain.columns, small.domain.sizes)
        tables = [self._measure(small, (name,), sigma) for name in columns]
        model = self.estimator.estimate(domain, tables, iters=1000)
        pairs = list(itertools.combinations(columns, 2))
        single = {name: np.asarray(model.project((name,)).datavector()) for name in columns}
        scores = {
            (a, b): np.abs(
                table(small, (a, b)) - np.outer(single[a], single[b]) / float(model.total)
            ).sum()
            for a, b in pairs
        }
        part = {name: {name} for name in columns}
        epsilon = (8 * self.rho / 3 / (len(columns) - 1)) ** 0.5
        sigma = ((len(columns) - 1) / (2 * self.rho / 3)) ** 0.5
        for _ in columns[1:]:
            left = [pair for pair in pairs if part[pair[0]] is not part[pair[1]]]
            edge = left[self._choose([scores[pair] for pair in left], epsilon, 1.0)]
            joined = part[edge[0]] | part[edge[1]]
            part.update(dict.fromkeys(joined, joined))
            tables.append(self._measure(small, edge, sigma))
        model = self.estimator.estimate(domain, tables, iters=1000)
        return back(self._records(model, small.domain)), len(tables)

    def aim(self, rounds: int) -> tuple[Dataset, int]:
        """Return records by AIM with so many rounds after the columns."""
        columns = self.data.domain.columns
        domain = self.mbi.Domain(columns, self.data.domain.sizes)
        sigma = (len(columns) / (2 * self.rho / 10)) ** 0.5
        tables = [self._measure(self.data, (name,), sigma) for name in columns]
        model = self.estimator.estimate(domain, tables, iters=1000)
        epsilon = (8 * 0.1 * 0.9 * self.rho / rounds) ** 0.5
        sigma = (rounds / (2 * 0.9 * 0.9 * self.rho)) ** 0.5
        pairs = list(itertools.combinations(columns, 2))
        for _ in range(rounds):
            answers = self._answers(model, pairs)
            scores = [
                np.abs(table(self.data, pair) - answers[pair]).sum()
                - (2 / np.pi) ** 0.5 * sigma * answers[pair].size
                for pair in pairs
            ]
            tables.append(
                self._measure(self.data, pairs[self._choose(scores, epsilon, 1.0)], sigma)
            )
            model = self.estimator.estimate(domain, tables, iters=1000, warm_start=model)
        return self._records(model, self.data.domain), len(tables)

    def _records(self, model: Any, domain: Domain) -> Dataset:
        made = model.synthetic_data().to_dict()
        codes = np.stack([np.asarray(made[name]) for name in domain.columns])
        return Dataset(domain, codes.astype(np.uint16))

    def _merged(self, sigma: float) -> tuple[Dataset, Any]:
        """Return the data with rare levels of each column in one, and a way back."""
        codes, sizes, levels = [], [], []
        for name in self.data.domain.columns:
            counts = table(self.data, (name,))
            kept = counts + self.rng.normal(0, sigma, counts.size) >= 3 * sigma
            of_level = np.where(kept, np.cumsum(kept) - 1, kept.sum())
            codes.append(of_level[self.data.column(name)])
            sizes.append(int(kept.sum()) + (not kept.all()))
            levels.append([np.flatnonzero(of_level == code) for code in range(sizes[-1])])
        domain = Domain(self.data.domain.columns, tuple(sizes))

        def back(made: Dataset) -> Dataset:
            found = np.empty_like(made.codes)
            for axis, choices in enumerate(levels):
                for code, among in enumerate(choices):
                    rows = made.codes[axis] == code
                    found[axis, rows] = self.rng.choice(among, np.count_nonzero(rows))
            return Dataset(self.data.domain, found)

        return Dataset(domain, np.stack(codes).astype(np.uint16)), back


def table(data: Dataset, clique: Clique) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the counts of a clique."""
    domain = data.domain.project(clique)
    flat = np.zeros(data.rows, dtype=np.int64)
    for column, size in zip(domain.columns, domain.sizes, strict=True):
        flat = flat * size + data.column(column)
    return np.bincount(flat, minlength=domain.size()).reshape(domain.sizes)


def distance(data: Dataset, made: Dataset, order: int) -> float:
    """Return the average total variation distance of pairs, or of 300 triples."""
    cliques = list(itertools.combinations(data.domain.columns, order))
    if len(cliques) > 300:
        picked = np.random.default_rng(0).choice(len(cliques), 300, replace=False)
        cliques = [cliques[index] for index in picked]
    return statistics.fmean(
        0.5 * float(np.abs(table(data, c) / data.rows - table(made, c) / made.rows).sum())
        for c in cliques
    )


def one_run(job: Mapping[str, Any]) -> None:
    """Do one run and print its figures as JSON."""
    data = load(job["data"], Path(job["path"]))
    epsilon = Fraction(job["epsilon"])
    if job["method"] == "mbi mst":
        made, tables = Peer(data, epsilon, job["seed"]).mst()
    elif job["method"] == "mbi aim":
        made, tables = Peer(data, epsilon, job["seed"]).aim(job["rounds"])
    else:
        made, tables = ours(data, job["method"], epsilon, job["seed"])
    cpu, usage = time.process_time(), resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "cpu": cpu,
        "megabytes": usage.ru_maxrss / 1024,
        "pairs": distance(data, made, 2),
        "triples": distance(data, made, 3),
        "tables": tables,
    }
    print(json.dumps(figures))


def measure(job: Mapping[str, Any], runs: int) -> dict[str, float]:
    """Return the mean figures of some runs, each in a process of its own."""
    found = []
    for seed in range(runs):
        text = json.dumps({**job, "seed": seed})
        done = subprocess.run(
            [sys.executable, __file__, "--child", text], check=True, capture_output=True, text=True
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return {key: statistics.fmean(one[key] for one in found) for key in found[0]}


def main() -> None:
    """Print one line for each method, and ours against the peer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--nltcs", type=Path)
    parser.add_argument("--epsilon", nargs="+", default=["1"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer-rounds", type=int, default=4)
    parser.add_argument("--child")
    arguments = parser.parse_args()
    if arguments.child:
        one_run(json.loads(arguments.child))
        return
    print(f"python {platform.python_version()}, numpy {np.__version__}")
    print(f"{'data':<6} {'eps':>4} {'method':<22} {'pairs':>7} {'triples':>7}", end=" ")
    print(f"{'tables':>6} {'CPU s':>7} {'MB':>6}")
    for name in ("adult", "nltcs"):
        path = getattr(arguments, name)
        if path is None:
            continue
        for epsilon in arguments.epsilon:
            job = {"data": name, "path": str(path), "epsilon": epsilon}
            found = {}
            for method in (*METHODS, "mbi mst", "mbi aim"):
                peer = method.startswith("mbi")
                asked = {**job, "method": method, "rounds": arguments.peer_rounds}
                row = found[method] = measure(asked, 1 if peer else arguments.runs)
                label = (
                    f"{method} ({arguments.peer_rounds} rounds)" if method == "mbi aim" else method
                )
                print(
                    f"{name:<6} {epsilon:>4} {label:<22} {row['pairs']:7.4f} {row['triples']:7.4f}"
                    f" {row['tables']:6.0f} {row['cpu']:7.1f} {row['megabytes']:6.0f}",
                    flush=True,
                )
            print_ratios(name, epsilon, found, len(load(name, path).domain), arguments.peer_rounds)


def print_ratios(
    name: str, epsilon: str, found: Mapping[str, Mapping[str, float]], columns: int, rounds: int
) -> None:
    """Print ours over the peer's: less than 1 is less."""
    ratio = {key: found["mst"][key] / found["mbi mst"][key] for key in found["mst"]}
    print(
        f"{name:<6} {epsilon:>4} mst over mbi mst: CPU {ratio['cpu']:.3f}, memory"
        f" {ratio['megabytes']:.2f}, pairs {ratio['pairs']:.2f}, triples {ratio['triples']:.2f}"
    )
    one = found["aim"]["cpu"] / max(found["aim"]["tables"] - columns, 1)
    other = found["mbi aim"]["cpu"] / rounds
    memory = found["aim"]["megabytes"] / found["mbi aim"]["megabytes"]
    print(
        f"{name:<6} {epsilon:>4} aim over mbi aim: CPU of a round {one / other:.4f}"
        f" ({one:.2f} s, {other:.1f} s), memory {memory:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
