"""CIPHER (Eugenio & Liu 2021): what Figures 1 to 7 and Table 2 draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.papers import cipher
from benchmarks.papers.cipher import Combined, Method
from benchmarks.papers.common import read_categories, synthetic, table_of
from benchmarks.papers.figures.experiment import Context, Experiment, Setting, Values, grid
from dp_core.kernel.counting.dataset import Dataset
from dp_core.lab.measures.inference_agreement import Outcome
from dp_core.methods.reconstruction.cipher import Cipher
from dp_core.methods.reconstruction.dense import Dense

SETS = 5
CELLS = {"FDH": 36, "CIPHER 2-way": 20, "CIPHER 3-way": 32, "MWEM 2-way": 20}
"""The paper's cost: numbers of counts, as far as no other one gives them."""
OPEN = "e^-2", "e^-1", "1", "e", "e^2"


def needed(sizes: Sequence[int], order: int) -> int:
    """Return how many counts all tables of an order hold that do not follow from the others.

    With 2 x 2 x 3 x 3 levels 20 of pairs and 32 of triples, as the paper has them.
    """
    products = [1] + [0] * order
    for size in sizes:
        for degree in range(order, 0, -1):
            products[degree] += products[degree - 1] * (size - 1)
    return sum(products)


def stored_cells(_: Context, setting: Setting, __: range) -> Values:
    """Return log2 of the numbers of cells of Figure 1, of all tables and of the full one."""
    columns, levels = int(setting["columns"]), str(setting["levels"])
    sizes = [2 + i % 4 for i in range(columns)] if levels == "2 to 5" else [int(levels)] * columns
    if setting["tables"] == "full":
        return {"log2 cells": [math.log2(math.prod(sizes))]}
    order = int(str(setting["tables"])[0])
    found = math.log2(needed(sizes, order)) if order <= columns else math.nan
    return {"log2 cells": [found]}


STORED = Experiment(
    "cipher-stored-cells",
    grid(
        levels=("2", "3", "2 to 5"),
        tables=("1-way", "2-way", "3-way", "4-way", "full"),
        columns=tuple(range(4, 21)),
    ),
    stored_cells,
    repeats=1,
    published=0,
    block=1,
)


def distances_of(sets: Sequence[Dataset], data: Dataset) -> dict[str, float]:
    """Return average TVD and largest error of a cell, tables of 1 to 3 columns, means of sets."""
    whole = table_of(data).astype(float)
    found = {}
    for order in (1, 2, 3):
        each = [cipher.distances(table_of(one).astype(float), whole, order) for one in sets]
        found[f"tvd {order}"] = float(np.mean([one[0] for one in each]))
        found[f"largest {order}"] = float(np.mean([one[1] for one in each]))
    return found


def inferences_of(
    found: Combined, before: Combined, truth: NDArray[np.float64]
) -> dict[str, float]:
    """Return error, coverage and width of every coefficient, and the outcomes of the slopes."""
    estimate, error, freedom = found
    half = error * stats.t.ppf(0.975, freedom)
    values = {}
    for number, exact in enumerate(truth):
        off = float(estimate[number] - exact)
        values[f"error {number}"] = off
        values[f"covered {number}"] = float(abs(off) <= half[number])
        values[f"width {number}"] = float(2 * half[number])
    return values | outcomes_of(found, before)


def outcomes_of(found: Combined, before: Combined) -> dict[str, float]:
    """Return the part of slopes with each outcome, and of each slope whether it is Best."""
    seen = cipher.outcomes_of(before, found)
    values = {f"outcome {kind}": seen[kind] / sum(seen.values()) for kind in Outcome}
    for number in range(1, len(found[0])):
        one = tuple(part[[0, number]] for part in before)
        other = tuple(part[[0, number]] for part in found)
        best = cipher.outcomes_of(one, other)["Best"]  # type: ignore[arg-type, index]
        values[f"best {number}"] = float(best)
    return values


def together(rows: Sequence[dict[str, float]]) -> Values:
    """Return what each repeat gives, by metric."""
    return {name: [row[name] for row in rows] for name in rows[0]}


@cache
def experiment_1() -> dict[str, Method]:
    """Return the methods by label."""
    return {method.label: method for method in cipher.experiment_1("")}


def simulated(context: Context, setting: Setting, repeats: range) -> Values:
    """Return distances and inferences of experiment 1."""
    label, rows = str(setting["method"]), int(setting["rows"])
    exact, found = cipher.truth(), []
    for repeat in repeats:
        seed = repeat + 1_000_000 * (context.seed - 1)
        data = cipher.simulate(rows, seed)
        before = cipher.analyse([data], "x1")
        if label == "the data themselves":
            found.append(inferences_of(before, before, exact))
            continue
        plan = experiment_1()[label].plan(data.domain, cipher.EPSILONS[setting["epsilon"]], 5, seed)
        sets = synthetic(plan, data)
        values = inferences_of(cipher.analyse(sets, "x1"), before, exact)
        found.append(distances_of(sets, data) | values)
    return together(found)


SIMULATED = Experiment(
    "cipher-simulated",
    grid(
        rows=(200, 500),
        method=(
            "FDH",
            "CIPHER 2-way, as published",
            "CIPHER 3-way, as published",
            "CIPHER 2-way",
            "CIPHER 3-way",
            "MWEM 2-way",
        ),
        epsilon=OPEN,
    )
    + grid(rows=(200, 500), method=("the data themselves",), epsilon=("1",)),
    simulated,
    repeats=1000,
    published=1000,
    block=25,
)


@cache
def experiment_2() -> dict[str, Method]:
    """Return the methods of experiment 2 by label."""
    paper = {**cipher.PAPER}
    methods = [
        cipher.listed(149, "CIPHER, as published", Cipher(**paper)),  # type: ignore[arg-type]
        cipher.listed(149, "CIPHER, clipped", Cipher(**{**paper, "tables": "clip"})),  # type: ignore[arg-type]
        cipher.listed(149, "CIPHER", Cipher()),
        cipher.listed(149, "CIPHER's tables by IPF", Dense()),
        cipher.histogram(1458, "FDH", Cipher(**paper)),  # type: ignore[arg-type]
        *cipher.mwem(149, "MWEM", orders=(2, 3), queries="cells"),
    ]
    return {method.label: method for method in methods}


def bankruptcy(context: Context, setting: Setting, repeats: range) -> Values:
    """Return accuracies of a support vector machine and of trees, and outcomes of slopes."""
    data = read_categories(context.file("bankruptcy.csv"))
    label = str(setting["method"])
    before, found = cipher.analyse([data], "Class"), []
    for repeat in repeats:
        seed = repeat + 1_000_000 * (context.seed - 1)
        picked = np.random.default_rng(seed).choice(data.rows, 50, replace=False)
        test = Dataset(data.domain, data.codes[:, picked])
        if label == "the data themselves":
            sets = [data]
        else:
            epsilon = cipher.EPSILONS[str(setting["epsilon"])]
            plan = experiment_2()[label].plan(data.domain, epsilon, int(setting["sets"]), seed)
            sets = synthetic(plan, data)
        scores = {
            "svm": np.mean([cipher.accuracy(each, test, "Class") for each in sets]),
            "tree": np.mean([tree_accuracy(each, test, "Class") for each in sets]),
        }
        values = outcomes_of(cipher.analyse(sets, "Class"), before)
        found.append({name: float(value) for name, value in scores.items()} | values)
    return together(found)


def tree_accuracy(train: Dataset, test: Dataset, target: str) -> float:
    """Return the part of test records whose class a decision tree of depth 4 gets right.

    It learns from the indicators that the support vector machine has; 5 records in a leaf at least.
    """
    from sklearn.tree import DecisionTreeClassifier

    others = [name for name in train.domain.columns if name != target]
    tree = DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
    tree.fit(cipher.design(train, others)[1][:, 1:], train.column(target))
    said = tree.predict(cipher.design(test, others)[1][:, 1:])
    return float(np.mean(said == test.column(target)))


BANKRUPTCY = Experiment(
    "cipher-bankruptcy",
    grid(
        sets=(5, 1),
        method=(
            "CIPHER, as published",
            "CIPHER, clipped",
            "CIPHER",
            "CIPHER's tables by IPF",
            "FDH",
            "MWEM",
        ),
        epsilon=OPEN,
    )
    + grid(sets=(1,), method=("the data themselves",), epsilon=("1",)),
    bankruptcy,
    repeats=100,
    published=0,
    block=5,
    needs="bankruptcy.csv",
)
