"""Section 4 of "A simple and practical algorithm for differentially private data release" (2012).

    python benchmarks/papers/mwem.py [--runs 100] [--out mwem.png]
    python benchmarks/papers/mwem.py --data nltcs.csv --runs 3 --out mwem-nltcs.png

Figures 2 and 3: relative entropy of the fitted joint table against epsilon, for replace-one
neighbours with n public, as in the paper. Without `--data` the three small tables; `--data` names
a CSV of binary records with its levels beside it in JSON.

Curves of the small tables (parities of up to three columns, the paper's default):

- `Barak`: the paper's comparison: all parities, their sensitivity taken to be their number K, and
  multiplicative weights. They are taken to the limit here, each answer as far as its noise allows:
  re-processed step by step without slack they follow the noise (6 to 25 nats on mildew).
- `MWEM`: Figure 1 as it stands, ten rounds, average of the iterates. As printed its choice
  exp(epsilon_0 n|d|/2) costs epsilon_0, not epsilon_0/2; here it is exp(epsilon_0 n|d|/4), so that
  the whole costs what it says (the printed one: one and a half times that).
- `improved`: Section 4.2: re-processing (in the limit), rounds as many as stand out of the noise.
- `tight 3`, `tight 2`: not in the paper: all parities of up to three or two columns, with the
  sensitivity that they have together, and the limit of multiplicative weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np

from benchmarks.papers.common import models, plan_of, read_categories, records, table_of, versions
from benchmarks.papers.contingency_tables import COLUMNS, contingency_table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.privacy import Stage
from dp_core.kernel.questions.counting_queries import Parities
from dp_core.lab.measures.table_errors import relative_entropy
from dp_core.methods.reconstruction.multiplicative_weights import MultiplicativeWeights
from dp_core.methods.selection.fourier import Fourier
from dp_core.methods.selection.mwem import Mwem, parities
from dp_core.methods.selection.selector import Selector

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
EPSILONS_OF_RECORDS = (0.1, 0.3, 1.0)
# Computed from the tables: of the even table, and of the model of all two-way interactions.
KNOWN = {
    "mildew": (1.5463637909, 0.1051699993),
    "czech": (0.5504454691, 0.0128601246),
    "rochdale": (1.7538759423, 0.1086902368),
    "nltcs": (5.3285372678, 0.2653),
}
HALVES: Mapping[Stage, Fraction] = {"select": Fraction(1, 2), "measure": Fraction(1, 2)}
WHOLE: Mapping[Stage, Fraction] = {"measure": Fraction(1)}


@dataclass(frozen=True)
class Curve:
    """One method.

    Attributes:
        name: In the table and the legend.
        select: What is asked.
        fit: From answers to a joint table.
        shares: Of the budget.
        loose: Order of the parities whose number is taken for their sensitivity; 0: none.
    """

    name: str
    select: Selector
    fit: MultiplicativeWeights
    shares: Mapping[Stage, Fraction]
    loose: int = 0


def small_curves() -> list[Curve]:
    """Return the three curves of Figure 2, and two more."""
    orders = (1, 2, 3)
    return [
        Curve("Barak", Fourier(order=3), MultiplicativeWeights(), WHOLE, loose=3),
        Curve(
            "MWEM",
            Mwem(orders=orders, picks=10, updates="steps"),
            MultiplicativeWeights(updates="steps"),
            HALVES,
        ),
        Curve("improved", Mwem(orders=orders), MultiplicativeWeights(), HALVES),
        Curve("tight 3", Fourier(order=3), MultiplicativeWeights(), WHOLE),
        Curve("tight 2", Fourier(order=2), MultiplicativeWeights(), WHOLE),
    ]


def record_curves(order: int) -> list[Curve]:
    """Return the curves of Figure 3 for parities of one order, and one more."""
    orders = tuple(range(1, order + 1))
    limit = MultiplicativeWeights()
    return [
        Curve("Barak", Fourier(order=order), limit, WHOLE, loose=order),
        *(
            Curve(f"{picks} queries", Mwem(orders=orders, picks=picks), limit, HALVES)
            for picks in (20, 30, 40)
        ),
        Curve("adaptive", Mwem(orders=orders), limit, HALVES),
        Curve("tight", Fourier(order=order), limit, WHOLE),
    ]


def entropies(curve: Curve, data: Dataset, epsilon: float, runs: int) -> list[float]:
    """Return the relative entropy of each run."""
    budget = Fraction(epsilon).limit_denominator(1000)
    if curve.loose:
        asked: Parities = parities(data.domain, range(1, curve.loose + 1))
        # Noise of scale K / epsilon is what the tight sensitivity F gives at epsilon F / K.
        budget *= Fraction(asked.l1("replace-one"), asked.length)
    plan = plan_of(
        data.domain,
        curve.select,
        curve.fit,
        epsilon=budget,
        shares=curve.shares,
        neighbours="replace-one",
    )
    exact = table_of(data)
    found = []
    for _ in range(runs):
        (model,) = models(plan, data)
        found.append(relative_entropy(exact, model.project(data.domain.columns)))
    return found


def table(
    title: str,
    data: Dataset,
    curves: Sequence[Curve],
    epsilons: Sequence[float],
    runs: int,
) -> dict[str, np.ndarray]:
    """Print one panel; return runs by curve, shape (epsilons, runs)."""
    print(f"\n{title}: {data.rows} records, 2^{len(data.domain)} cells, {runs} runs; mean (sd)")
    name = title.split(",")[0]
    even, two_way = KNOWN[name]
    print(f"even table {even:.4f}; model of all two-way interactions {two_way:.4f}")
    print("| epsilon | " + " | ".join(curve.name for curve in curves) + " |")
    print("|---|" + "---|" * len(curves))
    found: dict[str, list[list[float]]] = {curve.name: [] for curve in curves}
    for epsilon in epsilons:
        cells = []
        for curve in curves:
            values = entropies(curve, data, epsilon, runs)
            found[curve.name].append(values)
            cells.append(f"{np.mean(values):.3f} ({np.std(values):.3f})")
        print(f"| {epsilon:g} | " + " | ".join(cells) + " |", flush=True)
    return {name: np.array(values) for name, values in found.items()}


def picture(
    panels: Mapping[str, tuple[Sequence[float], Mapping[str, np.ndarray], float]], out: Path
) -> None:
    """Draw the panels side by side: means, and one standard deviation in each direction."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 3.8), squeeze=False)
    for axis, (title, (epsilons, curves, known)) in zip(axes[0], panels.items(), strict=True):
        for name, values in curves.items():
            mean, spread = values.mean(axis=1), values.std(axis=1)
            (line,) = axis.plot(epsilons, mean, marker="o", markersize=3, label=name)
            axis.fill_between(
                epsilons, mean - spread, mean + spread, alpha=0.15, color=line.get_color()
            )
        axis.axhline(known, color="black", linewidth=0.8)
        axis.set(title=title, xlabel="epsilon", xscale="log", yscale="log")
    axes[0][0].set_ylabel("relative entropy, nats")
    for axis in axes[0]:
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out, dpi=120)
    plt.close(figure)


def claims() -> None:
    """Print how much smaller the tight sensitivity is than the printed one."""
    print("\nSensitivity of all parities of order 1 to k, replace-one, in counts:")
    print("| columns | k | number K (as printed) | tight F |")
    print("|---|---|---|---|")
    for columns, order in ((6, 2), (6, 3), (8, 2), (8, 3), (16, 2), (16, 3)):
        number = sum(comb(columns, size) for size in range(1, order + 1))
        # A row replaced that differs in t columns moves the parities with an odd number of them.
        tight = max(
            sum(
                comb(t, odd) * comb(columns - t, size - odd)
                for size in range(1, order + 1)
                for odd in range(1, size + 1, 2)
            )
            for t in range(columns + 1)
        )
        print(f"| {columns} | {order} | {number} | {tight} |")


def main() -> None:
    """Print the tables and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--data", type=Path, help="CSV of NLTCS")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    print(versions())
    start, panels = time.process_time(), {}
    if arguments.data is None:
        claims()
        for name in ("mildew", "czech", "rochdale"):
            data = records(contingency_table(name), COLUMNS[name])
            found = table(name, data, small_curves(), EPSILONS, arguments.runs)
            panels[name] = (EPSILONS, found, KNOWN[name][1])
    else:
        data = read_categories(arguments.data)
        for order in (2, 3):
            title = f"nltcs, order {order}"
            found = table(title, data, record_curves(order), EPSILONS_OF_RECORDS, arguments.runs)
            panels[title] = (EPSILONS_OF_RECORDS, found, KNOWN["nltcs"][1])
    if arguments.out:
        picture(panels, arguments.out)
    print(f"\n{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
