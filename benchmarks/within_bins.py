"""How far are sets off because values within a bin are not known: uniform or a fitted density?

Usage: python benchmarks/within_bins.py [--data adult.csv] [--repeats 20] > results.md

Columns are generated from families of distributions and, with `--data`, read from a public file
with the columns of the census income data. Their values are put into public bins, and each count
gets Laplace noise of a twentieth of epsilon 0.5, 1 or 4 (as in a release of 20 tables), or none. It
prints the error of sets with uniform values and with those of the fitted density, without the error
of drawing: of the mean and of the standard deviation, the mean error of seven quantiles (all in
standard deviations of the column), and the total variation distance on a grid of 64 parts of each
bin, which has a part that no density removes.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.bin_density.fitting import fit_pieces
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column

Floats = NDArray[np.float64]
ROWS = 20_000
SHARE = 0.05
QUANTILES = np.array([0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
INCOME = (0, 5_000, 10_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 2_000_000)


def generated(rng: np.random.Generator) -> Iterator[tuple[str, Floats, tuple[int, ...]]]:
    """Yield name, values and bin edges of each generated column."""
    top = 2_000_000 - 1
    for name, values in {
        "log-normal, sigma 0.5": rng.lognormal(10.3, 0.5, ROWS),
        "log-normal, sigma 1": rng.lognormal(10.3, 1.0, ROWS),
        "log-normal, sigma 1.25": rng.lognormal(10.3, 1.25, ROWS),
        "gamma, shape 0.5": rng.gamma(0.5, 90_000, ROWS),
        "gamma, shape 2": rng.gamma(2, 25_000, ROWS),
        "exponential": rng.exponential(50_000, ROWS),
        "Pareto, index 1.5": 10_000 * (rng.pareto(1.5, ROWS) + 1),
        "Pareto, index 2.5": 20_000 * (rng.pareto(2.5, ROWS) + 1),
        "normal, far end": rng.normal(60_000, 25_000, ROWS),
        "3 % at 1,900,000": np.where(
            rng.random(ROWS) < 0.97, np.minimum(rng.exponential(30_000, ROWS), 149_999), 1_900_000
        ),
    }.items():
        yield name, np.clip(np.floor(values), 0, top), INCOME
    few = np.exp(rng.normal(10.3, 1, 500))
    yield "log-normal, 500 records", np.clip(np.floor(few), 0, top), INCOME
    tenths, fine = tuple(range(0, 1001, 100)), tuple(range(0, 1001, 25))
    normal = np.clip(np.floor(rng.normal(500, 100, ROWS)), 0, 999)
    yield "normal, 10 bins", normal, tenths
    yield "normal, 40 bins", normal, fine
    yield "normal, wide ends", normal, (0, 400, 450, 500, 550, 600, 1000)
    even = np.floor(rng.random(ROWS) * 1000)
    yield "uniform, 10 bins", even, tenths
    yield "uniform, uneven bins", even, (0, 10, 20, 50, 100, 200, 500, 1000)
    peaks = np.where(rng.random(ROWS) < 0.5, 200, 800) + rng.normal(0, 50, ROWS)
    yield "two peaks, 20 bins", np.clip(np.floor(peaks), 0, 999), tuple(range(0, 1001, 50))
    yield "two peaks, 7 bins", np.clip(np.floor(peaks), 0, 999), (0, *range(142, 995, 142), 1000)
    yield "U-shaped, 5 bins", np.floor(rng.beta(0.5, 0.5, ROWS) * 1000), tuple(range(0, 1001, 200))
    heaps = np.rint(rng.normal(600, 150, ROWS) / 50) * 50
    yield "heaped at 50s", np.clip(heaps, 0, 999), (0, 300, 450, 550, 650, 750, 1000)
    capped = np.where(rng.random(ROWS) < 0.05, 200_000, rng.lognormal(10.3, 0.7, ROWS))
    edges = (0, 10_000, 20_000, 30_000, 50_000, 80_000, 120_000, 200_001)
    yield "5 % at the cap", np.clip(np.floor(capped), 0, 200_000), edges
    old = 60 + np.floor(rng.beta(1, 2.5, 6_000) * 40)
    yield "ages", np.concatenate([rng.integers(0, 60, 14_000), old]), (0, 5, 18, 30, 45, 65, 100)
    visits = np.minimum(rng.negative_binomial(1, 0.2, ROWS), 80)
    yield "visits", visits.astype(float), (0, 1, 2, 3, 5, 8, 13, 81)


def census(path: Path) -> Iterator[tuple[str, Floats, tuple[int, ...]]]:
    """Yield columns of the census income data, with bins that a survey would use."""
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for name, edges in {
        "age": (17, 20, 25, 30, 35, 45, 55, 65, 91),
        "hours-per-week": (1, 20, 30, 40, 41, 50, 60, 100),
        "capital-gain": (0, 1, 3_000, 5_000, 8_000, 15_000, 100_000),
        "fnlwgt": (10_000, 50_000, 100_000, 200_000, 300_000, 500_000, 2_000_000),
    }.items():
        yield f"census {name}", np.array([float(row[name]) for row in rows]), edges


def figures(values: Floats, column: Column, counts: Floats) -> Floats:
    """Return the errors of mean, deviation and quantiles, and the distance on a fine grid."""
    within, bins = BinValues.of(column), column.bins
    share = np.maximum(counts, 0) / np.maximum(counts, 0).sum()
    mean, deviation = float(values.mean()), float(values.std())
    centres = within.mean()
    found = float(share @ centres)
    variance = float(share @ (np.square(centres - found) + within.variance()))
    # Quantiles of the mixture: values at many equally likely parts of each bin.
    parts = (np.arange(512) + 0.5) / 512
    codes = np.repeat(np.arange(bins), parts.size)
    points = within.quantile(codes, np.tile(parts, bins)).astype(float)
    below = np.cumsum(np.repeat(share / parts.size, parts.size))
    at = points[np.minimum(np.searchsorted(below, QUANTILES), points.size - 1)]
    off = np.abs(at - np.quantile(values, QUANTILES)).mean()
    distance = 0.0
    for code in range(bins):
        low, high = float(column.edges[code]), float(column.edges[code + 1])
        grid = np.unique(np.ceil(np.linspace(low, high, 65)))
        true = np.histogram(values[(values >= low) & (values < high)], grid)[0] / values.size
        upto = within.cdf(np.full(grid.size, code), grid - 1)
        distance += np.abs(np.diff(upto) * share[code] - true).sum() / 2
    return np.array([abs(found - mean), abs(variance**0.5 - deviation), off, 0.0]) / deviation + [
        *(0.0, 0.0, 0.0),
        distance,
    ]


def main() -> None:
    """Print one table for each noise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    columns = list(generated(np.random.default_rng(5)))
    columns += census(options.data) if options.data else []
    for epsilon in (None, 4.0, 1.0, 0.5):
        scale = 0.0 if epsilon is None else 1 / (SHARE * epsilon)
        noise = "exact counts" if epsilon is None else f"epsilon {epsilon:g}: Laplace({scale:g})"
        print(f"\n### {noise}\n")
        print("| column | mean | deviation | quantiles | TVD |\n|---|---|---|---|---|")
        for name, values, edges in columns:
            even = Column(name="x", kind="integer", edges=tuple(map(Fraction, edges)))
            exact = np.histogram(values, edges)[0].astype(float)
            rng, each = np.random.default_rng(7), []
            for _ in range(1 if epsilon is None else options.repeats):
                noisy = exact + np.rint(rng.laplace(0, scale, exact.size) if scale else 0)
                pieces = fit_pieces(even, noisy, 2 * scale**2)
                bent = dataclasses.replace(even, pieces=pieces)
                each.append([figures(values, one, noisy) for one in (even, bent)])
            before, after = np.mean(each, axis=0)
            told = (f"{one:.3f} → {other:.3f}" for one, other in zip(before, after, strict=True))
            print(f"| {name} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
