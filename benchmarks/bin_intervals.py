"""Do intervals of means over bins contain the file's own mean, and how wide are they?

Usage: python benchmarks/bin_intervals.py [--data adult.csv] [--epsilon 0.5 1 4] [--repeats 200]

Columns are generated from families of distributions and, with `--data`, read from a public file
with the columns of the census income data (`within_bins.py` has them). Two columns have the counts
of log-normal values with every value at the lower, or at the upper, end of its bin, the worst cases
for an interval. A record is in group b more often if its value is high. The table of group and
column is measured with the Laplace noise of a twentieth of epsilon (as in a release of 20 tables);
NumPy draws it: nothing is confidential. The schema then gets the density that a release fits.
Questions: the mean, the total, the means of both groups, and their difference.

For each column it prints the coverage of the 95 % interval, and of the interval that takes the
means of the bins by the fitted density as known ("without bins"); the median widths of both for the
mean, in standard deviations of the column; and how much of the width comes from bins. Groups that
are not determined at the noise are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.within_bins import INCOME, ROWS, SHARE, census, generated
from dp_core.analysis.query.answering import QueryCell, ask
from dp_core.analysis.query.sources import pooled_sources
from dp_core.client.released import Measurement
from dp_core.kernel.privacy import Relation
from dp_core.methods.bin_density.fitting import fit_pieces
from dp_core.schema.definition import Column, Schema
from dp_core.schema.reading.schema_file import parse_schema

Floats = NDArray[np.float64]
QUESTIONS = {
    "mean": "mean of x",
    "total": "total of x",
    "group": "mean of x by group",
    "gap": "difference in mean of x between a and b",
}


def more(rng: np.random.Generator) -> Iterator[tuple[str, Floats, tuple[int, ...]]]:
    """Yield columns besides those of `within_bins.py`: name, values and bin edges."""
    gains = np.clip(np.floor(rng.lognormal(9, 1, ROWS)), 1, 99_999)
    some = np.where(rng.random(ROWS) < 0.98, 0, gains)
    yield "98 % at 0, log-normal tail", some, (0, 5_000, 20_000, 100_000)
    yield "the same, a bin for 0", some, (0, 1, 5_000, 20_000, 100_000)
    values = np.clip(np.floor(rng.lognormal(10.3, 1.0, ROWS)), 0, INCOME[-1] - 1)
    bins = np.searchsorted(INCOME, values, side="right") - 1
    edges = np.array(INCOME, dtype=np.float64)
    yield "all at the lower ends", edges[:-1][bins], INCOME
    yield "all at the upper ends", edges[1:][bins] - 1, INCOME
    yield "one value a bin", np.floor(rng.beta(2, 3, ROWS) * 10), tuple(range(11))


def schema_of(edges: tuple[int, ...]) -> Schema:
    """Return the schema of a file with a group and a column in bins."""
    x = {"type": "integer", "min": str(edges[0]), "max": str(edges[-1] - 1)}
    return parse_schema(
        {
            "version": "1",
            "title": "generated",
            "columns": {
                "group": {"type": "category", "levels": ["a", "b"]},
                "x": {**x, "edges": [str(edge) for edge in edges]},
            },
        }
    )


def truths(values: Floats, group: NDArray[np.bool_]) -> dict[str, list[float]]:
    """Return the file's own answers, by kind of question."""
    means = [float(values[~group].mean()), float(values[group].mean())]
    return {
        "mean": [float(values.mean())],
        "total": [float(values.sum())],
        "group": means,
        "gap": [means[0] - means[1]],
    }


def with_density(schema: Schema, noisy: NDArray[np.int64], scale: float) -> Schema:
    """Return the schema with the density fitted to the noisy counts."""
    group, x = schema.columns
    variance = 2 * scale**2 * len(group.levels)
    pieces = fit_pieces(x, noisy.sum(axis=0).astype(np.float64), variance)
    bent: Column = dataclasses.replace(x, pieces=pieces)
    return dataclasses.replace(schema, columns=(group, bent))


def report(name: str, values: Floats, edges: tuple[int, ...], scale: float, repeats: int) -> None:
    """Print the row of one column."""
    rng = np.random.default_rng([repeats, len(name), values.size])
    deviation = float(values.std())
    group = rng.random(values.size) < 1 / (1 + np.exp(-(values - values.mean()) / deviation))
    schema = schema_of(edges)
    exact = np.array([np.histogram(values[group == each], edges)[0] for each in (False, True)])
    true = truths(values, group)
    q = -np.expm1(-1 / scale)
    inside: dict[str, list[bool]] = defaultdict(list)
    narrow: dict[str, list[bool]] = defaultdict(list)
    widths, narrow_widths, parts = [], [], []
    for _ in range(repeats):
        noisy = exact + rng.geometric(q, exact.shape) - rng.geometric(q, exact.shape)
        table = Measurement(
            domain=schema.domain,
            values=noisy,
            noise="laplace",
            scale=scale,
            stage="measure",
            grant=1,
        )
        found = pooled_sources(
            with_density(schema, noisy, scale),
            [table],
            rows=None,
            relation=Relation("add-remove"),
        )
        for kind, text in QUESTIONS.items():
            for cell, wanted in zip(ask(found, text).cells, true[kind], strict=True):
                if not cell.determined:
                    continue
                low, high, own = ends(cell)
                inside[kind].append(low - 1e-9 <= wanted <= high + 1e-9)
                narrow[kind].append(abs(float(cell.estimate or 0) - wanted) <= own + 1e-9)
                if kind == "mean":
                    widths.append((high - low) / deviation)
                    narrow_widths.append(2 * own / deviation)
                    parts.append(cell.from_bins)
    covered = [f"{np.mean(inside[kind]):.3f}, {np.mean(narrow[kind]):.3f}" for kind in QUESTIONS]
    print(
        f"| {name} | {' | '.join(covered)} | {np.median(widths):.3f} |"
        f" {np.median(narrow_widths):.3f} | {np.median(parts):.2f} |",
        flush=True,
    )


def ends(cell: QueryCell) -> tuple[float, float, float]:
    """Return the interval of a cell, and its margin without bins; these files determine it."""
    assert cell.low is not None
    assert cell.high is not None
    own = cell.margin if cell.margin_without_bins is None else cell.margin_without_bins
    assert own is not None
    return cell.low, cell.high, own


def main() -> None:
    """Print one table for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--epsilon", type=Fraction, nargs="+", default=["1/2", "1", "4"])
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    columns = list(generated(np.random.default_rng(5)))
    columns += list(more(np.random.default_rng(6)))
    columns += census(options.data) if options.data else []
    for epsilon in map(Fraction, options.epsilon):
        print(f"\n### epsilon {float(epsilon):g}: coverage, and without bins\n")
        print(
            "| column | mean | total | group means | difference | width | width without bins |"
            " from bins |\n|---|---|---|---|---|---|---|---|"
        )
        for name, values, edges in columns:
            report(name, values, edges, 1 / (SHARE * float(epsilon)), options.repeats)


if __name__ == "__main__":
    main()
