"""How far rules between columns bend the tables of a release, and what they repair.

    python benchmarks/rules.py --rows 10000 --repeats 12

A generated survey (dates that follow each other, a total and its parts, children without work) is
measured in memory. From the same noisy tables, sets are then made with and without its three rules,
so that the two differ by the rules alone. Printed for each method:

- *break*: rows of the sets that break a rule; the sum is left out, which few rows obey by chance;
- *one-way*, *two-way*: mean TVD between sets and file over the columns, and pairs of columns, that
  rules name; *others*: over all other pairs;
- *moved*: mean TVD between the one-way tables of the sets with and without rules, over the columns
  that rules name;
- *CPU*: seconds a set, with the fitting of the model.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dp_core.confidential.encoding import Encoder
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.metrics.marginal_error import tvd
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.procedure import Outcome, carry_out, fits, sample
from dp_core.plan.reading.spec_file import load_spec
from dp_core.schema.definition import Schema
from dp_core.schema.rules.possible_codes import decode
from tests.broken_rules import broken_rules

COLUMNS = """
  start: {type: date, min: 2010-01-01, max: 2024-12-31, bins: year}
  end: {type: date, min: 2010-01-01, max: 2024-12-31, bins: year, missing: level}
  wages:
    type: number
    decimals: 2
    edges: [0, 1, 5000, 10000, 20000, 30000, 40000, 60000, 100000]
  transfers: {type: number, decimals: 2, edges: [0, 1, 2000, 5000, 10000, 15000, 30000]}
  total:
    type: number
    decimals: 2
    edges: [0, 1, 5000, 10000, 15000, 20000, 30000, 40000, 60000, 130000]
  status: {type: category, levels: [child, adult, retired]}
  hours: {type: integer, min: 0, max: 60, edges: [0, 1, 20, 35, 41, 61], missing: level}
  region: {type: category, levels: [a, b, c, d, e, f]}
  health: {type: ordinal, levels: [poor, fair, good, excellent]}
"""
RULES = (
    "start <= end",
    "total = wages + transfers",
    "if status == child then hours is missing and wages == 0",
)
METHODS = ("privsyn", "independent", "mst", "aim", "privbayes", "auto")


def survey(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return a generated file that obeys the rules."""
    child = rng.random(rows) < 0.2
    retired = ~child & (rng.random(rows) < 0.25)
    works = ~child & (rng.random(rows) < np.where(retired, 0.1, 0.8))
    hours = np.clip(np.rint(rng.normal(36, 10, rows)), 1, 60).astype(int)
    wages = np.clip(rng.lognormal(10.1, 0.6, rows) * hours / 40, 1, 99_999) * works
    transfers = np.clip(rng.lognormal(8.3, 0.9, rows), 1, 29_999) * (rng.random(rows) < 0.5)
    wages, transfers = wages.round(2), transfers.round(2)
    begin = np.datetime64("2010-01-01") + (rng.beta(1.5, 1, rows) * 5400).astype(int)
    end = np.minimum(begin + rng.exponential(700, rows).astype(int), np.datetime64("2024-12-31"))
    return {
        "start": pa.array(begin.astype("datetime64[D]")),
        "end": pa.array(end.astype("datetime64[D]"), mask=rng.random(rows) < 0.3),
        "wages": pa.array(wages),
        "transfers": pa.array(transfers),
        "total": pa.array((wages + transfers).round(2)),
        "status": pa.array(np.where(child, "child", np.where(retired, "retired", "adult"))),
        "hours": pa.array(np.where(works, hours, 0), mask=child),
        "region": pa.array(rng.choice(list("abcdef"), rows, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03])),
        "health": pa.array(
            np.array(["poor", "fair", "good", "excellent"])[
                np.clip(np.rint(rng.normal(2 - 0.8 * retired, 0.8)), 0, 3).astype(int)
            ]
        ),
    }


def plan_of(method: str, rules: Sequence[str], options: argparse.Namespace, seed: int) -> Plan:
    """Return the plan of a release."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        stated = "rules:\n" + "".join(f"  - {rule}\n" for rule in rules) if rules else ""
        (place / "schema.yaml").write_text(
            f"version: 1\ntitle: benchmark\nrows_about: {options.rows}\ncolumns:{COLUMNS}{stated}"
        )
        (place / "release.yaml").write_text(
            "version: 1\nrelease: benchmark\ndata: none.csv\nschema: schema.yaml\naccount: none\n"
            f"privacy: {{epsilon: {options.epsilon}, delta: 1.0e-9}}\nmethod: {method}\n"
            f"synthesize: {{sets: {options.sets}, mode: shared, seed: {seed}}}\n"
        )
        return make_plan(load_spec(place / "release.yaml"))


def codes_of(schema: Schema, records: pa.RecordBatch) -> Dataset:
    """Return records in the schema's codes."""
    found = [Encoder(column).encode(records.column(column.name)) for column in schema.columns]
    assert all(each.bad is None for each in found)
    return Dataset(schema.domain, np.stack([each.codes for each in found]))


def drawn(plan: Plan, outcome: Outcome, options: argparse.Namespace) -> tuple[Any, float]:
    """Return the sets that a plan makes of noisy tables, and the seconds it took."""
    started = time.process_time()
    models = dict(fits(plan, outcome.released, outcome.selections, rows=None))
    sets = []
    for number in range(1, options.sets + 1):
        records = sample(plan, models, number)
        table = decode(plan.spec.schema, records, rng=np.random.default_rng(number))
        sets.append(table.combine_chunks().to_batches()[0])
    return sets, time.process_time() - started


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sets", type=int, default=2)
    parser.add_argument("--methods", nargs="*", default=METHODS)
    options = parser.parse_args()
    print(f"{options.rows:,} rows, epsilon {options.epsilon}, {options.repeats} repeats")
    print("method       rules   break  one-way  two-way   others    moved  CPU")
    for method in options.methods:
        found: dict[bool, list[list[float]]] = {False: [], True: []}
        for repeat in range(options.repeats):
            data = survey(options.rows, np.random.default_rng([3, repeat]))
            records = pa.record_batch(list(data.values()), names=list(data))
            plans = {
                with_rules: plan_of(method, RULES if with_rules else (), options, repeat)
                for with_rules in (False, True)
            }
            judge = plans[True].spec.schema.coarse or plans[True].spec.schema
            file = codes_of(judge, records)
            stored = codes_of(plans[False].spec.schema.stored, records)
            outcome = carry_out(plans[False], MemoryCounter(stored))
            ruled = [n for n in judge.names if any(n in rule.columns for rule in judge.rules)]
            pairs = [*itertools.combinations(judge.names, 2)]
            before: list[Dataset] = []
            for with_rules, plan in plans.items():
                sets, seconds = drawn(plan, outcome, options)
                coded = [codes_of(judge, each) for each in sets]
                before = before or coded
                one_way = [(name,) for name in ruled]
                figures = [
                    np.mean([_breaks(judge, each) for each in sets]),
                    _distance(coded, [file] * len(coded), one_way),
                    _distance(coded, [file] * len(coded), [p for p in pairs if {*p} <= {*ruled}]),
                    _distance(
                        coded, [file] * len(coded), [p for p in pairs if not {*p} <= {*ruled}]
                    ),
                    _distance(coded, before, one_way),
                    seconds / options.sets,
                ]
                found[with_rules].append([float(figure) for figure in figures])
        for with_rules, rows in found.items():
            mean = np.mean(rows, axis=0)
            word = "with" if with_rules else "without"
            figures_text = "    ".join(f"{figure:.3f}" for figure in mean[1:5])
            print(
                f"{method:12} {word:7} {mean[0]:5.1%}    {figures_text}  {mean[5]:.1f}", flush=True
            )


def _breaks(schema: Schema, records: pa.RecordBatch) -> float:
    """Return the share of rows that break a rule other than the sum."""
    found = [rows for text, rows in broken_rules(schema, records).items() if text != RULES[1]]
    return float(np.logical_or.reduce(found).mean())


def _distance(
    ones: Sequence[Dataset], others: Sequence[Dataset], cliques: Sequence[tuple[str, ...]]
) -> float:
    """Return the mean TVD of pairs of files over some tables."""
    return float(
        np.mean(
            [
                tvd(_table(one, clique), _table(other, clique))
                for one, other in zip(ones, others, strict=True)
                for clique in cliques
            ]
        )
    )


def _table(data: Dataset, clique: tuple[str, ...]) -> np.ndarray[Any, Any]:
    sizes = data.domain.project(clique).sizes
    index = np.ravel_multi_index([data.column(name) for name in clique], sizes)
    return np.bincount(index, minlength=int(np.prod(sizes)))


if __name__ == "__main__":
    main()
