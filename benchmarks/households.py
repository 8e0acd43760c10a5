"""How near are synthetic households and persons to the file, by kind of table?

    python benchmarks/households.py [--epsilon 1 4] [--mode posterior shared] [--repeats 3]
        [--households 20000]
    python benchmarks/households.py --schema SCHEMA.yaml --tables HOUSEHOLDS.csv PERSONS.csv
    python benchmarks/households.py --write flows/demo

By default the file is generated: couples of like age, children with parents of an age, incomes by
employment, households of 1 to 8 members in five regions. Each repeat makes a release in memory at
(epsilon, 1e-9), unit household, add-remove.

`--write` only writes the files of `dp-release demo --households`, and makes no release.

It prints the mean total variation distance of the first set over all pairs of columns of four
kinds: household, person, household x person (each person counts 1) and member x member (ordered
pairs of different members, each household counts 1). Beside it stand three baselines from the same
run: a bootstrap of households; members drawn without noise from all persons of households with the
same household columns and size; and persons drawn independently of their households. It also prints
the CPU seconds of a release with one set.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dp_core as dp
from dp_core.schema.definition import Schema

NAMES = {"id": "household", "nr": "person", "owned": "tenure", "state": "activity"}
"""Columns with another name in the files of the demo."""
KINDS = ("household", "person", "household x person", "member x member")
DELTA = "1e-9"
Frames = Mapping[str, pd.DataFrame]


def generated(households: int, seed: int) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Return the schema and the two tables of generated households.

    Args:
        households: Number of households.
        seed: Seed of the generator.
    """
    rng = np.random.default_rng(seed)
    region = rng.choice(5, households, p=[0.4, 0.25, 0.15, 0.12, 0.08])
    kind = rng.choice(4, households, p=[0.32, 0.28, 0.28, 0.12])  # single, couple, family, others
    children = np.where(kind == 2, 1 + rng.binomial(4, 0.22, households), 0)
    size = np.select([kind == 0, kind == 1, kind == 2], [1, 2, 2 + children], 0)
    size = np.where(kind == 3, rng.integers(2, 6, households), size)
    of = np.repeat(np.arange(households), size)
    place = np.arange(of.size) - np.repeat(np.cumsum(size) - size, size)
    head = np.clip(rng.normal(np.choose(kind, [52, 60, 41, 30]), 14), 18, 95)
    age = np.where(place == 0, head[of], np.clip(head[of] + rng.normal(0, 4, of.size), 18, 99))
    parents = np.minimum(head, 60)[of]
    young = (kind[of] == 2) & (place >= 2)
    age = np.where(young, np.clip(parents - rng.normal(29, 5, of.size), 0, 30), age)
    age = np.where(kind[of] == 3, np.clip(rng.normal(head[of], 8), 16, 90), age)
    first = rng.integers(1, 3, households)[of]
    other = np.where(rng.random(of.size) < 0.95, 3 - first, first)
    sex = np.where(place == 0, first, np.where(place == 1, other, rng.integers(1, 3, of.size)))
    working = rng.random(of.size) < np.select([age < 16, age < 18, age < 65], [0, 0.02, 0.75], 0.08)
    state = np.select([age < 18, working, age >= 65], [1, 2, 4], 3)
    job = np.where(working, 1 + (rng.integers(0, 4, of.size) + region[of]) % 6, 0)
    earners = np.bincount(of, weights=working, minlength=households)
    income = np.clip(np.digitize(earners + rng.normal(0.6, 0.5, households), [0.5, 1.3, 2.1]), 0, 3)
    owned = rng.random(households) < 0.25 + 0.15 * income + 0.2 * (kind == 2)
    rooms = np.clip(size + owned + rng.integers(0, 2, households), 1, 6)
    schema = {
        "version": "1",
        "title": "Generated households",
        "rows_about": str(households),
        "unit": {"table": "households", "max_members": "8"},
        "tables": {
            "households": {
                "key": "id",
                "columns": {
                    "region": {"type": "category", "levels": [*map(str, range(5))]},
                    "income": {"type": "ordinal", "levels": [*map(str, range(4))]},
                    "owned": {"type": "category", "levels": ["0", "1"]},
                    "rooms": {"type": "integer", "min": "1", "max": "6", "bins": "6"},
                },
            },
            "persons": {
                "key": "nr",
                "parent": "households",
                "link": "id",
                "columns": {
                    "age": {"type": "integer", "min": "0", "max": "99", "bins": "10"},
                    "sex": {"type": "category", "levels": ["1", "2"]},
                    "state": {"type": "category", "levels": ["1", "2", "3", "4"]},
                    "job": {"type": "category", "levels": [*map(str, range(7))]},
                },
            },
        },
    }
    keys = np.arange(households)
    tables = {
        "households": pd.DataFrame(
            {
                "id": keys,
                "region": region,
                "income": income,
                "owned": owned.astype(int),
                "rooms": rooms,
            }
        ),
        "persons": pd.DataFrame(
            {
                "id": keys[of],
                "nr": place + 1,
                "age": age.astype(int),
                "sex": sex,
                "state": state,
                "job": job,
            }
        ),
    }
    return schema, tables


def write(folder: Path) -> None:
    """Write the demo's two files: 2,000 generated households and their persons.

    Args:
        folder: An existing folder; it gets `households.csv.gz` and `persons.csv.gz`.
    """
    _, tables = generated(2_000, seed=25)
    for name, frame in tables.items():
        text = frame.rename(columns=NAMES).to_csv(index=False)
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


class Coded:
    """Households and persons as codes, and their tables of two columns.

    Args:
        schema: Schema of the linked tables.
        tables: The two frames, in the file's values or the synthetic sets'.
    """

    def __init__(self, schema: Schema, tables: Frames) -> None:
        linked = schema.linked
        assert linked is not None
        homes = tables[linked.households].reset_index(drop=True)
        persons = tables[linked.persons]
        place = pd.Series(homes.index, index=homes[linked.key].astype(str))
        household = place.loc[persons[linked.link].astype(str)].to_numpy()
        order = np.argsort(household, kind="stable")
        self.household = household[order]
        self.size = np.bincount(self.household, minlength=len(homes))
        self.homes = {n: _codes(schema, n, homes[n]) for n in linked.household_columns}
        self.persons = {n: _codes(schema, n, persons[n])[order] for n in linked.person_columns}
        self.sizes = {n: schema.column(n).size for n in (*self.homes, *self.persons)}

    def tables(self) -> dict[tuple[str, str, str], NDArray[np.float64]]:
        """Return the normalised tables of all pairs, by kind and columns."""
        found = {}
        for a, b in itertools.combinations(self.homes, 2):
            found[KINDS[0], a, b] = self._table(a, b, self.homes[a], self.homes[b])
        for a, b in itertools.combinations(self.persons, 2):
            found[KINDS[1], a, b] = self._table(a, b, self.persons[a], self.persons[b])
        for a, b in itertools.product(self.homes, self.persons):
            found[KINDS[2], a, b] = self._table(
                a, b, self.homes[a][self.household], self.persons[b]
            )
        one, two, weight = self._pairs()
        for a, b in itertools.combinations_with_replacement(self.persons, 2):
            found[KINDS[3], a, b] = self._table(
                a, b, self.persons[a][one], self.persons[b][two], weight
            )
        return found

    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        start = np.cumsum(self.size) - self.size
        ones, twos, weights = [], [], []
        for size in range(2, int(self.size.max()) + 1):
            homes = start[self.size == size]
            for i, j in itertools.permutations(range(size), 2):
                ones.append(homes + i)
                twos.append(homes + j)
                weights.append(np.full(homes.size, 1 / (size * (size - 1))))
        return np.concatenate(ones), np.concatenate(twos), np.concatenate(weights)

    def _table(
        self,
        a: str,
        b: str,
        one: NDArray[np.int64],
        two: NDArray[np.int64],
        weight: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        many = self.sizes[b]
        cells = np.bincount(one * many + two, weights=weight, minlength=self.sizes[a] * many)
        return np.asarray(cells / cells.sum(), dtype=np.float64)


def _codes(schema: Schema, name: str, values: pd.Series) -> NDArray[np.int64]:
    column = schema.column(name)
    if column.levels:
        labels = dict(column.texts())
        labels |= {level.label: at for at, level in enumerate(column.levels)}
        return values.astype(str).map(labels).fillna(column.bins).to_numpy(np.int64)
    edges = np.array([float(edge) for edge in column.edges[1:-1]])
    codes = np.searchsorted(edges, values.to_numpy(np.float64), side="right")
    return np.where(values.isna(), column.bins, codes).astype(np.int64)


def distances(real: Coded, other: Coded) -> dict[str, float]:
    """Return the mean total variation distance of each kind."""
    kinds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    others = other.tables()
    for key, table in real.tables().items():
        kinds[key[0]].append(float(np.abs(table - others[key]).sum()) / 2)
    return {kind: float(np.mean(found)) for kind, found in kinds.items()}


def baselines(schema: Schema, tables: Frames, rng: np.random.Generator) -> dict[str, Frames]:
    """Return tables made of the file itself, without any noise."""
    linked = schema.linked
    assert linked is not None
    homes, persons = (tables[name] for name in (linked.households, linked.persons))
    drawn = homes.sample(len(homes), replace=True, random_state=rng.integers(1 << 31))
    drawn = drawn.assign(_new=np.arange(len(drawn)))
    members = persons.merge(drawn[[linked.key, "_new"]], left_on=linked.link, right_on=linked.key)
    names = list(linked.person_columns)
    alone = persons.copy()
    alone[names] = persons[names].to_numpy()[rng.permutation(len(persons))]
    given = persons.copy()
    sizes = persons.groupby(linked.link)[linked.link].transform("size")
    joined = persons[[linked.link]].merge(
        homes[[linked.key, *linked.household_columns]], left_on=linked.link, right_on=linked.key
    )
    joined["_size"] = sizes.to_numpy()
    values = persons[names].to_numpy()
    mixed = values.copy()
    for places in joined.groupby([*linked.household_columns, "_size"]).indices.values():
        mixed[places] = values[rng.permutation(places)]
    given[names] = mixed
    return {
        "bootstrap of households": {
            linked.households: drawn.assign(**{linked.key: drawn["_new"]}),
            linked.persons: members.assign(**{linked.link: members["_new"]}),
        },
        "members given household columns": {linked.households: homes, linked.persons: given},
        "persons independent": {linked.households: homes, linked.persons: alone},
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", nargs="+", default=["1", "4"])
    parser.add_argument("--mode", nargs="+", default=["posterior", "shared"])
    parser.add_argument("--sets", type=int, default=5, help="sets of a posterior release")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--households", type=int, default=20_000)
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--tables", nargs=2, type=Path, metavar=("HOUSEHOLDS", "PERSONS"))
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the demo's files only")
    asked = parser.parse_args()
    if asked.write:
        write(asked.write)
        return
    stated: Any
    if asked.schema:
        stated = dp.read_schema(asked.schema)
        linked = stated.linked
        names = (linked.households, linked.persons)
        tables = {
            name: pd.read_csv(path, dtype=str, keep_default_na=False)
            for name, path in zip(names, asked.tables, strict=True)
        }
    else:
        stated, tables = generated(asked.households, seed=1)
    schema = dp.read_schema(stated)
    real = Coded(schema, tables)
    print(f"{real.size.size:,} households, {real.household.size:,} persons; mean TVD by kind")
    print(f"{'':34}" + "".join(f"{kind:>20}" for kind in KINDS))
    for name, made in baselines(schema, tables, np.random.default_rng(1)).items():
        _row(name, distances(real, Coded(schema, made)))
    for epsilon, mode in itertools.product(asked.epsilon, asked.mode):
        found, seconds = [], []
        sets = asked.sets if mode == "posterior" else 1
        for repeat in range(asked.repeats):
            began = time.process_time()
            release = dp.release(
                tables, schema, epsilon=epsilon, delta=DELTA, mode=mode, sets=sets, seed=repeat + 1
            )
            seconds.append(time.process_time() - began)
            found.append(distances(real, Coded(schema, release.sets[0])))
        mean = {kind: float(np.mean([each[kind] for each in found])) for kind in KINDS}
        _row(f"epsilon {epsilon}, {mode}, {sets} sets", mean)
        print(f"{'':34}{np.mean(seconds):.1f} CPU s a release")


def _row(name: str, found: Mapping[str, float]) -> None:
    print(f"{name:34}" + "".join(f"{found[kind]:20.4f}" for kind in KINDS), flush=True)


if __name__ == "__main__":
    main()
