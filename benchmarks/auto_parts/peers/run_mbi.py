"""MST and AIM over the package mbi, whose wheel has the estimator but not the mechanisms.

The mechanisms are ours, by the papers' pseudocode: McKenna, Miklau and Sheldon 2021, algorithm 1
(MST, with rare levels merged as its section 4 does), and McKenna, Mullins, Sheldon and Miklau 2022,
algorithms 1 to 3 (AIM: all pairs and columns as workload, sixteen rounds for each column, budgets
annealed, 80 MB at most for the model). `aim-48` takes so many rounds of equal budgets instead,
because a round compiles for seconds. Noise is floating-point, which does for a comparison.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence

import mbi
import numpy as np
import pandas as pd
from exchange import Task, asked, zcdp

Clique = tuple[str, ...]
ITERATIONS = 1_000
MEGABYTES = 80.0
CELLS = 10_000
"""Largest table that AIM may ask for, as in the authors' program."""


class Mechanism:
    """Data, budget and randomness of one run."""

    def __init__(self, table: pd.DataFrame, sizes: Mapping[str, int], rho: float, seed: int):
        """Hold them."""
        self.table, self.sizes, self.rho = table, dict(sizes), rho
        self.rng = np.random.default_rng(seed)
        self.measured: list[mbi.LinearMeasurement] = []
        self.estimator = mbi.estimation.MirrorDescent()
        self.model = None

    def count(self, clique: Clique) -> np.ndarray:
        """Return the exact counts of a clique, flat."""
        shape = tuple(self.sizes[name] for name in clique)
        codes = tuple(self.table[name].to_numpy() for name in clique)
        flat = np.ravel_multi_index(codes, shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).astype(float)

    def measure(self, clique: Clique, sigma: float) -> None:
        """Add a noisy table."""
        exact = self.count(clique)
        noisy = exact + self.rng.normal(0, sigma, exact.size)
        self.measured.append(mbi.LinearMeasurement(noisy, clique, sigma))

    def fit(self) -> None:
        """Fit the model to everything that is measured."""
        domain = mbi.Domain(tuple(self.sizes), tuple(self.sizes.values()))
        more = {} if self.model is None else {"warm_start": self.model}
        self.model = self.estimator.estimate(domain, self.measured, iters=ITERATIONS, **more)

    def answers(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray]:
        """Return the model's counts of many cliques, flat."""
        found = mbi.marginal_oracles.calculate_many_marginals(
            self.model.potentials, list(cliques), float(self.model.total)
        )
        return {clique: np.asarray(found[clique].datavector()) for clique in cliques}

    def choose(self, scores: Sequence[float], epsilon: float, sensitivity: float) -> int:
        """Return the index that the exponential mechanism draws."""
        scale = 2 * sensitivity / epsilon
        return int(np.argmax(np.asarray(scores) + self.rng.gumbel(0, scale, len(scores))))

    def records(self, rows: int) -> pd.DataFrame:
        """Return as many records of the model."""
        found = self.model.synthetic_data(rows=rows).to_dict()
        return pd.DataFrame({name: np.asarray(found[name]) for name in self.sizes})


def mst(task: Task) -> pd.DataFrame:
    """Return records by MST: a third of the budget each for columns, choice and pairs."""
    rho = zcdp(task.epsilon, task.delta)
    sigma = (3 * len(task.sizes) / (2 * rho)) ** 0.5
    first = Mechanism(task.table, task.sizes, rho, task.seed)
    for name in task.sizes:
        first.measure((name,), sigma)
    run, back = merged(first, sigma)
    run.fit()
    columns = list(task.sizes)
    pairs = list(itertools.combinations(columns, 2))
    near = run.answers(pairs)
    scores = {pair: np.abs(run.count(pair) - near[pair]).sum() for pair in pairs}
    epsilon = (8 * rho / 3 / (len(columns) - 1)) ** 0.5
    sigma = (3 * (len(columns) - 1) / (2 * rho)) ** 0.5
    part = {name: {name} for name in columns}
    for _ in columns[1:]:
        left = [pair for pair in pairs if part[pair[0]] is not part[pair[1]]]
        edge = left[run.choose([scores[pair] for pair in left], epsilon, 1.0)]
        joined = part[edge[0]] | part[edge[1]]
        part.update(dict.fromkeys(joined, joined))
        run.measure(edge, sigma)
    run.model = None
    run.fit()
    return back(run.records(len(task.table)))


def merged(
    first: Mechanism, sigma: float
) -> tuple[Mechanism, Callable[[pd.DataFrame], pd.DataFrame]]:
    """Return the data with rare levels of a column in one, measured so, and a way back."""
    table, sizes, levels = {}, {}, {}
    second = Mechanism(first.table, first.sizes, first.rho, 0)
    second.rng = first.rng
    for measurement in first.measured:
        (name,) = measurement.clique
        noisy = np.asarray(measurement.noisy_measurement)
        kept = noisy >= 3 * sigma
        if kept.sum() < 2:
            kept[:] = True
        of_level = np.where(kept, np.cumsum(kept) - 1, kept.sum())
        table[name] = of_level[first.table[name].to_numpy()]
        sizes[name] = int(of_level.max()) + 1
        levels[name] = [np.flatnonzero(of_level == code) for code in range(sizes[name])]
        counts = np.bincount(of_level, weights=noisy)
        rare = int((~kept).sum())
        if rare > 1:  # the last one is a sum of so many noisy counts: weigh it accordingly
            counts[-1] /= rare**0.5
            query = np.ones(sizes[name])
            query[-1] = rare**-0.5
            second.measured.append(scaled(counts, (name,), sigma, query))
        else:
            second.measured.append(mbi.LinearMeasurement(counts, (name,), sigma))
    second.table, second.sizes = pd.DataFrame(table), sizes

    def back(made: pd.DataFrame) -> pd.DataFrame:
        found = made.copy()
        for name, choices in levels.items():
            for code, among in enumerate(choices):
                rows = (made[name] == code).to_numpy()
                found.loc[rows, name] = first.rng.choice(among, int(rows.sum()))
        return found

    return second, back


def scaled(
    counts: np.ndarray, clique: Clique, sigma: float, factors: np.ndarray
) -> mbi.LinearMeasurement:
    """Return a measurement of counts times known factors."""
    return mbi.LinearMeasurement(
        counts, clique, sigma, lambda factor: factor.datavector() * factors
    )


def aim(task: Task) -> pd.DataFrame:
    """Return records by AIM, annealed, or with a stated number of equal rounds."""
    stated = int(task.method.partition("-")[2] or 0)
    run = Mechanism(task.table, task.sizes, zcdp(task.epsilon, task.delta), task.seed)
    columns = [(name,) for name in task.sizes]
    pairs = list(itertools.combinations(task.sizes, 2))
    cells = {clique: run.count(clique).size for clique in (*columns, *pairs)}
    pairs = [pair for pair in pairs if cells[pair] <= CELLS]
    workload = pairs or columns
    # As many columns as a clique shares with all the workload's.
    weights = {
        clique: sum(len(set(clique) & set(other)) for other in workload)
        for clique in (*columns, *pairs)
    }
    rounds = stated or 16 * len(columns)
    each = run.rho / (rounds + 0.9 * len(columns)) if stated else run.rho / rounds
    sigma, epsilon = (1 / (2 * 0.9 * each)) ** 0.5, (8 * 0.1 * each) ** 0.5
    for clique in columns:
        run.measure(clique, sigma)
    used = len(columns) / (2 * sigma**2)
    run.fit()
    exact = {clique: run.count(clique) for clique in weights}
    last = False
    while not last:
        step = epsilon**2 / 8 + 1 / (2 * sigma**2)
        if run.rho - used < 2 * step * (1 - 1e-9):
            last = True
            sigma = (1 / (2 * 0.9 * (run.rho - used))) ** 0.5
            epsilon = (8 * 0.1 * (run.rho - used)) ** 0.5
        used += epsilon**2 / 8 + 1 / (2 * sigma**2)
        allowed = [
            clique for clique in weights if size(run, clique) <= MEGABYTES * used / run.rho
        ] or columns
        before = run.answers(allowed)
        bias = (2 / np.pi) ** 0.5 * sigma
        scores = [
            weights[clique] * (np.abs(exact[clique] - before[clique]).sum() - bias * cells[clique])
            for clique in allowed
        ]
        top = float(max(weights[clique] for clique in allowed))
        chosen = allowed[run.choose(scores, epsilon, top)]
        run.measure(chosen, sigma)
        run.fit()
        moved = np.abs(run.answers([chosen])[chosen] - before[chosen]).sum()
        if not stated and moved <= bias * cells[chosen]:
            sigma, epsilon = sigma / 2, epsilon * 2
    return run.records(len(task.table))


def size(run: Mechanism, clique: Clique) -> float:
    """Return the megabytes of the model with one clique more."""
    cliques = {tuple(one.clique) for one in run.measured} | {clique}
    domain = mbi.Domain(tuple(run.sizes), tuple(run.sizes.values()))
    return mbi.junction_tree.hypothetical_model_size(domain, list(cliques))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    task = asked()
    task.write(mst(task) if task.method == "mst" else aim(task))
