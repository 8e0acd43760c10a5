"""How well does `desk ask --plan` forecast the width of a regression's intervals?

    python -m benchmarks.question_widths [--files wage area smoker score band cost]
        [--epsilon 0.1 0.5 1] [--rows 3000 8000 30000] [--repeats 5]

Each repeat draws a file, asks one regression with the plan that a desk would make at delta 1e-9,
and compares the widths of its 95 % intervals with those of the interval computed from the file. For
each case it prints the forecast, the median of the widths of all coefficients given, and the
quotient realised / forecast: of the median, and of the ninth decile. The last lines summarise the
quotients by epsilon. None of these files was used to choose the constants of the forecast; the
files of `benchmarks/questions.py` were.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import yaml

from benchmarks.questions import ask
from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.frames import frame_of
from dp_core.errors import BadInput
from dp_core.inference.formulas.formula import read_formula
from dp_core.plan.forecast.error_forecast import forecast_error
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.reading.schema_file import parse_schema
from flows.desk.asked_question import answering_keys, question_schema, read_asked

_COLUMNS = """
wage: {type: number, min: 0, max: 1000000, edges: [0, 5000, 10000, 15000, 20000, 30000, 40000,
  50000, 75000, 100000, 150000, 250000, 500000, 1000000], decimals: 0}
cost: {type: number, min: 0, max: 100000, edges: [0, 100, 300, 1000, 3000, 10000, 30000, 100000],
  decimals: 0}
score: {type: integer, min: 0, max: 100, bins: 20}
hours: {type: integer, min: 0, max: 60, bins: 12}
age: {type: integer, min: 18, max: 90, bins: 18}
area: {type: category, levels: [a, b, c, d]}
trade: {type: category, levels: [p, q, r, s, t, u]}
smoker: {type: category, levels: ["no", "yes"]}
band: {type: ordinal, levels: [low, middle, high]}
sex: {type: category, levels: [f, m]}
"""


def draw(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return records of a population with long tails, uneven levels and bounded scores."""
    age = np.clip(np.rint(rng.gamma(9, 5, rows) + 12), 18, 90).astype(int)
    sex = rng.integers(0, 2, rows)
    trade = rng.choice(6, rows, p=[0.35, 0.25, 0.15, 0.12, 0.08, 0.05])
    area = np.array(
        [rng.choice(4, p=p) for p in np.array([[0.4, 0.3, 0.2, 0.1], [0.2, 0.2, 0.3, 0.3]])[sex]]
    )
    hours = np.clip(np.rint(rng.normal(32, 12, rows) - 4 * sex), 0, 60).astype(int)
    wage = np.exp(9.6 + 0.01 * age + 0.2 * (trade == 2) + 0.8 * rng.standard_normal(rows))
    cost = np.where(rng.random(rows) < 0.4, 0, 200 * rng.pareto(1.8, rows) * (1 + age / 50))
    score = np.clip(np.rint(40 + 0.4 * hours + rng.normal(0, 12, rows)), 0, 100).astype(int)
    logit = -1.5 + 0.01 * age + 0.5 * sex - 0.4 * (trade == 1)
    band = np.searchsorted([-0.5, 1.0], 0.02 * (age - 45) + 0.3 * sex + rng.logistic(size=rows))
    return pd.DataFrame(
        {
            "wage": np.clip(np.rint(wage), 0, 999_999),
            "cost": np.clip(np.rint(cost), 0, 99_999),
            "score": score,
            "hours": hours,
            "age": age,
            "area": np.array(list("abcd"))[area],
            "trade": np.array(list("pqrstu"))[trade],
            "smoker": np.where(rng.random(rows) < 1 / (1 + np.exp(-logit)), "yes", "no"),
            "band": np.array(["low", "middle", "high"])[band],
            "sex": np.array(["f", "m"])[sex],
        }
    )


FILES = {
    "wage": "wage ~ age + trade",
    "area": "area ~ age",
    "smoker": "smoker ~ age + trade",
    "score": "score ~ hours",
    "band": "band ~ age + sex",
    "cost": "cost ~ age + area",
}
"""A regression by the name of its outcome."""


@dataclass(frozen=True)
class Case:
    """One regression at one epsilon and number of records.

    Attributes:
        forecast: Expected width relative to the file's interval.
        widths: Realised widths of the coefficients that were given.
    """

    forecast: float
    widths: Any

    def quotient(self, part: float) -> float:
        """Return a quantile of the realised widths, relative to the forecast."""
        return float(np.quantile(self.widths, part) / self.forecast)


def case(name: str, epsilon: str, rows: int, repeats: int) -> Case:
    """Return the forecast and the realised widths of one case."""
    stated = yaml.load(_COLUMNS, Loader=yaml.BaseLoader)
    whole = parse_schema(
        {"version": "1", "title": "widths", "rows_about": str(rows), "columns": stated}
    )
    asked = read_asked(FILES[name], whole)
    schema = question_schema(asked, whole)
    formula = read_formula(asked.text, schema.names)
    keys = answering_keys(asked) | {"privacy": {"epsilon": epsilon, "delta": "1e-9"}}
    plan = memory_plan(schema, keys)
    forecast = forecast_error(plan).widths[0]
    assert forecast is not None
    widths: list[float] = []
    for repeat in range(repeats):
        data = draw(rows, np.random.default_rng([11, repeat]))
        columns = [schema.column(each) for each in formula.columns]
        table = pa.table({each: pa.array(data[each]) for each in formula.columns})
        try:
            answer = ask(asked, schema, data[list(schema.names)], epsilon, "", repeat)
        except BadInput as error:
            print(f"none: {error.message[:200]}")
            continue
        frame = frame_of(0, table, columns)
        own = analyse(formula, [frame], schema, "shared", references=answer.references)
        errors = np.sqrt(np.diag(own.fits[0].covariance))
        widths += [
            (each.combined.high - each.combined.low) / (3.92 * errors[own.names.index(each.name)])
            for each in answer.coefficients
            if each.name in own.names
        ]
    return Case(forecast, np.array(widths))


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", nargs="+", default=list(FILES), choices=list(FILES))
    parser.add_argument("--epsilon", nargs="+", default=["0.1", "0.5", "1"])
    parser.add_argument("--rows", nargs="+", type=int, default=[3000, 8000, 30000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    found: dict[str, list[float]] = {epsilon: [] for epsilon in options.epsilon}
    for name in options.files:
        for rows in options.rows:
            for epsilon in options.epsilon:
                started = time.process_time()
                each = case(name, epsilon, rows, options.repeats)
                found[epsilon].append(each.quotient(0.5))
                print(
                    f"{FILES[name]:22} epsilon {epsilon:>4}  {rows:7,} records"
                    f"  forecast {each.forecast:8.2f}  median {np.median(each.widths):8.2f}"
                    f"  quotient {each.quotient(0.5):6.2f}  ninth decile {each.quotient(0.9):6.2f}"
                    f"  {(time.process_time() - started) / options.repeats:.1f} s of CPU",
                    flush=True,
                )
    for epsilon, quotients in found.items():
        middle = np.exp(np.mean(np.log(quotients)))
        print(
            f"epsilon {epsilon:>4}: quotients {min(quotients):.2f} to {max(quotients):.2f},"
            f" geometric mean {middle:.2f}, of {len(quotients)} cases"
        )


if __name__ == "__main__":
    main()
