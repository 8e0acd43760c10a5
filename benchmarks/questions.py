"""How often do the intervals of a question desk cover, and how wide are they?

    python -m benchmarks.questions [--questions income normal works shares] [--epsilon 0.1 0.5 1]
        [--rows 8000] [--share 0.8] [--population 1000000] [--repeats 100]

Each repeat draws a file from a known population and asks one question about it, with the plan that
the desk would make: the schema of the question's columns, at (epsilon, 1e-9). For a regression it
prints the fraction of the 95 % intervals that contain the file's own coefficient, the fraction that
contain the population's, and the median and ninth decile of the width relative to the interval from
the file itself. For a table it prints the fraction that contain the file's own value, and the width
relative to that of the sampling error of a file of this size. A question without an answer, such as
one whose sets cannot be fitted, is counted as `none`.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.regressions import DESIGNS, POPULATION, file_fit
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput
from dp_core.plan.procedure import carry_out
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.public_data.frame_codes import frame_codes
from dp_core.public_data.memory_release import MemoryRelease
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import parse_schema
from flows.desk.asked_question import AskedQuestion, answering_keys, question_schema, read_asked

QUESTIONS = {
    "normal": ("normal", "y ~ one + two"),
    "income": ("income", "income ~ age + sex + school"),
    "works": ("logistic", "works ~ age + sex"),
    "visits": ("counts", "visits ~ age + region"),
    "party": ("multinomial", "party ~ age + sex"),
    "shares": ("income", "share by sex, school"),
    "region": ("counts", "share of works = yes by region"),
    "mean": ("income", "mean of income by sex"),
}
"""A population and a question about it, by name."""


def whole_schema(design: str, rows: int) -> Schema:
    """Return the schema of a population's file."""
    columns = DESIGNS[design].columns
    stated = {"version": "1", "title": "benchmark", "rows_about": str(rows), "columns": columns}
    return parse_schema(stated)


def ask(
    asked: AskedQuestion, schema: Schema, data: pd.DataFrame, epsilon: str, share: str, seed: int
) -> Any:
    """Return the answer to a question about a file, made in memory as a desk makes it."""
    keys = answering_keys(asked)
    keys["synthesize"] |= {"seed": str(seed)}
    if asked.kind == "regression" and share:
        keys["analyses"] = {"formulas": [asked.text], "share": share}
    plan = memory_plan(schema, {"privacy": {"epsilon": epsilon, "delta": "1e-9"}, **keys})
    codes = frame_codes(data, plan.spec.schema)
    made = MemoryRelease(carry_out(plan, MemoryCounter(codes)))
    return made.infer(asked.text) if asked.kind == "regression" else made.query(asked.text)


def regression(name: str, epsilon: str, options: argparse.Namespace) -> None:
    """Print the figures of one regression at one epsilon."""
    design, text = QUESTIONS[name]
    whole = whole_schema(design, options.rows)
    asked = read_asked(text, whole)
    schema = question_schema(asked, whole)
    draw = DESIGNS[design].draw
    everybody = pd.DataFrame(draw(options.population, np.random.default_rng(99)))
    hits, of_file, widths, none, seconds = [], [], [], 0, 0.0
    for repeat in range(options.repeats):
        data = draw(options.rows, np.random.default_rng([5, repeat]))
        frame = pd.DataFrame({name: data[name] for name in schema.names})
        started = time.process_time()
        try:
            answer = ask(asked, schema, frame, epsilon, options.share, repeat)
        except BadInput as error:
            none += 1
            if none == 1:
                print(f"none: {error.message[:200]}")
            continue
        seconds += time.process_time() - started
        assert answer.answered_from == "declared"
        truth, file = (
            file_fit(asked.text, each, schema, answer.references).fits[0]
            for each in (everybody, pd.DataFrame(data))
        )
        own = 3.92 * np.sqrt(np.diag(file.covariance))
        found = [each.combined for each in answer.coefficients]
        low, high = (np.array([getattr(each, end) for each in found]) for end in ("low", "high"))
        hits.append((low <= truth.coefficients) & (truth.coefficients <= high))
        of_file.append((low <= file.coefficients) & (file.coefficients <= high))
        widths.append((high - low) / own)
    _line(name, epsilon, options, none, seconds, of_file, hits, widths)


def table(name: str, epsilon: str, options: argparse.Namespace) -> None:
    """Print the figures of one table question at one epsilon."""
    design, text = QUESTIONS[name]
    whole = whole_schema(design, options.rows)
    asked = read_asked(text, whole)
    schema = question_schema(asked, whole)
    of_file, widths, none, seconds = [], [], 0, 0.0
    for repeat in range(options.repeats):
        data = DESIGNS[design].draw(options.rows, np.random.default_rng([5, repeat]))
        frame = pd.DataFrame({name: data[name] for name in schema.names})
        started = time.process_time()
        answer = ask(asked, schema, frame, epsilon, "", repeat)
        seconds += time.process_time() - started
        for cell in answer.cells:
            if not cell["determined"]:
                none += 1
                continue
            exact, sampling = _exact(name, frame, cell)
            of_file.append([cell["low"] <= exact <= cell["high"]])
            widths.append([(cell["high"] - cell["low"]) / sampling])
    _line(name, epsilon, options, none, seconds, of_file, None, widths)


def _exact(name: str, frame: pd.DataFrame, cell: Any) -> tuple[float, float]:
    """Return the file's own value of a cell, and the width of its sampling interval."""
    rows = len(frame)
    if name == "shares":
        part = float(((frame.sex == cell["sex"]) & (frame.school == cell["school"])).mean())
        return part, 3.92 * np.sqrt(part * (1 - part) / rows)
    if name == "region":
        group = frame[frame.region == cell["region"]]
        part = float((group.works == "yes").mean())
        return part, 3.92 * np.sqrt(part * (1 - part) / len(group))
    group = frame[frame.sex == cell["sex"]].income
    return float(group.mean()), 3.92 * float(group.std()) / np.sqrt(len(group))


def _line(
    name: str,
    epsilon: str,
    options: argparse.Namespace,
    none: int,
    seconds: float,
    of_file: list[Any],
    hits: list[Any] | None,
    widths: list[Any],
) -> None:
    """Print one line of figures."""
    wide = np.array(widths)
    print(
        f"{name:8}  epsilon {epsilon:>4}  share {options.share or '-':>4}"
        f"  file {np.mean(of_file):.3f}"
        f"  population {'    -' if hits is None else format(np.mean(hits), '.3f')}"
        f"  width {np.median(wide):6.2f}  ninth decile {np.quantile(wide, 0.9):6.2f}"
        f"  answers {len(widths):5}  none {none:3}  {seconds / options.repeats:.2f} s of CPU",
        flush=True,
    )


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--questions", nargs="+", default=list(QUESTIONS), choices=list(QUESTIONS))
    parser.add_argument("--epsilon", nargs="+", default=["0.1", "0.5", "1"])
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--share", default="")
    parser.add_argument("--population", type=int, default=POPULATION)
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    for name in options.questions:
        for epsilon in options.epsilon:
            (regression if "~" in QUESTIONS[name][1] else table)(name, epsilon, options)


if __name__ == "__main__":
    main()
