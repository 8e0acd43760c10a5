"""What the wanted tables gain if `tables` says which they are, and what the rest loses.

    python benchmarks/workload.py margins
    python benchmarks/workload.py sets --files yrbss,small_2000 --runs 2

Guarantee (epsilon, 1e-9), add-remove, exact noise. Files: the demo's survey and generated ones
(`benchmarks/auto_parts/generated.py`). The workload of a file is seeded: six tables of two or three
columns with weights 1 to 3; in two of them all ranges of the largest column are asked.

`margins`: root of the weighted mean variance of all answers, in records, from all noisy tables
together, as `query` gives it. Methods: `auto` as it is, whose choice depends on the data (the mean
is over the tables that it determines, so it is a lower bound; the others are counted); `auto` with
the workload, at several `tables_share`; `fixed` with the same tables, first with equal parts of the
budget, then with the workload. Ratios are to `fixed, equal` of the same file and epsilon.

`sets`: average TVD over all pairs of columns of one set, and over the wanted tables.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.auto_parts.generated import GENERATED
from benchmarks.privsyn import load_demo
from benchmarks.trial import trial_plan
from dp_core.accounts.memory_session import MemorySession
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.methods.selection.budget.workload import Told, WantedTable, mean_variance
from dp_core.metrics.marginal_error import average_tvd, tvd
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import ask_all, carry_out, sample

DELTA = Fraction("1e-9")
SHARES = ("1/4", "1/2", "3/4")
FILES = ("yrbss", "small_2000", "triples", "clusters", "census_5k")


def loaded(name: str) -> Dataset:
    """Return a file as codes."""
    return load_demo() if name == "yrbss" else GENERATED[name]()


def workload(domain: Domain) -> tuple[WantedTable, ...]:
    """Return six seeded tables of at most 3,000 cells."""
    rng = np.random.default_rng(20_261_123)
    found: list[WantedTable] = []
    while len(found) < 6:
        count = 2 + len(found) % 2
        axes = np.sort(rng.choice(len(domain), count, replace=False)).tolist()
        of = tuple(domain.columns[axis] for axis in axes)
        if domain.size(of) > 3_000 or any(of == other.of for other in found):
            continue
        largest = max(of, key=lambda column: domain.size((column,)))
        ranges = (largest,) if len(found) in (1, 4) else ()
        weight = Fraction(1 + len(found) % 3)
        found.append(WantedTable(of=of, weight=weight, ranges=ranges))
    return tuple(found)


def plans(domain: Domain, epsilon: Fraction) -> Mapping[str, Plan]:
    """Return the plans to compare by the name of the method."""
    wanted = workload(domain)
    listed = tuple(table.of for table in wanted)

    def plan(method: str, **select: Any) -> Plan:
        # Gaussian noise for every method, so that only the division of the budget differs.
        return trial_plan(domain, method, epsilon, DELTA, select=select, noise="gaussian")

    return {
        "auto": plan("auto"),
        **{
            f"auto, tables {share}": plan("auto", workload=wanted, tables_share=Fraction(share))
            for share in SHARES
        },
        "fixed, equal": plan("fixed", cliques=listed, allocation="equal", columns=False),
        "fixed, tables": plan("fixed", workload=wanted),
    }


def told_by_all(pooled: Pooled) -> list[Told]:
    """Return the noise of all measurements."""
    tables = [Told(each.clique, each.variance) for each in pooled.tables]
    alone = [Told(clique, s, alone=True) for clique, (_, s) in pooled.interactions.items()]
    return [*tables, *alone]


def error(domain: Domain, told: Sequence[Told]) -> tuple[float, int]:
    """Return the weighted error, in records, and the number of tables that are not determined."""
    total = weights = 0.0
    lost = 0
    for table in workload(domain):
        variance = mean_variance(table, told, domain, rows_public=False)
        if math.isfinite(variance):
            total += float(table.weight) * variance
            weights += float(table.weight)
        else:
            lost += 1
    return math.sqrt(total / weights) if weights else math.inf, lost


def margins(arguments: argparse.Namespace) -> None:
    """Print the weighted error of each method on each file."""
    print("| file | epsilon | method | error, records | to fixed, equal | undetermined |")
    print("|---|---|---|---|---|---|")
    for name in arguments.files:
        data = loaded(name)
        for epsilon in arguments.epsilons:
            found = {}
            for method, plan in plans(data.domain, epsilon).items():
                privacy = plan.spec.privacy
                session = MemorySession(plan.currency, privacy.neighbours)
                released = ask_all(plan, MemoryCounter(data), session).released
                found[method] = error(data.domain, told_by_all(pool(data.domain, released)))
            base, _ = found["fixed, equal"]
            for method, (value, lost) in found.items():
                ratio = f"{value / base:.2f}"
                print(
                    f"| {name} | {float(epsilon):g} | {method} | {value:.1f} | {ratio} | {lost} |"
                )


def sets(arguments: argparse.Namespace) -> None:
    """Print the TVD of one set over all pairs, and over the wanted tables."""
    print("| file | epsilon | method | all pairs | wanted tables |")
    print("|---|---|---|---|---|")
    for name in arguments.files:
        data = loaded(name)
        wanted = workload(data.domain)
        for epsilon in arguments.epsilons:
            for method, plan in plans(data.domain, epsilon).items():
                pairs, own = [], []
                for _ in range(arguments.runs):
                    outcome = carry_out(plan, MemoryCounter(data))
                    drawn = sample(outcome.plan, outcome.models, 1)
                    pairs.append(average_tvd(data, drawn, 2).mean)
                    both = MemoryCounter(data), MemoryCounter(drawn)
                    own.append(
                        sum(
                            float(table.weight)
                            * tvd(*(each.count([table.of])[table.of].counts for each in both))
                            for table in wanted
                        )
                        / float(sum(table.weight for table in wanted))
                    )
                print(
                    f"| {name} | {float(epsilon):g} | {method} | {np.mean(pairs):.4f} |"
                    f" {np.mean(own):.4f} |",
                    flush=True,
                )


def main() -> None:
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("margins", "sets"))
    parser.add_argument("--files", type=lambda text: text.split(","), default=list(FILES))
    parser.add_argument(
        "--epsilons",
        type=lambda text: [Fraction(each) for each in text.split(",")],
        default=[Fraction(1, 2), Fraction(1), Fraction(4)],
    )
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    {"margins": margins, "sets": sets}[arguments.what](arguments)


if __name__ == "__main__":
    main()
