"""Do the warnings of `infer` and the report name the intervals that miss, and only those?

Usage: python benchmarks/interval_warnings.py [--modes shared split noise-aware] [--method auto]
       [--rows 3000] [--epsilon 1] [--repeats 20] [--sets 10] [--details]

A file is drawn from a known population of nine columns, released in memory and analysed: shares of
all levels, means of the numbers, and the coefficients of regressions of each outcome on one or two
predictors. For each mode it prints, for shares and for coefficients, the number of intervals, how
many cover the population's value, how many of the intervals that miss were warned of, and how many
of those that cover. A share is warned of by its level (`levels_near_zero`), a coefficient by its
concerns (`dp_core.analysis.regression.interval_warnings`). General warnings (all intervals of mode
`shared` are too narrow) do not count: they name no interval.

The population has what misleads: numbers in bins that are wide for them, a skewed number, rare
levels, a column of ten levels, relations of all strengths, and two columns without any.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.column_scores import compared
from dp_core.analysis.regression.frames import frame_of
from dp_core.analysis.regression.interval_warnings import concerns
from dp_core.bundle.quality.relations import levels_near_zero
from dp_core.bundle.reading import Bundle
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.inference.combine import combine
from dp_core.inference.combining_rules import rule_of
from dp_core.inference.formulas.formula import read_formula
from dp_core.schema.decoding import decode
from dp_core.schema.definition import Column, Level, Schema
from dp_core.spec.plan import Plan, make_plan
from dp_core.spec.procedure import carry_out, sample
from dp_core.spec.trial import trial_plan
from dp_core.tables.dataset import Dataset
from dp_core.tables.structural_zeros import StructuralZeros

POPULATION = 200_000


def _levels(count: int) -> tuple[Level, ...]:
    return tuple(Level(f"l{code}", f"l{code}") for code in range(count))


def _number(name: str, low: int, high: int, bins: int) -> Column:
    edges = tuple(low + Fraction(high - low) * part / bins for part in range(bins + 1))
    return Column(name=name, kind="number", edges=edges)


SCHEMA = Schema(
    title="benchmark",
    columns=(
        _number("age", 0, 100, 8),
        _number("income", 0, 500, 20),
        _number("score", 0, 100, 20),
        Column(name="sex", kind="category", levels=_levels(2)),
        Column(name="region", kind="category", levels=_levels(6)),
        Column(name="job", kind="category", levels=_levels(10)),
        Column(name="ill", kind="category", levels=_levels(2)),
        Column(name="health", kind="category", levels=_levels(3)),
        Column(name="coin", kind="category", levels=_levels(2)),
    ),
    zeros=StructuralZeros(),
    document={},
)
FORMULAS = (
    "score ~ age",
    "score ~ sex",
    "score ~ region",
    "score ~ age + sex",
    "income ~ age",
    "income ~ job",
    "income ~ sex + coin",
    "age ~ health",
    "age ~ coin",
    "ill ~ age",
    "ill ~ sex + coin",
    "sex ~ job",
    "coin ~ score",
    "age ~ 1",
    "income ~ 1",
    "score ~ 1",
)


def people(rows: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return records of the population: numbers, and codes of levels."""
    sex = rng.random(rows) < 0.48
    region = rng.choice(6, rows, p=[0.5, 0.3, 0.15, 0.03, 0.015, 0.005])
    age = np.clip(rng.normal(45 + 3 * (region == 1), 14, rows), 0, 99.99)
    skill = rng.normal(0, 1, rows) + 0.5 * sex
    job = np.clip(np.floor(2.2 * np.exp(0.45 * skill) + rng.exponential(1.0, rows)), 0, 9)
    income = np.clip(
        np.exp(3.3 + 0.01 * (age - 45) + 0.15 * skill + rng.normal(0, 0.6, rows)), 0, 499
    )
    score = np.clip(
        50 + 0.3 * (age - 45) + 2 * sex - 6 * (region == 4) + rng.normal(0, 12, rows), 0, 99.99
    )
    ill = rng.random(rows) < 1 / (1 + np.exp(4.2 - 0.03 * (age - 45) - 0.4 * sex))
    health = np.digitize(rng.normal(0, 1, rows) + 0.02 * (age - 45), [0.2, 1.4])
    coin = rng.random(rows) < 0.5
    return {
        **{"age": age, "income": income, "score": score, "sex": sex, "region": region},
        **{"job": job, "ill": ill, "health": health, "coin": coin},
    }


def coded(values: dict[str, NDArray[Any]]) -> Dataset:
    """Return records in the schema's codes."""
    found = []
    for column in SCHEMA.columns:
        own = values[column.name]
        if not column.levels:
            own = np.searchsorted([float(edge) for edge in column.edges[1:-1]], own, side="right")
        found.append(np.asarray(own).astype(np.uint16))
    return Dataset(SCHEMA.domain, np.stack(found))


def truths() -> tuple[dict[str, dict[str, float]], dict[str, NDArray[np.float64]]]:
    """Return the population's coefficients by formula and name, and shares of levels by column."""
    import pyarrow as pa

    values = people(POPULATION, np.random.default_rng(0))
    arrays = {
        column.name: pa.DictionaryArray.from_arrays(
            pa.array(values[column.name].astype(np.int8)),
            pa.array([level.label for level in column.levels]),
        )
        if column.levels
        else pa.array(values[column.name].astype(float))
        for column in SCHEMA.columns
    }
    fitted = {text: analysed(text, [pa.table(arrays)], "shared")[0] for text in FORMULAS}
    counted = coded(values)
    shares = {
        column.name: np.bincount(counted.column(column.name), minlength=column.size) / POPULATION
        for column in SCHEMA.columns
    }
    named = {
        text: dict(zip(found.names, map(float, found.fits[0].coefficients), strict=True))
        for text, found in fitted.items()
    }
    return named, shares


def analysed(text: str, tables: Sequence[Any], rule: Any) -> tuple[Any, Any, Any]:
    """Return the analysis of some sets, its formula and its frames."""
    formula = read_formula(text, SCHEMA.names)
    columns = [SCHEMA.column(name) for name in formula.columns]
    frames = [frame_of(number, table, columns) for number, table in enumerate(tables, start=1)]
    return analyse(formula, frames, SCHEMA, rule), formula, frames


def plan_of(arguments: argparse.Namespace, mode: str, seed: int) -> Plan:
    """Return the plan of a release of the benchmark's columns."""
    plan = trial_plan(
        SCHEMA.domain,
        arguments.method,
        Fraction(arguments.epsilon),
        Fraction(1, 10**9),
        sets=5 if mode == "split" else arguments.sets,
        mode=mode,  # type: ignore[arg-type]
        seed=seed,
    )
    return make_plan(dataclasses.replace(plan.spec, schema=SCHEMA))


class Tally:
    """Intervals of one kind: whether they cover, and whether they were warned of."""

    def __init__(self) -> None:
        """Begin without intervals."""
        self.seen: Counter[tuple[bool, bool]] = Counter()

    def add(self, *, covered: bool, warned: bool) -> None:
        """Count an interval."""
        self.seen[covered, warned] += 1

    def __str__(self) -> str:
        """Return a row of the table."""
        missed = self.seen[False, True] + self.seen[False, False]
        covered = self.seen[True, True] + self.seen[True, False]
        parts = (
            f"{missed + covered:,}",
            f"{covered / max(missed + covered, 1):.3f}",
            f"{self.seen[False, True] / max(missed, 1):.2f}",
            f"{self.seen[True, True] / max(covered, 1):.2f}",
        )
        return " | ".join(parts)


def run(arguments: argparse.Namespace, mode: str) -> None:
    """Make and judge the releases of one mode, and print its rows."""
    coefficients, shares = truths()
    tallies = {"shares": Tally(), "coefficients": Tally()}
    kinds: dict[str, Tally] = {}
    named: dict[str, Tally] = {}
    for repeat in range(arguments.repeats):
        plan = plan_of(arguments, mode, 1000 * arguments.seed + repeat)
        data = coded(people(arguments.rows, np.random.default_rng([arguments.seed, 1, repeat])))
        made = carry_out(plan, MemoryCounter(data))
        rng = np.random.default_rng([arguments.seed, 2, repeat])
        sets = [sample(plan, made.models, one + 1) for one in range(plan.spec.sets)]
        rule = rule_of(mode, plan.spec.sets)
        claims: Any = SimpleNamespace(schema=SCHEMA, sets=len(sets))
        bundle = Bundle(Path(), claims, rule, float(arguments.rows), made.released)
        judge_shares(bundle, sets, shares, tallies["shares"])
        tables = [decode(SCHEMA, one, rng=rng) for one in sets]
        for text in FORMULAS:
            try:
                found, formula, frames = analysed(text, tables, rule)
            except BadInput:
                continue  # a rare level is in some sets only: there is no interval
            about = concerns(
                bundle, formula, compared(formula, found.design, frames, SCHEMA), found.combined
            )
            low, high = found.combined.interval()
            true = coefficients[text]
            for place, name in enumerate(found.names):
                if name == "Intercept" and not text.endswith("~ 1"):
                    continue
                own = [each.kind for each in about if name in each.coefficients]
                covered = bool(low[place] <= true[name] <= high[place])
                tallies["coefficients"].add(covered=covered, warned=bool(own))
                for kind in own:
                    kinds.setdefault(kind, Tally()).add(covered=covered, warned=True)
                key = f"{text}: {name}"
                named.setdefault(key, Tally()).add(covered=covered, warned=bool(own))
    for name, tally in tallies.items():
        print(f"| {mode} | {name} | {tally} |", flush=True)
    for kind, tally in sorted(kinds.items()):
        print(f"|  | warned of: {kind} | {tally} |", flush=True)
    if arguments.details:
        for name, tally in named.items():
            print(f"|  | {name} | {tally} |")


def judge_shares(
    bundle: Bundle,
    sets: Sequence[Dataset],
    shares: dict[str, NDArray[np.float64]],
    tally: Tally,
) -> None:
    """Count the intervals of the shares of all levels."""
    names = [column.name for column in SCHEMA.columns if column.levels]
    weak = levels_near_zero(bundle.measured, SCHEMA, names)
    for name in names:
        for code, label in enumerate(SCHEMA.column(name).code_labels()):
            found = [float((one.column(name) == code).mean()) for one in sets]
            within = [p * (1 - p) / one.rows for p, one in zip(found, sets, strict=True)]
            low, high = combine(found, within, bundle.rule).interval()
            covered = bool(low <= shares[name][code] <= high)
            tally.add(covered=covered, warned=f"{name}: {label}" in weak)


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--modes", nargs="+", default=["shared", "split", "noise-aware"])
    parser.add_argument("--method", default="auto")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the files and the sets")
    parser.add_argument("--details", action="store_true", help="every coefficient")
    arguments = parser.parse_args()
    print(f"python {platform.python_version()}, numpy {np.__version__}; {vars(arguments)}")
    print(
        "\n| mode | intervals | number | cover | warned, of those that miss | of those that cover |"
    )
    print("|---|---|---|---|---|---|")
    for mode in arguments.modes:
        run(arguments, mode)
    print(f"\n{time.process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
