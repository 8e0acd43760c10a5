"""Do declared analyses cover, and how wide are their intervals beside those of the sets?

    python benchmarks/declared.py [--designs normal income logistic counts multinomial]
        [--epsilon 0.5 1 4] [--rows 8000] [--share 0.3] [--repeats 200] [--sets 5]

A file is drawn from a known population and released in memory with posterior sets, once with the
analysis declared and once without, at the same total (epsilon, 1e-9). For every coefficient it
prints the part of the 95 % intervals that contain the file's own coefficient (what the noise alone
must cover is more than that: an interval for the population is wider), the part that contain the
population's coefficient, and the median width relative to the interval of the file itself: of the
declared answer, of the sets of the same release, and of the sets of the release without.

The population's coefficient is that of a regression on a million records.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.analysis.regression.analysis import analyse
from dp_core.analysis.regression.declared_estimates import declared_estimates
from dp_core.analysis.regression.frames import Frame, frame_of
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.formulas.formula import read_formula
from dp_core.kernel.counting.dataset import Dataset
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import Outcome, carry_out, sample
from dp_core.plan.reading.spec_file import load_spec
from dp_core.schema.definition import Schema
from dp_core.schema.rules.possible_codes import decode

Floats = NDArray[np.float64]
POPULATION = 1_000_000


@dataclass(frozen=True)
class Design:
    """A population and a regression.

    Attributes:
        formula: The regression.
        columns: The schema's columns.
        draw: Returns records, given their number and a generator.
    """

    formula: str
    columns: str
    draw: Callable[[int, np.random.Generator], dict[str, Any]]


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
    "normal": Design("y ~ one + two + three", _NORMAL, _normal),
    "income": Design("income ~ age + sex + school", _PEOPLE, _people),
    "logistic": Design("works ~ age + sex + school", _PEOPLE, _people),
    "counts": Design("visits ~ age + sex + region", _PEOPLE, _people),
    "multinomial": Design("party ~ age + sex", _PEOPLE, _people),
}


def plan_of(design: Design, rows: int, epsilon: str, share: str, sets: int, seed: int) -> Any:
    """Return the plan of a release, with the analysis declared unless `share` is empty."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "schema.yaml").write_text(
            f"version: 1\ntitle: benchmark\nrows_about: {rows}\ncolumns:{design.columns}"
        )
        declared = f'analyses: {{formulas: ["{design.formula}"], share: {share}}}' if share else ""
        (place / "release.yaml").write_text(
            "version: 1\nrelease: benchmark\ndata: none.csv\nschema: schema.yaml\naccount: none\n"
            f"privacy: {{epsilon: {epsilon}, delta: 1.0e-9}}\n"
            f"synthesize: {{sets: {sets}, mode: posterior, seed: {seed}}}\n{declared}\n"
        )
        return make_plan(load_spec(place / "release.yaml"))


def frame_of_file(data: dict[str, Any], schema: Schema, names: tuple[str, ...]) -> Frame:
    """Return records as a frame, as those of sets are."""
    table = pa.table({name: pa.array(data[name]) for name in names})
    return frame_of(0, table, [schema.column(name) for name in names])


def coded(data: dict[str, Any], schema: Schema) -> Dataset:
    """Return records in the codes in which a file is stored."""
    stored = schema.stored
    codes = [Encoder(column).encode(pa.array(data[column.name])).codes for column in stored.columns]
    return Dataset(stored.domain, np.array(codes))


def sets_of(outcome: Outcome, names: tuple[str, ...], sets: int) -> list[Frame]:
    """Return the frames of the sets of a release."""
    schema = outcome.plan.spec.schema
    frames = []
    for number in range(1, sets + 1):
        drawn = sample(outcome.plan, outcome.models, number)
        table = decode(schema, drawn, rng=np.random.default_rng([7, number]))
        frames.append(frame_of(number, table, [schema.column(name) for name in names]))
    return frames


def run(name: str, epsilon: str, options: argparse.Namespace) -> None:
    """Print the figures of one design at one epsilon."""
    design = DESIGNS[name]
    schema = plan_of(design, options.rows, epsilon, "", options.sets, 1).spec.schema
    formula = read_formula(design.formula, schema.names)
    whole = frame_of_file(
        design.draw(POPULATION, np.random.default_rng(99)), schema, formula.columns
    )
    # The rule does not matter for a single frame.
    truth = analyse(formula, [whole], schema, "shared").fits[0].coefficients
    kinds = ("declared", "sets beside it", "sets without")
    file_hits: dict[str, list[Floats]] = {kind: [] for kind in kinds}
    hits: dict[str, list[Floats]] = {kind: [] for kind in kinds}
    widths: dict[str, list[Floats]] = {kind: [] for kind in kinds}
    names: tuple[str, ...] = ()
    seconds = 0.0
    for repeat in range(options.repeats):
        data = design.draw(options.rows, np.random.default_rng([5, repeat]))
        file = analyse(
            formula, [frame_of_file(data, schema, formula.columns)], schema, "shared"
        ).fits[0]
        own = 3.92 * np.sqrt(np.diag(file.covariance))
        found = {}
        for share in (options.share, ""):
            plan = plan_of(design, options.rows, epsilon, share, options.sets, repeat)
            started = time.process_time()
            outcome = carry_out(plan, MemoryCounter(coded(data, plan.spec.schema)))
            frames = sets_of(outcome, formula.columns, options.sets)
            seconds += time.process_time() - started
            answer = analyse(formula, frames, schema, "posterior")
            names, combined = answer.names, answer.combined
            found["sets beside it" if share else "sets without"] = combined
            if share:
                bundle = SimpleNamespace(
                    claims=SimpleNamespace(schema=schema),
                    declared=(design.formula,),
                    measured=outcome.released,
                    records=float(np.mean([frame.rows + frame.dropped for frame in frames])),
                )
                found["declared"] = declared_estimates(
                    bundle,  # type: ignore[arg-type]
                    formula,
                    answer.design,
                    frames,
                    complete_df=combined.complete_df if combined else None,
                )
        for kind, combined in found.items():
            assert combined is not None
            low, high = combined.interval(0.95)
            hits[kind].append((low <= truth) & (truth <= high))
            file_hits[kind].append((low <= file.coefficients) & (file.coefficients <= high))
            widths[kind].append((high - low) / own)
    print(
        f"\n{name}: {design.formula}, epsilon {epsilon}, {options.rows:,} rows, share"
        f" {options.share}, {options.repeats} repeats, {seconds / options.repeats:.1f} s of CPU"
    )
    print(f"{'':18}" + "".join(f"{kind:>24}" for kind in kinds))
    print(f"{'coefficient':18}" + f"{'file':>8}{'covers':>8}{'width':>8}" * 3)
    for at, label in enumerate((*names, "mean")):
        row = f"{label:18.18}"
        for kind in kinds:
            some = slice(None) if label == "mean" else at
            figures = (
                np.mean(np.array(file_hits[kind])[:, some]),
                np.mean(np.array(hits[kind])[:, some]),
                np.median(np.array(widths[kind])[:, some]),
            )
            row += f"{figures[0]:8.3f}{figures[1]:8.3f}{figures[2]:8.2f}"
        print(row, flush=True)


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--epsilon", nargs="+", default=["1"])
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--share", default=str(float(Fraction(3, 10))))
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    for name in options.designs:
        for epsilon in options.epsilon:
            run(name, epsilon, options)


if __name__ == "__main__":
    main()
