"""Bowen & Liu (2020): what the figures and tables of simulations 1 to 4 and of section 5 draw.

Private sets are made by the library's own method, curator and exact noise (`single_set`): of a
repeat of simulation 1 with 100 records the plan and the procedure around them took a fifth to a
half of the time, and nothing of the result. What the library has not ("MODIPS, as published") and
what is not private ("MS", the file itself) is the arithmetic of the simulations' scripts, with
seeded noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import fertility, simulation1, simulation2, simulation3, simulation4
from benchmarks.papers.comparative import LOGS, SETS, combine, moments
from benchmarks.papers.figures.experiment import Context, Experiment, Setting, Values, grid
from benchmarks.papers.single_sets import single_set
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods import registry
from dp_core.methods.parametric.synthesizer import Synthesizer
from dp_core.schema.variables import Variable, Variables

Floats = NDArray[np.float64]


@cache
def method(name: str, **chosen: object) -> Synthesizer:
    """Return a parametric method of the library."""
    return registry.find("parametric", name)(**chosen)  # type: ignore[no-any-return]


def judged(estimates: Floats, variances: Floats, truth: float, name: str = "") -> Values:
    """Return error, coverage and width of each repeat, from its sets along the last axis."""
    with np.errstate(invalid="ignore"):
        at, half = combine(estimates, variances)
    there = np.isfinite(at) & np.isfinite(half)
    covered = np.where(there, np.abs(at - truth) <= half, np.nan)
    found = {"error": at - truth, "covered": covered, "width": 2 * half}
    return {f"{metric}{name}": np.where(there, values, np.nan) for metric, values in found.items()}


# Simulation 1

SIMULATED_1: Mapping[str, tuple[str, dict[str, object], int]] = {
    "MODIPS": ("modips", {"alpha": simulation1.PRIOR}, SETS),
    "Laplace": ("laplace_sanitizer", {}, SETS),
    "MD": ("multinomial_dirichlet", {}, SETS),
    "BB-MR": ("beta_binomial", {}, 1),
}
BINARY = Variables((Variable(name="x", size=2),))


def simulation_1(context: Context, setting: Setting, repeats: range) -> Values:
    """Return what each repeat says of the proportion, and whether its sets hold both levels."""
    n, pi, label = int(setting["n"]), float(setting["pi"]), str(setting["method"])
    estimates = []
    for repeat in repeats:
        key = ("simulation-1", n, pi, repeat)
        ones = int(context.generator(*key).binomial(n, pi))
        rng = context.generator(*key, label, setting["log"])
        if label == "original":
            estimates.append([ones / n])
            continue
        if label == "MS, no privacy":
            drawn = rng.beta(simulation1.PRIOR + ones, simulation1.PRIOR + n - ones, SETS)
            estimates.append(rng.binomial(n, drawn) / n)
            continue
        name, chosen, sets = SIMULATED_1[label]
        counter = MemoryCounter(simulation1.file_of(n, ones))
        epsilon = float(np.exp(int(setting["log"]))) / sets
        made = [
            single_set(
                method(name, **chosen),
                BINARY,
                counter,
                epsilon=epsilon,
                rows=n,
                rng=rng,
                neighbours="replace-one",
            )
            for _ in range(sets)
        ]
        estimates.append([each.codes.mean() for each in made])
    found = np.array(estimates)
    at = found.mean(axis=1)
    usable = (at > 0) & (at < 1)
    variances = np.where(usable[:, None], found * (1 - found) / n, np.nan)
    values = judged(found, variances, pi)
    return {**values, "usable": usable.astype(float)}


EVERY_LOG = {"log": LOGS}
SIMULATION_1 = Experiment(
    "simulation-1",
    grid(pi=simulation1.PROPORTIONS, n=simulation1.SIZES, method=tuple(SIMULATED_1), **EVERY_LOG)
    + grid(
        pi=simulation1.PROPORTIONS,
        n=simulation1.SIZES,
        method=("MS, no privacy", "original"),
        log=(0,),
    ),
    simulation_1,
    repeats=5000,
    published=5000,
    block=500,
)


# Simulation 2

POSITIONS = 4096


def simulation_2(context: Context, setting: Setting, repeats: range) -> Values:
    """Return what each repeat says of mean and variance."""
    known = simulation2.Setting(int(setting["n"]), float(setting["low"]))
    label, epsilon = str(setting["method"]), float(np.exp(int(setting["log"])))
    at: dict[str, list[Floats]] = {name: [] for name in ("mean", "variance", "of m", "of v")}
    for repeat in repeats:
        key = ("simulation-2", known.size, known.low, repeat)
        data = np.clip(context.generator(*key).standard_normal(known.size), known.low, known.high)
        rng = context.generator(*key, label, setting["log"])
        sets = SIMULATED_2[label](data, epsilon, known, rng)
        (mean, spread), (variance, uncertain) = moments(sets)
        for name, part in zip(at, (mean, variance, spread, uncertain), strict=True):
            at[name].append(part)
    arrays = {name: np.array(parts) for name, parts in at.items()}
    mean = judged(arrays["mean"], arrays["of m"], 0.0, " mean")
    return {**mean, **judged(arrays["variance"], arrays["of v"], 1.0, " variance")}


def number(low: float, high: float, bins: int = 0, name: str = "x") -> Variable:
    """Return a numeric column on a grid of about 4,096 positions, as many in every bin."""
    positions = POSITIONS // bins * bins if bins else POSITIONS
    edges = tuple(range(0, positions + 1, positions // bins)) if bins else ()
    return Variable(name=name, size=positions, positions=positions, low=low, high=high, bins=edges)


def library_2(name: str, sets: int, *, binned: bool, neighbours: str = "add-remove", **chosen):
    """Return the way to sets of one number by a method of the library."""

    def way(data: Floats, epsilon: float, known: simulation2.Setting, rng) -> Floats:
        column = number(known.low, known.high, known.bins if binned else 0)
        variables = Variables((column,))
        counter = MemoryCounter(Dataset(variables.domain, column.position(data)[None]))
        made = [
            single_set(
                method(name, **chosen),
                variables,
                counter,
                epsilon=epsilon / sets,
                rows=known.size,
                rng=rng,
                neighbours=neighbours,  # type: ignore[arg-type]
            )
            for _ in range(sets)
        ]
        return column.value(np.array([each.codes[0] for each in made], dtype=np.float64))

    return way


def script_2(way):
    """Return a way of simulation 2's script, of one file."""
    return lambda data, *more: way(data[None], *more)[0]


SIMULATED_2 = {
    "MODIPS, as published": script_2(simulation2.published),
    "MODIPS": library_2("modips", SETS, binned=False, neighbours="replace-one"),
    "perturbed histogram": library_2("laplace_sanitizer", SETS, binned=True, published=True),
    "smoothed histogram": library_2("smoothed_histogram", 1, binned=True),
    "MS, no privacy": script_2(simulation2.multiple),
    "original": lambda data, *_: data[None],
}
SIMULATION_2 = Experiment(
    "simulation-2",
    grid(
        low=(-3.0, -4.0),
        n=simulation2.SIZES,
        method=tuple(SIMULATED_2)[:4],
        **EVERY_LOG,
    )
    + grid(low=(-3.0, -4.0), n=simulation2.SIZES, method=("MS, no privacy", "original"), log=(0,)),
    simulation_2,
    repeats=5000,
    published=5000,
    block=250,
)


def scott(context: Context, setting: Setting, repeats: range) -> Values:
    """Return numbers of bins by Scott's rule with the sample's deviation (supplement, Table 2)."""
    n, found = int(setting["n"]), []
    for repeat in repeats:
        data = context.generator("scott", n, repeat).standard_normal(n)
        np.clip(data, -3, 4, out=data)
        found.append(float(np.ceil(7 / (3.5 * data.std(ddof=1) * n ** (-1 / 3)))))
    return {"bins": found}


SCOTT = Experiment("simulation-2-bins", grid(n=(20, 40, 100, 1000)), scott, 5000, 5000, 5000)


# Simulation 3

NUMBERS = tuple(number(-simulation3.REACH, simulation3.REACH, name=f"z{i}") for i in (1, 2))
MIXED = Variables(
    (*(Variable(name=f"w{i + 1}", size=s) for i, s in enumerate(simulation3.SIZES)), *NUMBERS)
)
COARSE = tuple(number(-simulation3.REACH, simulation3.REACH, 6, f"z{i}") for i in (1, 2))
BINNED = Variables((*tuple(MIXED)[:3], *COARSE))


def simulation_3(context: Context, setting: Setting, repeats: range) -> Values:
    """Return what each repeat says of every parameter."""
    label, epsilon = str(setting["method"]), float(np.exp(int(setting["log"])))
    found: list[Mapping[str, tuple[Floats, Floats]]] = []
    truths: Mapping[str, Floats] = {}
    for repeat in repeats:
        counts, numbers = simulation3.data(1, context.generator("simulation-3", repeat))
        rng = context.generator("simulation-3", repeat, label, setting["log"])
        if label in LIBRARY_3:
            samples = library_3(label, counts, numbers, epsilon, rng)
        else:
            samples = simulation3.WAYS[label](counts, numbers, epsilon, rng)
        analysed = simulation3.analyses(samples)
        found.append({name: (each[0].T, each[1].T) for name, each in analysed.items()})
        truths = {name: each[2] for name, each in analysed.items()}
    values: dict[str, Values] = {}
    for name, truth in truths.items():
        for p, exact in enumerate(truth):
            estimates, variances = (np.array([each[name][k][p] for each in found]) for k in (0, 1))
            values |= judged(estimates, variances, float(exact), f" {name} {p}")
    return values  # type: ignore[return-value]


LIBRARY_3: Mapping[str, tuple[Variables, str, dict[str, object]]] = {
    "MODIPS": (MIXED, "modips", {}),
    "NP-DIPS, 6 x 6 bins": (
        BINNED,
        "laplace_sanitizer",
        {"categories": Fraction(1, 2)},
    ),
}


def library_3(
    label: str, counts: NDArray[np.int64], numbers: Floats, epsilon: float, rng
) -> simulation3.Samples:
    """Return the summary of five sets by a method of the library."""
    variables, name, chosen = LIBRARY_3[label]
    columns = tuple(variables)[3:]
    cell = simulation3.multinomial_cells(counts)
    levels = np.array(np.unravel_index(cell, simulation3.SIZES), dtype=np.uint16)
    places = [v.position(part)[None] for v, part in zip(columns, numbers.T, strict=True)]
    counter = MemoryCounter(Dataset(variables.domain, np.vstack([levels, *places])))
    drawn, made = [], []
    for _ in range(SETS):
        one = single_set(
            method(name, **chosen),
            variables,
            counter,
            epsilon=epsilon / SETS,
            rows=simulation3.N,
            rng=rng,
        )
        place = np.ravel_multi_index(tuple(one.codes[:3].astype(int)), simulation3.SIZES)
        order = np.argsort(place, kind="stable")
        drawn.append(np.bincount(place, minlength=simulation3.CELLS))
        values = [v.value(one.codes[3 + k][order].astype(float)) for k, v in enumerate(columns)]
        made.append(np.column_stack(values))
    return simulation3.summary(np.array(drawn), np.vstack(made))


SIMULATION_3 = Experiment(
    "simulation-3",
    grid(method=("MODIPS, as published", *LIBRARY_3, "NP-DIPS"), **EVERY_LOG)
    + grid(method=("MS, no privacy", "original"), log=(0,)),
    simulation_3,
    repeats=5000,
    published=5000,
    block=50,
)


def cell_counts(context: Context, setting: Setting, repeats: range) -> Values:
    """Return the records in one cell of the categories (supplement, Tables 4 and 6)."""
    found, cell = [], int(setting["cell"]) - 1
    for repeat in repeats:
        rng = context.generator("cell-counts", setting["simulation"], repeat)
        if setting["simulation"] == 3:
            counts = rng.multinomial(simulation3.N, simulation3.SHARES)
        else:
            sample = simulation4.data(rng)
            place = np.ravel_multi_index(tuple(sample.codes[2:].astype(int)), (2, 2, 3))
            counts = np.bincount(place, minlength=12)
        found.append(float(counts[cell]))
    return {"records": found}


CELL_COUNTS = Experiment(
    "simulation-3-and-4-cells",
    grid(simulation=(3,), cell=tuple(range(1, 25)))
    + grid(simulation=(4,), cell=tuple(range(1, 13))),
    cell_counts,
    repeats=5000,
    published=5000,
    block=1000,
)


# Simulation 4

METHODS_4: tuple[str, ...] = (*simulation4.METHODS, "NP-DIPS")


def simulation_4(context: Context, setting: Setting, repeats: range) -> Values:
    """Return what each repeat says of every parameter."""
    label = str(setting["method"])
    epsilon = float(np.exp(int(setting["log"]))) / SETS
    found = []
    for repeat in repeats:
        sample = simulation4.data(context.generator("simulation-4", repeat))
        rng = context.generator("simulation-4", repeat, label, setting["log"])
        found.append([simulation4.analyses(each) for each in sets_4(label, sample, epsilon, rng)])
    values: dict[str, Values] = {}
    for name, truth in simulation4.TRUTHS.items():
        for p, exact in enumerate(truth):
            estimates, variances = (
                np.array([[one[name][k][p] for one in sets] for sets in found]) for k in (0, 1)
            )
            values |= judged(estimates, variances, exact, f" {name} {p}")
    return values  # type: ignore[return-value]


def sets_4(label: str, sample: Dataset, epsilon: float, rng) -> Iterable[Dataset]:
    """Return the sets of one confidential sample."""
    if label == "original":
        return [sample]
    if label == "NP-DIPS":
        return [simulation4.histogram(sample, epsilon, rng) for _ in range(SETS)]
    plain = label == "MS, no privacy"
    chosen = simulation4.METHODS["SLOMAG" if plain else label]
    counter = MemoryCounter(sample)
    each = simulation4.NOTHING if plain else epsilon
    return [
        single_set(
            chosen, simulation4.VARIABLES, counter, epsilon=each, rows=simulation4.N, rng=rng
        )
        for _ in range(SETS)
    ]


SIMULATION_4 = Experiment(
    "simulation-4",
    grid(method=METHODS_4, **EVERY_LOG) + grid(method=("MS, no privacy", "original"), log=(0,)),
    simulation_4,
    repeats=1000,
    published=1000,
    block=20,
)


# Section 5


def case_study(context: Context, setting: Setting, repeats: range) -> Values:
    """Return what Tables 4 and 5 say of one split of the volunteers, by method and row."""
    del setting  # one split serves all methods
    rows: dict[str, list[float]] = {}
    for repeat in repeats:
        seed = repeat + 1_000_000 * context.seed
        found = fertility.run(context.file("fertility.csv"), 1, seed)
        for name, values in found.items():
            for label, value in zip(fertility.COLUMNS, values, strict=True):
                rows.setdefault(f"{label}: {name}", []).append(float(value))
    return rows


FERTILITY = Experiment(
    "fertility", grid(epsilon=("e",)), case_study, 100, 100, 2, needs="fertility.csv"
)
