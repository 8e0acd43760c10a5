"""How many rounds MWEM should have, and how they should add up (Hardt, Ligett & McSherry 2012).

    python benchmarks/papers/mwem_rounds.py [--data nltcs.csv] [--runs 3]

Section 3.3 of the paper. It prints:

1. The epsilon_0 that each of T rounds may have, by each theorem. Theorem 3.1 (sum of epsilons),
   Theorem 3.2 (Dwork, Rothblum & Vadhan 2010, which the paper uses at a positive delta), and zCDP,
   which the releases here use: a round is a choice of epsilon_0 / 2 by the exponential mechanism,
   (epsilon_0 / 2)^2 / 8, and an answer with Laplace noise of epsilon_0 / 2, (epsilon_0 / 2)^2 / 2.
2. The smallest ratio, over a grid, of the better of Theorem 3.1 and zCDP to Theorem 3.2.
3. Largest and mean error of all parities of one and two columns against the number of rounds: fixed
   numbers, `theory` (T* of the paper) and `adaptive`, at delta 0 and at delta 1e-6. Neighbours
   replace one record and n is public, as in the paper.

Without `--data`: 10,000 generated records of 12 binary columns behind which are two abilities.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
from common import models, plan_of, read_categories, table_of, versions

from benchmarks.auto_parts.draws import dataset, latent
from dp_core.kernel.cost.curves import zcdp_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.reconstruction.multiplicative_weights import MultiplicativeWeights
from dp_core.methods.selection.mwem import Mwem, parities, rounds_of_theory

EPSILONS = (0.1, 1.0)
DELTAS = (Fraction(0), Fraction("1e-6"))
Picks = int | Literal["adaptive", "theory"]


def strong_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    """Return epsilon_0 by Theorem 3.2: epsilon = sqrt(2 T ln(1/delta)) e0 + T e0 (exp(e0) - 1)."""
    low, high = 0.0, epsilon
    for _ in range(200):
        middle = (low + high) / 2
        whole = math.sqrt(2 * rounds * math.log(1 / delta)) * middle
        whole += rounds * middle * math.expm1(middle)
        low, high = (middle, high) if whole <= epsilon else (low, middle)
    return low


def zcdp_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    """Return epsilon_0 by zCDP: T (epsilon_0^2 / 32 + epsilon_0^2 / 8) = rho."""
    rho = float(zcdp_limit(Fraction(repr(epsilon)), Fraction(repr(delta))))
    return math.sqrt(rho / (rounds * 5 / 32))


def compositions() -> None:
    """Print what a round may cost, and the smallest gain over the paper's theorem."""
    print("\nepsilon_0 of a round, epsilon 1, delta 1e-6")
    print("| rounds | Theorem 3.1 | Theorem 3.2 | zCDP |")
    print("|---|---|---|---|")
    for rounds in (1, 10, 30, 100, 1000):
        strong, concentrated = (each(1.0, 1e-6, rounds) for each in (strong_epsilon, zcdp_epsilon))
        print(f"| {rounds} | {1 / rounds:.6f} | {strong:.6f} | {concentrated:.6f} |")
    grid = itertools.product(
        (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0),
        (1e-12, 1e-9, 1e-6, 1e-4, 1e-2),
        (1, 2, 3, 5, 10, 20, 50, 100, 1000, 10000),
    )
    least = min(
        (
            max(epsilon / rounds, zcdp_epsilon(epsilon, delta, rounds))
            / strong_epsilon(epsilon, delta, rounds),
            (epsilon, delta, rounds),
        )
        for epsilon, delta, rounds in grid
    )
    print(
        f"The better of Theorem 3.1 and zCDP allows at least {least[0]:.2f} times the epsilon_0 of"
        f" Theorem 3.2 (least at epsilon, delta, rounds = {least[1]})."
    )


def errors(data: Dataset, exact: np.ndarray, epsilon: float, delta: Fraction, picks: Picks) -> list:
    """Return the largest and the mean error of the parities, as parts of all records."""
    plan = plan_of(
        data.domain,
        Mwem(orders=(1, 2), picks=picks),
        MultiplicativeWeights(),
        epsilon=Fraction(repr(epsilon)),
        delta=delta,
        shares={"select": Fraction(1, 2), "measure": Fraction(1, 2)},
        # The paper's noise, and at a positive delta the currency in which its rounds add up best.
        noise="laplace" if not delta else "gaussian",
        neighbours="replace-one",
    )
    (model,) = models(plan, data)
    asked = parities(data.domain, (1, 2))
    table = model.project(data.domain.columns)
    off = np.abs(_answers(table / table.sum(), asked.cliques, data) - exact)
    return [off.max(), off.mean()]


def _answers(table: np.ndarray, cliques: tuple, data: Dataset) -> np.ndarray:
    """Return the part of the records with an even number of ones, for each clique."""
    places = np.indices(table.shape)
    return np.array(
        [
            table[places[list(data.domain.axes(clique))].sum(axis=0) % 2 == 0].sum()
            for clique in cliques
        ]
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, help="CSV of binary columns")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(versions())
    start = time.process_time()
    compositions()
    if arguments.data:
        data = read_categories(arguments.data)
    else:
        rng = np.random.default_rng(5)
        data = dataset(latent(10_000, rng.uniform(0.1, 0.6, 12), 2, 2.0, rng), binary=True)
    asked = parities(data.domain, (1, 2))
    table = table_of(data)
    exact = _answers(table / table.sum(), asked.cliques, data)
    even = np.abs(exact - 0.5)
    print(f"\n{data.rows} records, {len(data.domain)} columns, {asked.length} parities")
    print(
        f"even table: largest error {even.max():.4f}, mean {even.mean():.4f}; {arguments.runs} runs"
    )
    print("| epsilon | delta | rounds | largest error | mean error | CPU s |")
    print("|---|---|---|---|---|---|")
    for epsilon, delta in itertools.product(EPSILONS, DELTAS):
        for picks in (10, 30, 100, "theory", "adaptive"):
            began = time.process_time()
            found = np.mean(
                [errors(data, exact, epsilon, delta, picks) for _ in range(arguments.runs)], axis=0
            )
            seconds = (time.process_time() - began) / arguments.runs
            name = str(picks)
            if picks == "theory":
                pure = not delta
                budget = (
                    Fraction(repr(epsilon)) if pure else zcdp_limit(Fraction(repr(epsilon)), delta)
                )
                rounds = rounds_of_theory(
                    "pure" if pure else "zcdp",
                    budget / 2,
                    budget / 2,
                    rows=data.rows,
                    cells=data.domain.size(),
                    queries=asked.length,
                )
                name = f"theory ({rounds})"
            print(
                f"| {epsilon:g} | {float(delta):g} | {name} | {found[0]:.4f} | {found[1]:.4f} |"
                f" {seconds:.1f} |",
                flush=True,
            )
    print(f"\n{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
