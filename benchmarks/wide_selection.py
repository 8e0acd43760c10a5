"""Error of the sets of wide files of known structure, by method.

Files are generated (nobody's data), with 2 to 20 levels of uneven shares:

    independent   no column depends on another
    chains        blocks of six columns, each column depending on the one before it
    tree          each column depends on one of the ten before it
    factors       all columns depend on two hidden factors

Epsilon is 1, delta 1e-9. It prints the mean TVD of 2,000 pairs and the CPU seconds.

    python benchmarks/wide_selection.py --files tree factors --columns 200 --methods auto mst
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.metrics.marginal_error import average_tvd
from dp_core.spec.procedure import carry_out, sample
from dp_core.spec.trial import trial_plan
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain

FILES = ("independent", "chains", "tree", "factors")
PAIRS = 2000


def file_of(kind: str, columns: int, rows: int, seed: int) -> Dataset:
    """Return a generated file."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 21, columns)
    hidden = rng.normal(size=(2, rows))
    scales: list[np.ndarray] = []
    for number in range(columns):
        own = rng.normal(size=rows)
        if kind == "chains" and number % 6:
            scale = 0.8 * scales[-1] + 0.6 * own
        elif kind == "tree" and number:
            scale = 0.8 * scales[rng.integers(max(0, number - 10), number)] + 0.6 * own
        elif kind == "factors":
            part = rng.normal(size=2)
            part *= 0.7 / np.linalg.norm(part)
            scale = part @ hidden + np.sqrt(0.51) * own
        else:
            scale = own
        scales.append(scale)
    codes = []
    for size, scale in zip(sizes, scales, strict=True):
        shares = np.sort(rng.dirichlet(np.full(size, 2.0)))
        codes.append(np.searchsorted(np.cumsum(shares)[:-1], ndtr(scale)).astype(np.uint16))
    names = tuple(f"c{number:03d}" for number in range(columns))
    return Dataset(Domain(names, tuple(int(size) for size in sizes)), np.stack(codes))


def main() -> None:
    """Print a line for each file and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", nargs="+", choices=FILES, default=FILES)
    parser.add_argument("--columns", nargs="+", type=int, default=[200])
    parser.add_argument("--methods", nargs="+", default=["auto", "mst", "independent"])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    for kind in options.files:
        for columns in options.columns:
            data = file_of(kind, columns, options.rows, 7)
            for method in options.methods:
                for seed in range(1, options.repeats + 1):
                    before = time.process_time()
                    plan = trial_plan(
                        data.domain, method, Fraction(1), Fraction(1, 10**9), seed=seed
                    )
                    outcome = carry_out(plan, MemoryCounter(data))
                    drawn = sample(outcome.plan, outcome.models, 1)
                    cpu = time.process_time() - before
                    error = average_tvd(data, drawn, 2, most=PAIRS).mean
                    print(f"{kind:12}{columns:5}  {method:12}{error:8.4f}{cpu:8.1f} s", flush=True)


if __name__ == "__main__":
    main()
