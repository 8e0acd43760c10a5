"""Simulation 2 of the comparative study (Bowen & Liu 2020, section 4.2): one normal number.

    python benchmarks/papers/simulation2.py --repeats 5000 --out figures

Numbers from N(0, sigma^2), moved into [-3 sigma, 4 sigma] (or [-4 sigma, 4 sigma], as in the
supplement), n = 20, 100 and 1000, epsilon e^-4 to e^4. Everything scales with sigma, so it is 1. As
the paper has it, one record is replaced and n is public, but a histogram's sensitivity is 1. The
number of its bins follows Scott's rule with the public sigma: 6, 10 and 20 (8 sigma: 7, 11 and 23),
where the paper's, from the sample's deviation, are 7, 10 and 21 in the median.

"MODIPS" is as published: noise on the mean and on the variance, each with half of epsilon/5, at
sensitivities R/n and R^2/n. "MODIPS, corrected" is what `dp_core.methods.parametric.modips` does:
sums and squares about the middle of the range, at R and R^2/4, replace-one, n public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.comparative import (
    LOGS,
    SETS,
    Curves,
    Score,
    blocks,
    combine,
    draw,
    main,
    moments,
    print_curves,
)
from benchmarks.papers.comparative import score as score_of

SIZES = (20, 100, 1000)
METHODS = (
    "original",
    "MS, no privacy",
    "MODIPS",
    "MODIPS, corrected",
    "perturbed histogram",
    "smoothed histogram",
)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Setting:
    """One scenario.

    Attributes:
        size: n, public.
        low, high: Public bounds.
        bins: Of the histograms, public; 0 for Scott's rule: a width of 3.5 n^(-1/3).
    """

    size: int
    low: float = -3.0
    high: float = 4.0
    bins: int = 0

    @property
    def width(self) -> float:
        """R."""
        return self.high - self.low

    def __post_init__(self) -> None:
        if not self.bins:
            bins = math.ceil(self.width * self.size ** (1 / 3) / 3.5 - 1e-9)
            object.__setattr__(self, "bins", bins)


def normal_sets(
    mean: Floats, variance: Floats, setting: Setting, rng: np.random.Generator
) -> Floats:
    """Return sets by posterior draws of mean and variance: the prior is 1/sigma^2.

    Args:
        mean: Of each set, any shape.
        variance: Of each set, of the same shape.
        setting: Of the simulation.
        rng: For the draws.

    Returns:
        Records, one more axis of `size`; those out of bounds are moved to them.
    """
    n = setting.size
    mean = np.clip(mean, setting.low, setting.high)
    variance = np.clip(variance, 0.0, setting.width**2 / 4 * n / (n - 1))
    drawn = (n - 1) * variance / rng.chisquare(n - 1, variance.shape)
    centre = mean + np.sqrt(drawn / n) * rng.standard_normal(mean.shape)
    found = rng.standard_normal((*mean.shape, n))
    found *= np.sqrt(drawn)[..., None]
    found += centre[..., None]
    return np.clip(found, setting.low, setting.high, out=found)


def published(data: Floats, epsilon: float, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return m sets by MODIPS as published, shape (repeats, m, n)."""
    shape, each = (len(data), SETS), epsilon / SETS / 2
    noisy = data.mean(1)[:, None] + rng.laplace(0, setting.width / data.shape[1] / each, shape)
    scale = setting.width**2 / data.shape[1] / each
    variance = data.var(1, ddof=1)[:, None] + rng.laplace(0, scale, shape)
    return normal_sets(noisy, variance, setting, rng)


def corrected(data: Floats, epsilon: float, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return m sets as the library makes them where n is public, shape (repeats, m, n)."""
    shape, each, n = (len(data), SETS), epsilon / SETS / 2, data.shape[1]
    middle = (setting.low + setting.high) / 2
    about, reach = data - middle, setting.width / 2
    # Sum of c in [-r, r] and of 2 c^2 - r^2 in [-r^2, r^2]; a record is replaced.
    spread = 2 * reach / each
    mean = (about.sum(1)[:, None] + rng.laplace(0, spread, shape)) / n
    squares = (2 * about**2 - reach**2).sum(1)[:, None] + rng.laplace(0, reach * spread, shape)
    mean = np.clip(mean, -reach, reach)
    square = np.maximum(mean**2 - 2 * (spread / n) ** 2, 0.0)
    variance = (squares / n + reach**2) / 2 - square
    return normal_sets(mean + middle, variance * n / (n - 1), setting, rng)


def histogram(data: Floats, setting: Setting) -> Floats:
    """Return counts of even bins, shape (repeats, bins)."""
    place = ((data - setting.low) * (setting.bins / setting.width)).astype(np.int64)
    place = np.minimum(place, setting.bins - 1) + np.arange(len(data))[:, None] * setting.bins
    counts = np.bincount(place.ravel(), minlength=len(data) * setting.bins)
    return counts.reshape(len(data), setting.bins).astype(np.float64)


def from_bins(weights: Floats, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return records drawn by the weights of bins (last axis), evenly within each."""
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, total, out=np.full_like(weights, 1 / setting.bins), where=total > 0)
    drawn = rng.multinomial(setting.size, shares)
    bins = np.broadcast_to(np.arange(setting.bins), drawn.shape)
    found = np.repeat(bins.ravel(), drawn.ravel()).reshape(*drawn.shape[:-1], setting.size)
    return setting.low + (found + rng.random(found.shape)) * (setting.width / setting.bins)


def perturbed(data: Floats, epsilon: float, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return m sets from histograms with Laplace noise (equation 5), shape (repeats, m, n)."""
    counts = histogram(data, setting)[:, None, :]
    noise = rng.laplace(0, SETS / epsilon, (len(data), SETS, setting.bins))
    return from_bins(np.maximum(counts + noise, 0.0), setting, rng)


def smoothed(data: Floats, epsilon: float, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return one set from a histogram mixed with an even one (equations 6, 7), (repeats, 1, n)."""
    n, bins = setting.size, setting.bins
    part = bins / (bins + n * np.expm1(epsilon / n))
    return from_bins((1 - part) * histogram(data, setting)[:, None] / n + part / bins, setting, rng)


def multiple(data: Floats, _: float, setting: Setting, rng: np.random.Generator) -> Floats:
    """Return m sets without any privacy, shape (repeats, m, n)."""
    shape = (len(data), SETS)
    mean = np.broadcast_to(data.mean(1)[:, None], shape)
    return normal_sets(mean, np.broadcast_to(data.var(1, ddof=1)[:, None], shape), setting, rng)


WAYS = {
    "original": lambda data, *_: data[:, None],
    "MS, no privacy": multiple,
    "MODIPS": published,
    "MODIPS, corrected": corrected,
    "perturbed histogram": perturbed,
    "smoothed histogram": smoothed,
}


def simulate(
    method: str, setting: Setting, epsilon: float, *, repeats: int, rng: np.random.Generator
) -> tuple[Score, Score]:
    """Return the scores of mean and variance, whose truths are 0 and 1."""
    parts: list[tuple[Floats, ...]] = []
    for size in blocks(repeats, SETS * setting.size):
        data = rng.standard_normal((size, setting.size))
        np.clip(data, setting.low, setting.high, out=data)
        mean, variance = moments(WAYS[method](data, epsilon, setting, rng))
        parts.append((*combine(*mean), *combine(*variance)))
    mean_at, mean_half, variance_at, variance_half = map(np.concatenate, zip(*parts, strict=True))
    return score_of(mean_at, mean_half, 0.0), score_of(variance_at, variance_half, 1.0)


def run(repeats: int, seed: int, out: Path | None) -> None:
    """Print the scores of all scenarios, and draw Figures 3 and 4 (supplement: 2 to 5)."""
    for low in (-3.0, -4.0):
        panels: dict[str, dict[str, Curves]] = {"mean": {}, "variance": {}}
        for size in SIZES:
            setting = Setting(size, low)
            curves: dict[str, dict[str, list[Score]]] = {"mean": {}, "variance": {}}
            for number, method in enumerate(METHODS):
                rng = np.random.default_rng([seed, size, int(-low), number])
                found: list[tuple[Score, Score]] = []
                for log in LOGS:
                    # These do not depend on epsilon.
                    again = method in METHODS[:2] and found
                    found.append(
                        found[0]
                        if again
                        else simulate(method, setting, np.exp(log), repeats=repeats, rng=rng)
                    )
                curves["mean"][method] = [pair[0] for pair in found]
                curves["variance"][method] = [pair[1] for pair in found]
            for quantity, ways in curves.items():
                print(f"\nn = {size}, bounds {low:g} and 4, {quantity}\n")
                print_curves(ways)
                panels[quantity][f"n = {size}"] = ways
        if out is not None:
            for quantity, drawn in panels.items():
                name = f"simulation2-{quantity}{'' if low == -3 else '-symmetric'}.png"
                title = f"Simulation 2, {quantity} of N(0, 1) within [{low:g}, 4]"
                draw(drawn, out / name, f"{title}, {repeats} repeats")


if __name__ == "__main__":
    main(__doc__.splitlines()[0], run, 5000)
