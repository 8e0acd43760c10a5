"""Are the tables of sets right if a number has a long tail, so that its last bins are nearly empty?

    python benchmarks/long_tails.py [--rows 6000] [--epsilon 0.3 1 4] [--repeats 4]

Three files are generated: firms (turnover up to a billion and employees, both log-normal within 10
industries), incomes (half of them 0, the others log-normal, with age and region), and, without a
long tail, three numbers of equal bins. Each is released in memory at (epsilon, 1e-9), add-remove.
For every file and method the script prints the mean total variation distance of a set over all
pairs of columns, in the schema's bins, and its ratio to that of `mst`.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

import dp_core as dp

METHODS: dict[str, dict[str, object]] = {
    "auto, posterior": {},
    "auto, shared": {"mode": "shared", "sets": 1},
    "mst": {"method": "mst", "mode": "shared", "sets": 1},
    "privsyn": {"method": "privsyn", "mode": "shared", "sets": 1},
}


def firms(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return firms by industry, with turnover and employees."""
    industry = rng.choice(10, rows, p=np.arange(10, 0, -1) / 55)
    centre = np.array([11, 12, 13, 10, 11.5, 12.5, 11, 10.5, 13, 9.5])[industry]
    turnover = np.exp(rng.normal(centre, 1.6))
    employees = turnover / 150_000 * np.exp(rng.normal(0, 0.5, rows))
    return pd.DataFrame(
        {
            "industry": [f"i{each}" for each in industry],
            "turnover": np.minimum(turnover, 999_999_999).astype(np.int64),
            "employees": np.clip(employees.round(), 1, 5000).astype(np.int64),
        }
    )


def incomes(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return persons with region, age and an income that is often 0."""
    age = rng.integers(16, 90, rows)
    works = rng.random(rows) < np.where((age > 20) & (age < 65), 0.75, 0.2)
    income = np.where(works, np.exp(rng.normal(10 + 0.01 * np.minimum(age, 60), 0.9)), 0)
    return pd.DataFrame(
        {
            "region": [f"r{each}" for each in rng.integers(0, 6, rows)],
            "age": age,
            "income": np.minimum(income, 99_999_999).astype(np.int64),
        }
    )


def even(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return three normal numbers that depend on one another."""
    values = rng.multivariate_normal([50] * 3, 100 * (np.eye(3) + 0.6) / 1.6, rows)
    return pd.DataFrame(np.clip(values.round(), 0, 99).astype(np.int64), columns=[*"abc"])


def levels(letter: str, number: int) -> str:
    """Return a category's definition."""
    return f"{{type: category, levels: [{', '.join(f'{letter}{n}' for n in range(number))}]}}"


def number(least: int, edges: list[int]) -> str:
    """Return an integer's definition."""
    return f"{{type: integer, min: {least}, max: {edges[-1] - 1}, edges: {edges}}}"


EDGES = {
    "turnover": [0, 10**3, 10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 10**7, 10**8, 10**9],
    "employees": [1, 2, 5, 10, 20, 50, 100, 250, 1000, 5001],
    "income": [0, 1, 5000, 10**4, 2 * 10**4, 4 * 10**4, 8 * 10**4, 2 * 10**5, 10**6, 10**8],
    "age": [16, 25, 35, 45, 55, 65, 75, 90],
    **{name: [0, 25, 35, 45, 50, 55, 65, 75, 100] for name in "abc"},
}
FILES: dict[str, tuple[Callable[[int, np.random.Generator], pd.DataFrame], dict[str, str]]] = {
    "firms": (firms, {"industry": levels("i", 10)}),
    "incomes": (incomes, {"region": levels("r", 6)}),
    "no tail": (even, {}),
}


def binned(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a file in the schema's bins."""
    found = {}
    for name, values in frame.items():
        edges = EDGES.get(str(name))
        texts = values.astype(str)
        found[name] = texts if edges is None else np.searchsorted(edges, values, side="right")
    return pd.DataFrame(found)


def distance(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """Return the mean total variation distance over all pairs of columns."""
    found = []
    for pair in itertools.combinations(one.columns, 2):
        shares = [each.groupby([*pair]).size() / len(each) for each in (one, other)]
        found.append(float(shares[0].sub(shares[1], fill_value=0).abs().sum()) / 2)
    return float(np.mean(found))


def main() -> None:
    """Print a line for every file, epsilon and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1, 4])
    parser.add_argument("--repeats", type=int, default=4)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{arguments.rows:,} rows, {arguments.repeats} repeats; mean TVD of pairs, ratio to mst")
    for file, (make, definitions) in FILES.items():
        for epsilon in arguments.epsilon:
            sums = dict.fromkeys(METHODS, 0.0)
            for repeat in range(arguments.repeats):
                frame = make(arguments.rows, np.random.default_rng(repeat))
                columns = {
                    name: definitions.get(name) or number(EDGES[name][0], EDGES[name])
                    for name in frame.columns
                }
                text = "\n".join(f"  {name}: {each}" for name, each in columns.items())
                schema = dp.read_schema(f"version: 1\ntitle: long tails\ncolumns:\n{text}\n")
                exact = binned(frame)
                for name, options in METHODS.items():
                    release = dp.release(frame, schema, epsilon=epsilon, delta=1e-9, **options)
                    sums[name] += distance(exact, binned(release.sets[0])) / arguments.repeats
            shown = "  ".join(
                f"{name} {each:.4f} ({each / sums['mst']:.2f})" for name, each in sums.items()
            )
            print(f"{file:8} epsilon {epsilon:<4} {shown}", flush=True)


if __name__ == "__main__":
    main()
