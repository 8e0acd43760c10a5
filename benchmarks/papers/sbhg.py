"""Section 4 of the SBHG paper (Li, Karwa, Slavkovic & Steorts 2018): its claims beside ours.

Usage: python benchmarks/papers/sbhg.py [path/to/adult.csv] [--runs 5] [--part NAME ...]

Parts: `proposition` (SBA against the corrected Proposition 2.1), `simulated` (Figure 1: dense and
sparse files), `tables` (what Tables 1 and 2 would need), `baselines` (their two samplers without
privacy, resampling and Gibbs sampling, beside SBHG without noise), `adult` (Figures 4 and 5; needs
the census income file with its header), `domain` (time and memory of SBA on a domain that fits no
memory).

One record is replaced, as in the paper, so that the number of records is public. Noise, sensitivity
and accounting are the library's own; the exponential mechanism for the features is paid from the
same epsilon (the paper's "+EM").
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import platform
import resource
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.threshold_error import expected_l1
from benchmarks.trial import trial_plan
from dp_core.client.released import SparseTable
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import StageFailed
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.drawn_events import threshold_for
from dp_core.methods.selection.budget.threshold_delta import continuous_threshold
from dp_core.plan.procedure import Outcome, carry_out, sample

LEFT_OUT = ("fnlwgt", "capital-gain", "capital-loss")
"""Columns of the file that are not among the paper's twelve; the paper does not list them."""

ADULT_EPSILONS = ("0.05", "0.1", "0.2", "0.4", "0.8", "1.6")
ADULT_DELTA = Fraction(1, 10**6)
DELTA = Fraction(1, 10**4)


def simulated(columns: int, seed: int, correlation: float = 0.3, rows: int = 3000) -> Dataset:
    """Return normal records in ten equal bins on [-2.4, 2.4]; the tails are in the last bins."""
    rng = np.random.default_rng(seed)
    covariance = np.full((columns, columns), correlation) + (1 - correlation) * np.eye(columns)
    drawn = rng.multivariate_normal(np.zeros(columns), covariance, rows)
    codes = np.clip((drawn + 2.4) // 0.48, 0, 9).astype(np.uint16)
    names = tuple(f"x{column}" for column in range(columns))
    return Dataset(Domain(names, (10,) * columns), np.ascontiguousarray(codes.T))


def adult(path: Path) -> Dataset:
    """Return the twelve columns as codes, in the order of their levels in the file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = tuple(name for name in rows[0] if name not in LEFT_OUT)
    codes, sizes = [], []
    for name in names:
        levels = sorted({row[name] for row in rows}, key=lambda text: (len(text), text))
        if not levels[0].isdigit():
            levels.sort()
        code = {level: number for number, level in enumerate(levels)}
        codes.append([code[row[name]] for row in rows])
        sizes.append(len(levels))
    return Dataset(Domain(names, tuple(sizes)), np.array(codes, dtype=np.uint16))


def joint_l1(data: Dataset, made: Dataset, clique: Clique | None = None) -> float:
    """Return the L1 distance of two tables of counts, by the cells that are not empty."""
    rows = [
        np.stack([part.column(name) for name in clique or data.domain.columns], axis=1)
        for part in (data, made)
    ]
    signs = np.repeat([1.0, -1.0], [data.rows, made.rows])
    _, cell = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    return float(np.abs(np.bincount(cell.ravel(), weights=signs)).sum())


def pairs_l1(data: Dataset, made: Dataset) -> float:
    """Return the average L1 distance of proportions of all pairs of columns."""
    pairs = itertools.combinations(data.domain.columns, 2)
    return float(np.mean([pair_l1(data, made, pair) for pair in pairs]))


def pair_l1(data: Dataset, made: Dataset, pair: tuple[str, str]) -> float:
    """Return the L1 distance of the proportions of two columns, from their whole table."""
    sizes = data.domain.project(pair).sizes
    tables = []
    for part in (data, made):
        cells = part.column(pair[0]).astype(np.int64) * sizes[1] + part.column(pair[1])
        tables.append(np.bincount(cells, minlength=sizes[0] * sizes[1]) / data.rows)
    return float(np.abs(tables[0] - tables[1]).sum())


def kept_l1(data: Dataset, table: SparseTable) -> float:
    """Return the L1 distance of a thresholded table of all columns from the exact one."""
    cells, counts = np.unique(data.codes.T, axis=0, return_counts=True)
    both = np.concatenate((cells, table.cells))
    values = np.concatenate((counts, -table.values))
    _, cell = np.unique(both, axis=0, return_inverse=True)
    return float(np.abs(np.bincount(cell.ravel(), weights=values)).sum())


def made(
    data: Dataset, method: str, epsilon: str, delta: Fraction, seed: int, **options: object
) -> tuple[Dataset, Outcome]:
    """Return one synthetic file, one record of the data being replaced."""
    plan = trial_plan(
        data.domain,
        method,
        Fraction(epsilon),
        delta,
        neighbours="replace-one",
        seed=seed,
        **options,  # type: ignore[arg-type]
    )
    outcome = carry_out(plan, MemoryCounter(data))
    return sample(plan, outcome.models, 1), outcome


def summary(values: Sequence[float], runs: int, digits: int = 0) -> str:
    """Return mean and deviation of the runs that made a file, or that none did."""
    if not values:
        return "none"
    failed = f" ({runs - len(values)} of {runs} none)" if len(values) < runs else ""
    return f"{np.mean(values):.{digits}f} +- {np.std(values):.{digits}f}{failed}"


def printed_proposition(counts: NDArray[np.int64], threshold: float, epsilon: float) -> float:
    """Return the expected L1 error as the paper prints it."""
    with np.errstate(over="ignore"):
        kept = 0.5 * np.exp(-2 * (threshold - counts) / epsilon)
    return float(counts.sum() - (kept * counts).sum() + 2 / epsilon * kept.sum())


def proposition(runs: int) -> None:
    """Print SBA's error on a dense file, and what the proposition says of it."""
    data = simulated(3, 0)
    counts = np.unique(data.codes.T, axis=0, return_counts=True)[1]
    print(f"\nSBA on a dense file ({data.rows} x 3, {len(counts)} cells occupied), delta {DELTA};")
    print("the threshold of Algorithm 1, and the least one. Paper: theory and experiment match.")
    print(f"{'epsilon':>7} {'threshold':>9} {'measured L1':>18} {'corrected':>10} {'printed':>12}")
    for epsilon, form in itertools.product(("0.5", "1", "2", "5", "10"), ("algorithm", "least")):
        found: list[float] = []
        for run in range(runs):
            options = {"select": {"threshold": form}}
            try:
                _, outcome = made(data, "sba", epsilon, DELTA, run, **options)
            except StageFailed:
                found.append(float(data.rows))
                continue
            (table,) = outcome.selections[0].measured
            assert isinstance(table, SparseTable)
            found.append(kept_l1(data, table))
        scale = 2 / float(epsilon)
        threshold = threshold_for(Fraction(scale), DELTA)
        if form == "algorithm":
            threshold = math.ceil(continuous_threshold(scale, float(DELTA), "algorithm"))
        right = expected_l1(counts, threshold, scale)
        print(
            f"{epsilon:>7} {threshold:>9} {summary(found, runs, 1):>18} {right:10.1f}"
            f" {printed_proposition(counts, threshold, float(epsilon)):12.4g}",
            flush=True,
        )


def figure_1(runs: int) -> None:
    """Print the errors of all methods on simulated files."""
    print(f"\nFigure 1: L1 between joint tables of counts, n = 3000 (at most 6000), delta {DELTA};")
    print("`none`: no record to begin with, or no cell, is left by the threshold.")
    print(f"{'file':>10} {'epsilon':>7} {'SBA':>14} {'SBHG+EM R=1':>22}", end=" ")
    print(f"{'R=2':>22} {'R=3':>22} {'PrivBayes':>14} {'pairs, R=1':>12}")
    for columns, label in ((3, "dense"), (10, "sparse")):
        for epsilon in ("0.5", "1", "2", "5", "10"):
            cells: dict[str, list[float]] = {}
            for run in range(runs):
                data = simulated(columns, run)
                tries = [("sba", "sba", {})]
                tries += [
                    (f"R={features}", "sbhg", {"select": {"features": features}})
                    for features in (1, 2, 3)
                    if features < columns
                ]
                for name, method, options in [*tries, ("privbayes", "privbayes", {})]:
                    delta = Fraction(0) if method == "privbayes" else DELTA
                    try:
                        file, outcome = made(data, method, epsilon, delta, run, **options)
                    except StageFailed:
                        continue
                    if method == "sba":
                        (table,) = outcome.selections[0].measured
                        assert isinstance(table, SparseTable)
                        error = kept_l1(data, table)
                    else:
                        error = joint_l1(data, file)
                    cells.setdefault(name, []).append(error)
                    if name == "R=1":
                        cells.setdefault("pairs", []).append(pairs_l1(data, file))
            print(
                f"{label:>10} {epsilon:>7} {summary(cells.get('sba', []), runs):>14}"
                + "".join(f" {summary(cells.get(f'R={r}', []), runs):>22}" for r in (1, 2, 3))
                + f" {summary(cells.get('privbayes', []), runs):>14}"
                f" {summary(cells.get('pairs', []), runs, 2):>12}",
                flush=True,
            )


def tables() -> None:
    """Print why Tables 1 and 2 cannot have come from the algorithm as it is stated."""
    print("\nTables 1 and 2: epsilon .5, delta 1e-4, n = 3000. Paper: L1 1462 (dense, p = 3) and")
    print("1532 (sparse, p = 10) for SBHG; 978 and 1101 for resampling the records.")
    print(f"{'p':>3} {'Algorithm 1':>12} {'text':>9} {'sharp':>9} {'least':>6}", end=" ")
    print("largest count of a column with one other")
    for columns in (3, 10):
        scale, delta = 2 * columns / 0.5, float(DELTA) / columns
        forms = [continuous_threshold(scale, delta, form) for form in ("algorithm", "text")]
        forms.append(continuous_threshold(scale, delta, "sharp"))
        least = threshold_for(Fraction(scale), DELTA / columns)
        data = simulated(columns, 0)
        largest = max(
            int(np.unique(data.codes[[0, other]], axis=1, return_counts=True)[1].max())
            for other in range(1, columns)
        )
        print(f"{columns:>3} {forms[0]:12.2f} {forms[1]:9.2f} {forms[2]:9.2f} {least:>6} {largest}")
    resampled = [
        joint_l1(data, Dataset(data.domain, data.codes[:, rng.integers(0, 3000, 3000)]))
        for columns in (3, 10)
        for data, rng in [(simulated(columns, 0), np.random.default_rng(1))]
    ]
    print(f"Resampling the records: L1 {resampled[0]:.0f} (dense) and {resampled[1]:.0f} (sparse):")
    print("records that are each alone in their cell give 2n/e = 2207, so the paper's 1101 is of")
    print("another metric than its 978.")


class FullConditionals:
    """The Gibbs sampler of Appendix C, on the file's own full conditionals. It is not private.

    Each column is drawn from the records that agree in all other columns. Every record drawn is a
    record of the file or agrees with one in all columns but the last that was drawn, so a chain
    never leaves the records that it reaches in steps of one column.
    """

    def __init__(self, data: Dataset) -> None:
        """Read the conditionals of a file."""
        self._data = data
        self._keys, self._orders = [], []
        for column in range(len(data.domain)):
            keys = self._others(data.codes, column)
            order = np.argsort(keys, kind="stable")
            self._keys.append(keys[order])
            self._orders.append(order)

    def sample(
        self, rows: int, *, chains: int, rng: np.random.Generator, sweeps: int = 1
    ) -> Dataset:
        """Return states of chains that begin at random records.

        Args:
            rows: Number of states.
            chains: Number of chains, which give about equally many states.
            rng: Generator.
            sweeps: Sweeps of all columns before each state; 1 by default.
        """
        data, found = self._data, []
        state = data.codes[:, rng.integers(0, data.rows, chains)].copy()
        for _ in range(-(-rows // chains)):
            for _, column in itertools.product(range(sweeps), range(len(data.domain))):
                wanted = self._others(state, column)
                starts, ends = (
                    np.searchsorted(self._keys[column], wanted, side=side)
                    for side in ("left", "right")
                )
                own = self._orders[column][rng.integers(starts, ends)]
                state[column] = data.codes[column, own]
            found.append(state.copy())
        return Dataset(data.domain, np.ascontiguousarray(np.hstack(found)[:, :rows]))

    def _others(self, codes: NDArray[np.uint16], column: int) -> NDArray[np.int64]:
        """Return the number of each record's cell in the table of all columns but one."""
        sizes = self._data.domain.sizes
        others = [axis for axis in range(len(sizes)) if axis != column]
        parts = tuple(codes[axis].astype(np.int64) for axis in others)
        return np.ravel_multi_index(parts, [sizes[axis] for axis in others])


def baselines(runs: int) -> None:
    """Print the errors of the samplers of Tables 1 and 2, and how much of the file chains see."""
    print(
        "\nTables 1 and 2, samplers without privacy, n = 3000. Paper, dense and sparse: empirical"
    )
    print("978 and 1101, Gibbs 1302 and 1337, SBHG 1462 and 1532. L1 of the joint table; distinct")
    print("records of the set as a part of those of the file.")
    ways = ("empirical", "Gibbs, one chain", "Gibbs, 30 chains", "Gibbs, a chain each")
    hashed = [f"SBHG R={features}, no noise" for features in (1, 2, 3)]
    print(f"{'file':>8} {'':>24} {'joint L1':>14} {'pairs L1':>14} {'distinct':>9}")
    for columns, label in ((3, "dense"), (10, "sparse")):
        scores: dict[str, list[tuple[float, float, float]]] = {}
        for run in range(runs):
            data, rng = simulated(columns, run), np.random.default_rng([columns, run])
            exact = FullConditionals(data)
            drawn = data.codes[:, rng.integers(0, data.rows, data.rows)]
            files = {ways[0]: Dataset(data.domain, np.ascontiguousarray(drawn))}
            for way, chains in zip(ways[1:], (1, 30, data.rows), strict=True):
                files[way] = exact.sample(data.rows, chains=chains, rng=rng)
            for features, way in enumerate(hashed, start=1):
                if features < columns:
                    options = {"select": {"features": features}}
                    files[way], _ = made(data, "sbhg", "100000", DELTA, run, **options)
            distinct = len(np.unique(data.codes, axis=1).T)
            for way, file in files.items():
                seen = len(np.unique(file.codes, axis=1).T) / distinct
                errors = (joint_l1(data, file), pairs_l1(data, file), seen)
                scores.setdefault(way, []).append(errors)
        for way, found in scores.items():
            joint, pairs, seen = (list(each) for each in zip(*found, strict=True))
            print(
                f"{label:>8} {way:>24} {summary(joint, runs):>14} {summary(pairs, runs, 3):>14}"
                f" {np.mean(seen):9.2f}",
                flush=True,
            )


def income_accuracy(train: Dataset, test: Dataset) -> float:
    """Return the share of records whose income logistic regression predicts."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    others = [name for name in train.domain.columns if name != "income"]
    levels = [np.arange(size) for size in train.domain.project(others).sizes]
    coder = OneHotEncoder(categories=levels)

    def prepared(data: Dataset) -> object:
        return coder.fit_transform(np.stack([data.column(name) for name in others], axis=1))

    truth, known = test.column("income"), train.column("income")
    if len(np.unique(known)) == 1:
        return float((truth == known[0]).mean())
    learner = LogisticRegression(max_iter=200).fit(prepared(train), known)
    return float((learner.predict(prepared(test)) == truth).mean())


def figures_4_and_5(path: Path, runs: int) -> None:
    """Print L1 and the accuracy of logistic regression on the Adult file."""
    whole = adult(path)
    order = np.random.default_rng(0).permutation(whole.rows)
    parts = np.split(order, [whole.rows * 4 // 5])
    train, test = (Dataset(whole.domain, np.ascontiguousarray(whole.codes[:, p])) for p in parts)
    print(f"\nAdult: {whole.rows} records, {len(whole.domain)} columns, {whole.domain.size():.2e}")
    print(f"cells. Made from {train.rows} records, judged on the other {test.rows}; delta 1e-6.")
    print("L1 of the joint tables as a part of 2n; then the accuracy of logistic regression for")
    print("income, learnt from synthetic records and judged on real ones. Of real records:")
    common = float((test.column("income") == 0).mean())
    print(f"{income_accuracy(train, test):.3f}; of the commonest class {common:.3f}.")
    methods = [
        ("SBA", "sba", {}),
        ("SBHG+EM R=1", "sbhg", {"select": {"features": 1}}),
        ("SBHG+EM R=2", "sbhg", {"select": {"features": 2}}),
        ("PrivBayes", "privbayes", {}),
    ]
    print(f"{'epsilon':>7} " + "".join(f"{label:>38}" for label, _, _ in methods))
    for epsilon in ADULT_EPSILONS:
        line = f"{epsilon:>7} "
        for _, method, options in methods:
            distances, accuracies = [], []
            delta = Fraction(0) if method == "privbayes" else ADULT_DELTA
            for run in range(runs):
                try:
                    file, _ = made(train, method, epsilon, delta, run, **options)
                except StageFailed:
                    continue
                distances.append(joint_l1(train, file) / (2 * train.rows))
                accuracies.append(income_accuracy(file, test))
            text = summary(distances, runs, 3)
            text += f"; {np.mean(accuracies):.3f}" if accuracies else ""
            line += f"{text:>38}"
        print(line, flush=True)


def large_domain(path: Path) -> None:
    """Print what SBA needs on a table that no memory holds."""
    data = adult(path)
    before = time.process_time()
    _, outcome = made(data, "sba", "1", ADULT_DELTA, 0)
    seconds = time.process_time() - before
    (table,) = outcome.selections[0].measured
    assert isinstance(table, SparseTable)
    occupied = len(np.unique(data.codes.T, axis=0))
    print(f"\nSBA on {data.domain.size():.2e} cells, epsilon 1: {seconds:.2f} s of CPU with noise,")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process {peak:.0f} MB; {len(table.values)} cells of {occupied}")
    print(f"occupied ones kept, at a threshold of {table.threshold}.")


def main() -> None:
    """Print every part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("adult", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=5)
    names = ("proposition", "simulated", "tables", "baselines", "adult", "domain")
    parser.add_argument("--part", nargs="+", default=names, choices=names)
    arguments = parser.parse_args()
    print(f"python {platform.python_version()}, numpy {np.__version__}, {arguments.runs} runs")
    if "domain" in arguments.part and arguments.adult:
        large_domain(arguments.adult)
    if "proposition" in arguments.part:
        proposition(40 * arguments.runs)
    if "tables" in arguments.part:
        tables()
    if "baselines" in arguments.part:
        baselines(arguments.runs)
    if "simulated" in arguments.part:
        figure_1(arguments.runs)
    if "adult" in arguments.part and arguments.adult:
        figures_4_and_5(arguments.adult, arguments.runs)


if __name__ == "__main__":
    main()
