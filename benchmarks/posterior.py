"""Do 95 % intervals from posterior sets cover 95 times in 100, and how near are the sets?

    python benchmarks/posterior.py [--file yrbss|latent-classes|curves|FILE.csv]
        [--mode posterior shared] [--epsilon 0.5 1 4] [--rows 10000] [--sets 5]
        [--repeats 200] [--minutes 60] [--preset auto]

A survey is taken as the population: `yrbss` ships with the project, a CSV comes by path, and two
populations are generated (interval_parts/populations.py). Numbers with more than 16 values get 16
equal bins. No repeat begins after `--minutes` of CPU. Each of `--repeats` repeats has three steps:
draw records from the population with replacement; make a release of them at (epsilon, 1e-9),
add-remove, with exact noise; analyse its sets and combine them by the rule of the mode.

For every stratum it prints the part of the intervals that contain the population's value, the
standard error of this part over the repeats, and the median width of an interval relative to that
of the same analysis of the drawn records; the last column is the coverage of that analysis, whose
standard error of a share is at least that of one record. Then it prints the mean total variation
distance of a set over all pairs of columns, as a ratio to that of the best single set made from the
same records, and the CPU seconds of a release.

Strata: shares of levels, and of cells of pairs, of at least and below 1 %; means of numbers;
differences of a level's share between the two most frequent levels of another column; slopes of the
linear regression of one number on another. Cells, differences and slopes are split by whether the
pair was measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.interval_parts.populations import GENERATED
from benchmarks.trial import codes_schema, trial_plan
from dp_core.client.released import Measurement, Totals
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.combine import combine
from dp_core.inference.combining_rules import rule_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import Outcome, carry_out, sample
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Column, Schema
from dp_core.schema.structure.structural_zeros import StructuralZeros

Floats = NDArray[np.float64]
Tables = dict[tuple[str, ...], Floats]
BINS = 16
DELTA = Fraction(1, 10**9)
YRBSS = Path(__file__).resolve().parent.parent / "flows" / "demo" / "yrbss.csv.gz"


@dataclass(frozen=True, eq=False)
class Population:
    """A survey, coded.

    Attributes:
        data: Its records.
        schema: Numbers as whole numbers of bins, everything else as categories.
        numbers: Numeric columns, with the value of each code; NaN for missing.
    """

    data: Dataset
    schema: Schema
    numbers: dict[str, Floats]


def read(file: str) -> Population:
    """Return a population by its name or path, coded; columns with one value are left out."""
    if file in GENERATED:
        frame = GENERATED[file]()
    else:
        frame = pd.read_csv(YRBSS if file == "yrbss" else Path(file))
    names, codes, sizes, numbers = [], [], [], {}
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > 2:
            values, scores = _binned(column)
            numbers[name] = scores
            size = scores.size
        else:
            found = pd.Categorical(column.astype(object).where(~column.isna(), "").astype(str))
            values, size = found.codes.astype(np.uint16), len(found.categories)
        if size > 1:
            names.append(name)
            codes.append(values)
            sizes.append(size)
    domain = Domain(tuple(names), tuple(sizes))
    plain = codes_schema(domain, StructuralZeros())
    columns = tuple(
        _number(column.name, numbers[column.name]) if column.name in numbers else column
        for column in plain.columns
    )
    return Population(
        Dataset(domain, np.array(codes, dtype=np.uint16)),
        dataclasses.replace(plain, columns=columns),
        numbers,
    )


def _binned(column: pd.Series) -> tuple[NDArray[np.uint16], Floats]:
    known = column.dropna()
    if known.nunique() <= BINS:
        levels = np.sort(known.unique())
        values = np.searchsorted(levels, column.fillna(levels[0]).to_numpy())
        size = levels.size
    else:
        low, high = float(known.min()), float(known.max())
        part = (column.fillna(low).to_numpy() - low) / (high - low)
        values, size = np.minimum((part * BINS).astype(int), BINS - 1), BINS
    scores = np.arange(size, dtype=np.float64)
    if column.isna().any():
        values = np.where(column.isna(), size, values)
        scores = np.append(scores, math.nan)
    return values.astype(np.uint16), scores


def _number(name: str, scores: Floats) -> Column:
    bins = int((~np.isnan(scores)).sum())
    return Column(
        name=name,
        kind="integer",
        edges=tuple(map(Fraction, range(bins + 1))),
        missing="level" if scores.size > bins else "reject",
    )


def tables_of(data: Dataset) -> Tables:
    """Return all one- and two-way tables as shares."""
    domain, found = data.domain, {}
    for clique in (
        *((name,) for name in domain.columns),
        *itertools.combinations(domain.columns, 2),
    ):
        sizes = domain.project(clique).sizes
        place = np.ravel_multi_index([data.column(name).astype(np.int64) for name in clique], sizes)
        counts = np.bincount(place, minlength=math.prod(sizes)).reshape(sizes)
        found[clique] = counts / data.rows
    return found


def released(
    population: Population,
    data: Dataset,
    epsilon: Fraction,
    mode: Mode,
    sets: int,
    options: Options,
) -> tuple[Outcome, list[Tables]]:
    """Return the outcome of a release of some records, and the tables of its sets."""
    plan = trial_plan(
        data.domain, options.preset, epsilon, DELTA, sets=sets, mode=mode, seed=options.seed
    )
    schema = dataclasses.replace(population.schema, rows_about=int(float(f"{data.rows:.1e}")))
    plan = make_plan(dataclasses.replace(plan.spec, schema=schema))
    outcome = carry_out(plan, MemoryCounter(data))
    numbers = range(1, sets + 1)
    return outcome, [tables_of(sample(outcome.plan, outcome.models, each)) for each in numbers]


@dataclass(frozen=True)
class Options:
    """How a release is made.

    Attributes:
        preset: The method.
        seed: Seed of post-processing; noise has none.
    """

    preset: str
    seed: int


class Strata:
    """Which intervals contained the truth, by stratum and repeat."""

    def __init__(self) -> None:
        """Start without intervals."""
        self.hits: dict[str, list[list[bool]]] = defaultdict(list)
        self.widths: dict[str, list[float]] = defaultdict(list)
        self.files: dict[str, list[bool]] = defaultdict(list)

    def begin(self) -> None:
        """Begin a repeat."""
        self._new: dict[str, list[bool]] = defaultdict(list)

    def end(self) -> None:
        """End the repeat, and keep its intervals."""
        for name, hits in self._new.items():
            self.hits[name].append(hits)

    def add(
        self,
        name: str,
        truth: Floats,
        values: Floats,
        variances: Floats,
        own: tuple[Floats, Floats],
        mode: Mode,
    ) -> None:
        """Add quantities.

        Args:
            name: Their stratum.
            truth: Their values in the population, shape (quantities,).
            values: Their estimates from each set, shape (sets, quantities).
            variances: Sampling variances of the estimates, same shape.
            own: Estimates from the drawn records, and their sampling variances, each of shape
                (quantities,).
            mode: How the sets were made.
        """
        rule = rule_of(mode, len(values))
        for at in range(truth.size):
            low, high = combine(values[:, at], variances[:, at], rule).interval(0.95)
            self._new[name].append(bool(low <= truth[at] <= high))
            half = 1.96 * own[1][at] ** 0.5
            self.files[name].append(bool(abs(own[0][at] - truth[at]) <= half))
            self.widths[name].append(float(high - low) / max(2 * half, 1e-12))

    def report(self) -> None:
        """Print coverage and widths."""
        print(f"{'':24} covered      se   width   intervals   file's own")
        for name in sorted(self.hits):
            each = [np.mean(hits) for hits in self.hits[name]]
            every = np.concatenate([np.array(hits) for hits in self.hits[name]])
            error = np.std(each, ddof=1) / len(each) ** 0.5 if len(each) > 1 else math.nan
            width = np.median(self.widths[name])
            own = np.mean(self.files[name])
            print(
                f"{name:24} {every.mean():7.3f} {error:7.3f} {width:7.2f} {every.size:11,}"
                f" {own:12.3f}"
            )


def judge(
    strata: Strata,
    population: Population,
    truth: Tables,
    file: Tables,
    sets: list[Tables],
    held: set[frozenset[str]],
    rows: int,
    mode: Mode,
) -> None:
    """Add all intervals from a release to the strata."""
    for clique, shares in truth.items():
        told = ""
        if len(clique) == 2:
            told = " measured" if frozenset(clique) in held else " not measured"
        values = np.array([each[clique].ravel() for each in sets])
        own = file[clique].ravel()
        known = shares.ravel()
        kind = "share" if len(clique) == 1 else "cell"
        for name, chosen in (
            (f"{kind} >= 1 %{told}", known >= 0.01),
            (f"{kind} < 1 %{told}", (known > 0) & (known < 0.01)),
        ):
            some = values[:, chosen]
            strata.add(
                name,
                known[chosen],
                some,
                np.maximum(some * (1 - some), 0) / rows,
                (own[chosen], np.maximum(own * (1 - own), 1 / rows)[chosen] / rows),
                mode,
            )
        if len(clique) == 1 and clique[0] in population.numbers:
            scores = population.numbers[clique[0]]
            found = [_mean(each, scores, rows) for each in (shares, file[clique])]
            made = [_mean(each[clique], scores, rows) for each in sets]
            _one(strata, "mean", found, made, mode)
        if len(clique) == 2:
            _of_pair(strata, population, truth, file, sets, clique, told, rows, mode)


def _of_pair(
    strata: Strata,
    population: Population,
    truth: Tables,
    file: Tables,
    sets: list[Tables],
    clique: tuple[str, ...],
    told: str,
    rows: int,
    mode: Mode,
) -> None:
    one, other = clique
    first, second = np.argsort(-truth[one,])[:2]
    for level in np.flatnonzero(truth[other,] >= 0.02):
        places = (first, second, int(level))
        found = [_difference(each[clique], *places, rows) for each in (truth, file)]
        made = [_difference(each[clique], *places, rows) for each in sets]
        _one(strata, f"difference{told}", found, made, mode)
    if one in population.numbers and other in population.numbers:
        scores = population.numbers[one], population.numbers[other]
        found = [_slope(each[clique], *scores, rows) for each in (truth, file)]
        made = [_slope(each[clique], *scores, rows) for each in sets]
        _one(strata, f"slope{told}", found, made, mode)


def _one(
    strata: Strata,
    name: str,
    found: list[tuple[float, float]],
    made: list[tuple[float, float]],
    mode: Mode,
) -> None:
    values, variances = (np.array(each)[:, None] for each in zip(*made, strict=True))
    if np.isfinite(values).all() and np.isfinite(variances).all():
        own = np.array([found[1][0]]), np.array([found[1][1]])
        strata.add(name, np.array([found[0][0]]), values, variances, own, mode)


def _mean(shares: Floats, scores: Floats, rows: int) -> tuple[float, float]:
    known = ~np.isnan(scores)
    part = shares[known] / shares[known].sum()
    mean = float(part @ scores[known])
    return mean, float(part @ (scores[known] - mean) ** 2) / (rows * float(shares[known].sum()))


def _difference(
    table: Floats, first: int, second: int, level: int, rows: int
) -> tuple[float, float]:
    shares = [table[at, level] / max(table[at].sum(), 1e-12) for at in (first, second)]
    counts = [max(rows * float(table[at].sum()), 1.0) for at in (first, second)]
    variance = sum(p * (1 - p) / n for p, n in zip(shares, counts, strict=True))
    return float(shares[0] - shares[1]), float(variance)


def _slope(table: Floats, x: Floats, y: Floats, rows: int) -> tuple[float, float]:
    kept = np.ix_(~np.isnan(x), ~np.isnan(y))
    part, size = table[kept] / table[kept].sum(), rows * float(table[kept].sum())
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    across, down = part.sum(axis=1), part.sum(axis=0)
    x, y = x - across @ x, y - down @ y
    spread = float(across @ x**2)
    if not spread:
        return math.nan, math.nan  # a set in which the number has one value
    slope = float(x @ part @ y) / spread
    left = float((part * (y[None, :] - slope * x[:, None]) ** 2).sum())
    return slope, left / spread / size


def distance(one: Tables, other: Tables) -> float:
    """Return the mean total variation distance over all pairs of columns."""
    return float(np.mean([np.abs(one[c] - other[c]).sum() / 2 for c in one if len(c) == 2]))


def measured_pairs(outcome: Outcome) -> set[frozenset[str]]:
    """Return the pairs that a noisy table or interaction holds."""
    found: set[frozenset[str]] = set()
    for item in outcome.released:
        if isinstance(item, Measurement | Totals):
            columns = item.clique if isinstance(item, Measurement) else item.of.clique
            found |= {frozenset(pair) for pair in itertools.combinations(columns, 2)}
    return found


def run(population: Population, epsilon: Fraction, mode: Mode, options: argparse.Namespace) -> None:
    """Print the strata of one mode at one epsilon."""
    truth, strata = tables_of(population.data), Strata()
    near: list[float] = []
    seconds: list[float] = []
    begun = time.process_time()
    for repeat in range(options.repeats):
        if time.process_time() - begun > 60 * options.minutes:
            break
        rng = np.random.default_rng([1, repeat])
        rows = options.rows or population.data.rows
        places = rng.integers(0, population.data.rows, rows)
        data = Dataset(population.data.domain, population.data.codes[:, places])
        file = tables_of(data)
        started = time.process_time()
        how = Options(options.preset, repeat)
        outcome, sets = released(population, data, epsilon, mode, options.sets, how)
        seconds.append(time.process_time() - started)
        strata.begin()
        held = measured_pairs(outcome)
        judge(strata, population, truth, file, sets, held, rows, mode)
        strata.end()
        if repeat < options.singles:
            _, best = released(population, data, epsilon, "shared", 1, how)
            near.append(np.mean([distance(each, file) for each in sets]) / distance(best[0], file))
    print(f"\n{mode}, epsilon {float(epsilon):g}, {len(seconds)} repeats of {rows:,} rows")
    strata.report()
    print(f"TVD of a set over that of the best single set: {np.mean(near):.2f}")
    print(f"CPU seconds of a release: {np.median(seconds):.1f}", flush=True)


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--file", default="yrbss")
    parser.add_argument("--mode", nargs="+", default=["posterior"])
    parser.add_argument("--epsilon", nargs="+", type=Fraction, default=[Fraction(1)])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=600, help="of CPU, for each table")
    parser.add_argument(
        "--singles", type=int, default=10, help="repeats that also make a single set"
    )
    parser.add_argument("--preset", default="auto")
    options = parser.parse_args()
    population = read(options.file)
    print(f"{options.file}: {population.data.rows:,} rows, {len(population.data.domain)} columns")
    for mode in options.mode:
        for epsilon in options.epsilon:
            run(population, epsilon, mode, options)


if __name__ == "__main__":
    main()
