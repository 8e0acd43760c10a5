"""Charest (2011), How can we analyze differentially-private synthetic datasets?

    PYTHONPATH=. python benchmarks/papers/charest.py --repeats 400

Binary records, of which a proportion pi are 1. The paper's claim, as Bowen & Liu (2020) report it:
combining rules, which treat the sets as samples, are biased; a model that includes the mechanism
reduces the bias "as long as epsilon is not too small". Every repeat is a release by the library, in
memory, with exact noise; n is public, and neighbours differ by one replaced record.

- "AV": the Beta-binomial synthesizer of Abowd & Vilhuber (2008), which the paper analyses: preset
  `multinomial-dirichlet`, 5 sets of epsilon/5.
- "MR": that of McClure & Reiter (2012): preset `beta-binomial`, one set.
- "rule": the combining rule for such sets (eqns 9 to 11 of Bowen & Liu), with a normal interval.
- "model": the posterior that includes the mechanism (`dp_core.inference.private_draws`), with a
  uniform prior.
- "Laplace": `laplace-sanitizer`, 5 sets, by the rule, for comparison.

For a fixed pi, the coverage of a credible interval need not equal its level; on average over pi
from the prior it does. Part `prior` therefore draws pi from the uniform distribution.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from common import versions
from numpy.typing import NDArray
from simulation1 import COLUMN, Result, file_of, judge

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.private_draws import GroupDraws, group_posterior
from dp_core.kernel.extensions.cell_draws import PolyaUrnEvent
from dp_core.kernel.extensions.column_draws import PerturbedDrawsEvent
from dp_core.plan.procedure import carry_out, sample

Floats = NDArray[np.float64]

METHODS = {"AV": ("multinomial-dirichlet", 5), "MR": ("beta-binomial", 1)}
PEER = ("laplace-sanitizer", 5)
LOGS = (-2, 0, 1, 2, 3, 4)
CASES = ((100, 0.10), (100, 0.25), (1000, 0.10), (1000, 0.25))


def released(
    preset: str, sets: int, n: int, ones: int, epsilon: float
) -> tuple[Floats, list[GroupDraws]]:
    """Return the proportion in each set, and the draws with their mechanism."""
    plan = trial_plan(
        COLUMN,
        preset,
        Fraction(epsilon),
        neighbours="replace-one",
        sets=sets,
        mode="split" if sets > 1 else "shared",
        noise="laplace",
    )
    outcome = carry_out(plan, MemoryCounter(file_of(n, ones)))
    found = [int(sample(plan, outcome.models, one).codes.sum()) for one in range(1, sets + 1)]
    draws = []
    for grant, inside in zip(outcome.session.charges, found, strict=False):
        event = grant.step.event
        if isinstance(event, PerturbedDrawsEvent | PolyaUrnEvent):
            kind = "urn" if isinstance(event, PolyaUrnEvent) else "independent"
            virtual = float(event.scale)
            draws.append(GroupDraws(kind, n, inside, virtual, virtual))
    return np.array(found) / n, draws


def model(draws: Sequence[GroupDraws], n: int) -> tuple[float, float, float]:
    """Return the posterior mean of the proportion and its 95 % interval."""
    return group_posterior(draws, np.array([float(n)]), np.ones(1)).in_population(0.95)


def scored(estimates: Floats, truth: Floats) -> Result:
    """Return bias, RMSE, coverage and width of estimates with their intervals, shape (3, n)."""
    at, low, high = estimates
    return Result(
        bias=float((at - truth).mean()),
        rmse=float(np.sqrt(((at - truth) ** 2).mean())),
        coverage=float(((low <= truth) & (truth <= high)).mean()),
        width=float((high - low).mean()),
        usable=1.0,
    )


def text(result: Result) -> str:
    """Return bias / RMSE / coverage / width."""
    return f"{result.bias:6.3f} /{result.rmse:5.3f} /{result.coverage:5.3f} /{result.width:5.3f}"


def cases(repeats: int) -> None:
    """Print the scores for given proportions."""
    heads = [f"{name} {way}" for name in METHODS for way in ("rule", "model")]
    print(f"{'n':>5} {'pi':>5} {'eps':>6}  " + "  ".join(f"{h:>29}" for h in (*heads, "Laplace")))
    for n, pi in CASES:
        for log in LOGS:
            epsilon, rng = math.exp(log), np.random.default_rng([n, int(100 * pi), log + 9])
            ones = rng.binomial(n, pi, repeats)
            line = []
            for preset, sets in METHODS.values():
                made = [released(preset, sets, n, int(each), epsilon) for each in ones]
                line.append(text(judge(np.array([each for each, _ in made]).T, n, pi)))
                found = np.array([model(draws, n) for _, draws in made]).T
                line.append(text(scored(found, np.full(repeats, pi))))
            peer = [released(*PEER, n, int(each), epsilon)[0] for each in ones]
            line.append(text(judge(np.array(peer).T, n, pi)))
            print(f"{n:5} {pi:5.2f} {epsilon:6.2f}  " + "  ".join(line), flush=True)


def over_the_prior(repeats: int) -> None:
    """Print the scores of the model for proportions from its prior."""
    for log in LOGS:
        epsilon, rng, line = math.exp(log), np.random.default_rng([7, log + 9]), []
        truth = rng.random(repeats)
        ones = rng.binomial(100, truth)
        for preset, sets in METHODS.values():
            made = [released(preset, sets, 100, int(each), epsilon) for each in ones]
            found = np.array([model(draws, 100) for _, draws in made]).T
            line.append(text(scored(found, truth)))
        print(f"  100   any {epsilon:6.2f}  AV model {line[0]}  MR model {line[1]}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--part", nargs="+", default=("cases", "prior"), choices=("cases", "prior"))
    asked = parser.parse_args()
    print(versions())
    print("bias / RMSE / coverage / width of the 95 % interval for pi")
    if "cases" in asked.part:
        cases(asked.repeats)
    if "prior" in asked.part:
        over_the_prior(asked.repeats)


if __name__ == "__main__":
    main()
