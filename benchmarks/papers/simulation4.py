"""Simulation 4 of the comparative study (Bowen & Liu 2020, section 4.3.2): SLOMAG, n = 1000.

    PYTHONPATH=. python -m benchmarks.papers.figures run simulation-4

Two normal numbers (correlation .5, cut at 4 standard deviations), then a binary W1 by a logistic
regression on them, a binary W2 on these, and W3 of three levels by a multinomial one on all. m = 5
sets, each with epsilon/5; n is known, neighbours differ by a record more or less. Coefficients are
estimated by Firth's logistic regression (of W3: each other level against the first).

The methods are those of the library, with exact noise:

- "SLOMAG": the method's defaults. One noisy gradient for each regression.
- "SLOMAG, functional": the functional mechanism, touching the loss at the noisy proportions.
- "SLOMAG, Taylor at 0": the same as Zhang et al. (2012) published it, at coefficients 0.
- "SLOMAG, output": output perturbation, penalty of 1/20 for each record. (The paper adds the noise
  to a draw from the posterior, which has no guarantee.)
- "GLOM": `modips`, the wrong model here ("MODIPS-Wrong").
- "NP-DIPS": Laplace sanitizer of W1 x W2 x W3 x a histogram of 13 x 13 bins (Scott's rule), with
  continuous and seeded noise.
- "MS, no privacy": SLOMAG where noise is nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.common_inference import logistic
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.parametric.modips import Modips
from dp_core.methods.parametric.slomag import Slomag
from dp_core.methods.parametric.synthesizer import Synthesizer
from dp_core.schema.variables import Variable, Variables

N = 1000
POSITIONS = 4096
REACH = 4.0
BINS = 13
"""Of each number: Scott's rule in two dimensions, a width of 3.5 n^(-1/4)."""
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
    "SLOMAG, functional": Slomag(minimiser="functional"),
    "SLOMAG, Taylor at 0": Slomag(minimiser="functional-zero"),
    "SLOMAG, output": Slomag(minimiser="output"),
    "GLOM": Modips(),
}


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
