"""Are means and deviations of a number right where noise hides its tail, and do intervals cover?

    python benchmarks/hidden_tails.py [--repeats 100] [--noise 12 46 200]

Columns of 16,000 records are generated in 13 to 30 bins. Normal noise of each standard deviation is
added to each bin. The counts are drawn for five sets twice: without the values of the levels (a
flat prior), and with them (`hidden_tails`). The script prints, each as `with / without` and then as
their ratio, the mean absolute error of the centre's mean (in standard deviations of the column) and
standard deviation (of its logarithm), the same for one set, and the total variation distance of the
centre. Then it prints how often 95 % intervals from five sets contain the column's mean and
standard deviation.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.replicates.posterior.column_draws import draw_column
from dp_core.schema.structure.structural_zeros import StructuralZeros

Floats = NDArray[np.float64]
ROWS, SETS = 16_000, 5
QUANTILE = 2.776  # 97.5 %, of Student's t with 4 degrees of freedom


def in_bins(numbers: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the counts of bins and the middles of the bins."""
    counts, _ = np.histogram(np.clip(numbers, edges[0], edges[-1]), edges)
    return counts.astype(np.float64), (edges[1:] + edges[:-1]) / 2


def evenly(end: float, bins: int) -> Floats:
    """Return edges of equal bins from 0."""
    return np.linspace(0, end, bins + 1)


KINDS: dict[str, Callable[[np.random.Generator], tuple[Floats, Floats]]] = {
    "normal": lambda r: in_bins(r.normal(50, 8, ROWS), evenly(100, 30)),
    "gamma": lambda r: in_bins(r.gamma(3, 10, ROWS), evenly(200, 20)),
    "lognormal": lambda r: in_bins(r.lognormal(10, 0.7, ROWS), evenly(500_000, 25)),
    "lognormal, narrow": lambda r: in_bins(r.lognormal(10, 0.7, ROWS), evenly(120_000, 20)),
    "lognormal, geometric bins": lambda r: in_bins(
        r.lognormal(5, 1.5, ROWS), np.concatenate([[0.0], np.geomspace(20, 57_871, 13)])
    ),
    "85 % zeros, lognormal": lambda r: in_bins(
        np.where(r.random(ROWS) < 0.85, 0, r.lognormal(8, 1, ROWS)), evenly(100_000, 25)
    ),
    "pareto": lambda r: in_bins(20_000 * (1 + r.pareto(2.0, ROWS)), evenly(1e6, 25)),
    "top-coded": lambda r: in_bins(
        np.minimum(r.lognormal(10, 0.8, ROWS), 90_000), evenly(200_000, 25)
    ),
    "two humps": lambda r: in_bins(
        np.where(r.random(ROWS) < 0.02, r.normal(80, 3, ROWS), r.normal(30, 6, ROWS)),
        evenly(100, 25),
    ),
    "uniform": lambda r: in_bins(r.uniform(0, 100, ROWS), evenly(100, 20)),
}


def moments(counts: Floats, values: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of a number by its counts."""
    mean = float(counts @ values / counts.sum())
    return mean, float(np.sqrt(counts @ (values - mean) ** 2 / counts.sum()))


def errors_of(
    exact: Floats, noisy: Floats, noise: float, values: Floats, *, told: bool, seed: int
) -> tuple[list[float], list[bool]]:
    """Return the five errors, and whether intervals contain mean and standard deviation."""
    found = draw_column(
        Domain(("number",), (exact.size,)),
        (noisy, noise**2),
        total=float(ROWS),
        totals=np.full(SETS, float(ROWS)),
        zeros=StructuralZeros(),
        values=values if told else None,
        rng=np.random.default_rng(seed),
    )
    mean, spread = moments(exact, values)
    errors = []
    for counts in (found.middle, found.draws[0]):
        own = moments(counts, values)
        errors += [abs(own[0] - mean) / spread, abs(float(np.log(own[1] / spread)))]
    errors.append(float(np.abs(found.middle - exact).sum()) / ROWS / 2)
    of_sets = np.array([moments(each, values) for each in found.draws])
    half = QUANTILE * np.sqrt((1 + 1 / SETS) * of_sets.var(axis=0, ddof=1))
    inside = np.abs(of_sets.mean(axis=0) - (mean, spread)) <= half
    return errors, inside.tolist()


def main() -> None:
    """Print a table of errors and of how often intervals cover."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--noise", type=float, nargs="+", default=[12.0, 46.0, 200.0])
    arguments = parser.parse_args()
    print("| column | noise | mean | sd | set's mean | set's sd | TVD | mean in | sd in |")
    print("|---|" + "--:|" * 8)
    for kind, drawn in KINDS.items():
        for noise in arguments.noise:
            rows: dict[bool, list[list[float]]] = {True: [], False: []}
            for seed in range(arguments.repeats):
                rng = np.random.default_rng(seed)
                exact, values = drawn(rng)
                noisy = exact + np.rint(rng.normal(0, noise, exact.size))
                for told, kept in rows.items():
                    errors, inside = errors_of(exact, noisy, noise, values, told=told, seed=seed)
                    kept.append([*errors, *map(float, inside)])
            told, flat = (np.mean(rows[each], axis=0) for each in (True, False))
            cells = [
                f"{one:.4f} / {other:.4f} = {one / other:.2f}"
                for one, other in zip(told[:5], flat[:5], strict=True)
            ]
            cells += [
                f"{one:.2f} / {other:.2f}" for one, other in zip(told[5:], flat[5:], strict=True)
            ]
            print(f"| {kind} | {noise:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
