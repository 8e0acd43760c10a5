"""Do the intervals of `infer` contain the truth, rare levels included, and how wide are they?

    python benchmarks/regressions.py [--designs wages health costs rare] [--epsilon 1]
        [--rows 16000] [--repeats 20] [--sets 5] [--declare 1] [--peers]

A file is drawn from a known population, released in memory by `auto`, and each formula of the
design is answered by `infer`. For each formula, and for strata of coefficients, it prints the part
of the coefficients that are given, the part of their 95 % intervals that contain the population's
coefficient and the file's own, and the median width relative to the file's own interval. `rubin` is
Rubin's rule on the raw values of the same sets. `--declare` says how many formulas of a design are
declared, from the first on. With `--peers` the preset `mst` is released too, and its sets are
combined by Rubin's rule.

Strata: the intercept, numbers, functions of numbers, interactions, levels of less than 2 % of the
records, and other levels. The population's coefficients are those of 400,000 records.

Designs:
    wages    log wages in 24 bins; six age groups, of which the first has .5 % of the records
    health   a skewed and a normal number and two events on age, education, sex and regions, of
             which two are rare
    costs    log-normal costs in bins of equal ratios; an event in 1 % of the records, with a level
             that has none
    rare     files of few records: 2,000 of the design `wages`, whatever `--rows` says
    related  two numbers with a correlation of .9 and two levels that go with them, as predictors
    earners  log-normal earnings, and work, on a number with its square or logarithm, and
             interactions of levels, one of which is rare, with each other and with the number
    normal, income, logistic, counts, multinomial
             one or two regressions each, without rare levels
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

import dp_core as dp
from dp_core.analysis.regression.analysis import Analysis, analyse
from dp_core.analysis.regression.frames import frame_of
from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import read_formula
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import parse_schema

POPULATION = 400_000
RARE = 0.02


@dataclass(frozen=True)
class Design:
    """A population and regressions.

    Attributes:
        draw: Returns records, given their number and a generator.
        columns: The schema's columns.
        formulas: The regressions.
        rows: Number of records; None for that of the command line.
    """

    draw: Callable[[int, np.random.Generator], dict[str, Any]]
    columns: dict[str, Any]
    formulas: tuple[str, ...]
    rows: int | None = None


def _levels(names: str) -> dict[str, Any]:
    return {"type": "category", "levels": names.split()}


def _words(names: str, codes: Any) -> Any:
    return np.array(names.split())[codes]


AGES = "0-15 16-29 30-39 40-49 50-59 60+"
REGIONS = " ".join(f"r{place}" for place in range(12))
SCHOOLS = "none low middle high doctor"


def _wages(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    age = rng.choice(6, rows, p=[0.005, 0.19, 0.28, 0.27, 0.19, 0.065])
    sex, place = rng.integers(0, 2, rows), rng.choice(3, rows, p=[0.43, 0.33, 0.24])
    full = rng.random(rows) < 0.82
    wage = 1.1 + np.array([0, 1.0, 1.25, 1.3, 1.34, 1.3])[age] + 0.25 * sex - 0.08 * place
    wage += 0.1 * full + rng.normal(0, 0.42, rows)
    more = {
        f"q{place}": _words(
            "a b c d e f", np.where(rng.random(rows) < 0.4, age, rng.integers(0, 6, rows))
        )
        for place in range(6)
    }
    return {
        "wage": np.clip(wage, 0, 5.999).round(3),
        "age": _words(AGES, age),
        "sex": _words("f m", sex),
        "place": _words("p q r", place),
        "hours": _words("part full", full.astype(int)),
        **more,
    }


def _health(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    region = rng.choice(12, rows, p=np.r_[0.004, 0.012, np.full(10, 0.0984)])
    school = rng.choice(5, rows, p=[0.05, 0.2, 0.4, 0.25, 0.1])
    sex, age = rng.integers(0, 2, rows), rng.integers(18, 90, rows)
    smokes = rng.random(rows) < 0.35 - 0.05 * school
    bmi = 22 + 0.04 * (age - 18) - 0.5 * school + 0.8 * sex + (region == 3) - 1.5 * (region == 0)
    bmi = np.clip(bmi + rng.gamma(4, 1.1, rows) - 4.4, 12, 59.9).round(1)
    pressure = 95 + 0.5 * (age - 18) + 0.9 * (bmi - 25) + 4 * sex + 3 * smokes
    logit = -6 + 0.05 * age + 0.6 * smokes + 0.05 * (bmi - 25) - 0.15 * school
    return {
        "bmi": bmi,
        "pressure": np.clip(pressure + rng.normal(0, 12, rows), 60, 239).round(0),
        "age": age,
        "sex": _words("f m", sex),
        "school": _words(SCHOOLS, school),
        "region": _words(REGIONS, region),
        "smokes": _words("no yes", smokes.astype(int)),
        "ill": _words("no yes", (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)),
    }


def _costs(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    group, sex = rng.choice(4, rows, p=[0.5, 0.3, 0.19, 0.01]), rng.integers(0, 2, rows)
    years = rng.integers(0, 40, rows)
    size = 5 + 0.4 * group + 0.2 * sex + 0.02 * years + rng.normal(0, 1, rows)
    event = (rng.random(rows) < 0.01 * (1 + sex)) & (group != 3)
    return {
        "cost": np.clip(np.exp(size), 1, 99_999).round(0),
        "group": _words("a b c d", group),
        "sex": _words("f m", sex),
        "years": years,
        "event": _words("no yes", event.astype(int)),
    }


def _earners(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    age, sex = rng.integers(18, 91, rows), rng.integers(0, 2, rows)
    region = rng.choice(4, rows, p=[0.45, 0.3, 0.235, 0.015])
    own = np.array([[0, -0.1, 0.1, -0.3], [0.2, 0.05, 0.4, 0.1]])[sex, region]
    size = 9 + own + 0.04 * (age - 50) - 0.0012 * (age - 50) ** 2 + 0.004 * (age - 50) * sex
    odds = np.exp(3 * np.log(age / 50) - 0.1 * (age - 50) + 0.3 * sex + (region == 3))
    income = np.exp(size + rng.normal(0, 0.5, rows))
    return {
        "income": np.clip(income, 100, 499_999).round(0),
        "age": age,
        "sex": _words("f m", sex),
        "region": _words("p q r s", region),
        "works": _words("no yes", (rng.random(rows) < odds / (1 + odds)).astype(int)),
        **{f"q{place}": _words("a b c d", rng.integers(0, 4, rows)) for place in range(4)},
    }


WAGES = {
    "wage": {"type": "number", "min": 0, "max": 6, "bins": 24, "decimals": 3},
    "age": _levels(AGES),
    "sex": _levels("f m"),
    "place": _levels("p q r"),
    "hours": _levels("part full"),
    **{f"q{place}": _levels("a b c d e f") for place in range(6)},
}


def _normal(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    one, two, three = rng.standard_normal((3, rows))
    two = 0.5 * one + 0.866 * two
    y = 0.5 * one - 0.3 * two + 0.2 * three + rng.standard_normal(rows)
    return {
        "y": np.clip(y, -5, 5),
        "one": np.clip(one, -4, 4),
        "two": np.clip(two, -4, 4),
        "three": np.clip(three, -4, 4),
        "group": np.array(list("abcde"))[rng.integers(0, 5, rows)],
    }


def _related(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    one, two, more = rng.standard_normal((3, rows))
    two = 0.9 * one + 0.436 * two
    group = np.clip(np.floor(2.5 + one + 0.5 * more), 0, 4).astype(int)
    other = np.where(rng.random(rows) < 0.8, group, rng.integers(0, 5, rows))
    y = 0.5 * one - 0.3 * two + np.array([0, 0.2, 0.1, -0.2, 0.3])[group] + 0.1 * other
    odds = np.exp(-1 + 0.6 * one - 0.4 * two + 0.2 * other)
    return {
        "y": np.clip(y + rng.standard_normal(rows), -5, 5).round(2),
        "one": np.clip(one, -4, 4).round(2),
        "two": np.clip(two, -4, 4).round(2),
        "group": _words("a b c d e", group),
        "other": _words("v w x y z", other),
        "event": _words("no yes", (rng.random(rows) < odds / (1 + odds)).astype(int)),
    }


def _people(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    age = rng.integers(18, 81, rows)
    sex, school = rng.integers(0, 2, rows), rng.choice(4, rows, p=[0.3, 0.4, 0.2, 0.1])
    income = np.exp(
        9.8 + 0.25 * school + 0.15 * sex + 0.008 * age + 0.5 * rng.standard_normal(rows)
    )
    logit = -2 + 0.03 * age + 0.4 * sex - 0.3 * school
    party = np.column_stack([np.zeros(rows), 0.02 * (age - 50) + 0.3 * sex, 0.4 * school - 0.8])
    party = party + rng.gumbel(size=party.shape)
    return {
        "age": age,
        "sex": np.array(["f", "m"])[sex],
        "school": np.array(["low", "mid", "high", "top"])[school],
        "income": np.clip(income, 0, 499_999).round(2),
        "works": np.where(rng.random(rows) < 1 / (1 + np.exp(-logit)), "yes", "no"),
        "visits": np.minimum(rng.poisson(np.exp(0.2 + 0.015 * age + 0.2 * sex)), 30),
        "party": np.array(["none", "red", "blue"])[party.argmax(axis=1)],
        "region": np.array(list("abcdefgh"))[rng.integers(0, 8, rows)],
    }


_NORMAL = """
  y: {type: number, min: -5, max: 5, bins: 20}
  one: {type: number, min: -4, max: 4, bins: 16}
  two: {type: number, min: -4, max: 4, bins: 16}
  three: {type: number, min: -4, max: 4, bins: 16}
  group: {type: category, levels: [a, b, c, d, e]}
"""
_PEOPLE = """
  age: {type: integer, min: 18, max: 80, bins: 16}
  sex: {type: category, levels: [f, m]}
  school: {type: ordinal, levels: [low, mid, high, top]}
  income: {type: number, min: 0, max: 500000, bins: 20, decimals: 2}
  works: {type: category, levels: ["no", "yes"]}
  visits: {type: integer, min: 0, max: 30, edges: [0, 1, 2, 3, 4, 6, 8, 11, 16, 31]}
  party: {type: category, levels: [none, red, blue]}
  region: {type: category, levels: [a, b, c, d, e, f, g, h]}
"""
DESIGNS = {
    "wages": Design(
        _wages,
        WAGES,
        ("wage ~ sex + age", "wage ~ sex + age + place + hours", "wage > 2.5 ~ sex + age + place"),
    ),
    "health": Design(
        _health,
        {
            "bmi": {"type": "number", "min": 12, "max": 60, "bins": 24, "decimals": 1},
            "pressure": {"type": "number", "min": 60, "max": 240, "bins": 18, "decimals": 0},
            "age": {"type": "integer", "min": 18, "max": 89, "bins": 12},
            "sex": _levels("f m"),
            "school": _levels(SCHOOLS),
            "region": _levels(REGIONS),
            "smokes": _levels("no yes"),
            "ill": _levels("no yes"),
        },
        (
            "pressure ~ age + sex + school + smokes",
            "bmi ~ school + sex + age",
            "bmi ~ region + school",
            "ill ~ age + smokes + school",
        ),
    ),
    "costs": Design(
        _costs,
        {
            "cost": {
                "type": "integer",
                "min": 0,
                "max": 99_999,
                "edges": [0, 30, 60, 120, 240, 480, 960, 1920, 3840, 7680, 15360, 30720, 100_000],
            },
            "group": _levels("a b c d"),
            "sex": _levels("f m"),
            "years": {"type": "integer", "min": 0, "max": 39, "bins": 8},
            "event": _levels("no yes"),
        },
        ("cost ~ sex + group", "np.log1p(cost) ~ sex + group + years", "event ~ sex + group"),
    ),
    "rare": Design(_wages, WAGES, ("wage ~ sex + age", "wage > 2.5 ~ sex + place"), 2000),
    "related": Design(
        _related,
        {
            "y": {"type": "number", "min": -5, "max": 5, "bins": 20, "decimals": 2},
            "one": {"type": "number", "min": -4, "max": 4, "bins": 16, "decimals": 2},
            "two": {"type": "number", "min": -4, "max": 4, "bins": 16, "decimals": 2},
            "group": _levels("a b c d e"),
            "other": _levels("v w x y z"),
            "event": _levels("no yes"),
        },
        (
            "y ~ one + two",
            "y ~ one + two + group",
            "one ~ two + group",
            "event ~ one + two + other",
        ),
    ),
    "earners": Design(
        _earners,
        {
            "income": {
                "type": "number",
                "min": 100,
                "max": 500_000,
                "edges": [100, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 500_000],
                "decimals": 0,
            },
            "age": {"type": "integer", "min": 18, "max": 90, "edges": [18, 25, 35, 50, 65, 75, 91]},
            "sex": _levels("f m"),
            "region": _levels("p q r s"),
            "works": _levels("no yes"),
            **{f"q{place}": _levels("a b c d") for place in range(4)},
        },
        (
            "log(income) ~ age + I(age**2) + sex * region",
            "log(income) ~ age * sex + I(age > 65) + region",
            "works ~ age * sex + log(age) + region",
        ),
    ),
    "normal": Design(_normal, yaml.safe_load(_NORMAL), ("y ~ one + two + three",)),
    "income": Design(
        _people,
        yaml.safe_load(_PEOPLE),
        ("income ~ age + sex + school", "np.log1p(income) ~ age + school"),
    ),
    "logistic": Design(_people, yaml.safe_load(_PEOPLE), ("works ~ age + sex + school",)),
    "counts": Design(_people, yaml.safe_load(_PEOPLE), ("visits ~ age + sex + region",)),
    "multinomial": Design(_people, yaml.safe_load(_PEOPLE), ("party ~ age + sex",)),
}


def file_fit(formula: str, data: pd.DataFrame, schema: Schema, references: Any) -> Analysis:
    """Return the same regression on the file or the population."""
    read = read_formula(formula, schema.names)
    columns = [schema.column(name) for name in read.columns]
    frame = frame_of(1, pa.Table.from_pandas(data, preserve_index=False), columns)
    return analyse(read, [frame], schema, "shared", references=references)


def rubin(made: Any, formula: str, schema: Schema, references: Any) -> Analysis:
    """Return Rubin's rule on the sets alone."""
    read = read_formula(formula, schema.names)
    columns = [schema.column(name) for name in read.columns]
    frames = [
        frame_of(number, pa.Table.from_pandas(each, preserve_index=False), columns)
        for number, each in enumerate(made.sets, start=1)
    ]
    return analyse(read, frames, schema, "posterior", references=references)


def stratum(name: str, file: pd.DataFrame) -> str:
    """Return the stratum of a coefficient."""
    name = name.rsplit(": ", 1)[-1]
    if name == "Intercept":
        return "intercept"
    if ":" in name:
        return "interaction"
    if "(" in name:
        return "function"
    column, _, level = name.partition("[T.")
    if not level:
        return "number"
    return "rare level" if (file[column] == level[:-1]).mean() < RARE else "level"


class Tally:
    """What was found about the intervals of one source and stratum."""

    def __init__(self) -> None:
        self.asked, self.rows = 0, list[tuple[bool, bool, float]]()

    def line(self) -> str:
        """Return the shares and the median width."""
        if not self.rows:
            return f"given 0 of {self.asked}"
        people, file, widths = zip(*self.rows, strict=True)
        return (
            f"given {len(self.rows):4} of {self.asked:4}   population {np.mean(people):.3f}"
            f"   file {np.mean(file):.3f}   width {np.median(widths):.2f}"
        )


def run(name: str, design: Design, epsilon: float, args: argparse.Namespace) -> None:
    """Release and analyse the files of one design, and print what was found."""
    document = {"version": 1, "title": name, "unit": "row", "columns": design.columns}
    rows = design.rows or args.rows
    schema = parse_schema(document | {"rows_about": rows})
    people = pd.DataFrame(design.draw(POPULATION, np.random.default_rng(1)))
    found: dict[tuple[str, str, str], Tally] = defaultdict(Tally)
    refused: dict[str, int] = defaultdict(int)
    truths: dict[tuple[str, str], Any] = {}
    for repeat in range(args.repeats):
        file = pd.DataFrame(design.draw(rows, np.random.default_rng([args.seed, repeat])))
        declared = design.formulas[: args.declare]
        release = {"schema": document | {"rows_about": rows}, "epsilon": epsilon, "seed": repeat}
        made = dp.release(file, **release, sets=args.sets, analyses=declared)
        other = dp.release(file, **release, sets=args.sets, method="mst") if args.peers else None
        for formula in design.formulas:
            try:
                answer = made.infer(formula)
            except BadInput:
                refused[formula] += 1
                continue
            references = answer.references
            alone = rubin(made, formula, schema, references)
            key = formula, repr(references)
            if key not in truths:
                truths[key] = file_fit(formula, people, schema, references)
            own = file_fit(formula, file, schema, references)
            assert alone.combined is not None
            low, high = alone.combined.interval()
            ends = {
                "infer": {
                    row.name: (row.combined.low, row.combined.high) for row in answer.coefficients
                },
                "rubin": dict(zip(alone.names, zip(low, high, strict=True), strict=True)),
            }
            if other is not None:
                peer = rubin(other, formula, schema, references)
                assert peer.combined is not None
                ends["mst"] = dict(
                    zip(peer.names, zip(*peer.combined.interval(), strict=True), strict=True)
                )
            fit = own.fits[0]
            errors = np.sqrt(np.diag(fit.covariance))
            true = dict(zip(truths[key].names, truths[key].fits[0].coefficients, strict=True))
            for coefficient, value, error in zip(own.names, fit.coefficients, errors, strict=True):
                for source, each in ends.items():
                    for part in (stratum(coefficient, file), "all"):
                        tally = found[formula, source, part]
                        tally.asked += 1
                        if coefficient not in each or coefficient not in true:
                            continue
                        one, two = each[coefficient]
                        tally.rows.append(
                            (
                                one <= true[coefficient] <= two,
                                one <= value <= two,
                                (two - one) / (3.92 * error),
                            )
                        )
    print(f"\n{name}, {rows:,} records, epsilon {epsilon:g}, {args.repeats} repeats")
    for formula in design.formulas:
        print(
            f"  {formula}"
            + (f"   (nothing given {refused[formula]} times)" * bool(refused[formula]))
        )
        for (asked, source, part), tally in sorted(found.items()):
            if asked == formula:
                print(f"    {source:6} {part:11} {tally.line()}")


def main() -> None:
    """Run the designs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--declare", type=int, default=0)
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    start = time.process_time()
    for epsilon in args.epsilon:
        for name in args.designs:
            run(name, DESIGNS[name], epsilon, args)
    print(f"\n{time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
