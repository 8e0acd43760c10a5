"""Do 95 % intervals from noise-aware sets cover 95 times in 100, and how wide are they?

Usage: python benchmarks/noise_aware.py [--design pairs] [--rows 2000 20000] [--epsilon 0.5 1 4]
       [--noise zcdp pure] [--reconstruct pgm] [--sets 20] [--repeats 500] [--split always]
       [--smoothing 0.1] [--details]

A file is drawn from a known population, its tables are measured, sets are made and analysed, and
their estimates combined; so often as `--repeats` says. Noise has the distributions of the curator's
(NumPy draws it here: nothing is confidential). For each design, noise and epsilon it prints, for
the intervals of each way of making sets: mean and least coverage over the quantities, and their
mean width beside that of an ideal analysis, which is the least that an unbiased one of the same
noisy tables can have (Cramer and Rao's bound, sampling and noise as normal, true model known).

Designs, all of them log-linear models:
    pairs      5 columns (2, 2, 3, 4 and 5 codes), all 10 pairs measured
    sixty      12 columns of 2 codes, 60 pairs measured
    three-way  as pairs, but the effect of a on y depends on b: no measured table holds that
"""

from __future__ import annotations

import argparse
import itertools
import math
import platform
import time
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Measurement
from dp_core.inference.combine import Rule, combine
from dp_core.inference.measured_relations import (
    needed_groups,
    unmeasured_groups,
    unmeasured_sentence,
)
from dp_core.kernel.cost.currency import largest_limit
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods import registry
from dp_core.methods.replicates.noise_aware import SETS, redraw, unshrunk
from dp_core.schema.structure.structural_zeros import StructuralZeros

DELTA = Fraction(1, 10**9)
SPLIT_SETS = 5
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Design:
    """A population, what is measured of it, and what is asked.

    Attributes:
        domain: All columns.
        share: Probability of each cell, flat.
        cliques: Measured.
        effects: Columns of the log-linear model beside the constant, shape (cells, effects).
        moments: Quantities that are means, shape (cells, quantities).
        predictors: Of the regression of y, constant first, shape (cells, coefficients).
        terms: Columns of each of its terms, without the constant.
        names: Of all quantities.
    """

    domain: Domain
    share: Floats
    cliques: tuple[Clique, ...]
    effects: Floats
    moments: Floats
    predictors: Floats
    terms: tuple[Clique, ...]
    names: tuple[str, ...]

    @cached_property
    def outcome(self) -> Floats:
        """Whether y is 1, by cell."""
        return (codes(self.domain)["y"] == 1).astype(float)

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], Floats]:
        """Of each cell its pattern of predictors, and the patterns."""
        found, group = np.unique(self.predictors, axis=0, return_inverse=True)
        return group.ravel(), found

    @cached_property
    def truth(self) -> Floats:
        """What is asked, in the population."""
        return self.estimate(self.share * 1e9)[0]

    @cached_property
    def cells_of(self) -> list[NDArray[np.int64]]:
        """Of each cell of the joint table its cell of each measured table."""
        code = codes(self.domain)
        return [
            np.ravel_multi_index([code[name] for name in clique], self.domain.project(clique).sizes)
            for clique in self.cliques
        ]

    def estimate(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return what an analyst finds in records: estimates, and variances as of a sample."""
        rows = counts.sum()
        mean = counts @ self.moments / rows
        variance = (counts @ self.moments**2 / rows - mean**2) / rows
        slope, spread = self.logistic(counts)
        return np.concatenate([mean, slope]), np.concatenate([variance, spread])

    def logistic(self, counts: Floats) -> tuple[Floats, Floats]:
        """Return coefficients and variances of the regression of y (Newton's method)."""
        group, x = self.groups
        ones = np.bincount(group, counts * self.outcome, len(x))
        every = np.bincount(group, counts, len(x))
        slope = np.zeros(x.shape[1])
        for _ in range(50):
            mean = 1 / (1 + np.exp(-np.clip(x @ slope, -30, 30)))
            information = (x.T * (every * mean * (1 - mean))) @ x + 1e-9 * np.eye(x.shape[1])
            step = np.clip(np.linalg.solve(information, x.T @ (ones - every * mean)), -3, 3)
            slope = slope + step
            if np.abs(step).max() < 1e-8:
                break
        return slope, np.diag(np.linalg.inv(information))

    def ideal(self, rows: int, variance: float) -> Floats:
        """Return the standard error of an ideal analysis of the noisy tables, by quantity.

        The tables are taken as normal around `rows` times their shares, with the variance of a
        sample of `rows` and of the noise, of one model: the effects and the number of rows.
        """
        asked = np.concatenate(
            [
                (np.arange(self.domain.size(clique))[:, None] == cell).astype(float)
                for clique, cell in zip(self.cliques, self.cells_of, strict=True)
            ]
        )
        centred = self.effects - self.share @ self.effects
        weighted = self.share[:, None] * centred
        expected = asked @ self.share
        spread = rows * ((asked * self.share) @ asked.T - np.outer(expected, expected))
        slopes = np.column_stack([rows * asked @ weighted, expected])
        precision = slopes.T @ np.linalg.solve(spread + variance * np.eye(len(spread)), slopes)
        of_effects = np.linalg.inv(precision)[:-1, :-1]
        mean = self.share @ self.moments
        slope, _ = self.logistic(self.share * 1e9)
        fitted = 1 / (1 + np.exp(-self.predictors @ slope))
        information = (self.predictors.T * (self.share * fitted * (1 - fitted))) @ self.predictors
        score = (self.predictors * (self.outcome - fitted)[:, None]).T @ weighted
        gradient = np.concatenate(
            [(self.moments - mean).T @ weighted, np.linalg.solve(information, score)]
        )
        return np.sqrt(np.einsum("ij,jk,ik->i", gradient, of_effects, gradient))


def codes(domain: Domain) -> dict[str, NDArray[np.int64]]:
    """Return the code of each column in each cell of the joint table, flat."""
    found = np.indices(domain.sizes).reshape(len(domain), -1)
    return dict(zip(domain.columns, found, strict=True))


def log_linear(domain: Domain, pairs: list[Clique]) -> Floats:
    """Return the columns of a log-linear model with main effects and those of pairs."""
    code = codes(domain)
    level = {
        name: [(code[name] == k).astype(float) for k in range(1, size)]
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    }
    found = [column for name in domain.columns for column in level[name]]
    for one, two in pairs:
        found += [a * b for a in level[one] for b in level[two]]
    return np.column_stack(found)


def normal(log: Floats) -> Floats:
    """Return probabilities that are proportional to exp(log)."""
    share = np.exp(log - log.max())
    return share / share.sum()


def five_columns(*, three_way: bool = False) -> Design:
    """Return the design `pairs`, or `three-way`."""
    domain = Domain(("y", "a", "b", "c", "d"), (2, 2, 3, 4, 5))
    pairs = list(itertools.combinations(domain.columns, 2))
    code = codes(domain)
    y, d = code["y"], code["d"] - 2.0
    log = 0.3 * code["a"] + np.array([0.2, 0.1, -0.2])[code["b"]]
    log = log + np.array([0.3, 0.5, 0.2, -1.3])[code["c"]]
    log = log + np.array([-0.2, 0.2, 0.3, 0.1, -0.4])[code["d"]]
    rng = np.random.default_rng(3)
    for one, two in itertools.combinations("abcd", 2):
        sizes = domain.project((one, two)).sizes
        log = log + rng.normal(0, 0.25, sizes)[code[one], code[two]]
    log = log + y * (-0.5 + 0.8 * code["a"] + np.array([0, 0.4, -0.3])[code["b"]] + 0.3 * d)
    if three_way:
        log = log + 1.2 * y * code["a"] * (code["b"] == 2)
    ones = np.ones_like(d)
    columns = {
        "constant": ones,
        "a": code["a"] * 1.0,
        "b = 1": (code["b"] == 1) * 1.0,
        "b = 2": (code["b"] == 2) * 1.0,
        "d": d,
    }
    terms: tuple[Clique, ...] = (("a",), ("b",), ("d",))
    if three_way:
        columns["a, b = 2"] = columns["a"] * columns["b = 2"]
        terms = (*terms, ("a", "b"))
    moments = {
        "mean d": d,
        "mean c": code["c"] * 1.0,
        "share y": y * 1.0,
        "share a": code["a"] * 1.0,
        "share b = 2": (code["b"] == 2) * 1.0,
        "share c = 3": (code["c"] == 3) * 1.0,
        "share d = 4": (code["d"] == 4) * 1.0,
        "share y, a": y * code["a"] * 1.0,
        "share y, b = 2": y * (code["b"] == 2) * 1.0,
    }
    return Design(
        domain,
        normal(log),
        tuple(pairs),
        log_linear(domain, pairs),
        np.column_stack(list(moments.values())),
        np.column_stack(list(columns.values())),
        terms,
        (*moments, *[f"logit {name}" for name in columns]),
    )


def twelve_columns() -> Design:
    """Return the design `sixty`."""
    names = ("y", *[f"x{i}" for i in range(1, 12)])
    domain = Domain(names, (2,) * 12)
    left_out = [("x1", "x2"), ("x3", "x4"), ("x5", "x6"), ("x7", "x8"), ("x9", "x10"), ("x4", "x8")]
    pairs = [pair for pair in itertools.combinations(names, 2) if pair not in left_out]
    code = codes(domain)
    rng = np.random.default_rng(4)
    log = np.zeros(domain.size())
    for name, size in zip(names, domain.sizes, strict=True):
        log = log + rng.normal(0, 0.2, size)[code[name]]
    log = log - 1.2 * code["x7"]
    for one, two in pairs:
        if "y" not in (one, two):
            sizes = domain.project((one, two)).sizes
            log = log + rng.normal(0, 0.1, sizes)[code[one], code[two]]
    log = log + code["y"] * (-0.4 + 1.0 * code["x1"] - 0.7 * code["x3"])
    columns = {
        "constant": np.ones(domain.size()),
        "x1": code["x1"] * 1.0,
        "x3": code["x3"] * 1.0,
    }
    moments = {f"share {name}": (code[name] == 1) * 1.0 for name in names}
    moments["share y, x1"] = code["y"] * code["x1"] * 1.0
    return Design(
        domain,
        normal(log),
        tuple(pairs),
        log_linear(domain, pairs),
        np.column_stack(list(moments.values())),
        np.column_stack(list(columns.values())),
        (("x1",), ("x3",)),
        (*moments, *[f"logit {name}" for name in columns]),
    )


DESIGNS = {
    "pairs": five_columns,
    "sixty": twelve_columns,
    "three-way": lambda: five_columns(three_way=True),
}


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        rows: Of the file.
        noise: `zcdp` (Gaussian) or `pure` (Laplace).
        epsilon: Of the release.
    """

    rows: int
    noise: str
    epsilon: Fraction

    def scale(self, tables: int, sets: int = 1) -> float:
        """Return the noise's scale when `sets` measurements share the budget."""
        if self.noise == "pure":
            return float(tables * sets / self.epsilon)
        return math.sqrt(tables * sets / (2 * largest_limit("zcdp", self.epsilon, DELTA)))


class Simulation:
    """Files, measurements and sets of one case."""

    def __init__(self, design: Design, case: Case, options: argparse.Namespace) -> None:
        """Prepare the reconstruction."""
        self.design, self.case, self.options = design, case, options
        self.kind = "laplace" if case.noise == "pure" else "gaussian"
        made = registry.find("reconstruction", options.reconstruct)()
        self.method = unshrunk(made)
        if options.smoothing is not None:
            import dataclasses

            self.method = dataclasses.replace(self.method, smoothing=options.smoothing)

    def file(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a sample of the population, as counts of the joint table."""
        return rng.multinomial(self.case.rows, self.design.share)

    def measure(
        self, counts: NDArray[np.int64], scale: float, rng: np.random.Generator
    ) -> list[Measurement]:
        """Return noisy tables."""
        found = []
        for clique, cell in zip(self.design.cliques, self.design.cells_of, strict=True):
            domain = self.design.domain.project(clique)
            exact = np.bincount(cell, counts, domain.size()).astype(np.int64)
            if self.kind == "laplace":
                q = -math.expm1(-1 / scale)
                noise = rng.geometric(q, exact.size) - rng.geometric(q, exact.size)
            else:
                noise = np.rint(rng.normal(0, scale, exact.size)).astype(np.int64)
            values = (exact + noise).reshape(domain.sizes)
            found.append(
                Measurement(
                    domain,
                    values,
                    noise=self.kind,
                    scale=scale,
                    stage="measure",
                    replicate=0,
                    grant=1,
                )
            )
        return found

    def analysed(
        self, tables: list[Measurement], sets: int, rng: np.random.Generator
    ) -> list[tuple[Floats, Floats]]:
        """Return what is found in sets of one model."""
        domain = self.design.domain
        model = self.method.fit(domain, tables, rows=None, zeros=StructuralZeros(), rng=rng)
        found = []
        for _ in range(sets):
            data = model.sample(model.rows, rng=rng)
            cells = np.ravel_multi_index(tuple(data.codes.astype(np.int64)), domain.sizes)
            counts = np.bincount(cells, minlength=domain.size()).astype(float)
            found.append(self.design.estimate(counts))
        return found

    def once(self, number: int, *, split: bool) -> dict[str, tuple[Floats, Floats]]:
        """Return estimates and half widths by the way of making sets, for one file."""
        rng = np.random.default_rng([number, self.case.rows, round(100 * self.case.epsilon)])
        counts = self.file(rng)
        tables = len(self.design.cliques)
        given = self.measure(counts, self.case.scale(tables), rng)
        sets = self.options.sets
        state = int(rng.integers(1 << 62))
        aware = []
        for one in range(1, sets + 1):
            drawn = redraw(given, number=one, sets=sets, rng=np.random.default_rng(state))
            aware += self.analysed(list(drawn), 1, rng)
        found = {"noise-aware": interval(aware, "noise-aware")}
        found["shared"] = interval(self.analysed(given, SPLIT_SETS, rng), "shared")
        if split:
            scale = self.case.scale(tables, SPLIT_SETS)
            own: list[tuple[Floats, Floats]] = []
            for _ in range(SPLIT_SETS):
                own += self.analysed(self.measure(counts, scale, rng), 1, rng)
            found["split"] = interval(own, "split")
        return found


def interval(sets: list[tuple[Floats, Floats]], rule: Rule) -> tuple[Floats, Floats]:
    """Return the combined estimates and half the widths of their intervals."""
    variances = np.array([np.diag(each) for _, each in sets])
    combined = combine(np.array([each for each, _ in sets]), variances, rule)
    low, high = combined.interval(0.95)
    return (low + high) / 2, (high - low) / 2


def report(design: Design, case: Case, options: argparse.Namespace) -> None:
    """Print the rows of one case."""
    simulation = Simulation(design, case, options)
    split = options.split == "always" or (options.split == "one" and case.epsilon == 1)
    begun = time.process_time()
    runs = [simulation.once(number, split=split) for number in range(options.repeats)]
    spent = time.process_time() - begun
    scale = case.scale(len(design.cliques))
    variance = scale**2 * (2 if case.noise == "pure" else 1)
    best = 1.959964 * design.ideal(case.rows, variance)
    widths: dict[str, Floats] = {}
    for way in runs[0]:
        estimate = np.array([run[way][0] for run in runs])
        half = np.array([run[way][1] for run in runs])
        covered = (np.abs(estimate - design.truth) <= half).mean(axis=0)
        widths[way] = half.mean(axis=0)
        ratio = widths[way] / best
        print(
            f"| {case.rows:,} | {case.noise} | {float(case.epsilon):g} | {way} |"
            f" {covered.mean():.3f} | {covered.min():.3f} ({design.names[covered.argmin()]}) |"
            f" {ratio.mean():.2f} | {ratio.max():.2f} ({design.names[ratio.argmax()]}) |",
            flush=True,
        )
        if options.details:
            bias = (estimate.mean(axis=0) - design.truth) / estimate.std(axis=0)
            for place, name in enumerate(design.names):
                print(
                    f"    {name:16} truth {design.truth[place]:7.3f}  covered"
                    f" {covered[place]:.3f}  width/ideal {ratio[place]:5.2f}  bias/se"
                    f" {bias[place]:5.2f}  ideal se {best[place] / 1.96:.4f}",
                    flush=True,
                )
    if split:
        narrower = widths["split"] / widths["noise-aware"]
        print(
            f"    noise sd {math.sqrt(variance):.0f}; split/noise-aware width"
            f" {narrower.min():.2f} to {narrower.max():.2f}, mean {narrower.mean():.2f};"
            f" CPU {spent:.0f} s",
            flush=True,
        )
    else:
        print(f"    noise sd {math.sqrt(variance):.0f}; CPU {spent:.0f} s", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage and width of noise-aware intervals.")
    parser.add_argument("--design", choices=DESIGNS, default="pairs")
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--epsilon", type=Fraction, nargs="+", default=["1/2", "1", "4"])
    parser.add_argument("--noise", choices=["zcdp", "pure"], nargs="+", default=["zcdp", "pure"])
    parser.add_argument("--reconstruct", default="pgm")
    parser.add_argument("--smoothing", type=float)
    parser.add_argument("--sets", type=int, default=SETS)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--split", choices=["never", "one", "always"], default="one")
    parser.add_argument("--details", action="store_true")
    options = parser.parse_args()
    design = DESIGNS[options.design]()
    print(f"python {platform.python_version()}, numpy {np.__version__}, numba {numba.__version__}")
    print(
        f"design {options.design}: {len(design.cliques)} tables, {len(design.names)} quantities;"
        f" {options.reconstruct}, {options.sets} sets, {options.repeats} repeats"
    )
    groups = needed_groups(["y"], design.terms)
    sentence = unmeasured_sentence(unmeasured_groups(groups, {0: design.cliques}))
    print(f"what the report says beforehand: {sentence or 'the tables carry this regression'}")
    print("| rows | noise | epsilon | sets | covered | least | width/ideal | most |")
    print("|---|---|---|---|---|---|---|---|")
    for rows, noise, epsilon in itertools.product(options.rows, options.noise, options.epsilon):
        report(design, Case(rows, noise, Fraction(epsilon)), options)


if __name__ == "__main__":
    main()
