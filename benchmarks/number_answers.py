"""What do the synthetic sets add to the tables in answers about a number by group?

    python benchmarks/number_answers.py [--designs wages health costs related normal income]
        [--epsilon 1] [--rows 16000] [--repeats 10]

A file is drawn from each design of `benchmarks/regressions.py`, and released in memory by `auto`
with five posterior sets. Each number is asked for by each category, and for the whole file. For
each measure, and for groups of less than 1,000 records, it prints the part of the 95 % intervals
that contain the file's own value, their median width, and the root mean square error; both relative
to the sampling error of the file. `query` is the answer, `tables` the same without the sets, and
`rubin` the mean of the sets' own means and totals with Rubin's rule, for the groups that `query`
answers. Only groups of at least 20 records that have several values count.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pandas as pd

import dp_core as dp
from benchmarks.regressions import DESIGNS
from dp_core.analysis.query.query_answer import answer_query

MEASURES = {
    **dict.fromkeys(("mean", "total", "standard deviation", "gini", "top 10 % share"), None),
    "median": 0.5,
    "quantile 0.9": 0.9,
}
SMALL = 1000
LEAST = 20
Row = tuple[bool, float, float]


def gini(values: Any) -> float:
    """Return the Gini coefficient."""
    size, total = len(values), float(values.sum())
    return float(2 * (np.arange(1, size + 1) @ np.sort(values))) / (size * total) - 1 - 1 / size


def top_share(values: Any, part: float = 0.1) -> float:
    """Return the part of the total that the largest values have."""
    values, size = np.sort(values)[::-1], part * len(values)
    whole = int(size)
    return float(values[:whole].sum() + (size - whole) * values[whole]) / float(values.sum())


STATISTICS = {"standard deviation": np.std, "gini": gini, "top 10 % share": top_share}


def own_value(values: Any, measure: str) -> tuple[float, float]:
    """Return the file's own value of a measure and the sampling error of it."""
    size, spread = len(values), float(np.std(values))
    if measure == "mean":
        return float(np.mean(values)), spread / size**0.5
    if measure == "total":
        return float(np.sum(values)), (size * float(np.mean(np.square(values)))) ** 0.5
    q = MEASURES[measure]
    if q is None:
        found = STATISTICS[measure]
        parts = np.array_split(np.random.default_rng(0).permutation(values), 20)
        each = [found(part) for part in parts] if len(values) >= 200 else [np.nan]
        return float(found(values)), float(np.std(each)) / len(parts) ** 0.5
    half = 1.96 * (q * (1 - q) / size) ** 0.5
    low, high = np.quantile(values, [max(q - half, 0), min(q + half, 1)])
    error = max(float(high - low) / 3.92, spread / size**0.5)
    return float(np.quantile(values, q, method="inverted_cdf")), error


def by_rubin(sets: list[Any], measure: str) -> tuple[float, float, float]:
    """Return the mean of the sets' own values with the interval of Rubin's rule."""
    found = np.array([own_value(each, measure) for each in sets])
    between = found[:, 0].var(ddof=1) if len(found) > 1 else 0.0
    half = 1.96 * float(np.mean(found[:, 1] ** 2) + (1 + 1 / len(found)) * between) ** 0.5
    value = float(found[:, 0].mean())
    return value, value - half, value + half


def answers(made: Any, number: str, by: str | None, measure: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the source, the group and the answer: estimate, low and high."""
    text = f"{measure} of {number}" + ("" if by is None else f" by {by}")
    release, known = made.queried, set[str]()
    for name, sources in (
        ("query", release.sources),
        ("tables", replace(release.sources, set_counts=None)),
    ):
        for cell in answer_query(release.bundle, sources, text).cells:
            if cell["determined"]:
                group = "" if by is None else str(cell[by])
                known.add(group)
                yield name, group, (cell["estimate"], cell["low"], cell["high"])
    if measure in ("mean", "total"):
        for group in sorted(known):
            own = [s[number] if by is None else s[number][s[by] == group] for s in made.sets]
            own = [each.dropna().to_numpy(dtype=float) for each in own]
            if all(len(each) > 1 for each in own):
                yield "rubin", group, by_rubin(own, measure)


def run(names: list[str], args: argparse.Namespace) -> None:
    """Release and ask the files of some designs, and print what was found."""
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for name in names:
        design = DESIGNS[name]
        document = {"version": 1, "title": name, "unit": "row", "columns": design.columns}
        kinds = {key: each["type"] for key, each in design.columns.items()}
        numbers = [key for key, kind in kinds.items() if kind in ("number", "integer")]
        groups = [None, *(key for key in kinds if key not in numbers)]
        for repeat in range(args.repeats):
            file = pd.DataFrame(design.draw(args.rows, np.random.default_rng([args.seed, repeat])))
            schema = document | {"rows_about": args.rows}
            made = dp.release(file, schema=schema, epsilon=args.epsilon, sets=5, seed=repeat)
            asks = [(n, b, m) for n in numbers for b in groups for m in MEASURES]
            for number, by, measure in asks:
                if measure in ("gini", "top 10 % share") and design.columns[number]["min"] < 0:
                    continue
                for source, group, (value, low, high) in answers(made, number, by, measure):
                    inside = slice(None) if by is None else file[by].astype(str) == group
                    own = file[number][inside].to_numpy(dtype=float)
                    if len(own) < LEAST or not own.std() > 0:
                        continue
                    true, error = own_value(own, measure)
                    if not error > 0:
                        continue
                    rounding = 1e-9 * abs(true)
                    row = (
                        low - rounding <= true <= high + rounding,
                        (high - low) / 3.92 / error,
                        (value - true) / error,
                    )
                    size = "all" if by is None else "small" if len(own) < SMALL else "large"
                    found[measure, size, source].append(row)
        print(f"{name}: {time.process_time():.0f} CPU s", file=sys.stderr, flush=True)
    print(
        f"\nepsilon {args.epsilon:g}, {args.rows:,} records, {args.repeats} repeats of each design"
    )
    print(
        f"{'measure':<20}{'groups':<8}{'source':<8}{'answers':>8}{'covered':>9}{'width':>8}{'error':>8}"
    )
    for (measure, size, source), rows in found.items():
        covered, widths, errors = (np.array(each) for each in zip(*rows, strict=True))
        print(
            f"{measure:<20}{size:<8}{source:<8}{len(rows):>8}{covered.mean():>9.3f}"
            f"{np.median(widths):>8.2f}{np.sqrt(np.mean(errors**2)):>8.2f}"
        )


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ["wages", "health", "costs", "related", "normal", "income"]
    parser.add_argument("--designs", nargs="+", default=known, choices=sorted(DESIGNS))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    run(args.designs, args)


if __name__ == "__main__":
    main()
