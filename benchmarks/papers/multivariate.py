"""The multivariate methods that Bowen & Liu (2020) survey, each against a claim of its own paper.

    python benchmarks/papers/multivariate.py [dpcopula] [--repeats 5]

Without names, all methods. Every release is made by the library, in memory, with exact discrete
noise, which takes no seed; files and ranges have seeds. Neighbours differ by an added or removed
row, and epsilon is pure unless the table says otherwise. The files are generated to resemble those
of the papers, which are not published. Other methods of the library are released in the same run
from the same files.

- `dpcopula` (Li, Xiong & Jiang 2014, section 5: synthetic files): n = 50,000, normal margins, a
  Gaussian copula with correlations .6^|i - j|. Mean relative error of counts over random ranges
  of all columns, |found - true|/max(true, n/1000), by epsilon and by the number of
  columns.
- `dpcube`: Xiao, Xiong & Yuan (2010) claim that its error of ranges is smaller than that of noisy
  cells; Hay et al. (2016), whom the survey cites, that it is larger. Two columns of 64 levels, four
  normal clusters and a tenth of the records uniform, by the number of records at epsilon .1.
- `noisy_ecdf` (Wasserman & Zhou 2010, Table 1): the largest distance of the distribution functions
  of set and file (Kolmogorov & Smirnov) falls as n^(-1/3) for the exponential mechanism and about
  as n^(-2/7) for histograms in one dimension. Here: the slope from n = 1,000 to 1,000,000.
- `kde` (Hall, Rinaldo & Wasserman 2013, section 4): with a delta, the noise does not change the
  rate at which a kernel density estimate converges. Integrated squared error, times 100, of the
  density of a mixture of two normal distributions: without noise, with it, and of other methods.
- `steps` (Bowen, Liu & Su 2021): its tables of the important columns are closer to the file than
  those of PrivBayes and of the flat Laplace sanitizer. Eight columns of levels, each depending on
  an earlier one; total variation distance of the tables of the first one, two and three columns,
  and the average over all pairs.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from numpy.typing import NDArray

from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.plan.procedure import carry_out, sample
from dp_core.schema.variables import Variable, Variables

Floats = NDArray[np.float64]
RANGES = 1_000
"""Number of random ranges."""


@dataclass(frozen=True)
class Way:
    """A method with its options.

    Attributes:
        preset: Name of the preset.
        options: Options of a parametric method.
        bins: Number of equal bins of each column in the schema; 0 for none.
        numeric: Whether it gets numbers on a grid, as parametric methods do; else levels.
        delta: Delta of the guarantee.
        select: Options of a selection; None for the preset's.
    """

    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    numeric: bool = False
    delta: Fraction = Fraction(0)
    select: Mapping[str, Any] | None = None
    bins: int = 0


def released(way: Way, data: Dataset, epsilon: Fraction, seed: int) -> tuple[Dataset, float]:
    """Return a synthetic set as large as the file, and the CPU seconds of the whole release."""
    began = time.process_time()
    columns = zip(data.domain.columns, data.domain.sizes, strict=True)
    numbers = Variables(
        tuple(
            Variable(
                name=name,
                size=size,
                positions=size,
                high=size,
                bins=tuple(part * size // way.bins for part in range(way.bins + 1))
                if way.bins
                else (),
            )
            for name, size in columns
        )
    )
    plan = trial_plan(
        data.domain,
        way.preset,
        epsilon,
        way.delta,
        select=way.select,
        synthesize=dict(way.options),
        variables=numbers if way.numeric else None,
        rows=data.rows,
        seed=seed,
    )
    made = sample(plan, carry_out(plan, MemoryCounter(data)).models, 1)
    return made, time.process_time() - began


def boxes(domain: Domain, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return random ranges of all columns, shape (ranges, columns, 2), both ends within."""
    ends = rng.integers(0, np.array(domain.sizes)[:, None], (RANGES, len(domain), 2))
    return np.asarray(np.sort(ends, axis=2))


def counts(data: Dataset, ranges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of records in each range."""
    if data.domain.size() <= 2**16:
        below = np.zeros(data.domain.sizes, dtype=np.int64)
        np.add.at(below, tuple(data.codes), 1)
        for axis in range(below.ndim):
            below = np.cumsum(below, axis=axis)
        below = np.pad(below, [(1, 0)] * below.ndim)
        found = np.zeros(len(ranges), dtype=np.int64)
        for corner in product((0, 1), repeat=below.ndim):
            ends = [
                box[:, 1] + 1 if high else box[:, 0]
                for box, high in zip(ranges.transpose(1, 0, 2), corner, strict=True)
            ]
            found += (-1) ** (below.ndim - sum(corner)) * below[tuple(ends)]
        return found
    found = np.empty(len(ranges), dtype=np.int64)
    for number, box in enumerate(ranges):
        inside = np.ones(data.rows, dtype=bool)
        for codes, (low, high) in zip(data.codes, box, strict=True):
            inside &= (codes >= low) & (codes <= high)
        found[number] = inside.sum()
    return found


def range_errors(
    ways: Mapping[str, Way],
    file_of: Callable[[np.random.Generator], Dataset],
    epsilon: Fraction,
    repeats: int,
) -> None:
    """Print the mean relative and the mean absolute error of ranges for each method."""
    for name, way in ways.items():
        relative, absolute, seconds = [], [], []
        for seed in range(repeats):
            rng = np.random.default_rng(seed)
            data = file_of(rng)
            ranges = boxes(data.domain, rng)
            true = counts(data, ranges)
            made, cpu = released(way, data, epsilon, seed)
            error = np.abs(counts(made, ranges) - true)
            relative.append((error / np.maximum(true, data.rows / 1000)).mean())
            absolute.append(error.mean())
            seconds.append(cpu)
        print(
            f"    {name:34} relative {np.mean(relative):.3f}  absolute {np.mean(absolute):8.1f}"
            f"  CPU {np.mean(seconds):.1f} s",
            flush=True,
        )


def normal_file(columns: int, levels: int, rows: int) -> Callable[[np.random.Generator], Dataset]:
    """Return a maker of files with normal margins and a Gaussian copula of .6^|i - j|."""

    def made(rng: np.random.Generator) -> Dataset:
        place = np.arange(columns)
        covariance = 0.6 ** np.abs(place[:, None] - place)
        drawn = rng.multivariate_normal(np.zeros(columns), covariance, rows)
        codes = np.clip((drawn + 3.5) / 7 * levels, 0, levels - 1).astype(np.uint16)
        names = tuple(f"x{number + 1}" for number in place)
        return Dataset(Domain(names, (levels,) * columns), np.ascontiguousarray(codes.T))

    return made


def dpcopula(repeats: int) -> None:
    """Print errors of ranges by epsilon and dimension."""
    levels, rows = 64, 50_000
    peers = {
        "dpcopula": Way("dpcopula", numeric=True, bins=levels),
        "auto": Way("auto"),
        "privbayes": Way("privbayes"),
        "independent": Way("independent"),
    }
    for columns in (2, 4, 8):
        print(f"  {columns} columns of {levels} levels, {rows:,} records, epsilon 1")
        bins = max(2, int(100_000 ** (1 / columns)))
        flat = Way("laplace-sanitizer", numeric=True, bins=min(bins, levels))
        named = {**peers, f"laplace-sanitizer, {min(bins, levels)} bins": flat}
        range_errors(named, normal_file(columns, levels, rows), Fraction(1), repeats)
    for epsilon in (Fraction(1, 10), Fraction(1, 2)):
        print(f"  8 columns, epsilon {float(epsilon):g}")
        range_errors(peers, normal_file(8, levels, rows), epsilon, repeats)


def clusters(rows: int, levels: int) -> Callable[[np.random.Generator], Dataset]:
    """Return a maker of files of two columns: four normal clusters and a tenth of even records."""

    def made(rng: np.random.Generator) -> Dataset:
        centre = np.array([(0.2, 0.3), (0.7, 0.25), (0.6, 0.8), (0.15, 0.85)])
        width = np.array([0.04, 0.08, 0.05, 0.02])
        which = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
        drawn = centre[which] + width[which, None] * rng.standard_normal((rows, 2))
        drawn = np.where(rng.random((rows, 1)) < 0.1, rng.random((rows, 2)), drawn)
        codes = np.clip(drawn * levels, 0, levels - 1).astype(np.uint16)
        return Dataset(Domain(("x", "y"), (levels, levels)), np.ascontiguousarray(codes.T))

    return made


def dpcube(repeats: int) -> None:
    """Print errors of ranges by the number of records."""
    ways = {
        "dpcube": Way("dpcube", numeric=True, bins=64),
        "laplace-sanitizer": Way("laplace-sanitizer", numeric=True, bins=64),
        "laplace-sanitizer, published": Way(
            "laplace-sanitizer", {"published": True}, numeric=True, bins=64
        ),
        "auto": Way("auto"),
        "dpcopula": Way("dpcopula", numeric=True, bins=64),
    }
    for rows in (1_000, 10_000, 100_000, 1_000_000):
        print(f"  {rows:,} records, epsilon .1")
        range_errors(ways, clusters(rows, 64), Fraction(1, 10), repeats)


def log_normal(rows: int, levels: int) -> Callable[[np.random.Generator], Dataset]:
    """Return a maker of files of one log-normal column."""

    def made(rng: np.random.Generator) -> Dataset:
        drawn = np.exp(rng.standard_normal(rows)) / 12
        codes = np.clip(drawn * levels, 0, levels - 1).astype(np.uint16)
        return Dataset(Domain(("x",), (levels,)), codes[None, :])

    return made


def distance(data: Dataset, made: Dataset) -> float:
    """Return the largest distance of the distribution functions of the first column."""
    sizes = data.domain.sizes[0]
    one, two = (np.cumsum(np.bincount(each.codes[0], minlength=sizes)) for each in (data, made))
    return float(np.abs(one / data.rows - two / made.rows).max())


def distances(ways: Mapping[str, Way], sizes: tuple[int, ...], levels: int, repeats: int) -> None:
    """Print the mean distance of each method at epsilon 1 by the number of records, and slopes."""
    for name, way in ways.items():
        means = []
        for rows in sizes:
            found = []
            for seed in range(repeats):
                data = log_normal(rows, levels)(np.random.default_rng(seed))
                found.append(distance(data, released(way, data, Fraction(1), seed)[0]))
            means.append(float(np.mean(found)))
        slope = np.log(means[-1] / means[0]) / np.log(sizes[-1] / sizes[0])
        print(f"    {name:34} {' '.join(f'{each:.5f}' for each in means)}  slope {slope:+.2f}")


def noisy_ecdf(repeats: int) -> None:
    """Print distances by the number of records."""
    sizes, levels = (1_000, 10_000, 100_000, 1_000_000), 1024
    print(f"  one log-normal column of {levels} positions, epsilon 1, n = {sizes}")
    ways = {"noisy-ecdf": Way("noisy-ecdf", numeric=True)}
    for bins in (32, levels):
        ways[f"laplace-sanitizer, {bins} bins"] = Way("laplace-sanitizer", numeric=True, bins=bins)
    ways["smoothed-histogram, 32 bins"] = Way("smoothed-histogram", numeric=True, bins=32)
    ways["auto"] = Way("auto")
    distances(ways, sizes, levels, repeats)


def two_normals(levels: int) -> Floats:
    """Return the probability of each level of a mixture of two normal distributions."""
    place = (np.arange(levels) + 0.5) / levels
    density = 0.6 * np.exp(-(((place - 0.35) / 0.08) ** 2) / 2) / 0.08
    density += 0.4 * np.exp(-(((place - 0.7) / 0.05) ** 2) / 2) / 0.05
    return np.asarray(density / density.sum())


def smoothed(counts: Floats, bandwidth: float) -> Floats:
    """Return the kernel density estimate of counts of levels, as probabilities, without noise."""
    place = np.arange(len(counts))
    kernel = np.exp(-(((place[:, None] - place) / (bandwidth * len(counts))) ** 2) / 2)
    found = kernel @ counts / kernel.sum(axis=1)
    return np.asarray(found / found.sum())


def kde(repeats: int) -> None:
    """Print integrated squared errors by the number of records, with and without a delta."""
    levels, bandwidth = 256, 0.02
    true = two_normals(levels)
    ways = {
        "kde": Way("kde", numeric=True),
        "noisy-ecdf": Way("noisy-ecdf", numeric=True),
        "laplace-sanitizer": Way("laplace-sanitizer", numeric=True, bins=levels),
        "laplace-sanitizer, smoothed": Way("laplace-sanitizer", numeric=True, bins=levels),
        "auto": Way("auto"),
    }
    for delta in (Fraction(1, 10**6), Fraction(0)):
        print(f"  epsilon 1/2, delta {float(delta):g}: error by n = 300, 1,000, 10,000, 100,000")
        rows: dict[str, list[float]] = {}
        for n in (300, 1_000, 10_000, 100_000):
            found: dict[str, list[float]] = {}
            for seed in range(repeats):
                rng = np.random.default_rng(seed)
                codes = rng.choice(levels, n, p=true).astype(np.uint16)
                data = Dataset(Domain(("x",), (levels,)), codes[None, :])
                counted = np.bincount(codes, minlength=levels).astype(float)
                curves = {"kernel, no noise": smoothed(counted, bandwidth)}
                for name, way in ways.items():
                    own = Way(way.preset, way.options, way.numeric, delta)
                    made, _ = released(own, data, Fraction(1, 2), seed)
                    curve = np.bincount(made.codes[0], minlength=levels) / n
                    curves[name] = smoothed(curve, bandwidth) if "smoothed" in name else curve
                for name, curve in curves.items():
                    error = float(((curve - true) ** 2).sum() * levels)
                    found.setdefault(name, []).append(error)
            for name, errors in found.items():
                rows.setdefault(name, []).append(100 * float(np.mean(errors)))
        for name, means in rows.items():
            print(f"    {name:34} {' '.join(f'{each:9.3f}' for each in means)}", flush=True)


def voters(rows: int) -> Callable[[np.random.Generator], Dataset]:
    """Return a maker of files of eight columns of levels, each with a parent before it."""
    sizes = (2, 4, 3, 5, 2, 6, 3, 4)

    def made(rng: np.random.Generator) -> Dataset:
        columns: list[NDArray[np.int64]] = []
        for axis, size in enumerate(sizes):
            parents = 1 if axis == 0 else sizes[axis // 2]
            chances = rng.dirichlet(np.full(size, 0.7), parents)
            parent = np.zeros(rows, np.int64) if axis == 0 else columns[axis // 2]
            if axis == 1:
                parent, chances = columns[0], rng.dirichlet(np.full(size, 0.7), sizes[0])
            below = np.cumsum(chances, axis=1)[parent]
            columns.append((rng.random((rows, 1)) > below[:, :-1]).sum(axis=1))
        names = tuple(f"c{axis + 1}" for axis in range(len(sizes)))
        return Dataset(Domain(names, sizes), np.stack(columns).astype(np.uint16))

    return made


def table_distance(data: Dataset, made: Dataset, axes: tuple[int, ...]) -> float:
    """Return the total variation distance of the tables of some columns."""
    tables = []
    for each in (data, made):
        table = np.zeros([data.domain.sizes[axis] for axis in axes])
        np.add.at(table, tuple(each.codes[axis] for axis in axes), 1 / each.rows)
        tables.append(table)
    return float(np.abs(tables[0] - tables[1]).sum() / 2)


def steps(repeats: int) -> None:
    """Print distances of tables of important columns, and of all pairs."""
    order = tuple(f"c{axis + 1}" for axis in range(8))
    ways = {
        "steps, order stated": Way("steps", select={"order": order}),
        "steps, order under noise": Way("steps"),
        "fdh (flat Laplace)": Way("fdh"),
        "privbayes": Way("privbayes"),
        "auto": Way("auto"),
    }
    pairs = list(combinations(range(8), 2))
    for rows, epsilon in product((2_000, 20_000), (Fraction(1, 10), Fraction(1))):
        print(f"  {rows:,} records, epsilon {float(epsilon):g}: 1, 2, 3 first columns; all pairs")
        for name, way in ways.items():
            found = []
            for seed in range(repeats):
                data = voters(rows)(np.random.default_rng(seed))
                made, _ = released(way, data, epsilon, seed)
                first = [table_distance(data, made, tuple(range(size))) for size in (1, 2, 3)]
                every = np.mean([table_distance(data, made, pair) for pair in pairs])
                found.append([*first, float(every)])
            means = np.mean(found, axis=0)
            print(f"    {name:34} {' '.join(f'{each:.4f}' for each in means)}", flush=True)


CLAIMS: Mapping[str, Callable[[int], None]] = {
    "dpcopula": dpcopula,
    "dpcube": dpcube,
    "noisy_ecdf": noisy_ecdf,
    "kde": kde,
    "steps": steps,
}


def main() -> None:
    """Print the tables of the methods that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", help=f"of {', '.join(CLAIMS)}")
    parser.add_argument("--repeats", type=int, default=5)
    stated = parser.parse_args()
    print(f"python {platform.python_version()}, numpy {np.__version__}")
    for name in stated.methods or CLAIMS:
        print(name)
        CLAIMS[name](stated.repeats)


if __name__ == "__main__":
    main()
