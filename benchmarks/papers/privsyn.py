"""PrivSyn's three tasks on the Adult file, with its rivals beside it, and the slides' claims.

Usage: python benchmarks/papers/privsyn.py path/to/adult.csv [--runs 3] [--epsilon 0.2 1 2]
    [--method LABEL ...] [--trees]

The file is the census income file as `benchmarks/adult.py` codes it (14 columns of at most 100
codes). The tasks are those of Zhang et al. (PrivSyn, 2021; slides "End-to-end comparison"): the
average L1 distance of all 91 pairs of columns (twice the total variation distance), the average
error of 1000 random range queries over three columns (as parts of all records), and the part of the
real records whose income a linear support vector machine that learnt from synthetic records gets
wrong (`--trees`: also gradient-boosted trees). Budgets are (epsilon, 1/n^2), add-remove, but for
PrivBayes as published, which is purely private and takes the number of records as public.

"without noise" chooses tables with an exact look at the data, which is not private: it shows what
the noise of the selection costs. Prints versions, one table, and each claim beside our figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.adult import LEVELS, distance, load
from benchmarks.trial import trial_plan
from dp_core.accounts.memory_session import MemorySession
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.privacy import Neighbours, Stage
from dp_core.lab.measures.classification import misclassification, svm_accuracy
from dp_core.lab.measures.table_errors import RangeQueries, random_range_queries
from dp_core.plan.procedure import carry_out, sample

Shares: TypeAlias = Mapping[Stage, Fraction]

PUBLISHED: Shares = {"select": Fraction(3, 10), "measure": Fraction(7, 10)}
ENOUGH = Fraction(10**9)
"""A budget at which a choice is exact."""

REFERENCE = {
    "independent": {"0.2": 0.200, "1": 0.163, "2": 0.159},
    "privsyn, as published": {"0.2": 0.261, "1": 0.131, "2": 0.104},
    "privbayes, as published": {"0.2": 0.326, "1": 0.172, "2": 0.171},
}
"""Pairs L1 of reference implementations on the same file, as far as they are known."""


@dataclass(frozen=True)
class Row:
    """One method of the table.

    Attributes:
        label: What it is called there.
        preset: Name of the preset.
        select, reconstruct: Options that differ from the preset's.
        shares: Of stages, where they differ from the preset's.
        published: Whether it is purely private under replace-one, as PrivBayes is published.
        exact: Whether the selection sees the data without noise.
    """

    label: str
    preset: str
    select: Mapping[str, Any] = field(default_factory=dict)
    reconstruct: Mapping[str, Any] = field(default_factory=dict)
    shares: Shares | None = None
    published: bool = False
    exact: bool = False


GREEDY = {"rule": "greedy"}
ROWS = (
    Row("independent", "independent"),
    Row("privsyn", "privsyn"),
    Row("privsyn, as published", "privsyn", GREEDY, {"shrink": False, "sweeps": 0}),
    Row("privsyn, without noise", "privsyn", exact=True),
    Row("privbayes", "privbayes"),
    Row("privbayes, as published", "privbayes", {}, {"tables": "clip"}, PUBLISHED, published=True),
    Row("privbayes's tables, gum", "privbayes", {}, {"method": "gum"}),
    Row("the same, without noise", "privbayes", {}, {"method": "gum"}, exact=True),
    Row("mst (PGM)", "mst"),
    Row("dualquery", "dualquery"),
)

Figures: TypeAlias = dict[tuple[str, str], dict[str, list[float]]]
"""By method and epsilon, of each task the figure of each run."""


def synthesize(data: Dataset, row: Row, epsilon: Fraction, seed: int) -> Dataset:
    """Return one synthetic file of the (noisy or public) number of rows."""
    neighbours: Neighbours = "replace-one" if row.published else "add-remove"
    plan = trial_plan(
        data.domain,
        row.preset,
        epsilon,
        Fraction(0) if row.published else Fraction(1, data.rows**2),
        neighbours=neighbours,
        select=row.select,
        reconstruct=row.reconstruct,
        shares=row.shares,
        seed=seed,
    )
    session = None
    if row.exact:
        plan = dataclasses.replace(plan, costs={**plan.costs, "select": ENOUGH})
        session = MemorySession(Currency(plan.currency.kind, 2 * ENOUGH), neighbours)
    outcome = carry_out(plan, MemoryCounter(data), session=session)
    return sample(plan, outcome.models, 1)


class SuiteJudge:
    """The tasks, on one real file."""

    def __init__(self, data: Dataset, *, trees: bool) -> None:
        """Count what is compared with."""
        self.data, self.trees = data, trees
        self.pairs = list(itertools.combinations(data.domain.columns, 2))
        self.ranges: RangeQueries = random_range_queries(data.domain)

    def judge(self, made: Dataset) -> dict[str, float]:
        """Return the figure of each task."""
        found = {
            "pairs": distance(self.data, made, self.pairs),
            "ranges": self.ranges.error(self.data, made),
            "svm": 1 - svm_accuracy(made, self.data, "income", nominal=tuple(LEVELS)),
        }
        if self.trees:
            found["trees"] = misclassification(made, self.data, "income", nominal=tuple(LEVELS))
        return found


def show(label: str, epsilon: str, figures: Mapping[str, Sequence[float]], more: str = "") -> None:
    """Print one line of the table."""
    cells = " ".join(f"{statistics.fmean(values):9.4f}" for values in figures.values())
    print(f"{label:<24} {epsilon:>7} {cells} {more}", flush=True)


def claims(figures: Figures, epsilons: Sequence[str]) -> None:
    """Print each claim of the slides beside what was found."""

    def of(label: str, task: str) -> str:
        return " | ".join(f"{statistics.fmean(figures[label, e][task]):.4f}" for e in epsilons)

    def compared(title: str, labels: Sequence[str], tasks: Sequence[str]) -> None:
        print(f"\n{title}")
        for task in tasks:
            for label in labels:
                if all((label, e) in figures for e in epsilons):
                    print(f"  {task:<7} {label:<24} {of(label, task)}")

    rivals = ("privsyn", "privsyn, as published", "privbayes", "mst (PGM)", "dualquery")
    print(f"\nClaims of the slides (epsilon {' | '.join(epsilons)})")
    compared("PrivBayes and PGM are close to PrivSyn in pairs:", rivals, ("pairs",))
    compared(
        "PrivSyn is far better in range queries and classification:", rivals, ("ranges", "svm")
    )
    compared(
        "DenseMarg chooses better tables than PrivBayes (both through GUM):",
        ("privsyn", "privbayes's tables, gum"),
        ("pairs", "ranges", "svm"),
    )
    compared(
        "DenseMarg hardly suffers from the noise of its selection:",
        ("privsyn", "privsyn, without noise", "privbayes's tables, gum", "the same, without noise"),
        ("pairs", "svm"),
    )


def main() -> None:
    """Print one line for each method and epsilon, then the claims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", nargs="+", default=["0.2", "1", "2"])
    parser.add_argument("--method", nargs="+", default=[row.label for row in ROWS])
    parser.add_argument("--trees", action="store_true")
    arguments = parser.parse_args()
    data = load(arguments.path)
    judge = SuiteJudge(data, trees=arguments.trees)
    rng = np.random.default_rng(0)
    print(f"python {platform.python_version()}, numpy {np.__version__}, {data.rows} rows")
    again = Dataset(data.domain, data.codes[:, rng.integers(0, data.rows, data.rows)])
    bootstrap = {task: [value] for task, value in judge.judge(again).items()}
    print(f"{'method':<24} {'epsilon':>7} " + " ".join(f"{task:>9}" for task in bootstrap), end="")
    print("   (sd of pairs; CPU s; reference of pairs)")
    show("bootstrap of the file", "-", bootstrap)
    majority = np.bincount(data.column("income")).max() / data.rows
    print(f"{'commonest income':<24} {'-':>7} {'':>19} {1 - majority:9.4f}")
    figures: Figures = {}
    for epsilon in arguments.epsilon:
        for row in ROWS:
            if row.label not in arguments.method:
                continue
            found: dict[str, list[float]] = {task: [] for task in bootstrap}
            seconds = []
            for run in range(arguments.runs):
                before = time.process_time()
                made = synthesize(data, row, Fraction(epsilon), run + 1)
                seconds.append(time.process_time() - before)
                for task, value in judge.judge(made).items():
                    found[task].append(value)
            figures[row.label, epsilon] = found
            spread = statistics.stdev(found["pairs"]) if arguments.runs > 1 else 0.0
            reference = REFERENCE.get(row.label, {}).get(epsilon)
            noted = f" {reference:.3f}" if reference is not None else ""
            show(row.label, epsilon, found, f"({spread:.4f}) {min(seconds):6.1f}{noted}")
    claims(figures, arguments.epsilon)


if __name__ == "__main__":
    main()
