"""SBHG (Li, Karwa, Slavkovic & Steorts 2018): what Figures 1 to 6 and Tables 1 and 2 draw.

"SBHG" has its features chosen by exact mutual information, which is not private (the paper's plain
SBHG); "SBHG+EM" chooses them from the same epsilon. A repeat in which no cell of a column passes
the threshold makes no file; the metric `made` counts the others.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import sbhg
from benchmarks.papers.figures.experiment import Context, Experiment, Setting, Values, grid
from benchmarks.papers.figures.experiments.census_like import census_like
from benchmarks.papers.threshold_error import expected_l1
from dp_core.client.released import SparseTable
from dp_core.errors import StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.selection.budget.threshold_delta import continuous_threshold

FILES = {"dense": 3, "sparse": 10}
"""Columns of the simulated files."""
BEST = {"dense": 2, "sparse": 3}
"""The paper's optimal numbers of features."""
SWEEPS = 10
HOUSEHOLDS, TESTED = 200_000, 50_000


def information(data: Dataset, one: str, other: str) -> float:
    """Return the mutual information of two columns, in nats."""
    first, second = data.domain.project((one, other)).sizes
    cells = data.column(one).astype(np.int64) * second + data.column(other)
    table = np.bincount(cells, minlength=first * second).reshape(first, second) / data.rows
    even = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    there = table > 0
    return float((table[there] * np.log(table[there] / even[there])).sum())


def nearest(data: Dataset, features: int) -> tuple[tuple[str, ...], ...]:
    """Return each column with those of largest mutual information: not private."""
    names = data.domain.columns
    known = {frozenset(pair): information(data, *pair) for pair in itertools.combinations(names, 2)}

    def features_of(name: str) -> tuple[str, ...]:
        others = sorted((o for o in names if o != name), key=lambda o: -known[frozenset((name, o))])
        return (name, *others[:features])

    return tuple(features_of(name) for name in names)


def proportions_l1(data: Dataset, made: Dataset) -> float:
    """Return n times the L1 distance of the joint tables of proportions."""
    rows = np.concatenate([data.codes.T, made.codes.T])
    weights = np.repeat([1.0, -data.rows / made.rows], [data.rows, made.rows])
    _, cell = np.unique(rows, axis=0, return_inverse=True)
    return float(np.abs(np.bincount(cell.ravel(), weights=weights)).sum())


def resampled(data: Dataset, rows: int, rng: np.random.Generator) -> Dataset:
    """Return records drawn from the file: the empirical sampler."""
    chosen = rng.integers(0, data.rows, rows)
    return Dataset(data.domain, np.ascontiguousarray(data.codes[:, chosen]))


def gibbs(data: Dataset, rows: int, rng: np.random.Generator) -> Dataset:
    """Return the states of one Gibbs sampler for each record, after `SWEEPS` sweeps."""
    return sbhg.FullConditionals(data).sample(rows, chains=rows, rng=rng, sweeps=SWEEPS)


def options(method: str, data: Dataset) -> tuple[str, dict[str, object]]:
    """Return preset and options of a label such as `SBHG+EM, R = 2`."""
    if method.startswith("SBHG"):
        features = int(method.rsplit(" ", 1)[1])
        if "EM" in method:
            return "sbhg", {"select": {"features": features}}
        return "sbhg", {"select": {"given": nearest(data, features)}}
    return {"SBA": "sba", "PrivBayes": "privbayes"}[method], {}


def made_by(
    method: str, data: Dataset, epsilon: str, delta: Fraction, seed: int, **more: object
) -> tuple[Dataset, SparseTable | None] | None:
    """Return a file, and SBA's table; None if the threshold leaves nothing."""
    preset, chosen = options(method, data)
    paid = Fraction(0) if method == "PrivBayes" else delta
    try:
        file, outcome = sbhg.made(data, preset, epsilon, paid, seed, **chosen, **more)
    except StageFailed:
        return None
    tables = outcome.selections[0].measured
    table = tables[0] if preset == "sba" else None
    return file, table if isinstance(table, SparseTable) else None


def joint(context: Context, setting: Setting, repeats: range) -> Values:
    """Return L1 of the joint tables of counts, average L1 of pairs, and whether there is a file."""
    found: dict[str, list[float]] = {"l1": [], "pairs": [], "made": []}
    epsilon, method = str(setting["epsilon"]), str(setting["method"])
    for repeat in repeats:
        data = simulated(str(setting["file"]), context, repeat)
        if method == "theory":
            counts = np.unique(data.codes.T, axis=0, return_counts=True)[1]
            scale = 2 / float(epsilon)
            bound = continuous_threshold(scale, float(sbhg.DELTA), "algorithm")
            values = expected_l1(counts, int(np.ceil(bound)), scale), np.nan, 1.0
        elif (made := made_by(method, data, epsilon, sbhg.DELTA, repeat)) is None:
            # SBA without a cell is an empty table, which is n records away.
            values = data.rows if method == "SBA" else np.nan, np.nan, 0.0
        else:
            file, table = made
            error = sbhg.joint_l1(data, file) if table is None else sbhg.kept_l1(data, table)
            values = error, sbhg.pairs_l1(data, file), 1.0
        for name, value in zip(found, values, strict=True):
            found[name].append(float(value))
    return found


@lru_cache(4)
def simulated(file: str, context: Context, repeat: int) -> Dataset:
    """Return a simulated file."""
    return sbhg.simulated(FILES[file], repeat + 1_000_000 * (context.seed - 1))


JOINT = Experiment(
    "sbhg-joint",
    tuple(
        setting
        for setting in grid(
            file=("dense", "sparse"),
            method=("SBA", "theory", *(f"SBHG+EM, R = {r}" for r in (1, 2, 3)), "PrivBayes"),
            epsilon=("0.1", "0.2", "0.5", "1", "2", "5", "10"),
        )
        if (setting["file"], setting["method"]) != ("dense", "SBHG+EM, R = 3")
    ),
    joint,
    repeats=20,
    published=0,
    block=2,
)


def baselines(context: Context, setting: Setting, repeats: range) -> Values:
    """Return n times the L1 of proportions, for Tables 1 and 2 and Figure 2."""
    found: dict[str, list[float]] = {"l1": [], "made": []}
    method, size = str(setting["method"]), int(setting["size"])
    for repeat in repeats:
        data = simulated(str(setting["file"]), context, repeat)
        rng = context.generator("sbhg-baselines", method, size, repeat)
        if method == "empirical":
            file: Dataset | None = resampled(data, size, rng)
        elif method == "Gibbs":
            file = gibbs(data, size, rng)
        else:
            way = method.replace("best", str(BEST[str(setting["file"])]))
            made = made_by(way, data, str(setting["epsilon"]), sbhg.DELTA, repeat, rows=size)
            file = made[0] if made else None
        found["made"].append(float(file is not None))
        found["l1"].append(proportions_l1(data, file) if file is not None else np.nan)
    return found


SIZES = (3_000, 10_000, 100_000, 300_000)
BASELINES = Experiment(
    "sbhg-baselines",
    grid(file=("dense", "sparse"), method=("empirical", "Gibbs"), epsilon=("none",), size=SIZES)
    + grid(
        file=("dense", "sparse"),
        method=("SBHG, R = best", "SBHG+EM, R = best", "SBHG, R = 1"),
        epsilon=("0.5", "10"),
        size=SIZES,
    ),
    baselines,
    repeats=20,
    published=20,
    block=2,
)


def settings_of_method(context: Context, setting: Setting, repeats: range) -> Values:
    """Return L1 and CPU seconds of SBHG on the sparse file."""
    found: dict[str, list[float]] = {"l1": [], "seconds": [], "made": []}
    for repeat in repeats:
        data = simulated("sparse", context, repeat)
        before = time.process_time()
        made = made_by(
            f"SBHG, R = {setting['features']}",
            data,
            str(setting["epsilon"]),
            Fraction(str(setting["delta"])),
            repeat,
        )
        found["seconds"].append(time.process_time() - before)
        found["made"].append(float(made is not None))
        found["l1"].append(sbhg.joint_l1(data, made[0]) if made else np.nan)
    return found


TENTHS = tuple(f"{tenth / 10:g}" for tenth in range(1, 11))
SETTINGS = Experiment(
    "sbhg-settings",
    grid(part=("features",), features=tuple(range(1, 10)), epsilon=("0.5", "10"), delta=("5e-4",))
    + grid(part=("epsilon",), features=(3, 1), epsilon=(*TENTHS, "2", "5", "10"), delta=("5e-4",))
    + grid(
        part=("delta",),
        features=(3, 1),
        epsilon=("0.1", "0.5", "10"),
        delta=("1e-4", "1e-3", "1e-2", "1e-1"),
    ),
    settings_of_method,
    repeats=40,
    published=40,
    block=4,
)


def histogram(context: Context, setting: Setting, repeats: range) -> Values:
    """Return the parts of records in the ten bins of one column."""
    found = []
    for repeat in repeats:
        data = simulated("dense", context, repeat)
        codes = data.column(str(setting["column"]))
        found.append(np.bincount(codes, minlength=10) / data.rows)
    return {"part": [float(each[int(setting["bin"])]) for each in found]}


HISTOGRAM = Experiment(
    "sbhg-dense-histogram",
    grid(column=("x0", "x1", "x2"), bin=tuple(range(10))),
    histogram,
    repeats=1,
    published=1,
    block=1,
)

REAL = ("SBA", "SBHG, R = 1", "SBHG, R = 2", "SBHG+EM, R = 1", "SBHG+EM, R = 2", "PrivBayes")


@cache
def adult(context: Context) -> tuple[Dataset, Dataset]:
    """Return training and test records of Adult."""
    whole = sbhg.adult(context.file("adult.csv"))
    order = np.random.default_rng(context.seed - 1).permutation(whole.rows)
    train, test = (
        Dataset(whole.domain, np.ascontiguousarray(whole.codes[:, part]))
        for part in np.split(order, [whole.rows * 4 // 5])
    )
    return train, test


@cache
def households(context: Context) -> tuple[Dataset, Dataset]:
    """Return training and test records that are like those of the ACS."""
    whole = census_like(HOUSEHOLDS + TESTED, context.seed)
    train, test = (
        Dataset(whole.domain, np.ascontiguousarray(whole.codes[:, part]))
        for part in (slice(HOUSEHOLDS), slice(HOUSEHOLDS, None))
    )
    return train, test


def real(
    train: Dataset, test: Dataset, target: str, setting: Setting, repeats: Sequence[int]
) -> Values:
    """Return the distance from the training records, and accuracies on the test records."""
    found: dict[str, list[float]] = {n: [] for n in ("l1", "pairs", "logistic", "tree", "made")}
    method = str(setting["method"])
    for repeat in repeats:
        if method == "the data themselves":
            file: Dataset | None = train
        elif method == "commonest class":
            file = Dataset(train.domain, train.codes[:, train.column(target) == 0])
        else:
            made = made_by(method, train, str(setting["epsilon"]), sbhg.ADULT_DELTA, repeat)
            file = made[0] if made else None
        values = dict.fromkeys(found, np.nan) | {"made": float(file is not None)}
        if file is not None:
            values |= scores(train, test, file, target)
        if method == "commonest class":  # it is no synthetic file
            values |= {"l1": np.nan, "pairs": np.nan}
        for name in found:
            found[name].append(values[name])
    return found


def scores(train: Dataset, test: Dataset, made: Dataset, target: str) -> Mapping[str, float]:
    """Return what is drawn of one file."""
    return {
        "l1": sbhg.joint_l1(train, made) / (2 * train.rows),
        "pairs": sbhg.pairs_l1(train, made),
        "logistic": logistic_accuracy(made, test, target),
        "tree": tree_accuracy(made, test, target),
    }


def indicators(data: Dataset, target: str) -> object:
    """Return a sparse matrix: an indicator of every level of every other column."""
    from sklearn.preprocessing import OneHotEncoder

    others = [name for name in data.domain.columns if name != target]
    levels = [np.arange(size) for size in data.domain.project(others).sizes]
    codes = np.stack([data.column(name) for name in others], axis=1)
    return OneHotEncoder(categories=levels).fit_transform(codes)


def logistic_accuracy(train: Dataset, test: Dataset, target: str) -> float:
    """Return the part of test records whose class a logistic regression gets right."""
    from sklearn.linear_model import LogisticRegression

    return _accuracy(LogisticRegression(max_iter=200), train, test, target, indicators)


def tree_accuracy(train: Dataset, test: Dataset, target: str) -> float:
    """Return the part of test records whose class a decision tree gets right.

    Of depth 8 at most, with 50 records in a leaf at least; levels are taken in their order.
    """
    from sklearn.tree import DecisionTreeClassifier

    def codes(data: Dataset, target: str) -> NDArray[np.float32]:
        others = [name for name in data.domain.columns if name != target]
        return np.stack([data.column(name) for name in others], axis=1).astype(np.float32)

    tree = DecisionTreeClassifier(max_depth=8, min_samples_leaf=50, random_state=0)
    return _accuracy(tree, train, test, target, codes)


def _accuracy(learner: object, train: Dataset, test: Dataset, target: str, shaped: object) -> float:
    known, truth = train.column(target), test.column(target)
    if len(np.unique(known)) == 1:
        return float(np.mean(truth == known[0]))
    learner.fit(shaped(train, target), known)  # type: ignore[attr-defined, operator]
    said = learner.predict(shaped(test, target))  # type: ignore[attr-defined, operator]
    return float(np.mean(said == truth))


def on_adult(context: Context, setting: Setting, repeats: range) -> Values:
    """Return the values of the upper halves of Figures 4 and 5."""
    return real(*adult(context), "income", setting, repeats)


def on_households(context: Context, setting: Setting, repeats: range) -> Values:
    """Return the values of the lower halves of Figures 4 and 5."""
    return real(*households(context), "FS", setting, repeats)


POINTS = grid(method=REAL, epsilon=sbhg.ADULT_EPSILONS) + grid(
    method=("the data themselves", "commonest class"), epsilon=("none",)
)
ADULT = Experiment("sbhg-adult", POINTS, on_adult, 10, 0, 1, needs="adult.csv")
CENSUS = Experiment("sbhg-households", POINTS, on_households, 5, 0, 1)
