"""Public against bought bins of skewed columns, and the options of histograms.

Usage: python benchmarks/histogram_bins.py [--repeats 100]

A column is log-normal (0, 1) on 4,096 positions from 0 to 40.96. "alone": it is the only one, of 20
bins; "mixed": there is a second like it, each of 8 bins, and a column of 12 levels on which both
depend. Pure epsilon, add-remove, one release of all the budget. Printed for each way: TVD of the
column between file and set over 256 equal cells, error of the mean in the file's standard
deviations (bias, and root mean square), and how much too large the variance is, in percent.
"""

from __future__ import annotations

import argparse
import platform
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.kernel import Kernel
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.laplace_sanitizer import LaplaceSanitizer
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables

POSITIONS, CELLS, LEVELS = 4096, 256, 12
X, Y = (
    Variable(name=name, size=POSITIONS, positions=POSITIONS, low=0.0, high=40.96)
    for name in ("x", "y")
)
ALONE, MIXED = Variables((X,)), Variables((Variable(name="g", size=LEVELS), X, Y))
ZEROS = StructuralZeros()
WAYS: dict[str, tuple[Variables, dict[str, LaplaceSanitizer]]] = {
    "alone": (
        ALONE,
        {
            "20 equal": LaplaceSanitizer(bins=20),
            "100 equal": LaplaceSanitizer(bins=100),
            "19 edges bought": LaplaceSanitizer(bins=1, bought=19),
            "10 equal, 10 edges bought": LaplaceSanitizer(bins=10, bought=10),
            "20 equal, published": LaplaceSanitizer(bins=20, published=True),
        },
    ),
    "mixed": (
        MIXED,
        {
            "8 equal": LaplaceSanitizer(bins=8),
            "7 edges bought": LaplaceSanitizer(bins=1, bought=7),
            "4 equal, 4 edges bought": LaplaceSanitizer(bins=4, bought=4),
            "8 equal, categories": LaplaceSanitizer(bins=8, categories=Fraction(1, 2)),
            "4 and 4, categories": LaplaceSanitizer(
                bins=4, bought=4, categories=Fraction(1, 2)
            ),
            "8 equal, published": LaplaceSanitizer(bins=8, published=True),
        },
    ),
}  # fmt: skip


def file_of(variables: Variables, rows: int, rng: np.random.Generator) -> Dataset:
    """Return a file of the model above."""
    level = rng.integers(0, LEVELS, rows)
    shift = np.zeros(rows) if len(variables) == 1 else (level - (LEVELS - 1) / 2) / LEVELS
    columns = [
        variable.position(np.exp(shift + rng.standard_normal(rows)))
        if variable.numeric
        else level.astype(np.uint16)
        for variable in variables
    ]
    return Dataset(variables.domain, np.ascontiguousarray(np.stack(columns)))


def errors(data: Dataset, found: Dataset) -> NDArray[np.float64]:
    """Return TVD, error of the mean and relative error of the variance of column x."""
    tables = [
        np.bincount(each.column("x") // (POSITIONS // CELLS), minlength=CELLS) / each.rows
        for each in (data, found)
    ]
    real, made = (X.value(each.column("x").astype(np.float64)) for each in (data, found))
    tvd = np.abs(tables[0] - tables[1]).sum() / 2
    return np.array([tvd, (made.mean() - real.mean()) / real.std(), made.var() / real.var() - 1])


def main() -> None:
    """Print a table for each number of records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    repeats = parser.parse_args().repeats
    print(f"python {platform.python_version()}, numpy {np.__version__}, {repeats} repeats")
    for rows in (1_000, 20_000):
        for scenario, (variables, ways) in WAYS.items():
            for epsilon in (Fraction(1, 5), Fraction(1), Fraction(5)):
                print(f"{rows:,} records, {scenario}, epsilon {float(epsilon):g}")
                for name, method in ways.items():
                    scores = []
                    for seed in range(repeats):
                        rng = np.random.default_rng(seed)
                        data = file_of(variables, rows, rng)
                        curator = Curator(
                            Kernel(
                                variables.domain,
                                MemoryCounter(data),
                                MemorySession(Currency("pure", epsilon), "add-remove"),
                            )
                        )
                        released = method.measure(
                            MethodInputs(
                                curator=curator,
                                domain=variables.domain,
                                measure_cost=epsilon,
                                zeros=ZEROS,
                                rng=rng,
                            ),
                            variables,
                        )
                        model = method.model_of(
                            variables, FitInputs(variables.domain, released, None, ZEROS)
                        )
                        scores.append(errors(data, model.sample(rows, rng=rng)))
                    tvd, mean, variance = np.array(scores).T
                    print(
                        f"  {name:26} TVD {tvd.mean():.3f}  mean {mean.mean():+.3f}"
                        f" (rmse {np.sqrt((mean**2).mean()):.3f})  variance {variance.mean():+.0%}"
                    )


if __name__ == "__main__":
    main()
