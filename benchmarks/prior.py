"""What does a prior gain if it is right, and what does it cost if it is wrong?

    python benchmarks/prior.py [--part drift coverage regions] [--mode posterior shared]
        [--kind classes tree items] [--rows 5000 50000] [--epsilon 0.1 0.5 1 4] [--repeats 3]
        [--regions /path/to/households]

Each release is made once and its sets twice from the same noisy tables, with and without the prior
(delta 1e-9, add-remove). Printed are ratios of the average TVD of a set over all pairs of columns:
with the prior over without it, as the mean over the repeats with its standard error.

`drift`: three kinds of generated populations. Last year's file is drawn from one; in this year's, a
part of the records (the drift) comes from another population of the same kind. The prior is last
year's release at the same epsilon, a public file of last year's population, last year's release
whose columns were permuted independently (no dependence), or a public file of a population with
other dependence (levels renamed).
`coverage`: 95 % intervals of cells of pairs, for the population's shares, with and without the
prior, and with a wrong one.
`regions`: persons of each region of a household survey, the whole table of another region as the
public prior.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from numpy.typing import NDArray

from benchmarks.auto_parts.draws import conditional, given, latent, skewed
from benchmarks.trial import trial_plan
from dp_core.accounts.memory_session import MemorySession
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.combine import combine
from dp_core.inference.combining_rules import rule_of
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.prior import PublicPrior, as_codes
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import Answered, ask_all, fits, sample
from dp_core.plan.release_spec import Mode
from dp_core.plan.steps.posterior_draws import PosteriorDraws

Floats = NDArray[np.float64]
Tables = dict[tuple[str, ...], Floats]
Population = Callable[[int, np.random.Generator], NDArray[np.int64]]
DELTA = Fraction(1, 10**9)
DRIFTS = (0.0, 0.1, 0.3, 1.0)
SETS = 5
_PEOPLE = 400_000  # of the population of items, from which records are drawn
SIZES = {
    "classes": (2, 2, 2, 3, 3, 4, 5, 6, 7, 9),
    "tree": (2, 3, 4, 2, 5, 3, 6, 2, 8, 4, 10, 3),
    "items": (2,) * 16,
}


def population(kind: str, seed: int) -> Population:
    """Return a population of a kind: a function that draws records, shape (columns, rows)."""
    return {"classes": _classes, "tree": _tree, "items": _items}[kind](seed)


def _classes(seed: int) -> Population:
    rng = np.random.default_rng([seed, 1])
    tables = []
    for size in SIZES["classes"]:
        average = rng.dirichlet(np.ones(size))
        tables.append(
            np.stack([rng.dirichlet(average * part + 0.05) for part in (30, 20, 12, 8, 2)])
        )

    def draw(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        group = rng.choice(5, rows, p=[0.4, 0.25, 0.2, 0.1, 0.05])
        return np.stack([given(group, table, rng) for table in tables])

    return draw


def _tree(seed: int) -> Population:
    rng, sizes = np.random.default_rng([seed, 2]), SIZES["tree"]
    parents = [int(rng.integers(0, axis)) for axis in range(1, len(sizes))]
    first = skewed(sizes[0], 0.5, rng)
    tables = [
        conditional(sizes[parent], size, float(rng.uniform(0.1, 0.8)), rng)
        for parent, size in zip(parents, sizes[1:], strict=True)
    ]

    def draw(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        codes = [rng.choice(sizes[0], size=rows, p=first)]
        for parent, table in zip(parents, tables, strict=True):
            codes.append(given(codes[parent], table, rng))
        return np.stack(codes)

    return draw


def _items(seed: int) -> Population:
    rng = np.random.default_rng([seed, 3])
    everyone = latent(_PEOPLE, rng.uniform(0.08, 0.7, 16), 2, 2.0, rng)

    def draw(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return everyone[:, rng.choice(_PEOPLE, rows)].astype(np.int64)

    return draw


def dataset(codes: NDArray[np.integer], sizes: Sequence[int]) -> Dataset:
    """Return codes as a file."""
    names = tuple(f"c{axis + 1}" for axis in range(len(sizes)))
    domain = Domain(names, tuple(sizes))
    return Dataset(domain, np.ascontiguousarray(codes).astype(domain.code_type))


def tables_of(data: Dataset) -> Tables:
    """Return all two-way tables as shares."""
    domain, found = data.domain, {}
    for clique in itertools.combinations(domain.columns, 2):
        sizes = domain.project(clique).sizes
        place = np.ravel_multi_index([data.column(name).astype(np.int64) for name in clique], sizes)
        counts = np.bincount(place, minlength=math.prod(sizes)).reshape(sizes)
        found[clique] = counts / data.rows
    return found


def tvd(one: Tables, other: Tables) -> float:
    """Return the average TVD over all tables."""
    return float(np.mean([np.abs(one[name] - other[name]).sum() / 2 for name in one]))


def measured(data: Dataset, epsilon: Fraction, mode: Mode, seed: int) -> tuple[Plan, Answered]:
    """Return the plan of a release and what it measured."""
    sets = SETS if mode == "posterior" else 1
    about = int(float(f"{data.rows:.1e}"))
    plan = trial_plan(
        data.domain, "auto", epsilon, DELTA, sets=sets, mode=mode, seed=seed, rows_about=about
    )
    privacy = plan.spec.privacy
    session = MemorySession(
        plan.currency, privacy.neighbours, max_rows=privacy.max_rows, shares=privacy.shares
    )
    answered = ask_all(plan, MemoryCounter(data), session)
    return answered.plan, answered


def sets_of(answered: Answered, prior: PublicPrior | None) -> list[Dataset]:
    """Return the sets of a release with a prior."""
    plan = answered.plan
    plan = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, prior=prior))
    models = dict(fits(plan, answered.released, answered.selections, rows=answered.rows))
    return [sample(plan, models, number) for number in range(1, plan.spec.sets + 1)]


def error(answered: Answered, prior: PublicPrior | None, truth: Tables) -> float:
    """Return the average TVD of a set, or of the drawn tables of posterior sets.

    The records of a posterior set match its tables within a few records.
    """
    plan = answered.plan
    if plan.spec.mode != "posterior":
        return float(np.mean([tvd(tables_of(each), truth) for each in sets_of(answered, prior)]))
    plan = dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, prior=prior))
    drawn = PosteriorDraws(plan, answered.released, answered.selections, rows=answered.rows)
    found = []
    for number in range(1, plan.spec.sets + 1):
        tables = drawn.tables.draw(number)
        shares = {each.clique: each.values / each.values.sum() for each in tables}
        found.append(tvd({clique: shares[clique] for clique in truth}, truth))
    return float(np.mean(found))


def as_prior(sets: Sequence[Dataset], *, apart: bool) -> PublicPrior:
    """Return sets of records as a prior."""
    domain = sets[0].domain
    return PublicPrior(domain, tuple(as_codes(list(each.codes)) for each in sets), apart)


def permuted(data: Dataset, rng: np.random.Generator) -> Dataset:
    """Return a file whose columns were permuted independently."""
    return Dataset(data.domain, np.stack([rng.permutation(each) for each in data.codes]))


def renamed(data: Dataset, rng: np.random.Generator) -> Dataset:
    """Return a file whose levels were renamed at random, so that it depends in other cells."""
    codes = [
        rng.permutation(size).astype(each.dtype)[each]
        for each, size in zip(data.codes, data.domain.sizes, strict=True)
    ]
    return Dataset(data.domain, np.stack(codes))


def drift(options: argparse.Namespace) -> None:
    """Print ratios on generated files."""
    print(f"{'file':8} {'rows':>6} {'eps':>5} {'mode':9} {'without':>8} prior: ratio")
    for mode, kind, rows, epsilon in itertools.product(
        options.mode, options.kind, options.rows, options.epsilon
    ):
        found: dict[str, list[float]] = {}
        plain = []
        for repeat in range(options.repeats):
            seed = options.seed + repeat
            rng = np.random.default_rng([seed, rows])
            sizes = SIZES[kind]
            old, new = population(kind, 2 * seed), population(kind, 2 * seed + 1)
            last = dataset(old(rows, rng), sizes)
            before = sets_of(measured(last, Fraction(epsilon), "posterior", 7)[1], None)
            public = dataset(old(rows, rng), sizes)
            other = dataset(new(rows, rng), sizes)
            for part in DRIFTS:
                codes = old(rows, rng)
                codes = np.where(rng.random(rows) < part, new(rows, rng), codes)
                data = dataset(codes, sizes)
                truth = tables_of(data)
                _, answered = measured(data, Fraction(epsilon), mode, seed)
                base = error(answered, None, truth)
                if not part:
                    plain.append(base)
                priors = {f"release {part:g}": as_prior(before, apart=True)}
                priors[f"public {part:g}"] = as_prior([public], apart=False)
                if not part:
                    priors["permuted"] = as_prior(
                        [permuted(each, rng) for each in before], apart=True
                    )
                    priors["other"] = as_prior([renamed(other, rng)], apart=False)
                for name, prior in priors.items():
                    ratio = error(answered, prior, truth) / base
                    found.setdefault(name, []).append(ratio)
        shown = ", ".join(f"{name}: {_mean(ratios)}" for name, ratios in found.items())
        print(f"{kind:8} {rows:6} {epsilon:>5} {mode:9} {np.mean(plain):8.4f} {shown}", flush=True)


def coverage(options: argparse.Namespace) -> None:
    """Print coverage and width of intervals of cells, with and without a prior."""
    print("coverage of 95 % intervals of cells of at least 1 % / below 1 %; width relative to none")
    for kind, rows, epsilon in itertools.product(options.kind, options.rows, options.epsilon):
        hits: dict[str, list[tuple[float, float, float]]] = {}
        for repeat in range(options.repeats):
            seed = options.seed + repeat
            rng = np.random.default_rng([seed, rows, 1])
            sizes = SIZES[kind]
            old, new = population(kind, 2 * seed), population(kind, 2 * seed + 1)
            before = sets_of(
                measured(dataset(old(rows, rng), sizes), Fraction(epsilon), "posterior", 7)[1], None
            )
            whole = np.where(rng.random(200_000) < 0.1, new(200_000, rng), old(200_000, rng))
            truth = tables_of(dataset(whole, sizes))
            data = dataset(whole[:, rng.choice(whole.shape[1], rows)], sizes)
            _, answered = measured(data, Fraction(epsilon), "posterior", seed)
            other = dataset(new(rows, rng), sizes)
            priors = {
                "none": None,
                "release": as_prior(before, apart=True),
                "public": as_prior([dataset(old(rows, rng), sizes)], apart=False),
                "permuted": as_prior([permuted(each, rng) for each in before], apart=True),
                "other": as_prior([renamed(other, rng)], apart=False),
            }
            for name, prior in priors.items():
                hits.setdefault(name, []).append(_covered(sets_of(answered, prior), truth))
        base = np.mean([each[2] for each in hits["none"]])
        shown = []
        for name, found in hits.items():
            large, small, width = np.mean(found, axis=0)
            shown.append(f"{name}: {large:.3f} / {small:.3f}, {width / base:.2f}")
        print(f"{kind:8} {rows:6} {epsilon:>5} {'; '.join(shown)}", flush=True)


def _covered(sets: Sequence[Dataset], truth: Tables) -> tuple[float, float, float]:
    """Return the coverage of cells of at least and below 1 %, and the mean width."""
    rule, rows = rule_of("posterior", len(sets)), sets[0].rows
    tables = [tables_of(each) for each in sets]
    large, small, widths = [], [], []
    for clique, shares in truth.items():
        estimates = np.array([each[clique].ravel() for each in tables])
        variances = estimates * (1 - estimates) / rows
        for at, share in enumerate(shares.ravel()):
            if not estimates[:, at].any():
                continue
            one = combine(estimates[:, at], variances[:, at], rule)
            low, high = one.interval(0.95)
            (large if share >= 0.01 else small).append(low <= share <= high)
            if share >= 0.01:
                widths.append(high - low)
    return float(np.mean(large)), float(np.mean(small) if small else np.nan), float(np.mean(widths))


def regions(options: argparse.Namespace) -> None:
    """Print ratios where the public table of one region is the prior of another."""
    import pandas as pd

    frame = pd.read_csv(Path(options.regions) / "persons.csv")
    homes = pd.read_csv(Path(options.regions) / "households.csv")
    frame = frame.merge(homes[["hhID", "HHSize", "HHIncome", "HHDwelling"]], on="hhID")
    names = ["PAge", "PGender", "PEmp", "POcc", "PComm", "HHSize", "HHIncome", "HHDwelling"]
    coded = [pd.Categorical(frame[name].astype(object).fillna("").astype(str)) for name in names]
    sizes = [len(each.categories) for each in coded]
    codes = np.stack([each.codes for each in coded])
    place = frame["SUBREGCluster"].to_numpy()
    parts = {key: dataset(codes[:, place == key], sizes) for key in np.unique(place)}
    print("persons by region:", {int(key): each.rows for key, each in parts.items()})
    for mode, epsilon in itertools.product(options.mode, options.epsilon):
        for key, data in parts.items():
            truth, found, plain = tables_of(data), {}, []
            for repeat in range(options.repeats):
                _, answered = measured(data, Fraction(epsilon), mode, options.seed + repeat)
                base = error(answered, None, truth)
                plain.append(base)
                for other, public in parts.items():
                    if other == key:
                        continue
                    prior = as_prior([public], apart=False)
                    ratio = error(answered, prior, truth) / base
                    found.setdefault(f"region {other}", []).append(ratio)
            shown = ", ".join(f"{name}: {_mean(ratios)}" for name, ratios in found.items())
            print(
                f"region {key} ({data.rows}) eps {epsilon} {mode}: {np.mean(plain):.4f} {shown}",
                flush=True,
            )


def _mean(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{np.mean(values):.2f}"
    return f"{np.mean(values):.2f}±{np.std(values, ddof=1) / math.sqrt(len(values)):.2f}"


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", nargs="+", default=["drift"])
    parser.add_argument("--mode", nargs="+", default=["posterior", "shared"])
    parser.add_argument("--kind", nargs="+", default=list(SIZES))
    parser.add_argument("--rows", nargs="+", type=int, default=[5_000, 50_000])
    parser.add_argument("--epsilon", nargs="+", default=["0.1", "0.5", "1", "4"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--regions", default="households")
    options = parser.parse_args()
    for part in options.part:
        {"drift": drift, "coverage": coverage, "regions": regions}[part](options)


if __name__ == "__main__":
    main()
