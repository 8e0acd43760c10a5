"""The experiments of Eugenio and Liu's CIPHER paper, beside the paper's own figures.

Usage:
    python benchmarks/papers/cipher.py simulated [--rows 200 500] [--runs 30]
    python benchmarks/papers/cipher.py inference [--rows 200 500] [--runs 200] [--out sss.png]
    python benchmarks/papers/cipher.py bankruptcy --data path/to/bankruptcy.csv [--runs 60]
    python benchmarks/papers/cipher.py forms --data path/to/bankruptcy.csv [--runs 20]

`simulated` is experiment 1 (its first two analyses), `inference` its third (Figures 4 and 5),
`bankruptcy` experiment 2 (Table 2 and Figure 7), `forms` compares the options of `reconstruct:
cipher`. Noise is the library's exact Laplace noise; add-remove, the number
of records being told to the reconstruction, as the paper assumes. Prints versions and tables.

What the paper leaves open, and how it is filled in here:
- its simulated data: four columns (2, 2, 3, 3 levels) by a sequence of logistic models whose
  coefficients are in `simulate`; ten parameters in the regression, so the two columns of three
  levels enter with their interaction;
- the tables of experiment 2: one of four columns, six of three and three of two, with 149 free
  cells. That holds if the first has `Class` and three predictors, three of the six have `Class`
  with two of the other predictors, and all pairs are covered (`TABLES`); we chose which;
- the bankruptcy data separate the classes, so their logistic regression has no maximum: Firth's
  penalised likelihood is used, before and after.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.papers.common import (
    design,
    models,
    plan_of,
    preset_plan,
    read_categories,
    records,
    synthetic,
    table_of,
    versions,
)
from benchmarks.papers.common_inference import combine, logistic, significant, sss
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.comparison.plots import Bar, Panel, significance_png
from dp_core.lab.measures.inference_agreement import Outcome, shares
from dp_core.methods.reconstruction.cipher import Cipher
from dp_core.methods.reconstruction.dense import Dense
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.selection.fixed import Fixed
from dp_core.methods.selection.full import Full
from dp_core.methods.selection.ways import Ways
from dp_core.plan.plan import Plan
from dp_core.plan.presets import PRESETS

EPSILONS = {"e^-2": math.exp(-2), "e^-1": math.exp(-1), "1": 1.0, "e": math.e, "e^2": math.exp(2)}
PAPER: Mapping[str, object] = {
    "form": "conditional",
    "weight": "even",
    "pivot": "random",
    "tables": "measured",
}
F = np.array(
    [
        [[[4, 10, 7], [6, 6, 4], [2, 9, 3]], [[15, 14, 15], [5, 2, 2], [4, 7, 4]]],
        [[[4, 3, 4], [18, 4, 6], [5, 6, 4]], [[6, 2, 3], [6, 1, 1], [4, 2, 2]]],
    ]
)
"""A table of 206 records, to compare forms on."""

TABLES = (
    (0, 1, 2, 6),
    (3, 4, 6),
    (4, 5, 6),
    (3, 5, 6),
    (0, 3, 4),
    (1, 4, 5),
    (2, 3, 5),
    (0, 5),
    (1, 3),
    (2, 4),
)
MWEM_RUNS = 10
"""Of the inference experiment: it takes ten times as long as the others."""
DOMAIN = Domain(("x1", "x2", "x3", "x4"), (2, 2, 3, 3))
"""Of experiment 1."""
TABLE_2 = {
    "e^-2": (67.8, 50.0, 41.1),
    "e^-1": (64.7, 51.3, 55.5),
    "1": (68.5, 51.0, 63.8),
    "e": (77.8, 47.2, 85.7),
    "e^2": (90.3, 47.3, 98.8),
}
"""Accuracy of an SVM, %: CIPHER, MWEM, FDH."""


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Attributes:
        label: Its name there.
        cells: Numbers of counts it uses, the paper's cost.
        plan: From domain, epsilon, sets and seed to the plan.
        runs: At most so many of the inference experiment.
    """

    label: str
    cells: int
    plan: Callable[[Domain, float, int, int], Plan] = field(repr=False)
    runs: int | None = None


def ways(order: int, cells: int, label: str, **options: object) -> Method:
    """Return CIPHER from all tables of an order."""

    def plan(domain: Domain, epsilon: float, sets: int, seed: int) -> Plan:
        return plan_of(
            domain,
            Ways(orders=(order,), allocation="equal"),
            Cipher(**options),  # type: ignore[arg-type]
            epsilon=epsilon,
            noise="laplace",
            sets=sets,
            rows=200,
            seed=seed,
        )

    return Method(label, cells, plan)


def histogram(cells: int, label: str, reconstructor: Cipher | Dense) -> Method:
    """Return the sanitised joint table."""

    def plan(domain: Domain, epsilon: float, sets: int, seed: int) -> Plan:
        return plan_of(
            domain,
            Full(),
            reconstructor,
            epsilon=epsilon,
            noise="laplace",
            sets=sets,
            rows=200,
            seed=seed,
        )

    return Method(label, cells, plan)


def listed(cells: int, label: str, reconstructor: Cipher | Dense | Gum) -> Method:
    """Return a reconstruction from the tables of experiment 2."""

    def plan(domain: Domain, epsilon: float, sets: int, seed: int) -> Plan:
        cliques = tuple(tuple(domain.columns[axis] for axis in axes) for axes in TABLES)
        return plan_of(
            domain,
            Fixed(cliques=cliques, allocation="equal"),
            reconstructor,
            epsilon=epsilon,
            noise="laplace",
            sets=sets,
            rows=250,
            seed=seed,
        )

    return Method(label, cells, plan)


def mwem(cells: int, label: str, **options: object) -> list[Method]:
    """Return MWEM as the library has it, or nothing while it has none."""
    if "mwem" not in PRESETS:
        return []

    def plan(domain: Domain, epsilon: float, sets: int, seed: int) -> Plan:
        return preset_plan(
            "mwem", domain, select=options, epsilon=epsilon, sets=sets, rows=200, seed=seed
        )

    return [Method(label, cells, plan, MWEM_RUNS)]


def simulate(rows: int, seed: int) -> Dataset:
    """Return one file of experiment 1."""
    rng = np.random.default_rng([seed, rows])

    def draw(scores: NDArray[np.float64]) -> NDArray[np.int64]:
        noise = rng.gumbel(size=scores.shape)
        return np.asarray(np.argmax(scores + noise, axis=1))

    known: list[NDArray[np.int64]] = []
    while len(known) < 4:
        known.append(draw(scores(known, np.zeros(rows))))
    return Dataset(DOMAIN, np.stack(known).astype(np.uint16))


def scores(known: Sequence[NDArray[np.int64]], zero: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the linear predictors of the next column's levels, given the ones before it."""
    if not known:
        return np.column_stack([zero, zero + 0.3])
    a = known[0]
    if len(known) == 1:
        return np.column_stack([zero, 0.9 * a - 0.4])
    b = known[1]
    if len(known) == 2:
        return np.column_stack([zero, 0.3 - 0.8 * a + 0.5 * b, 0.6 * b - 0.3])
    c = known[2]
    return np.column_stack([zero, 0.7 * (c == 1) - 0.2, 0.9 * (c == 2) - 0.6 * a])


def truth() -> NDArray[np.float64]:
    """Return the coefficients of the regression in the population that `simulate` draws from."""
    cells = np.indices(DOMAIN.sizes).reshape(len(DOMAIN), -1)
    zero, probability = np.zeros(cells.shape[1]), np.ones(cells.shape[1])
    for axis in range(len(DOMAIN)):
        odds = np.exp(scores(list(cells[:axis]), zero))
        part = odds / odds.sum(axis=1, keepdims=True)
        probability *= part[np.arange(part.shape[0]), cells[axis]]
    x = predictors(Dataset(DOMAIN, cells.astype(np.uint16)), "x1")
    return logistic(x, (cells[0] == 1).astype(np.float64), firth=False, counts=probability)[0]


def predictors(data: Dataset, target: str) -> NDArray[np.float64]:
    """Return the design of the regression of the target on the others."""
    others = [name for name in data.domain.columns if name != target]
    _, x = design(data, others)
    if target == "x1":
        # Ten parameters: the two columns of three levels with their interaction.
        x = np.column_stack([x, *(x[:, i] * x[:, j] for i, j in itertools.product((2, 3), (4, 5)))])
    return x


def regression(data: Dataset, target: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients and variances of the logistic regression of the target on the others."""
    return logistic(predictors(data, target), (data.column(target) == 1).astype(np.float64))


Combined = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Estimates, standard errors and degrees of freedom."""


def analyse(sets: Sequence[Dataset], target: str) -> Combined:
    """Return the regression on several sets, combined; of a single one, as it is."""
    return combine(*map(list, zip(*(regression(each, target) for each in sets), strict=True)))


def assess(data: Dataset, sets: Sequence[Dataset], target: str) -> Counter[Outcome]:
    """Return the SSS outcomes of all coefficients but the intercept."""
    return outcomes_of(analyse([data], target), analyse(sets, target))


def outcomes_of(before: Combined, after: Combined) -> Counter[Outcome]:
    """Return the SSS outcomes of all coefficients but the intercept."""
    keep = slice(1, None)
    return sss(
        before[0][keep],
        significant(*before)[keep],
        after[0][keep],
        significant(*after)[keep],
    )


def margins(table: NDArray[np.float64], order: int) -> list[NDArray[np.float64]]:
    """Return all tables of an order, as proportions."""
    table = table / table.sum()
    return [
        table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in kept))
        for kept in itertools.combinations(range(table.ndim), order)
    ]


def distances(
    table: NDArray[np.float64], other: NDArray[np.float64], order: int
) -> tuple[float, float]:
    """Return average TVD and largest cell difference of all tables of an order."""
    pairs = list(zip(margins(table, order), margins(other, order), strict=True))
    return (
        statistics.fmean(float(np.abs(one - two).sum()) / 2 for one, two in pairs),
        max(float(np.abs(one - two).max()) for one, two in pairs),
    )


def show(title: str, rows: Sequence[tuple[str, Sequence[str]]], head: Sequence[str]) -> None:
    """Print one table as Markdown."""
    print(f"\n{title}\n\n| method | " + " | ".join(head) + " |")
    print("|---|" + "---|" * len(head))
    for label, cells in rows:
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def experiment_1(only: str) -> list[Method]:
    """Return the methods of experiment 1 whose label holds a text."""
    methods = [
        histogram(36, "FDH", Cipher(**PAPER)),  # type: ignore[arg-type]
        ways(2, 20, "CIPHER 2-way, as published", **PAPER),
        ways(3, 32, "CIPHER 3-way, as published", **PAPER),
        ways(2, 20, "CIPHER 2-way", **{}),
        ways(3, 32, "CIPHER 3-way", **{}),
        *mwem(20, "MWEM 2-way", orders=(2,), queries="cells"),
    ]
    return [method for method in methods if only in method.label]


def simulated(rows: int, runs: int, only: str) -> None:
    """Print experiment 1 for one number of records."""
    methods = experiment_1(only)
    error: dict[str, list[str]] = {}
    largest: dict[str, list[str]] = {}
    outcomes: dict[str, list[str]] = {}
    spread: dict[str, list[str]] = {}
    for method in methods:
        for epsilon in EPSILONS.values():
            two, most, rmse = [], [], []
            seen: Counter[Outcome] = Counter()
            for run in range(runs):
                data = simulate(rows, run)
                sets = synthetic(method.plan(data.domain, epsilon, 5, run), data)
                whole = table_of(data).astype(float)
                found = [distances(table_of(each).astype(float), whole, 2) for each in sets]
                two.append(statistics.fmean(each[0] for each in found))
                most.append(statistics.fmean(each[1] for each in found))
                seen += assess(data, sets, "x1")
                truth = regression(data, "x1")[0]
                after = np.mean([regression(each, "x1")[0] for each in sets], axis=0)
                rmse.append(float(np.square(after - truth)[1:].mean()))
            mean = statistics.fmean(two)
            error.setdefault(method.label, []).append(
                f"{mean:.3f} ({mean * method.cells / 36:.3f})"
            )
            largest.setdefault(method.label, []).append(f"{statistics.fmean(most):.3f}")
            spread.setdefault(method.label, []).append(f"{statistics.fmean(rmse) ** 0.5:.2f}")
            total = sum(seen.values())
            bad = sum(seen[name] for name in ("I-", "Worst"))
            outcomes.setdefault(method.label, []).append(
                f"{100 * (seen['Best'] + seen['Neutral']) / total:.0f} / {100 * bad / total:.0f}"
            )
    head = list(EPSILONS)
    print(f"\n### n = {rows}, m = 5, {runs} runs")
    show("Average TVD of pairs (times the part of the 36 cells used)", list(error.items()), head)
    show("Largest error of a cell of a pair", list(largest.items()), head)
    show("RMSE of the ten coefficients to those of the data", list(spread.items()), head)
    show("SSS: Best or Neutral / I- or Worst, %", list(outcomes.items()), head)


@dataclass
class Estimates:
    """What a method's runs at one epsilon say about the ten coefficients, and their outcomes."""

    truth: NDArray[np.float64]
    errors: list[NDArray[np.float64]] = field(default_factory=list)
    covered: list[NDArray[np.bool_]] = field(default_factory=list)
    widths: list[NDArray[np.float64]] = field(default_factory=list)
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    def add(self, found: Combined, before: Combined) -> None:
        """Take one run: the combined analysis of its sets, and that of its data."""
        estimate, error, freedom = found
        half = error * stats.t.ppf(0.975, freedom)
        self.errors.append(estimate - self.truth)
        self.covered.append(np.abs(estimate - self.truth) <= half)
        self.widths.append(2 * half)
        self.outcomes += outcomes_of(before, found)

    def cells(self) -> dict[str, str]:
        """Return what each table says."""
        bias = np.abs(np.mean(self.errors, axis=0))
        rmse = np.sqrt(np.mean(np.square(self.errors), axis=0))
        cover = 100 * np.mean(self.covered, axis=0)
        total = sum(self.outcomes.values())
        return {
            "Absolute bias: mean of the ten (largest)": f"{bias.mean():.2f} ({bias.max():.2f})",
            "RMSE: mean of the ten (largest)": f"{rmse.mean():.2f} ({rmse.max():.2f})",
            "Coverage of the 95 % intervals, %: mean of the ten (smallest)": (
                f"{cover.mean():.0f} ({cover.min():.0f})"
            ),
            "Median width of the intervals": f"{np.median(self.widths):.1f}",
            f"SSS, %: {' '.join(Outcome)}": " ".join(
                f"{100 * self.outcomes[kind] / total:.0f}" for kind in Outcome
            ),
        }


def inference(rows: int, runs: int, only: str, out: Path | None) -> None:
    """Print the third analysis of experiment 1 for one number of records, and draw its outcomes."""
    exact = truth()
    files = [simulate(rows, run) for run in range(runs)]
    before = [analyse([data], "x1") for data in files]
    plain = Estimates(exact)
    for one in before:
        plain.add(one, one)
    tables: dict[str, list[tuple[str, list[str]]]] = {}
    for name, text in plain.cells().items():
        tables.setdefault(name, []).append(("the data themselves", [text] * len(EPSILONS)))
    panels = []
    for method in experiment_1(only):
        bars, cells = [], []
        for label, epsilon in EPSILONS.items():
            found = Estimates(exact)
            for run, data in enumerate(files[: method.runs]):
                sets = synthetic(method.plan(data.domain, epsilon, 5, run), data)
                found.add(analyse(sets, "x1"), before[run])
            cells.append(found.cells())
            bars.append(Bar(label, shares(found.outcomes.elements())))
        panels.append(Panel(method.label, tuple(bars)))
        for name in tables:
            tables[name].append((method.label, [each[name] for each in cells]))
        # At once: a run that is stopped still says what it found.
        shown = [(name, [each[name] for each in cells]) for name in cells[0]]
        show(f"{method.label}, n = {rows}", shown, list(EPSILONS))
    print(f"\n### n = {rows}, m = 5, {runs} runs: regression of x1 on the others")
    for name, lines in tables.items():
        show(name, lines, list(EPSILONS))
    if out is not None:
        drawn = significance_png(
            panels,
            title=f"Sign and significance of nine coefficients, n = {rows}, m = 5, {runs} runs",
            notice="CIPHER, experiment 1, third analysis: simulated data",
            axis="epsilon",
        )
        out.with_stem(f"{out.stem}-{rows}").write_bytes(drawn)


def accuracy(train: Dataset, test: Dataset, target: str) -> float:
    """Return the part of test records whose class an SVM gets right, trained on other records."""
    from sklearn.svm import SVC

    others = [name for name in train.domain.columns if name != target]
    labels = train.column(target)
    if len(set(labels.tolist())) == 1:
        return float(np.mean(test.column(target) == labels[0]))
    machine = SVC().fit(design(train, others)[1][:, 1:], labels)
    return float(np.mean(machine.predict(design(test, others)[1][:, 1:]) == test.column(target)))


def bankruptcy(path: Path, runs: int, sets: int, only: str) -> None:
    """Print Table 2 and the SSS assessment of experiment 2."""
    data = read_categories(path)
    methods = [
        listed(149, "CIPHER, as published", Cipher(**PAPER)),  # type: ignore[arg-type]
        listed(149, "CIPHER, clipped", Cipher(**{**PAPER, "tables": "clip"})),  # type: ignore[arg-type]
        listed(149, "CIPHER", Cipher()),
        listed(149, "the same tables, IPF (`dense`)", Dense()),
        listed(149, "the same tables, `gum`", Gum()),
        histogram(1458, "FDH", Cipher(**PAPER)),  # type: ignore[arg-type]
        histogram(1458, "`fdh`", Dense()),
        *mwem(149, "MWEM", orders=(2, 3), queries="cells"),
    ]
    methods = [method for method in methods if only in method.label]
    rows, assessed = [], []
    for method in methods:
        right, outcome = [], []
        for epsilon in EPSILONS.values():
            found = []
            seen: Counter[Outcome] = Counter()
            for run in range(runs):
                made = synthetic(method.plan(data.domain, epsilon, sets, run), data)
                picked = np.random.default_rng(run).choice(data.rows, 50, replace=False)
                test = Dataset(data.domain, data.codes[:, picked])
                found.append(statistics.fmean(accuracy(each, test, "Class") for each in made))
                seen += assess(data, made, "Class")
            error = statistics.stdev(found) / runs**0.5
            right.append(f"{100 * statistics.fmean(found):.1f} ({100 * error:.1f})")
            total = sum(seen.values())
            outcome.append(" ".join(f"{100 * seen[name] / total:.0f}" for name in Outcome))
        rows.append((method.label, right))
        assessed.append((method.label, outcome))
    for index, label in enumerate(("CIPHER, paper", "MWEM, paper", "FDH, paper")):
        rows.append((label, [f"{TABLE_2[name][index]:.1f}" for name in EPSILONS]))
    print(f"\n### Bankruptcy, {data.rows} records, m = {sets}, {runs} runs")
    show("Accuracy of an SVM on 50 of the records, % (standard error)", rows, list(EPSILONS))
    show(f"SSS, %: {' '.join(Outcome)}", assessed, list(EPSILONS))


def forms(path: Path, runs: int) -> None:
    """Print what each option of CIPHER does: average TVD of pairs, and TVD of the joint table."""
    bank, small = read_categories(path), records(F)
    published: Mapping[str, object] = {**PAPER, "pivot": "last"}
    rows: list[tuple[str, Cipher | Dense]] = [
        ("as published, pivot last", Cipher(**published)),  # type: ignore[arg-type]
        ("and `tables: clip`", Cipher(**{**published, "tables": "clip"})),  # type: ignore[arg-type]
        ("and `form: joint`", Cipher(**{**published, "tables": "clip", "form": "joint"})),  # type: ignore[arg-type]
        ("`clip`, `weight: prob`", Cipher(**{**published, "tables": "clip", "weight": "prob"})),  # type: ignore[arg-type]
        ("the defaults, `pivot: last`", Cipher(pivot="last")),
        ("the defaults, `pivot: last`, `form: joint`", Cipher(pivot="last", form="joint")),
        ("the defaults", Cipher()),
        ("`reconstruct: dense` (IPF)", Dense()),
    ]
    two, three = Ways(orders=(2,), allocation="equal"), Ways(orders=(3,), allocation="equal")
    cliques = tuple(tuple(bank.domain.columns[axis] for axis in axes) for axes in TABLES)
    ten = Fixed(cliques=cliques, allocation="equal")
    tasks = [
        ("F, pairs, 1", small, two, 1.0),
        ("F, pairs, 10", small, two, 10.0),
        ("F, triples, 1", small, three, 1.0),
        ("bankruptcy, e^-2", bank, ten, math.exp(-2)),
        ("bankruptcy, 1", bank, ten, 1.0),
        ("bankruptcy, e^2", bank, ten, math.exp(2)),
    ]
    lines = []
    for label, reconstructor in rows:
        cells = []
        for _, data, selector, epsilon in tasks:
            pairs, joint = [], []
            for run in range(runs):
                plan = plan_of(
                    data.domain,
                    selector,
                    reconstructor,
                    epsilon=epsilon,
                    noise="laplace",
                    rows=data.rows,
                    seed=run,
                )
                fitted = models(plan, data)[0].project(data.domain.columns)
                pairs.append(distances(fitted, table_of(data).astype(float), 2)[0])
                joint.append(distances(fitted, table_of(data).astype(float), len(data.domain))[0])
            cells.append(f"{statistics.fmean(pairs):.3f}, {statistics.fmean(joint):.2f}")
        lines.append((label, cells))
    show(f"Average TVD of pairs, TVD of the joint table; {runs} runs", lines, [t[0] for t in tasks])


def main() -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=["simulated", "inference", "bankruptcy", "forms"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 500])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--sets", type=int, default=1, help="of the bankruptcy experiment")
    parser.add_argument("--out", type=Path, help="PNG of the inference experiment")
    parser.add_argument("--only", default="", help="take methods whose label holds this")
    arguments = parser.parse_args()
    if arguments.experiment in ("bankruptcy", "forms") and arguments.data is None:
        parser.error("--data is needed")
    print(versions())
    if arguments.experiment == "simulated":
        for rows in arguments.rows:
            simulated(rows, arguments.runs, arguments.only)
    elif arguments.experiment == "inference":
        for rows in arguments.rows:
            inference(rows, arguments.runs, arguments.only, arguments.out)
    elif arguments.experiment == "bankruptcy":
        bankruptcy(arguments.data, arguments.runs, arguments.sets, arguments.only)
    else:
        forms(arguments.data, arguments.runs)


if __name__ == "__main__":
    main()
