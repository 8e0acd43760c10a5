"""How close PrivSyn comes to the Adult file: average L1 distance of all pairs of columns.

Usage: python benchmarks/adult.py path/to/adult.csv [--runs 3] [--epsilon 0.2 1 2 5]

The file is the census income file of 48,842 rows with its header (columns below and `education`,
which says the same as `education-num` and is left out). It is coded in 14 columns of at most 100
codes, with levels and edges that are public facts about the questionnaire and the documented
ranges. Budgets are (epsilon, 4.2e-10), add-remove. L1 is twice the total variation distance,
averaged over the 91 pairs (and, beside it, over 300 triples), between a synthetic file of the
noisy number of rows and the real one. Prints versions and one table.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.common import models, preset_plan
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain

DELTA = Fraction("4.2e-10")
Options: TypeAlias = Mapping[str, Mapping[str, object]]

LEVELS: Mapping[str, tuple[str, ...]] = {
    "workclass": (
        "Federal-gov",
        "Local-gov",
        "Never-worked",
        "Private",
        "Self-emp-inc",
        "Self-emp-not-inc",
        "State-gov",
        "Without-pay",
        "?",
    ),
    "marital-status": (
        "Divorced",
        "Married-AF-spouse",
        "Married-civ-spouse",
        "Married-spouse-absent",
        "Never-married",
        "Separated",
        "Widowed",
    ),
    "occupation": (
        "Adm-clerical",
        "Armed-Forces",
        "Craft-repair",
        "Exec-managerial",
        "Farming-fishing",
        "Handlers-cleaners",
        "Machine-op-inspct",
        "Other-service",
        "Priv-house-serv",
        "Prof-specialty",
        "Protective-serv",
        "Sales",
        "Tech-support",
        "Transport-moving",
        "?",
    ),
    "relationship": (
        "Husband",
        "Not-in-family",
        "Other-relative",
        "Own-child",
        "Unmarried",
        "Wife",
    ),
    "race": (
        "Amer-Indian-Eskimo",
        "Asian-Pac-Islander",
        "Black",
        "Other",
        "White",
    ),
    "sex": (
        "Female",
        "Male",
    ),
    "native-country": (
        "Cambodia",
        "Canada",
        "China",
        "Columbia",
        "Cuba",
        "Dominican-Republic",
        "Ecuador",
        "El-Salvador",
        "England",
        "France",
        "Germany",
        "Greece",
        "Guatemala",
        "Haiti",
        "Holand-Netherlands",
        "Honduras",
        "Hong",
        "Hungary",
        "India",
        "Iran",
        "Ireland",
        "Italy",
        "Jamaica",
        "Japan",
        "Laos",
        "Mexico",
        "Nicaragua",
        "Outlying-US(Guam-USVI-etc)",
        "Peru",
        "Philippines",
        "Poland",
        "Portugal",
        "Puerto-Rico",
        "Scotland",
        "South",
        "Taiwan",
        "Thailand",
        "Trinadad&Tobago",
        "United-States",
        "Vietnam",
        "Yugoslavia",
        "?",
    ),
    "income": (
        "<=50K",
        ">50K",
    ),
}
"""Code k of a column is its k-th level."""

EDGES: Mapping[str, tuple[int, int, int]] = {
    "age": (17, 91, 74),
    "fnlwgt": (12285, 1490401, 100),
    "education-num": (1, 17, 16),
    "capital-gain": (0, 100000, 100),
    "capital-loss": (0, 4357, 100),
    "hours-per-week": (1, 100, 99),
}
"""First value, end (itself not a value) and number of equal bins."""

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)


def load(path: Path) -> Dataset:
    """Return the file as codes."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    codes = []
    for name in COLUMNS:
        if name in LEVELS:
            of_level = {level: code for code, level in enumerate(LEVELS[name])}
            codes.append([of_level[row[name]] for row in rows])
        else:
            low, end, bins = EDGES[name]
            codes.append([(int(row[name]) - low) * bins // (end - low) for row in rows])
    sizes = tuple(len(LEVELS[name]) if name in LEVELS else EDGES[name][2] for name in COLUMNS)
    return Dataset(Domain(COLUMNS, sizes), np.array(codes, dtype=np.uint16))


def table(data: Dataset, clique: Clique) -> NDArray[np.int64]:
    """Return the counts of a clique."""
    domain = data.domain.project(clique)
    flat = np.zeros(data.rows, dtype=np.int64)
    for column, size in zip(domain.columns, domain.sizes, strict=True):
        flat = flat * size + data.column(column)
    return np.bincount(flat, minlength=domain.size()).reshape(domain.sizes)


def distance(data: Dataset, synthetic: Dataset, cliques: Sequence[Clique]) -> float:
    """Return the average L1 distance of the tables' proportions."""
    return statistics.fmean(
        float(np.abs(table(data, c) / data.rows - table(synthetic, c) / synthetic.rows).sum())
        for c in cliques
    )


def synthesize(
    data: Dataset,
    method: str,
    epsilon: Fraction,
    seed: int,
    options: Options,
) -> tuple[Dataset, int]:
    """Return one synthetic file, and how many tables it was made from."""
    plan = preset_plan(method, data.domain, **options, epsilon=epsilon, delta=DELTA, seed=seed)
    model = models(plan, data, public_rows=False)[0]
    made = model.sample(model.rows, rng=np.random.default_rng(seed))
    return made, len(model.tables) - len(data.domain) * (method == "privsyn")


def main() -> None:
    """Print one line for each method and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", nargs="+", default=["0.2", "1", "2", "5"])
    arguments = parser.parse_args()
    data = load(arguments.path)
    pairs = list(itertools.combinations(COLUMNS, 2))
    triples = list(itertools.combinations(COLUMNS, 3))
    picked = np.random.default_rng(0).choice(len(triples), 300, replace=False)
    triples = [triples[index] for index in picked]
    paper: Options = {"select": {"rule": "greedy"}, "reconstruct": {"shrink": False, "sweeps": 0}}
    rows: list[tuple[str, str, Options]] = [
        ("independent", "independent", {}),
        ("privsyn, as published", "privsyn", paper),
        ("privsyn", "privsyn", {}),
    ]
    rng = np.random.default_rng(0)
    again = Dataset(data.domain, data.codes[:, rng.integers(0, data.rows, data.rows)])
    synthesize(data, "privsyn", Fraction(1), 0, {})  # compiles
    print(f"python {platform.python_version()}, numpy {np.__version__}, {data.rows} rows")
    print(f"bootstrap of the file: pairs {distance(data, again, pairs):.4f},", end=" ")
    print(f"triples {distance(data, again, triples):.4f}")
    print(f"{'method':<22} {'epsilon':>7} {'pairs L1':>9} {'(sd)':>7} {'triples':>8}", end=" ")
    print(f"{'tables':>6} {'CPU s':>6}")
    for epsilon in arguments.epsilon:
        for label, method, options in rows:
            two, three, tables, seconds = [], [], [], []
            for run in range(arguments.runs):
                before = time.process_time()
                made, count = synthesize(data, method, Fraction(epsilon), run, options)
                seconds.append(time.process_time() - before)
                tables.append(count)
                two.append(distance(data, made, pairs))
                three.append(distance(data, made, triples))
            spread = statistics.stdev(two) if len(two) > 1 else 0.0
            print(
                f"{label:<22} {epsilon:>7} {statistics.fmean(two):9.4f} {spread:7.4f}"
                f" {statistics.fmean(three):8.4f} {statistics.fmean(tables):6.1f}"
                f" {statistics.fmean(seconds):6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
