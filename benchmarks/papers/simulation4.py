"""Simulation 4 of the comparative study (Bowen & Liu 2020, section 4.3.2): SLOMAG, n = 1000.

    PYTHONPATH=. python benchmarks/papers/simulation4.py --repeats 100 --out figures

Two normal numbers (correlation .5, cut at 4 standard deviations), then a binary W1 by a logistic
regression on them, a binary W2 on these, and W3 of three levels by a multinomial one on all. m = 5
sets, each with epsilon/5; n is known, neighbours differ by a record more or less. Coefficients are
estimated by Firth's logistic regression (of W3: each other level against the first).

Unlike simulations 1 to 3 these are real releases by `dp_core.methods.parametric`, with exact noise,
so repeats are fewer:

- "SLOMAG": the method's defaults. One noisy gradient for each regression.
- "SLOMAG, 2 steps": a second gradient, at the first fit, with half of the budget each.
- "SLOMAG, functional": the functional mechanism, touching the loss at the noisy proportions.
- "SLOMAG, Taylor at 0": the same as Zhang et al. (2012) published it, at coefficients 0.
- "SLOMAG, output": output perturbation, penalty of 1/20 for each record.
- "SLOMAG, output .5": the same with lambda .5 for predictors of norm 1, the paper's choice. (The
  paper adds the noise to a draw from the posterior, which has no guarantee.)
- "GLOM": `modips`, the wrong model here ("MODIPS-Wrong").
- "NP-DIPS": Laplace sanitizer of W1 x W2 x W3 x a histogram of 13 x 13 bins (Scott's rule).
- "MS, no privacy": SLOMAG where noise is nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.common_inference import logistic
from benchmarks.papers.comparative import (
    COLOURS,
    LOGS,
    MARKERS,
    SETS,
    Score,
    combine,
    draw,
    main,
    print_curves,
)
from benchmarks.papers.comparative import score as score_of
from benchmarks.papers.single_sets import single_set
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.methods.parametric.modips import Modips
from dp_core.methods.parametric.slomag import Slomag
from dp_core.methods.parametric.synthesizer import Synthesizer
from dp_core.schema.variables import Variable, Variables
from dp_core.tables.dataset import Dataset

N = 1000
POSITIONS = 4096
REACH = 4.0
BINS = 13
"""Of each number: Scott's rule in two dimensions, a width of 3.5 n^(-1/4)."""
JOBS = 2
NOTHING = 1e9
"""An epsilon at which noise is nothing."""

NUMBER = {"size": POSITIONS, "positions": POSITIONS, "low": -REACH, "high": REACH}
VARIABLES = Variables(
    (
        Variable(name="z1", **NUMBER),
        Variable(name="z2", **NUMBER),
        Variable(name="w1", size=2),
        Variable(name="w2", size=2),
        Variable(name="w3", size=3),
    )
)

BETA = {
    "beta 1": (-1.0, 0.5, -1.0),
    "beta 2": (-2.0, -1.0, 1.5, 0.5),
    "beta 3": (0.0, -2.5, 1.0, 0.5, 0.4),
    "beta 4": (0.1, -1.0, -0.5, 0.0, 1.5),
}
TRUTHS: Mapping[str, tuple[float, ...]] = {
    "mu": (0.0, 0.0),
    "sigma squared": (1.0, 1.0),
    "rho": (0.5,),
    **BETA,
}

Floats = NDArray[np.float64]
Estimates = Mapping[str, tuple[Floats, Floats]]
"""By quantity estimates and their variances."""

METHODS: Mapping[str, Synthesizer] = {
    "SLOMAG": Slomag(),
    "SLOMAG, 2 steps": Slomag(steps=2),
    "SLOMAG, functional": Slomag(minimiser="functional"),
    "SLOMAG, Taylor at 0": Slomag(minimiser="functional", expansion="zero"),
    "SLOMAG, output": Slomag(minimiser="output"),
    "SLOMAG, output .5": Slomag(minimiser="output", ridge=Fraction(2)),
    "GLOM": Modips(),
}
WAYS = ("original", "MS, no privacy", *METHODS, "NP-DIPS")
COLOURS.update(
    {
        "SLOMAG": "#1f77b4",
        "SLOMAG, 2 steps": "#17becf",
        "SLOMAG, functional": "#d62728",
        "SLOMAG, Taylor at 0": "#ff7f0e",
        "SLOMAG, output": "#9467bd",
        "SLOMAG, output .5": "#8c564b",
        "GLOM": "#2ca02c",
    }
)
MARKERS.update(dict(zip(METHODS, "oDvXsP^", strict=True)))


def data(rng: np.random.Generator) -> Dataset:
    """Return a confidential sample."""
    z = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=N)
    while (far := np.abs(z).max(axis=1) > REACH).any():
        z[far] = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=int(far.sum()))
    # Numbers are recorded on the grid, and the levels depend on what is recorded.
    codes = [VARIABLES[axis].position(z[:, axis]) for axis in (0, 1)]
    x = np.column_stack([np.ones(N), *(value(axis, codes[axis]) for axis in (0, 1))])
    for name in ("beta 1", "beta 2"):
        chance = 1 / (1 + np.exp(-x @ np.array(BETA[name])))
        codes.append((rng.random(N) < chance).astype(np.uint16))
        x = np.column_stack([x, codes[-1]])
    odds = np.column_stack([np.ones(N), np.exp(x @ np.array([BETA["beta 3"], BETA["beta 4"]]).T)])
    ends = np.cumsum(odds, axis=1) / odds.sum(axis=1, keepdims=True)
    codes.append((rng.random((N, 1)) > ends[:, :2]).sum(axis=1).astype(np.uint16))
    return Dataset(VARIABLES.domain, np.stack(codes).astype(np.uint16))


def value(axis: int, codes: NDArray[np.uint16]) -> Floats:
    """Return what codes of a number stand for."""
    return VARIABLES[axis].value(codes.astype(np.float64))


def analyses(sample: Dataset) -> Estimates:
    """Return estimates of all quantities from one file, with their variances."""
    z = np.column_stack([value(axis, sample.codes[axis]) for axis in (0, 1)])
    n = len(z)
    away = z - z.mean(axis=0)
    variance = (away**2).sum(axis=0) / (n - 1)
    kurtosis = (away**4).mean(axis=0) / np.maximum((away**2).mean(axis=0) ** 2, 1e-300) - 3
    product = np.sqrt(max(float((away**2).sum(axis=0).prod()), 1e-300))
    r = np.array([(away[:, 0] * away[:, 1]).sum() / product])
    found = {
        "mu": (z.mean(axis=0), variance / n),
        "sigma squared": (variance, variance**2 * np.maximum(2 / (n - 1) + kurtosis / n, 0)),
        "rho": (r, (1 - r**2) ** 2 / (n - 2)),
    }
    w1, w2, w3 = sample.codes[2:]
    x = np.column_stack([np.ones(n), z])
    found["beta 1"] = regression(x, w1)
    found["beta 2"] = regression(np.column_stack([x, w1]), w2)
    x = np.column_stack([x, w1, w2])
    for level in (1, 2):
        chosen = (w3 == 0) | (w3 == level)
        found[f"beta {level + 2}"] = regression(x[chosen], w3[chosen] == level)
    return found


def regression(x: Floats, y: NDArray[np.generic]) -> tuple[Floats, Floats]:
    """Return coefficients and variances; not finite where a class is not there at all."""
    y = np.asarray(y, dtype=np.float64)
    if len(y) < 10 or not 0 < y.sum() < len(y):
        return np.full(x.shape[1], np.nan), np.full(x.shape[1], np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return logistic(x, y, counts=np.ones(len(y)))


def released(
    method: Synthesizer, sample: Dataset, epsilon: float, rng: np.random.Generator
) -> Dataset:
    """Return one set by a real release of its own."""
    return single_set(method, VARIABLES, MemoryCounter(sample), epsilon=epsilon, rows=N, rng=rng)


def histogram(sample: Dataset, epsilon: float, rng: np.random.Generator) -> Dataset:
    """Return one set from noisy counts of all cells, numbers even within their bins."""
    bins = [sample.codes[axis].astype(np.int64) * BINS // POSITIONS for axis in (0, 1)]
    sizes = (BINS, BINS, 2, 2, 3)
    cells = np.ravel_multi_index((*bins, *sample.codes[2:].astype(np.int64)), sizes)
    exact = np.bincount(cells, minlength=int(np.prod(sizes)))
    # An experiment: continuous noise, seeded, which protects nobody.
    noisy = np.maximum(exact + rng.laplace(0, 1 / epsilon, exact.size), 0)
    drawn = np.array(np.unravel_index(rng.choice(noisy.size, N, p=noisy / noisy.sum()), sizes))
    place = (drawn[:2] + rng.random((2, N))) * POSITIONS / BINS
    return Dataset(VARIABLES.domain, np.vstack([place, drawn[2:]]).astype(np.uint16))


def repeat(seed: tuple[int, int]) -> Mapping[tuple[str, int], list[Estimates]]:
    """Return, for each method and epsilon, what each set of one confidential sample says."""
    rng = np.random.default_rng(seed)
    sample = data(rng)
    found: dict[tuple[str, int], list[Estimates]] = {("original", 0): [analyses(sample)]}
    ways: dict[str, Callable[[float], Dataset]] = {
        name: partial(released_with, method, sample, rng=rng) for name, method in METHODS.items()
    }
    ways["NP-DIPS"] = lambda epsilon: histogram(sample, epsilon, rng)
    plain = METHODS["SLOMAG"]
    found["MS, no privacy", 0] = [
        analyses(released(plain, sample, NOTHING, rng)) for _ in range(SETS)
    ]
    for name, way in ways.items():
        for log in LOGS:
            found[name, log] = [analyses(way(float(np.exp(log)) / SETS)) for _ in range(SETS)]
    return found


def released_with(
    method: Synthesizer, sample: Dataset, epsilon: float, *, rng: np.random.Generator
) -> Dataset:
    """Return one set; arguments in the order that `repeat` has them."""
    return released(method, sample, epsilon, rng)


def average(scores: list[Score]) -> Score:
    """Return the mean score of several parameters, with the mean |bias|."""
    return Score(
        float(np.mean([abs(s.bias) for s in scores])),
        float(np.mean([s.rmse for s in scores])),
        float(np.mean([s.coverage for s in scores])),
        float(np.mean([s.width for s in scores])),
        min(s.repeats for s in scores),
    )


def run(repeats: int, seed: int, out: Path | None) -> None:
    """Print the scores, and draw Figures 6 and 7 (coefficients of W2; W3 = 2)."""
    with ProcessPoolExecutor(JOBS) as pool:
        results = list(pool.map(repeat, [(seed, number) for number in range(repeats)]))
    panels: dict[str, dict[str, list[Score]]] = {}
    for quantity, truth in TRUTHS.items():
        own = [panels.setdefault(f"{quantity}, {p}", {}) for p in range(len(truth))]
        for method in WAYS:
            for log in LOGS:
                key = (
                    method,
                    0 if (method, 0) in results[0] and (method, 1) not in results[0] else log,
                )
                sets = [[each[quantity] for each in result[key]] for result in results]
                estimates = np.moveaxis(np.array([[s[0] for s in each] for each in sets]), 1, 2)
                variances = np.moveaxis(np.array([[s[1] for s in each] for each in sets]), 1, 2)
                with np.errstate(invalid="ignore"):
                    at, half = combine(estimates, variances)
                for p, panel in enumerate(own):
                    scores = score_of(at[:, p], half[:, p], truth[p])
                    panel.setdefault(method, []).append(scores)
        together = {
            method: [average([panel[method][at] for panel in own]) for at in range(len(LOGS))]
            for method in WAYS
        }
        print(f"\n{quantity} (mean of |bias|, RMSE, coverage, width over its parameters)\n")
        print_curves(together)
    if out is not None:
        for quantity, name in (
            ("beta 2", "figure6"),
            ("beta 3", "figure7"),
            ("mu", "mu"),
            ("sigma squared", "sigma"),
        ):
            chosen = {head: curves for head, curves in panels.items() if head.startswith(quantity)}
            title = f"Simulation 4, {quantity}, {repeats} repeats"
            draw(chosen, out / f"simulation4-{name}.png", title)


if __name__ == "__main__":
    main(__doc__.splitlines()[0], run, 100)
