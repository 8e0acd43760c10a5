"""Do measured trends keep the correlations of a wide survey, and what do they cost?

    python benchmarks/trends.py [--epsilon 0.2 1] [--repeats 5] [--presets privsyn mst]

Each file is released by `auto` with trends, by `auto` without them, and by other presets, all with
one set: with `auto` its best set, with the others the set of mode `shared`. For each it prints, as
means over the repeats, the mean absolute error of the correlations of all pairs of numbers and the
total variation distance of all pairs of columns, then the ratio of `auto` with trends to each.
Correlations are those of the middles of bins, of records that have both values.

Files:
    factor      16 numbers that follow one value; data in about ten of thirty bins
    waves       a panel of pupils in wide form: four waves with two test scores, years of experience
                and six levels each, data in eight of twenty bins; 45 % of the records miss a wave,
                which rules of the schema say
    yrbss       the survey that ships; numbers in at most 16 bins
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Callable
from fractions import Fraction
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.posterior import read
from benchmarks.trial import codes_schema, trial_plan
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection import auto
from dp_core.plan.plan import make_plan
from dp_core.plan.procedure import carry_out, sample
from dp_core.plan.release_spec import Mode
from dp_core.schema.definition import Column, Schema
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros

Floats = NDArray[np.float64]
DELTA = Fraction("1e-9")


def number(name: str, bins: int, *, missing: bool = False) -> Column:
    """Return a column of numbers in equal bins."""
    edges = tuple(map(Fraction, range(bins + 1)))
    return Column(name=name, kind="integer", edges=edges, missing="level" if missing else "reject")


def factor(rng: np.random.Generator) -> tuple[Schema, Dataset]:
    """Return the file `factor`: 8,000 records."""
    hidden, own = rng.normal(0, 1, 8000), rng.normal(0, 1, (16, 8000))
    codes = np.clip(np.rint(15 + 1.5 * (0.8 * hidden + 0.6 * own)), 0, 29).astype(np.int64)
    columns = [number(f"n{at}", 30) for at in range(16)]
    return file_of(columns, [30] * 16, list(codes))


def waves(rng: np.random.Generator) -> tuple[Schema, Dataset]:
    """Return the file `waves`: 11,600 records, 38 columns."""
    rows = 11_600
    ability, group = rng.normal(0, 1, rows), rng.integers(0, 3, rows)
    columns, sizes = (
        [*codes_schema(Domain(("sex", "origin"), (2, 4)), StructuralZeros()).columns],
        [2, 4],
    )
    codes = [rng.integers(0, 2, rows), rng.choice(4, rows, p=[0.6, 0.3, 0.06, 0.04])]
    zeros = []
    for wave in range(4):
        there = rng.random(rows) < 0.55

        def score(weight: float, there: NDArray[np.bool_] = there) -> NDArray[np.int64]:
            value = weight * ability + 0.5 * rng.normal(0, 1, rows) + 0.25 * (group == 0)
            return np.where(there, np.clip(np.rint(9 + 1.3 * value), 0, 19), 20).astype(np.int64)

        own: list[tuple[str, int, NDArray[np.int64]]] = [
            ("read", 20, score(0.8)),
            ("math", 20, score(0.75)),
            ("years", 10, np.where(there, rng.gamma(1.5, 1.3, rows).astype(int).clip(0, 9), 10)),
            ("group", 3, np.where(there, group, 3)),
            ("lunch", 2, np.where(there, rng.random(rows) < 1 / (1 + np.exp(1.2 * ability)), 2)),
            *((f"c{at}", 4, np.where(there, rng.integers(0, 4, rows), 4)) for at in range(4)),
        ]
        first = f"read{wave}"
        for kind, size, values in own:
            name = f"{kind}{wave}"
            if kind in ("read", "math", "years"):
                columns.append(number(name, size, missing=True))
            else:
                plain = codes_schema(Domain((name,), (size,)), StructuralZeros()).columns[0]
                columns.append(dataclasses.replace(plain, missing="level"))
            codes.append(values.astype(np.int64))
            sizes.append(size + 1)
            if name != first:
                said = f"{first} and {name} are missing together"
                zeros.append(Rule((first, name), ((20,), tuple(range(size))), said))
                zeros.append(Rule((first, name), (tuple(range(20)), (size,)), said))
    return file_of(columns, sizes, codes, StructuralZeros(tuple(zeros)))


def file_of(
    columns: list[Column],
    sizes: list[int],
    codes: list[NDArray[np.int64]],
    zeros: StructuralZeros | None = None,
) -> tuple[Schema, Dataset]:
    """Return a schema and its records."""
    domain = Domain(tuple(column.name for column in columns), tuple(sizes))
    plain = codes_schema(domain, zeros or StructuralZeros())
    rows = int(float(f"{len(codes[0]):.1e}"))
    schema = dataclasses.replace(plain, columns=tuple(columns), rows_about=rows)
    return schema, Dataset(domain, np.array(codes).astype(np.uint16))


def yrbss(rng: np.random.Generator) -> tuple[Schema, Dataset]:
    """Return the survey that ships."""
    del rng
    found = read("yrbss")
    rows = int(float(f"{found.data.rows:.1e}"))
    return dataclasses.replace(found.schema, rows_about=rows), found.data


FILES: dict[str, Callable[[np.random.Generator], tuple[Schema, Dataset]]] = {
    "factor": factor,
    "waves": waves,
    "yrbss": yrbss,
}


def released(schema: Schema, data: Dataset, epsilon: Fraction, preset: str, run: int) -> Dataset:
    """Return the set that a data user would open."""
    mode: Mode = "posterior" if preset == "auto" else "shared"
    plan = trial_plan(
        schema.domain,
        preset,
        epsilon,
        DELTA,
        sets=2 if preset == "auto" else 1,
        mode=mode,
        seed=run,
    )
    plan = make_plan(dataclasses.replace(plan.spec, schema=schema))
    outcome = carry_out(plan, MemoryCounter(data))
    return sample(outcome.plan, outcome.models, 0 if preset == "auto" else 1)


def correlations(schema: Schema, data: Dataset) -> Floats:
    """Return the correlations of all pairs of numbers, of records that have both."""
    numbers = [column for column in schema.columns if not column.levels]
    found = []
    for one, other in itertools.combinations(numbers, 2):
        x, y = (data.column(each.name).astype(np.float64) for each in (one, other))
        both = (x < one.bins) & (y < other.bins)
        x, y = x[both], y[both]
        found.append(float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 < y.std() else 0.0)
    return np.array(found)


def distance(one: Dataset, other: Dataset) -> float:
    """Return the mean total variation distance of all pairs of columns."""
    sizes, found = one.domain.sizes, []
    for a, b in itertools.combinations(range(len(sizes)), 2):
        shares = [
            np.bincount(
                data.codes[a].astype(np.int64) * sizes[b] + data.codes[b],
                minlength=sizes[a] * sizes[b],
            )
            / data.rows
            for data in (one, other)
        ]
        found.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return float(np.mean(found))


def main() -> None:
    """Print the errors of every method on every file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--epsilon", nargs="+", type=Fraction, default=[Fraction(1, 5), Fraction(1)]
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--presets", nargs="*", default=["privsyn", "mst"])
    parser.add_argument("--files", nargs="+", default=list(FILES), choices=list(FILES))
    arguments = parser.parse_args()
    print(f"{'file':8} {'epsilon':>7} {'method':16} {'correlations':>12} {'TVD':>7}   ratios")
    for name, epsilon in itertools.product(arguments.files, arguments.epsilon):
        schema, data = FILES[name](np.random.default_rng(1))
        truth, base = correlations(schema, data), None
        for method in ("auto", "auto, no trends", *arguments.presets):
            errors = []
            for run in range(arguments.repeats):
                preset = method.split(",")[0]
                with patch.object(
                    auto, "chosen_trends", auto.chosen_trends if method == preset else _none
                ):
                    found = released(schema, data, epsilon, preset, run)
                error = float(np.abs(correlations(schema, found) - truth).mean())
                errors.append((error, distance(data, found)))
            mean = np.mean(errors, axis=0)
            base = mean if base is None else base
            ratios = " ".join(f"{each:.2f}" for each in base / mean)
            shown = f"{mean[0]:12.3f} {mean[1]:7.4f}   {ratios}"
            print(f"{name:8} {float(epsilon):7g} {method:16} {shown}", flush=True)


def _none(*_: object) -> tuple[()]:
    return ()


if __name__ == "__main__":
    main()
