"""Simulation 1 of "Comparative study of differentially private data synthesis methods" (2020).

    python benchmarks/papers/simulation1.py [--repeats 3000]

One binary column: n of 40, 100, 1000 records, a proportion pi of .10, .15, .25 or .50 (the text has
.10, the supplement's tables .15; both are run), nine epsilons from e^-4 to e^4, 5 sets, each with a
fifth of epsilon. Bias, RMSE, coverage and width of the 95 % interval for pi, as in Figure 2, and
the proportion of repeats in which the sets hold both levels, as in the supplement's Table 1;
repeats that do not are left out, as in the paper.

n is public and one record is replaced. Every repeat is a release by the library, in memory
(`trial_plan`, `carry_out`, `sample`), with exact discrete noise, which takes no seed:

- `MODIPS`: preset `modips` with the paper's prior (`alpha` 1/3; the default is 1/2). Noise on one
  count, moved into [0, n]; a proportion from Beta(1/3 + ones, 1/3 + zeros), and n records by it.
- `Laplace`: preset `laplace-sanitizer`. The noisy number of ones itself.
- `MD`: preset `multinomial-dirichlet`, with a = n/(e^(epsilon/5) - 1) for each of five sets (the
  paper's n/(e^epsilon - 1) is private for one).
- `BB-MR`: preset `beta-binomial`, one set, which is the draw itself.
- `MS`: as MODIPS without noise. `Original`: the file itself. Both are not private.

`--repeats` is the number of releases for each figure known from elsewhere (6 ms each). All cells,
tables and pictures: `python -m benchmarks.papers.figures run simulation-1`.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from numpy.typing import NDArray

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.intervals import degrees_of_sum, interval
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.plan.procedure import carry_out, sample

Floats = NDArray[np.float64]

SIZES = (40, 100, 1000)
PROPORTIONS = (0.10, 0.15, 0.25, 0.50)
SETS = 5
REPEATS = 3000
KNOWN_REPEATS = 5000
"""Repeats behind the known figures and the paper's."""
PRIOR = 1 / 3
COLUMN = Domain(("x",), (2,))


Simulate = Callable[[NDArray[np.int64], int, float], Floats]
"""Takes numbers of ones, n and epsilon; returns proportions, shape (sets, repeats)."""


def released(preset: str, sets: int, **options: object) -> Simulate:
    """Return the proportions in the sets of releases by a preset, shape (sets, repeats).

    Args:
        preset: Name of the preset.
        sets: Number of sets, each with its part of epsilon.
        options: Options of the method.
    """

    def simulated(ones: NDArray[np.int64], n: int, epsilon: float) -> Floats:
        plan = trial_plan(
            COLUMN,
            preset,
            Fraction(epsilon),
            neighbours="replace-one",
            synthesize=options,
            sets=sets,
            mode="split" if sets > 1 else "shared",
            noise="laplace",
        )
        found = np.empty((sets, ones.size))
        for seed, number in enumerate(ones):
            # Noise takes no seed, but the records of a set do: every release has its own.
            own = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, seed=seed))
            made = carry_out(own, MemoryCounter(file_of(n, int(number))))
            for one in range(sets):
                found[one, seed] = sample(own, made.models, one + 1).codes.mean()
        return found

    return simulated


def file_of(n: int, ones: int) -> Dataset:
    """Return the file of n records with so many ones."""
    return Dataset(COLUMN, (np.arange(n) < ones).astype(np.uint16)[None, :])


def not_private(ones: NDArray[np.int64], n: int, epsilon: float) -> Floats:  # noqa: ARG001
    """Return the proportions of multiple synthesis without noise, shape (sets, repeats)."""
    rng = np.random.default_rng(ones)
    each = np.broadcast_to(ones, (SETS, ones.size))
    return rng.binomial(n, rng.beta(PRIOR + each, PRIOR + n - each)) / n


def original(ones: NDArray[np.int64], n: int, epsilon: float) -> Floats:  # noqa: ARG001
    """Return the file's proportions, shape (1, repeats)."""
    return ones[None, :] / n


METHODS: Mapping[str, Simulate] = {
    "MODIPS": released("modips", SETS, alpha=PRIOR),
    "Laplace": released("laplace-sanitizer", SETS),
    "MD": released("multinomial-dirichlet", SETS),
    "BB-MR": released("beta-binomial", 1),
    "MS": not_private,
    "Original": original,
}


@dataclass(frozen=True)
class Result:
    """What a method gives in one cell of the simulation.

    Attributes:
        bias: Mean of estimate minus pi.
        rmse: Root of the mean squared difference.
        coverage: Part of the intervals that hold pi.
        width: Mean width of the intervals.
        usable: Part of the repeats whose sets hold both levels; the others are left out above.
    """

    bias: float
    rmse: float
    coverage: float
    width: float
    usable: float


def judge(proportions: Floats, n: int, pi: float) -> Result:
    """Combine the sets of each repeat (eqns 9-11) and judge all repeats.

    Args:
        proportions: Of each set, shape (sets, repeats).
        n: Records of a set.
        pi: True proportion.
    """
    sets = len(proportions)
    estimate = proportions.mean(axis=0)
    usable = (estimate > 0) & (estimate < 1)
    proportions, estimate = proportions[:, usable], estimate[usable]
    within = (proportions * (1 - proportions) / n).mean(axis=0)
    if sets > 1:
        inflated = proportions.var(axis=0, ddof=1) / sets
        freedom = degrees_of_sum(within, inflated, sets, np.inf)
        # Student's t of a hundred thousand degrees is the normal distribution to five digits.
        freedom = np.where(freedom > 1e5, np.inf, freedom)
    else:
        inflated, freedom = np.zeros_like(within), np.full(within.shape, np.inf)
    low, high = interval(estimate, within + inflated, freedom)
    return Result(
        bias=float(estimate.mean() - pi),
        rmse=float(np.sqrt(((estimate - pi) ** 2).mean())),
        coverage=float(((low <= pi) & (pi <= high)).mean()),
        width=float((high - low).mean()),
        usable=float(usable.mean()),
    )


def simulate(method: str, n: int, pi: float, epsilon: float, repeats: int) -> Result:
    """Return one cell of the simulation; its files are the same for all methods."""
    rng = np.random.default_rng([n, round(100 * pi), round(1e6 * epsilon)])
    ones = rng.binomial(n, pi, size=repeats)
    return judge(METHODS[method](ones, n, epsilon), n, pi)


Cell = tuple[str, int, float, int]


def run(wanted: Sequence[Cell], repeats: int) -> dict[Cell, Result]:
    """Return the results of some cells."""
    return {
        (method, n, pi, log): simulate(method, n, pi, math.exp(log), repeats)
        for method, n, pi, log in wanted
    }


KNOWN: Mapping[Cell, tuple[float, float, float, float]] = {
    ("MODIPS", 100, 0.25, 0): (0.002, 0.059, 0.945, 0.246),
    ("Laplace", 100, 0.25, 0): (0.000, 0.053, 0.943, 0.214),
    ("MD", 100, 0.25, 0): (0.226, 0.227, 0.000, 0.218),
    ("BB-MR", 100, 0.25, 0): (0.167, 0.175, 0.077, 0.192),
    ("MODIPS", 1000, 0.10, 0): (0.000, 0.0115, 0.948, 0.0473),
    ("Laplace", 1000, 0.10, 0): (0.000, 0.0099, 0.950, 0.0393),
}
"""Bias, RMSE, coverage and width of another implementation of the same simulation."""

TABLE_1: Mapping[tuple[int, float], tuple[float, float, float]] = {
    (40, 0.15): (0.9532, 0.9852, 0.9998),
    (100, 0.15): (0.9684, 0.9954, 1.0000),
    (1000, 0.15): (0.9972, 1.0000, 1.0000),
    (40, 0.25): (0.9566, 0.9900, 1.0000),
    (100, 0.25): (0.9708, 0.9984, 1.0000),
    (1000, 0.25): (0.9992, 1.0000, 1.0000),
    (40, 0.50): (0.9574, 0.9952, 1.0000),
    (100, 0.50): (0.9754, 0.9998, 1.0000),
    (1000, 0.50): (1.0000, 1.0000, 1.0000),
}
"""The supplement's Table 1: usable repeats of the Laplace sanitizer at e^-4, e^-2 and 1."""


def print_known(found: Mapping[Cell, Result]) -> None:
    """Print what is known beside ours."""
    print("\n| method | n | pi | epsilon | known: bias / RMSE / coverage / width | here |")
    print("|---|---|---|---|---|---|")
    for (method, n, pi, log), known in KNOWN.items():
        expected = " / ".join(f"{value:g}" for value in known)
        here = _shown(found[method, n, pi, log])
        print(f"| {method} | {n} | {pi:.2f} | {math.exp(log):g} | {expected} | {here} |")


def _shown(result: Result) -> str:
    bias = round(result.bias, 4) + 0.0  # no -0
    return f"{bias:.4f} / {result.rmse:.4f} / {result.coverage:.3f} / {result.width:.4f}"


def main() -> None:
    """Print what is known beside ours."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=REPEATS, help="of each known figure")
    arguments = parser.parse_args()
    print(f"python {platform.python_version()}, numpy {np.__version__}")
    print_known(run(list(KNOWN), arguments.repeats))
    print(f"\n{arguments.repeats:,} repeats: {time.process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
