"""How near are tables of areas to the file, if areas lie within one another?

    python benchmarks/geography.py [--epsilon 1] [--mode shared posterior] [--repeats 3]
        [--areas 60 600] [--rows 30000] [--schemas within apart smallest largest]
    python benchmarks/geography.py --areas 60000 100000 --regions 50 --counties 3000 --others 2
        --rows 500000 --mode shared --repeats 1 --schemas within
    python benchmarks/geography.py --file FILE.csv --upper COLUMN --lower COLUMN --columns A,B,C

By default the file is generated: 5 regions, as many districts in all as `--areas` says, and four
more columns that depend on the region and, less, on the district. `--counties` places so many
counties between regions and districts, for the schema `within` only. Each repeat makes
releases of the same file in memory at (epsilon, 1e-9), add-remove, with four schemas:

- `within`: both columns, and `within`;
- `apart`: both columns, as if the one said nothing about the other;
- `smallest`: the districts alone; the regions of their sets follow from the public map;
- `largest`: the regions alone.

By default all four are compared. For each, it prints the mean total variation distance of the first
set from the file over the pairs of each other column with the region, with the district, and among
themselves; the part of the records of which the district does not lie in the region; and the CPU
seconds of a release. At the end it prints the peak memory of the run.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pandas as pd

import dp_core as dp

DELTA = "1e-9"
SCHEMAS = ("within", "apart", "smallest", "largest")
OTHERS = (("a", 4), ("b", 3), ("c", 6), ("d", 2))
"""Names and numbers of levels of the other columns."""


def generated(
    rows: int, areas: int, seed: int, *, regions: int = 5, counties: int = 0, others: int = 4
) -> pd.DataFrame:
    """Return a generated file with the columns region, district and some more.

    Args:
        rows: Number of records.
        areas: Number of districts.
        seed: Seed of the generator.
        regions: Number of regions; 5 by default.
        counties: Number of counties between the two; 0 (the default) for no such column.
        others: Number of other columns, at most 4, which is the default.
    """
    rng = np.random.default_rng(seed)
    weights = rng.gamma(1.0, 1.0, areas)
    district = rng.choice(areas, rows, p=weights / weights.sum())
    if counties:
        district[:areas] = np.arange(areas)  # so that the schema has all of them
    county = district * counties // areas
    region = county * regions // counties if counties else district * regions // areas
    columns = {"region": region} | ({"county": county} if counties else {}) | {"district": district}
    before = region
    for name, levels in OTHERS[:others]:
        of_region = rng.dirichlet(np.full(levels, 2.0), regions)
        of_district = rng.dirichlet(np.full(levels, 4.0), areas)
        shares = 0.6 * of_region[region] + 0.4 * of_district[district]
        drawn = (rng.random((rows, 1)) > np.cumsum(shares, axis=1)).sum(axis=1)
        mixed = np.where(rng.random(rows) < 0.3, before % levels, drawn)
        columns[name] = before = np.minimum(mixed, levels - 1)
    return pd.DataFrame({name: values.astype(str) for name, values in columns.items()})


def schema_of(file: pd.DataFrame, upper: str, lower: str, kind: str) -> dict[str, Any]:
    """Return a schema of the file; `kind` is one of `SCHEMAS`."""
    left_out = {"smallest": upper, "largest": lower}.get(kind)
    columns: dict[str, Any] = {
        name: {"type": "category", "levels": sorted(file[name].unique())}
        for name in file.columns
        if name != left_out
    }
    if kind == "within":
        areas = [upper, *(["county"] if "county" in file else []), lower]
        for above, name in itertools.pairwise(areas):
            columns[name] |= {"within": above, "map": place_of(file, above, name)}
    return {
        "version": 1,
        "title": "areas",
        "rows_about": len(file),
        "columns": columns,
        "ignore": [] if left_out is None else [left_out],
    }


def place_of(file: pd.DataFrame, upper: str, lower: str) -> dict[str, str]:
    """Return the larger area of each smaller one."""
    return dict(file.drop_duplicates(lower).set_index(lower)[upper])


def distance(file: pd.DataFrame, made: pd.DataFrame, names: list[str]) -> float:
    """Return the total variation distance of the tables of some columns."""
    one, other = (each.groupby(names).size() / len(each) for each in (file, made))
    return 0.5 * float(one.subtract(other, fill_value=0).abs().sum())


def errors(file: pd.DataFrame, made: pd.DataFrame, upper: str, lower: str) -> list[float]:
    """Return the mean distances by region, by district and of other pairs, and the misplaced."""
    rest = [name for name in file.columns if name not in (upper, "county", lower)]

    def mean(pairs: list[tuple[str, str]]) -> float:
        if not {name for pair in pairs for name in pair} <= {*made.columns}:
            return float("nan")
        return float(np.mean([distance(file, made, [*pair]) for pair in pairs]))

    misplaced = float("nan")
    if {upper, lower} <= {*made.columns}:
        misplaced = float((made[lower].map(place_of(file, upper, lower)) != made[upper]).mean())
    return [
        mean([(upper, name) for name in rest]),
        mean([(lower, name) for name in rest]),
        mean([*itertools.combinations(rest, 2)]),
        misplaced,
    ]


def compare(
    file: pd.DataFrame,
    upper: str,
    lower: str,
    kinds: Sequence[str],
    *,
    epsilon: float,
    mode: str,
    repeats: int,
) -> None:
    """Print the errors of releases with each of some schemas."""
    for kind in kinds:
        found = []
        for seed in range(repeats):
            start = time.process_time()
            made = dp.release(
                file,
                schema_of(file, upper, lower, kind),
                epsilon=epsilon,
                delta=DELTA,
                mode=mode,
                sets=1 if mode == "shared" else 5,
                seed=seed + 1,
            )
            first = made.sets[0].astype(str)
            spent = time.process_time() - start
            if kind == "smallest":
                first[upper] = first[lower].map(place_of(file, upper, lower))
            found.append([*errors(file, first, upper, lower), spent])
        mean = np.mean(found, axis=0)
        figures = "".join(f"{value:>10.4f}" for value in mean[:4])
        print(f"{mode:<10}{kind:<10}{figures}{mean[4]:>9.1f}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--mode", nargs="+", default=["shared", "posterior"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--areas", type=int, nargs="+", default=[60, 600])
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--regions", type=int, default=5)
    parser.add_argument("--counties", type=int, default=0)
    parser.add_argument("--others", type=int, default=4)
    parser.add_argument("--schemas", nargs="+", choices=SCHEMAS, default=SCHEMAS)
    parser.add_argument("--file")
    parser.add_argument("--upper", default="region")
    parser.add_argument("--lower", default="district")
    parser.add_argument("--columns")
    args = parser.parse_args()
    print(f"{'mode':<10}{'schema':<10}{'by region':>10}{'district':>10}{'others':>10}", end="")
    print(f"{'misplaced':>10}{'CPU s':>9}")
    files: dict[str, pd.DataFrame] = {}
    if args.file:
        names = [args.upper, args.lower, *args.columns.split(",")]
        files[args.file] = pd.read_csv(args.file, dtype=str)[names]
    else:
        sizes = {"regions": args.regions, "counties": args.counties, "others": args.others}
        for areas in args.areas:
            files[f"{areas} areas"] = generated(args.rows, areas, 1, **sizes)
    for name, file in files.items():
        print(f"{name}: {len(file):,} records")
        for mode in args.mode:
            compare(
                file,
                args.upper,
                args.lower,
                args.schemas,
                epsilon=args.epsilon,
                mode=mode,
                repeats=args.repeats,
            )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"The memory of the whole run peaked at {most:,} MB.")


if __name__ == "__main__":
    main()
