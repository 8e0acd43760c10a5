"""Error of the sets of wide files of known structure, by method.

The files are those of `auto_parts/wide.py`: 50,000 records of known structure. Epsilon is 1, delta
1e-9. It prints the mean TVD of 2,000 pairs and the CPU seconds.

    python benchmarks/wide_selection.py --files tree factors --columns 200 --methods auto mst
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

from benchmarks.auto_parts.wide import KINDS, wide
from benchmarks.trial import trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.metrics.marginal_error import average_tvd
from dp_core.plan.procedure import carry_out, sample

PAIRS = 2000


def main() -> None:
    """Print a line for each file and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--columns", nargs="+", type=int, default=[200])
    parser.add_argument("--methods", nargs="+", default=["auto", "mst", "independent"])
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    for kind in options.files:
        for columns in options.columns:
            data = wide(f"{kind}_{columns}")
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
