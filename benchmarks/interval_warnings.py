"""Do the warnings of `infer` and the report name the intervals that miss, and only those?

Usage: python benchmarks/interval_warnings.py [--modes shared split posterior]
       [--design survey latent-classes curves] [--method auto] [--rows 3000] [--epsilon 1]
       [--repeats 20] [--sets 10] [--details]

A file is drawn from a known population, released in memory and analysed: shares of all levels,
means of the numbers, and the coefficients of regressions of each outcome on one or two predictors.
A share is warned of by its level (`levels_near_zero`), a coefficient by its concerns
(`dp_core.analysis.regression.interval_warnings`). General warnings (all intervals of mode `shared`
are too narrow) do not count: they name no interval.

For shares, coefficients, and the coefficients with each kind of warning, it prints the number of
intervals, how many cover, how many of those that miss were warned of, how many of those that cover,
and coverage among the intervals with and without a warning. This is done for two truths: the value
of the population, for which the intervals are, and the value of the confidential file itself,
before its numbers were binned. Of valid intervals 5 % miss the population's value by chance, which
no warning can foresee. The row `known rate` is a bound for any warning that is about a coefficient,
not about a single release: it warns of a coefficient if its intervals cover less than .9 of the
time in the other half of the repeats.

The design `survey` has what misleads: nine columns with numbers in bins that are wide for them, a
skewed number, rare levels, a column of ten levels, relations of all strengths, and two columns
without any. The others are the populations of interval_parts/populations.py, on which no threshold
was chosen; their numbers get 16 equal bins.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from numpy.typing import NDArray

from benchmarks.interval_parts.populations import GENERATED
from benchmarks.trial import trial_plan
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
from dp_core.kernel.counting.dataset import Dataset
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.procedure import carry_out, sample
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.rules.possible_codes import decode
from dp_core.schema.structure.structural_zeros import StructuralZeros

POPULATION = 200_000
BINS = 16
Values = dict[str, NDArray[Any]]


def _levels(count: int) -> tuple[Level, ...]:
    return tuple(Level(f"l{code}", f"l{code}") for code in range(count))


def _number(name: str, low: float, high: float, bins: int) -> Column:
    first, width = Fraction(low), Fraction(high) - Fraction(low)
    edges = tuple(first + width * part / bins for part in range(bins + 1))
    return Column(name=name, kind="number", edges=edges)


@dataclass(frozen=True, eq=False)
class Design:
    """A population and the questions about it.

    Attributes:
        schema: Its columns.
        formulas: Regressions.
        population: All records: numbers, and codes of levels.
        draw: Return records of a file, given their number and a generator.
    """

    schema: Schema
    formulas: tuple[str, ...]
    population: Values
    draw: Callable[[int, np.random.Generator], Values]


SURVEY = Schema(
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
SURVEY_FORMULAS = (
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


FORMULAS = {
    "latent-classes": (
        "c0 ~ c3",
        "c0 ~ c6",
        "c0 ~ c1 + c4",
        "c1 ~ c2",
        "c1 ~ c9",
        "c1 ~ c5 + c3",
        "c2 ~ c7",
        "c2 ~ c8 + c0",
    ),
    "curves": (
        "parabola ~ base",
        "threshold ~ other",
        "wave ~ base",
        "spread ~ other",
        "product ~ base + other",
        "skewed ~ base",
        "skewed ~ middle + step",
        "threshold ~ skewed",
        "wave ~ parabola",
        "base ~ middle",
        "other ~ step",
        "middle ~ base",
        "middle ~ step + other",
        "skewed ~ 1",
        "parabola ~ 1",
    ),
}


def design_of(name: str) -> Design:
    """Return a design by its name."""
    if name == "survey":
        everyone = people(POPULATION, np.random.default_rng(0))
        return Design(SURVEY, SURVEY_FORMULAS, everyone, people)
    frame = GENERATED[name]()
    columns, values = [], {}
    for column in frame.columns:
        own = frame[column].to_numpy()
        if own.dtype.kind == "f":
            columns.append(_number(column, float(own.min()), float(own.max()), BINS))
            values[column] = own
        else:
            found, values[column] = np.unique(own.astype(str), return_inverse=True)
            levels = tuple(Level(level, level) for level in map(str, found))
            columns.append(Column(name=column, kind="category", levels=levels))

    def draw(rows: int, rng: np.random.Generator) -> Values:
        places = rng.integers(0, len(frame), rows)
        return {column: own[places] for column, own in values.items()}

    schema = Schema(title=name, columns=tuple(columns), zeros=StructuralZeros(), document={})
    return Design(schema, FORMULAS[name], values, draw)


def people(rows: int, rng: np.random.Generator) -> Values:
    """Return records of the survey: numbers, and codes of levels."""
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


def coded(design: Design, values: Values) -> Dataset:
    """Return records in the schema's codes."""
    found = []
    for column in design.schema.columns:
        own = values[column.name]
        if not column.levels:
            own = np.searchsorted([float(edge) for edge in column.edges[1:-1]], own, side="right")
        found.append(np.asarray(own).astype(np.uint16))
    return Dataset(design.schema.domain, np.stack(found))


def coefficients_of(design: Design, values: Values) -> dict[str, dict[str, float]]:
    """Return the coefficients of some records, by formula and name; numbers are not binned."""
    import pyarrow as pa

    arrays = {
        column.name: pa.DictionaryArray.from_arrays(
            pa.array(values[column.name].astype(np.int8)),
            pa.array([level.label for level in column.levels]),
        )
        if column.levels
        else pa.array(values[column.name].astype(float))
        for column in design.schema.columns
    }
    named = {}
    for text in design.formulas:
        try:
            found = analysed(design, text, [pa.table(arrays)], "shared")[0]
        except BadInput:
            continue  # a rare level determines the outcome in this file
        named[text] = dict(zip(found.names, map(float, found.fits[0].coefficients), strict=True))
    return named


def shares_of(design: Design, values: Values) -> dict[str, NDArray[np.float64]]:
    """Return the shares of levels in some records, by column."""
    counted = coded(design, values)
    return {
        column.name: np.bincount(counted.column(column.name), minlength=column.size) / counted.rows
        for column in design.schema.columns
    }


def analysed(design: Design, text: str, tables: Sequence[Any], rule: Any) -> tuple[Any, Any, Any]:
    """Return the analysis of some sets, its formula and its frames."""
    schema = design.schema
    formula = read_formula(text, schema.names)
    columns = [schema.column(name) for name in formula.columns]
    frames = [frame_of(number, table, columns) for number, table in enumerate(tables, start=1)]
    return analyse(formula, frames, schema, rule), formula, frames


def plan_of(design: Design, arguments: argparse.Namespace, mode: str, seed: int) -> Plan:
    """Return the plan of a release of the design's columns."""
    plan = trial_plan(
        design.schema.domain,
        arguments.method,
        Fraction(arguments.epsilon),
        Fraction(1, 10**9),
        sets=5 if mode == "split" else arguments.sets,
        mode=mode,  # type: ignore[arg-type]
        seed=seed,
    )
    return make_plan(dataclasses.replace(plan.spec, schema=design.schema))


class Tally:
    """Intervals of one kind: whether they cover, and whether they were warned of."""

    def __init__(self) -> None:
        """Begin without intervals."""
        self.seen: Counter[tuple[bool, bool]] = Counter()

    def add(self, *, covered: bool, warned: bool) -> None:
        """Count an interval."""
        self.seen[covered, warned] += 1

    def __str__(self) -> str:
        """Return the figures of a row of the table."""
        seen = self.seen
        missed = seen[False, True] + seen[False, False]
        covered = seen[True, True] + seen[True, False]
        warned, others = (seen[True, each] + seen[False, each] for each in (True, False))
        parts = (
            f"{missed + covered:,}",
            _part(covered, missed + covered, 3),
            _part(seen[False, True], missed, 2),
            _part(seen[True, True], covered, 2),
            _part(seen[True, True], warned, 3),
            _part(seen[True, False], others, 3),
        )
        return " | ".join(parts)


def _part(some: int, every: int, digits: int) -> str:
    return f"{some / every:.{digits}f}" if every else ""


class Tallies:
    """Intervals by truth and kind."""

    def __init__(self) -> None:
        """Begin without intervals."""
        self.each: dict[tuple[str, str], Tally] = {}
        self.named: dict[tuple[str, str], list[tuple[int, bool]]] = {}

    def add(self, truth: str, kind: str, *, covered: bool, warned: bool) -> None:
        """Count an interval."""
        self.each.setdefault((truth, kind), Tally()).add(covered=covered, warned=warned)

    def name(self, truth: str, coefficient: str, repeat: int, *, covered: bool) -> None:
        """Keep an interval of a coefficient for the row `known rate`."""
        self.named.setdefault((truth, coefficient), []).append((repeat, covered))

    def judge_known_rates(self) -> None:
        """Count the intervals as if a warning knew how often each coefficient is covered."""
        for (truth, _), found in self.named.items():
            for repeat, covered in found:
                others = [hit for number, hit in found if number % 2 != repeat % 2]
                if others:
                    warned = sum(others) < 0.9 * len(others)
                    self.add(truth, "known rate", covered=covered, warned=warned)

    def show(self, head: str, *, details: bool) -> None:
        """Print a row for each truth and kind."""
        for (truth, kind), tally in sorted(self.each.items(), reverse=True):
            if details or ":" not in kind or kind.startswith("warned of"):
                print(f"| {head} | {truth} | {kind} | {tally} |", flush=True)


def run(arguments: argparse.Namespace, name: str, mode: str) -> None:
    """Make and judge the releases of one design in one mode, and print its rows."""
    design = design_of(name)
    known = coefficients_of(design, design.population), shares_of(design, design.population)
    tallies = Tallies()
    for repeat in range(arguments.repeats):
        plan = plan_of(design, arguments, mode, 1000 * arguments.seed + repeat)
        rng = np.random.default_rng([arguments.seed, 1, repeat])
        values = design.draw(arguments.rows, rng)
        own = coefficients_of(design, values), shares_of(design, values)
        made = carry_out(plan, MemoryCounter(coded(design, values)))
        rng = np.random.default_rng([arguments.seed, 2, repeat])
        sets = [sample(plan, made.models, one + 1) for one in range(plan.spec.sets)]
        rule = rule_of(mode, plan.spec.sets)
        claims: Any = SimpleNamespace(schema=design.schema, sets=len(sets))
        bundle = Bundle(Path(), claims, rule, float(arguments.rows), made.released)
        tables = [decode(design.schema, one, rng=rng) for one in sets]
        truths = {"population": known, "file": own}
        judge_shares(design, bundle, sets, {each: two[1] for each, two in truths.items()}, tallies)
        coefficients = {each: two[0] for each, two in truths.items()}
        judge_coefficients(design, bundle, tables, coefficients, repeat, tallies)
    tallies.judge_known_rates()
    tallies.show(f"{name}, {mode}", details=arguments.details)


def judge_coefficients(
    design: Design,
    bundle: Bundle,
    tables: Sequence[Any],
    truths: dict[str, dict[str, dict[str, float]]],
    repeat: int,
    tallies: Tallies,
) -> None:
    """Count the intervals of all coefficients."""
    for text in design.formulas:
        try:
            found, formula, frames = analysed(design, text, tables, bundle.rule)
        except BadInput:
            continue  # a rare level is in some sets only: there is no interval
        about = concerns(
            bundle, formula, compared(formula, found.design, frames, design.schema), found.combined
        )
        low, high = found.combined.interval()
        for truth, coefficients in truths.items():
            for place, name in enumerate(found.names):
                true = coefficients.get(text, {}).get(name)
                if true is None or (name == "Intercept" and not text.endswith("~ 1")):
                    continue
                own = [each.kind for each in about if name in each.coefficients]
                covered = bool(low[place] <= true <= high[place])
                tallies.add(truth, "coefficients", covered=covered, warned=bool(own))
                for kind in own:
                    tallies.add(truth, f"warned of: {kind}", covered=covered, warned=True)
                tallies.add(truth, f"{text}: {name}", covered=covered, warned=bool(own))
                tallies.name(truth, f"{text}: {name}", repeat, covered=covered)


def judge_shares(
    design: Design,
    bundle: Bundle,
    sets: Sequence[Dataset],
    truths: dict[str, dict[str, NDArray[np.float64]]],
    tallies: Tallies,
) -> None:
    """Count the intervals of the shares of all levels."""
    schema = design.schema
    names = [column.name for column in schema.columns if column.levels]
    weak = levels_near_zero(bundle.measured, schema, names)
    for name in names:
        for code, label in enumerate(schema.column(name).code_labels()):
            found = [float((one.column(name) == code).mean()) for one in sets]
            within = [p * (1 - p) / one.rows for p, one in zip(found, sets, strict=True)]
            low, high = combine(found, within, bundle.rule).interval()
            for truth, shares in truths.items():
                covered = bool(low <= shares[name][code] <= high)
                tallies.add(truth, "shares", covered=covered, warned=f"{name}: {label}" in weak)


def main() -> None:
    """Read the command line and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    modes = ["shared", "split", "posterior"]
    parser.add_argument("--modes", nargs="+", default=modes, choices=modes)
    designs = ["survey", *GENERATED]
    parser.add_argument("--design", nargs="+", default=["survey"], choices=designs)
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
        "\n| design, mode | truth | intervals | number | cover | warned, of those that miss |"
        " of those that cover | cover, of the warned | of the others |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in arguments.design:
        for mode in arguments.modes:
            run(arguments, name, mode)
    print(f"\n{time.process_time():.0f} s of CPU")


if __name__ == "__main__":
    main()
