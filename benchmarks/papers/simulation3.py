"""Simulation 3 of the comparative study (Bowen & Liu 2020, section 4.3.1): 24 cells, two numbers.

    PYTHONPATH=. python -m benchmarks.papers.figures run simulation-3

Three categories (2, 3 and 4 levels) and two numbers that are normal in each of the 24 cells, with
its own means and one covariance (variances 1, correlation .5): the general location model, with the
truth of the supplement's Table 3. n = 1000; numbers are within 4 of their cell's mean, and these
bounds are public, as the paper has it. So nothing depends on where the means are, and numbers are
taken about them.

`published` is MODIPS as published, but for the scale of the inverse Wishart draw (sums of squares,
not S) and the variance of a correlation, (1 - r^2)^2/(n - 2): noise of scale 8/n_k on a cell's
mean, which no guarantee covers, since n_k is private. The library's `modips` measures sums about
the middle, of sensitivity 4 (add-remove), divides them by noisy counts, and measures products about
the cells' means, of sensitivity 64. Both divide epsilon/5 by six. "NP-DIPS" has half of epsilon/5
for the counts of cells and half for a two-way histogram in each, its bins by Scott's rule from the
public expected counts: 4 x 4 to 7 x 7. Noise in this file is continuous and seeded and protects
nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.comparative import SETS

N = 1000
REACH = 4.0
RHO = 0.5
SIZES = (2, 3, 4)
MEANS = (
    (1.371, 0.363, 0.404, 1.512, 2.018, 1.305, -1.389, -0.133, -0.284, -2.440, -0.307, -0.172,
     1.895, -0.257, 0.460, 0.455, 1.035, 0.505, -0.784, -2.414, 0.206, 0.758, -1.368, -0.811),
    (-0.565, 0.633, -0.106, -0.095, -0.063, 2.287, -0.279, 0.636, -2.656, 1.320, -1.781, 1.215,
     -0.430, -1.763, -0.640, 0.705, -0.609, -1.717, -0.851, 0.036, -0.361, -0.727, 0.433, 1.444),
)  # fmt: skip
"""Supplement, Table 3: the true means of both numbers; no result depends on them."""
SHARES = np.array([
    41, 76, 24, 62, 45, 41, 38, 7, 64, 64, 31, 48, 53, 7, 21, 65, 70, 12, 24, 28, 48, 11, 58, 62,
]) / 1000  # fmt: skip
"""Supplement, Table 3: the true proportions."""
CELLS = SHARES.size
ALPHA = 0.5
PARTS = 6
"""Statistics that share the budget: counts, sums of two numbers, squares of two, products."""

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Samples:
    """What analyses need of many samples of n records, each with two numbers and a cell.

    Attributes:
        counts: Records by cell, shape (samples, cells).
        means: Of both numbers by cell, shape (samples, cells, 2); not finite in empty cells.
        within: Sums of squares and products about them (11, 22, 12), shape (samples, 3).
        fourth: Mean fourth power of deviations from them, shape (samples, 2).
    """

    counts: Counts
    means: Floats
    within: Floats
    fourth: Floats


def summary(counts: Counts, numbers: Floats) -> Samples:
    """Return the summary of samples.

    Args:
        counts: Records by cell, shape (samples, cells), each row of the same total.
        numbers: Cell after cell, shape (records of all samples, 2).
    """
    samples = len(counts)
    key = np.repeat(np.arange(counts.size), counts.ravel())
    sums = np.column_stack([np.bincount(key, part, counts.size) for part in numbers.T])
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / counts.reshape(-1, 1)
    away = (numbers - means[key]).reshape(samples, -1, 2)
    squares = away**2
    within = np.column_stack([squares.sum(axis=1), (away[..., 0] * away[..., 1]).sum(axis=1)])
    return Samples(
        counts, means.reshape(samples, CELLS, 2), within, np.asarray((squares**2).mean(axis=1))
    )


def multinomial_cells(counts: Counts) -> Counts:
    """Return the cell of every record, cell after cell, sample after sample."""
    return np.repeat(np.tile(np.arange(CELLS), len(counts)), counts.ravel())


def data(repeats: int, rng: np.random.Generator) -> tuple[Counts, Floats]:
    """Return confidential samples: counts by cell, and numbers cell after cell."""
    counts = rng.multinomial(N, SHARES, size=repeats)
    error = rng.standard_normal((repeats * N, 2))
    error[:, 1] = RHO * error[:, 0] + np.sqrt(1 - RHO**2) * error[:, 1]
    return counts, np.clip(error, -REACH, REACH, out=error)


def glom_sets(
    counts: Floats, present: Floats, means: Floats, covariance: Floats, rng: np.random.Generator
) -> Samples:
    """Return sets by draws from the posterior of the general location model.

    Args:
        counts: Noisy, shape (sets, cells), not negative.
        present: By which a cell's mean is uncertain, shape (sets, cells), positive.
        means: Noisy, shape (sets, cells, 2).
        covariance: Noisy (11, 22, 12), shape (sets, 3).
        rng: For the draws.
    """
    sets = len(counts)
    variance = np.clip(covariance[:, :2], 1e-9, REACH**2)
    deviation = np.sqrt(variance)
    scaled = covariance[:, 2] / deviation.prod(axis=1)
    correlation = np.clip(scaled, -1 + 1e-6, 1 - 1e-6)
    root = deviation * np.sqrt(N)
    # A draw B'B of the inverse Wishart distribution, by Bartlett's decomposition.
    freedom = np.maximum(N - (counts >= 1).sum(axis=1) + 1 - 2, 2.0)
    first, second = np.sqrt(rng.chisquare(freedom)), np.sqrt(rng.chisquare(freedom - 1))
    below = rng.standard_normal(sets)
    lower = root[:, 1] * correlation
    upper = root[:, 1] * np.sqrt(1 - correlation**2)
    matrix = np.empty((sets, 2, 2))
    matrix[:, 0, 0], matrix[:, 0, 1] = root[:, 0] / first, lower / first
    matrix[:, 1, 0] = -below * root[:, 0] / (first * second)
    matrix[:, 1, 1] = -below * lower / (first * second) + upper / second
    centre = np.clip(means, -REACH, REACH)
    centre = centre + (rng.standard_normal(means.shape) @ matrix) / np.sqrt(present)[..., None]
    shares = rng.standard_gamma(counts + ALPHA)
    drawn = rng.multinomial(N, shares / shares.sum(axis=1, keepdims=True))
    numbers = (rng.standard_normal((sets, N, 2)) @ matrix).reshape(-1, 2)
    numbers += np.repeat(centre.reshape(-1, 2), drawn.ravel(), axis=0)
    return summary(drawn, np.clip(numbers, -REACH, REACH, out=numbers))


def published(counts: Counts, numbers: Floats, epsilon: float, rng: np.random.Generator) -> Samples:
    """Return m sets of every sample by MODIPS as published."""
    exact, each = summary(counts, numbers), epsilon / SETS / PARTS
    known = np.repeat(np.maximum(exact.counts, 1), SETS, axis=0).astype(np.float64)
    noisy = np.repeat(exact.counts, SETS, axis=0) + rng.laplace(0, 1 / each, known.shape)
    means = np.repeat(np.nan_to_num(exact.means), SETS, axis=0)
    means += rng.laplace(0, 1, means.shape) * (2 * REACH / each / known)[..., None]
    scale = (2 * REACH) ** 2 * (N - 1) / (N * (N - CELLS)) / each
    covariance = np.repeat(exact.within, SETS, axis=0) / (N - CELLS)
    covariance += rng.laplace(0, scale, covariance.shape)
    return glom_sets(np.clip(noisy, 0, N), known, means, covariance * (1 - CELLS / N), rng)


def multiple(counts: Counts, numbers: Floats, _: float, rng: np.random.Generator) -> Samples:
    """Return m sets of every sample without any privacy."""
    exact = summary(counts, numbers)
    known = np.repeat(exact.counts, SETS, axis=0).astype(np.float64)
    means = np.repeat(np.nan_to_num(exact.means), SETS, axis=0)
    covariance = np.repeat(exact.within, SETS, axis=0) / N
    return glom_sets(known, np.maximum(known, 1), means, covariance, rng)


BINS = np.maximum(np.rint(2 * REACH * (N * SHARES) ** 0.25 / 3.5), 1).astype(np.int64)
"""Of each axis, by cell: Scott's rule in two dimensions, a width of 3.5 n_k^(-1/4)."""


def histograms(
    counts: Counts, numbers: Floats, epsilon: float, rng: np.random.Generator
) -> Samples:
    """Return m sets of every sample by noisy counts of cells and of bins within cells."""
    repeats, each, most = len(counts), epsilon / SETS / 2, int(BINS.max()) ** 2
    cell = multinomial_cells(counts)
    side = BINS[cell][:, None]
    place = np.minimum(((numbers + REACH) * side / (2 * REACH)).astype(np.int64), side - 1)
    sample = np.repeat(np.arange(repeats), N)
    key = (sample * CELLS + cell) * most + place[:, 0] * side[:, 0] + place[:, 1]
    exact = np.bincount(key, minlength=repeats * CELLS * most).reshape(repeats, CELLS, most)
    noisy = np.repeat(exact, SETS, axis=0) + rng.laplace(0, 1 / each, (repeats * SETS, CELLS, most))
    weights = np.where(np.arange(most) < (BINS**2)[:, None], np.maximum(noisy, 0.0), 0.0)
    table = np.repeat(counts, SETS, axis=0) + rng.laplace(0, 1 / each, (repeats * SETS, CELLS))
    table = np.maximum(table, 0.0)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-9)
    ends = np.rint(np.cumsum(shares, axis=1) * N).astype(np.int64)
    drawn = np.diff(ends, axis=1, prepend=0)
    total = weights.sum(axis=2, keepdims=True)
    even = np.where(np.arange(most) < (BINS**2)[:, None], 1.0 / (BINS**2)[:, None], 0.0)
    weights = np.where(total > 0, weights / np.maximum(total, 1e-9), even)
    inside = rng.multinomial(drawn, weights)
    bins = np.repeat(np.tile(np.arange(most), repeats * SETS * CELLS), inside.ravel())
    side = BINS[multinomial_cells(drawn)]
    corner = np.column_stack(np.divmod(bins, side)) + rng.random((bins.size, 2))
    return summary(drawn, corner * (2 * REACH) / side[:, None] - REACH)


def unchanged(counts: Counts, numbers: Floats, _: float, __: np.random.Generator) -> Samples:
    """Return the samples."""
    return summary(counts, numbers)


Way = Callable[[Counts, Floats, float, np.random.Generator], Samples]
WAYS: Mapping[str, Way] = {
    "MODIPS, as published": published,
    "NP-DIPS": histograms,
    "MS, no privacy": multiple,
    "original": unchanged,
}
MARGINS = ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))
"""Axis and level of the marginal proportions that are estimated."""


def analyses(samples: Samples) -> Mapping[str, tuple[Floats, Floats, Floats]]:
    """Return estimates, their estimated variances, and truths; shapes (samples, p), and (p,)."""
    counts = samples.counts
    degrees = N - (counts > 0).sum(axis=1)
    cells = np.indices(SIZES).reshape(3, -1)
    chosen = np.array([cells[axis] == level for axis, level in MARGINS], dtype=np.float64).T
    margins = counts @ chosen / N
    found = {"proportions": (margins, margins * (1 - margins) / N, SHARES @ chosen)}
    variance = samples.within[:, :2] / degrees[:, None]
    for number in (0, 1):
        with np.errstate(divide="ignore"):
            spread = variance[:, [number]] / counts
        found[f"means {number + 1}"] = (samples.means[..., number], spread, np.zeros(CELLS))
    population = samples.within[:, :2] / N
    kurtosis = samples.fourth / np.maximum(population**2, 1e-300) - 3
    spread = variance**2 * np.maximum(2 / (N - 1) + kurtosis / N, 0.0)
    for number in (0, 1):
        part = slice(number, number + 1)
        found[f"variance {number + 1}"] = (variance[:, part], spread[:, part], np.ones(1))
    product = np.sqrt(np.maximum(samples.within[:, :2].prod(axis=1), 1e-300))
    correlation = (samples.within[:, 2] / product)[:, None]
    found["correlation"] = (correlation, (1 - correlation**2) ** 2 / (N - 2), np.array([RHO]))
    return found
