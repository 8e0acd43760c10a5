"""Do 95 % intervals cover the population's value if the file is a stratified sample of clusters?

    python benchmarks/survey_design.py [--epsilon 1 4] [--repeats 40] [--clusters 8] [--take 50]
        [--correlation 0.05] [--mode posterior shared] [--minutes 60]

A generated population has 10 strata of unequal size; records of one cluster are alike, with
`--correlation` as their intra-cluster correlation. Each repeat draws `--clusters` clusters in every
stratum and `--take` records in each, with the weights that follow; makes releases of the sample at
(epsilon, 1e-9), add-remove, with exact noise and five sets; and analyses them:

- `measured`: the cluster is a column, the stratum follows from it, and the release manager chose
  the tables (`fixed`: all pairs);
- `released`: the same columns, and the preset `auto` chooses the tables;
- `ignored`: neither is released, and `auto` chooses the tables; the schema states the numbers of
  strata and clusters.

Each is analysed unweighted, weighted, by the design, and by the design with a stated design effect:
that of the mean of y in the sample.

It prints for the mean of y and for the slope of y on x the part of the intervals that contain the
population's value, its standard error, and the median width relative to that of the design-based
interval of the sample itself. `W/design` is the median of W, relative to the variance by the design
in the sample.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.trial import trial_plan
from dp_core.analysis.regression.analysis import analyse, combine_fits
from dp_core.analysis.regression.frames import frame_of, with_design
from dp_core.analysis.regression.survey_answer import widened
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.inference.combining_rules import rule_of
from dp_core.inference.formulas.formula import read_formula
from dp_core.inference.intervals import interval
from dp_core.kernel.counting.dataset import Dataset
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import carry_out, sample
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.possible_codes import decode

Floats = NDArray[np.float64]
STRATA = 10
PERSONS = 200
"""Persons in each cluster of the population."""
TOP = 9
FORMULAS = {"mean": "y ~ 1", "slope": "y ~ x"}
TABLES = [
    ["psu", "y"],
    ["psu", "x"],
    ["psu", "weight"],
    ["x", "y"],
    ["weight", "y"],
    ["weight", "x"],
]
VARIANTS = {"measured": (True, "fixed"), "released": (True, "auto"), "ignored": (False, "auto")}
WEIGHT_EDGES = (0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 400)


class Population:
    """Strata, clusters and persons with x from 0 to 4 and y from 0 to 9."""

    def __init__(self, correlation: float) -> None:
        """Generate it, always the same."""
        rng = np.random.default_rng(1)
        self.clusters = [30 + 12 * stratum for stratum in range(STRATA)]
        self.values = []
        alike, apart = np.sqrt(correlation), np.sqrt(1 - correlation)
        for stratum, count in enumerate(self.clusters):
            size = (count, PERSONS)
            own = alike * rng.normal(size=(count, 1))
            x = np.clip(np.round(2 + 0.6 * own + rng.normal(size=size)), 0, 4)
            level = 3.2 + 0.15 * stratum + 0.5 * x
            noise = 1.7 * (alike * rng.normal(size=(count, 1)) + apart * rng.normal(size=size))
            y = np.clip(np.round(level + noise), 0, TOP)
            self.values.append(np.stack([x, y]))
        x, y = np.concatenate([each.reshape(2, -1) for each in self.values], axis=1)
        slope = float(np.cov(x, y)[0, 1] / np.var(x, ddof=1))
        self.truth = {"mean": float(y.mean()), "slope": slope}

    def draw(self, rng: np.random.Generator, clusters: int, take: int) -> dict[str, Floats]:
        """Return a sample: columns psu (its code), stratum, weight, x and y."""
        found: dict[str, list[Floats]] = defaultdict(list)
        for stratum, count in enumerate(self.clusters):
            chosen = rng.choice(count, clusters, replace=False)
            for place, cluster in enumerate(chosen):
                persons = rng.choice(PERSONS, take, replace=False)
                x, y = self.values[stratum][:, cluster, persons]
                found["psu"].append(np.full(take, stratum * clusters + place, dtype=float))
                found["stratum"].append(np.full(take, stratum, dtype=float))
                weight = count / clusters * PERSONS / take
                found["weight"].append(np.full(take, weight))
                found["x"].append(x)
                found["y"].append(y)
        return {name: np.concatenate(parts) for name, parts in found.items()}


def schema_of(clusters: int, rows: int, *, released: bool) -> Schema:
    """Return the schema with or without the clusters."""
    names = [f"{stratum}-{place}" for stratum in range(STRATA) for place in range(clusters)]
    design: dict[str, Any] = {
        "psu": {"type": "category", "levels": names, "role": "cluster"},
        "stratum": {
            "type": "category",
            "levels": [str(stratum) for stratum in range(STRATA)],
            "follows": "psu",
            "map": {name: name.split("-")[0] for name in names},
            "role": "stratum",
        },
    }
    columns = {
        **(design if released else {}),
        "weight": {
            "type": "number",
            "min": "0",
            "max": str(WEIGHT_EDGES[-1]),
            "edges": [str(edge) for edge in WEIGHT_EDGES],
            "role": "weight",
        },
        "x": {"type": "integer", "min": "0", "max": "4"},
        "y": {"type": "integer", "min": "0", "max": str(TOP)},
    }
    stated = {"strata": str(STRATA), "clusters": str(STRATA * clusters)}
    return parse_schema(
        {
            "version": "1",
            "title": "Survey of clusters",
            "rows_about": str(rows),
            "columns": columns,
            **({} if released else {"survey": stated}),
        }
    )


def coded(schema: Schema, values: dict[str, Floats]) -> Dataset:
    """Return the sample in codes."""
    codes = []
    for column in schema.columns:
        own = values[column.name]
        if column.name == "weight":
            own = np.searchsorted(WEIGHT_EDGES, own, side="right") - 1.0
        codes.append(own.astype(np.uint16))
    return Dataset(schema.domain, np.array(codes, dtype=np.uint16))


def as_table(schema: Schema, values: dict[str, Floats]) -> pa.Table:
    """Return the sample as a set is written."""
    arrays = {}
    for column in schema.released:
        own = values[column.name]
        if column.levels:
            labels = [level.label for level in column.levels]
            arrays[column.name] = pa.array([labels[int(code)] for code in own])
        else:
            arrays[column.name] = pa.array(own)
    return pa.table(arrays)


def analysed(
    schema: Schema, tables: list[pa.Table], text: str, rule: Any, how: str, effect: float = 1.0
) -> tuple[float, float, float]:
    """Return the last coefficient's interval and its W.

    Args:
        schema: Schema of the release.
        tables: The sets, or the sample itself.
        text: The formula.
        rule: The combining rule.
        how: `naive`, `weighted` or `design`.
        effect: Design effect to which variances are increased; 1 by default.
    """
    formula = read_formula(text, schema.names)
    columns = [schema.column(name) for name in formula.columns]
    weight = None if how == "naive" else "weight"
    frames = [
        frame_of(number, table, columns, weight=weight) for number, table in enumerate(tables)
    ]
    if how == "design":
        frames = [with_design(*each, schema) for each in zip(frames, tables, strict=True)]
    found = analyse(formula, frames, schema, rule)
    fits, last = found.fits, len(found.names) - 1
    if effect > 1:
        fits = widened(fits, range(last + 1), effect)
    combined = combine_fits(fits, rule)
    if combined is None:
        fit = fits[0]
        variance = float(fit.covariance[last, last])
        low, high = interval(fit.coefficients[last], variance, fit.residual_df or np.inf)
        return low, high, variance
    low, high = (float(end[last]) for end in combined.interval(0.95))
    return low, high, float(combined.within[last, last])


def released(
    schema: Schema, values: dict[str, Floats], epsilon: Fraction, mode: Any, seed: int, preset: str
) -> list[pa.Table]:
    """Return the sets of a release of the sample."""
    data = coded(schema, values)
    plan = trial_plan(
        data.domain,
        preset,
        epsilon,
        Fraction(1, 10**9),
        select={"cliques": TABLES} if preset == "fixed" else None,
        sets=5,
        mode=mode,
        seed=seed,
    )
    plan = make_plan(dataclasses.replace(plan.spec, schema=schema))
    outcome = carry_out(plan, MemoryCounter(data))
    rng = np.random.default_rng([2, seed])
    sets = [sample(outcome.plan, outcome.models, number) for number in range(1, 6)]
    return [decode(schema, each, rng=rng) for each in sets]


class Tally:
    """Intervals by their row of the table."""

    def __init__(self, truth: dict[str, float]) -> None:
        """Begin without intervals."""
        self.truth = truth
        self.found: dict[tuple[str, str], list[tuple[bool, float, float]]] = defaultdict(list)

    def add(
        self, row: str, what: str, one: tuple[float, float, float], own: tuple[float, float, float]
    ) -> None:
        """Add an interval, and that of the sample by its design."""
        low, high, within = one
        width = (high - low) / (own[1] - own[0])
        self.found[row, what].append((low <= self.truth[what] <= high, width, within / own[2]))

    def report(self) -> None:
        """Print coverage, widths and W."""
        print(f"{'':40} quantity  covered     se  width  W/design")
        for (row, what), each in self.found.items():
            hits, widths, ratios = (np.array(part, dtype=float) for part in zip(*each, strict=True))
            error = hits.std(ddof=1) / len(hits) ** 0.5
            print(
                f"{row:40} {what:8} {hits.mean():8.3f} {error:6.3f} {np.median(widths):6.2f}"
                f" {np.median(ratios):9.2f}"
            )


def run(options: argparse.Namespace, population: Population, epsilon: Fraction, mode: Any) -> None:
    """Print the table of one epsilon and mode."""
    rows = STRATA * options.clusters * options.take
    schemas = {
        released_: schema_of(options.clusters, rows, released=released_)
        for released_ in (True, False)
    }
    tally, rule = Tally(population.truth), rule_of(mode, 5)
    begun, done = time.process_time(), 0
    for repeat in range(options.repeats):
        if time.process_time() - begun > 60 * options.minutes:
            break
        values = population.draw(np.random.default_rng([3, repeat]), options.clusters, options.take)
        table = as_table(schemas[True], values)
        own = {
            what: analysed(schemas[True], [table], text, "shared", "design")
            for what, text in FORMULAS.items()
        }
        # The design effect of the mean, as the survey's documentation states it.
        effect = own["mean"][2] / simple_variance(schemas[True], table)
        for what, text in FORMULAS.items():
            tally.add("the sample itself: by its design", what, own[what], own[what])
            each = analysed(schemas[True], [table], text, "shared", "weighted")
            tally.add("the sample itself: weighted", what, each, own[what])
        for variant, (with_clusters, preset) in VARIANTS.items():
            schema = schemas[with_clusters]
            sets = released(schema, values, epsilon, mode, repeat, preset)
            name = f"clusters {variant}: "
            for what, text in FORMULAS.items():
                for how in ("naive", "weighted", "design"):
                    tally.add(name + how, what, analysed(schema, sets, text, rule, how), own[what])
                each = analysed(schema, sets, text, rule, "design", effect)
                tally.add(name + "design, effect stated", what, each, own[what])
        done += 1
    print(
        f"\n{mode}, epsilon {float(epsilon):g}, {done} repeats of {rows:,} rows in"
        f" {STRATA * options.clusters} clusters, {time.process_time() - begun:.0f} CPU seconds"
    )
    tally.report()
    sys.stdout.flush()


def simple_variance(schema: Schema, table: pa.Table) -> float:
    """Return the variance of the mean of y if the rows were a simple random sample."""
    formula = read_formula("y ~ 1", schema.names)
    frame = with_design(frame_of(1, table, [schema.column("y")], weight="weight"), table, schema)
    (fit,) = analyse(formula, [frame], schema, "shared").fits
    assert fit.simple is not None
    return float(fit.simple[0, 0])


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epsilon", nargs="+", type=Fraction, default=[Fraction(1), Fraction(4)])
    parser.add_argument("--mode", nargs="+", default=["posterior"])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--clusters", type=int, default=8, help="clusters of each stratum")
    parser.add_argument("--take", type=int, default=50, help="records of each cluster")
    parser.add_argument("--correlation", type=float, default=0.05)
    parser.add_argument("--minutes", type=float, default=60, help="of CPU, for each table")
    options = parser.parse_args()
    population = Population(options.correlation)
    for mode in options.mode:
        for epsilon in options.epsilon:
            run(options, population, epsilon, mode)


if __name__ == "__main__":
    main()
