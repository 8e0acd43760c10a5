"""Do intervals of quantiles and of changes between releases cover, and how wide are they?

Usage: python benchmarks/quantiles_and_changes.py [--epsilon 0.5 1 4] [--repeats 200]

Quantiles: columns as in `bin_intervals.py`. The table of group and column is measured with the
Laplace noise of a twentieth of epsilon. Questions: median, 90th percentile, and the median of both
groups. Each file's own quantile is compared with the 95 % interval, and with two others made from
the same noisy table in the same run: the interval that takes values within bins by the fitted
density ("without bins"), and the inversion of a simultaneous band, in which every edge is tested at
(1 - level) / (2 edges) (Bonferroni). Widths are those of the median, in bins of the interval.

Changes: two files of 5,000 records, in the second of which some people moved. Both have the table
of region and work with Gaussian noise. Printed are the coverage of the 95 % interval of the change,
the share of cells with a change of at least twice their margin's standard error that are shown as
more than noise, and the same for the rule that the two 95 % intervals must not overlap.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.bin_intervals import more, schema_of, with_density
from benchmarks.within_bins import SHARE, generated
from dp_core.analysis.query.answering import ask, prepare_question
from dp_core.analysis.query.change_answer import Side, changes_of, side_of
from dp_core.analysis.query.distribution_answers import quantile_answers
from dp_core.analysis.query.sources import Sources, pooled_sources
from dp_core.client.released import Measurement
from dp_core.kernel.privacy import Relation
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_file import parse_schema

Floats = NDArray[np.float64]
LEVEL = 0.95
QUESTIONS = {"median of x": 0.5, "quantile 0.9 of x": 0.9, "median of x by group": 0.5}
RELATION = Relation("add-remove")


def noisy_sources(schema: Schema, exact: NDArray[np.int64], scale: float, seed: int) -> Sources:
    """Return what questions are answered from, with Laplace noise and a fitted density."""
    rng = np.random.default_rng(seed)
    q = -np.expm1(-1 / scale)
    values = exact + rng.geometric(q, exact.shape) - rng.geometric(q, exact.shape)
    bent = with_density(schema, values, scale)
    table = Measurement(
        domain=bent.domain, values=values, noise="laplace", scale=scale, stage="measure", grant=1
    )
    return pooled_sources(bent, [table], rows=None, relation=RELATION)


def quantiles(name: str, values: Floats, edges: tuple[int, ...], scale: float, repeats: int) -> str:
    """Return the row of one column: coverage and widths."""
    rng = np.random.default_rng([7, len(name), values.size])
    group = rng.random(values.size) < 1 / (1 + np.exp(-(values - values.mean()) / values.std()))
    schema = schema_of(edges)
    exact = np.array([np.histogram(values[group == each], edges)[0] for each in (False, True)])
    bins = len(edges) - 1
    inside: dict[str, list[bool]] = defaultdict(list)
    plain: list[bool] = []
    widths: dict[str, list[float]] = defaultdict(list)
    for repeat in range(repeats):
        sources = noisy_sources(schema, exact, scale, 1000 * len(name) + repeat)
        for text, q in QUESTIONS.items():
            parts = [values] if "group" not in text else [values[~group], values[group]]
            true = [np.quantile(each, q, method="inverted_cdf") for each in parts]
            for cell, wanted in zip(ask(sources, text, level=LEVEL).cells, true, strict=True):
                if cell.low is None or cell.high is None:
                    continue
                inside[text].append(bool(cell.low <= wanted <= cell.high))
                own = cell.margin_without_bins
                if own is not None and cell.estimate is not None:
                    plain.append(bool(abs(cell.estimate - wanted) <= own))
        for kind, level in (("own", LEVEL), ("band", 1 - (1 - LEVEL) / (bins + 1))):
            _, asked, work = prepare_question(sources, "median of x", level, False)
            (_, lows, highs), *_ = quantile_answers(work, asked)
            first, last = np.searchsorted(edges, [lows[0], highs[0]], side="right")
            widths[kind].append(float(last - first + 1))
    covered = " | ".join(f"{np.mean(inside[text]):.3f}" for text in QUESTIONS)
    without = f"{np.mean(plain):.3f}" if plain else "–"
    own, band = (float(np.mean(widths[kind])) for kind in ("own", "band"))
    return f"| {name} | {bins} | {covered} | {without} | {own:.2f} | {band:.2f} |"


TOWN = parse_schema(
    {
        "version": "1",
        "title": "town",
        "columns": {
            "region": {"type": "category", "levels": [f"r{code}" for code in range(8)]},
            "work": {"type": "category", "levels": ["yes", "no", "looking"]},
        },
    }
)
ASKED = ("count by region, work", "share of work by region", "share of work = yes by region")


def wave(seed: int, shift: float) -> NDArray[np.int64]:
    """Return the exact counts of one wave, shape (8, 3)."""
    rng = np.random.default_rng(seed)
    region = rng.choice(8, 5000, p=np.arange(1, 9) / 36)
    chance = np.clip(0.5 + shift * (region - 3.5) / 3.5, 0.05, 0.9)
    work = np.where(rng.random(5000) < chance, 0, rng.integers(1, 3, 5000))
    return np.bincount(region * 3 + work, minlength=24).reshape(8, 3)


def town_sources(exact: NDArray[np.int64], scale: float, rng: np.random.Generator) -> Sources:
    """Return what questions about a wave are answered from, with Gaussian noise."""
    values = exact + np.rint(rng.normal(0, scale, exact.shape)).astype(np.int64)
    table = Measurement(
        domain=TOWN.domain, values=values, noise="gaussian", scale=scale, stage="m", grant=1
    )
    return pooled_sources(TOWN, [table], rows=None, relation=RELATION)


def changes(scale: float, repeats: int) -> list[str]:
    """Return a row for each question: coverage, and how often true changes are found."""
    waves = [wave(11, 0.0), wave(12, 0.06)]
    rng = np.random.default_rng(4)
    rows = []
    for text in ASKED:
        sides: list[Side] = []
        covered, found, apart = [], [], []
        true = [each.answer[0] for each in _sides(text, waves, 1e-7, rng)]
        actual = true[0] - true[1]
        for _ in range(repeats):
            sides = _sides(text, waves, scale, rng)
            change = changes_of(*sides, level=LEVEL)
            known = np.isfinite(change.lows)
            covered += [*((change.lows <= actual) & (actual <= change.highs))[known]]
            half = (change.highs - change.lows) / 2
            real = known & (np.abs(actual) > 2 * half / 1.96)
            found += [*((change.lows > 0) | (change.highs < 0))[real]]
            later, earlier = (each.answer for each in sides)
            apart += [*((later[1] > earlier[2]) | (later[2] < earlier[1]))[real]]
        rows.append(
            f"| {text} | {np.mean(covered):.3f} | {np.mean(found):.2f} | {np.mean(apart):.2f} |"
        )
    return rows


def _sides(
    text: str, waves: list[NDArray[np.int64]], scale: float, rng: np.random.Generator
) -> list[Side]:
    """Return the answers of the later and of the earlier wave."""
    found = []
    for exact in reversed(waves):
        sources = town_sources(exact, scale, rng)
        _, asked, _ = prepare_question(sources, text, LEVEL, False)
        found.append(side_of(sources, asked, level=LEVEL, sampling=False))
    return found


def main() -> None:
    """Print the tables for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=Fraction, nargs="+", default=["1/2", "1", "4"])
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    columns = [*generated(np.random.default_rng(5)), *more(np.random.default_rng(6))]
    for epsilon in map(Fraction, options.epsilon):
        print(f"\n### epsilon {float(epsilon):g}: quantiles\n")
        print(
            "| column | bins | median | 90th percentile | medians of groups | without bins |"
            " bins of the interval | of a simultaneous band |\n|---|---|---|---|---|---|---|---|"
        )
        for name, values, edges in columns:
            scale = 1 / (SHARE * float(epsilon))
            print(quantiles(name, values, edges, scale, options.repeats), flush=True)
        print(f"\n### epsilon {float(epsilon):g}: changes\n")
        print(
            "| question | covered | true changes found | found if intervals must not overlap |"
            "\n|---|---|---|---|"
        )
        # A Gaussian table at a tenth of a budget of (epsilon, 1e-9), about.
        deviation = math.sqrt(2 * math.log(1.25e9)) / float(epsilon) * math.sqrt(10) / 2
        for row in changes(deviation, options.repeats):
            print(row, flush=True)


if __name__ == "__main__":
    main()
