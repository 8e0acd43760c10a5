"""How near are the tables of a panel to the file, if waves are linked and if they are not?

    python benchmarks/panel.py [--repeats 3] [--persons 10000] [--epsilon 1] [--absent 0.1]

The file is generated: persons in three waves with two constant columns and four varying ones, of
which most change slowly. With `--absent` a person misses each wave with this
probability, but not all of them.

Four ways protect a person with all waves at (epsilon, 1e-9), add-remove, `method: auto`:

- `panel`: one record for each person (`panel` in the schema);
- `listed`: the same, and the spec lists the transitions under `tables`;
- `rows`: one record for each person and wave (`unit: {column: person, max_rows: 3}`), with the wave
  as a column;
- `apart`: three releases, one for each wave, each at epsilon/3 and delta/3.

It prints the mean total variation distance between the first set and the file: of the tables of one
column and of two columns within a wave, and of the transitions, which are the tables of one column
in two waves. `rows` and `apart` do not know who is who: for them, transitions are those of a person
whose waves are independent, given what they release. `bootstrap` draws persons of the file with
replacement, and has no noise of privacy.

    python benchmarks/panel.py --pivot 1000000

writes such a file as CSV, in random order, and measures how long it takes to make the records on
disk, beside pandas, which reads the file and pivots it in memory.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import pandas as pd

import dp_core as dp

WAVES = ("2023", "2024", "2025")
CONSTANT = ("sex", "school")
VARYING = ("work", "income", "health", "move")
LEVELS = {"sex": 2, "school": 4, "work": 4, "income": 8, "health": 5, "move": 2}
DELTA = 1e-9
KINDS = ("one column", "two columns", "transitions")


def generated(persons: int, seed: int, absent: float) -> pd.DataFrame:
    """Return the rows: person, wave and six columns, as codes.

    Args:
        persons: Number of persons.
        seed: Seed of the generator.
        absent: Probability that a person misses a wave.
    """
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, persons)
    school = np.clip(rng.binomial(3, 0.45, persons), 0, 3)
    work = np.where(rng.random(persons) < 0.55 + 0.1 * school, 0, rng.integers(1, 4, persons))
    pay = rng.normal(2 + 0.9 * school + 0.4 * sex, 1.1, persons)
    health = np.clip(rng.binomial(4, 0.65, persons), 0, 4)
    here = rng.random((persons, len(WAVES))) >= absent
    here[np.arange(persons), rng.integers(0, len(WAVES), persons)] = True
    parts = []
    for number, wave in enumerate(WAVES):
        if number:
            moved = rng.random(persons) < 0.15
            work = np.where(moved, rng.integers(0, 4, persons), work)
            pay = pay + rng.normal(0.15, 0.4, persons)
            health = np.clip(health + rng.choice([-1, 0, 1], persons, p=[0.15, 0.75, 0.1]), 0, 4)
        income = np.clip(np.round(np.where(work == 0, pay, pay / 2)), 0, 7).astype(int)
        part = pd.DataFrame(
            {
                "person": np.arange(persons),
                "wave": wave,
                "sex": sex,
                "school": school,
                "work": work,
                "income": income,
                "health": health,
                "move": (rng.random(persons) < 0.08 + 0.1 * (work == 1)).astype(int),
            }
        )
        parts.append(part[here[:, number]])
    return pd.concat(parts)


def schema(persons: int, *, panel: bool, everyone: bool, wave: bool = False) -> dict[str, Any]:
    """Return the schema of records, or of rows of persons; `wave` is whether it is a column."""
    columns: dict[str, Any] = {
        name: {"type": "category", "levels": [*map(str, range(levels))]}
        for name, levels in LEVELS.items()
    }
    document: dict[str, Any] = {"version": "1", "title": "A generated panel", "columns": columns}
    if panel:
        document["panel"] = {"person": "person", "wave": "wave", "waves": list(WAVES)}
        document["panel"] |= {"everyone": "true"} if everyone else {}
        document["rows_about"] = str(persons)
        for name in CONSTANT:
            columns[name]["constant"] = "true"
        return document
    document["unit"] = {"column": "person", "max_rows": str(len(WAVES) if wave else 1)}
    document["rows_about"] = str(persons * (len(WAVES) if wave else 1))
    if wave:
        columns["wave"] = {"type": "category", "levels": list(WAVES)}
    else:
        document["ignore"] = ["wave"]
    return document


def table(frame: pd.DataFrame, columns: tuple[str, ...]) -> np.ndarray:
    """Return the shares of the cells of some columns of codes."""
    sizes = [LEVELS[name.partition("_")[0]] for name in columns]
    cells = np.zeros(sizes)
    np.add.at(cells, tuple(frame[name].to_numpy() for name in columns), 1)
    return cells / max(cells.sum(), 1)


def tables(rows: pd.DataFrame, *, linked: bool) -> dict[str, dict[tuple[str, ...], np.ndarray]]:
    """Return every table of three kinds, as shares.

    Args:
        rows: Rows of persons in waves, as codes.
        linked: Whether `person` says who is who across waves; otherwise a transition is that of two
            independent waves.
    """
    found: dict[str, dict[tuple[str, ...], np.ndarray]] = {kind: {} for kind in KINDS}
    waves = {wave: rows[rows["wave"] == wave] for wave in WAVES}
    for wave, part in waves.items():
        for name in LEVELS:
            found["one column"][wave, name] = table(part, (name,))
        for pair in itertools.combinations(LEVELS, 2):
            found["two columns"][wave, *pair] = table(part, pair)
    for first, second in itertools.combinations(WAVES, 2):
        ends = waves[first], waves[second]
        both = ends[0].merge(ends[1], on="person", suffixes=("_1", "_2")) if linked else None
        for name in VARYING:
            if both is not None:
                cells = table(both, (f"{name}_1", f"{name}_2"))
            else:
                one, other = (table(waves[wave], (name,)) for wave in (first, second))
                cells = np.multiply.outer(one, other)
            found["transitions"][first, second, name] = cells
    return found


def distances(
    found: dict[str, dict[tuple[str, ...], np.ndarray]],
    exact: dict[str, dict[tuple[str, ...], np.ndarray]],
) -> dict[str, float]:
    """Return the mean total variation distance by kind."""
    return {
        kind: float(
            np.mean([np.abs(found[kind][at] - cells).sum() / 2 for at, cells in each.items()])
        )
        for kind, each in exact.items()
    }


def released(
    frame: pd.DataFrame,
    document: dict[str, Any],
    epsilon: float,
    seed: int,
    wanted: list[tuple[str, str]] | None = None,
    part: int = 1,
) -> Any:
    """Return a release in memory with one set, at epsilon and delta divided by `part`."""
    return dp.release(
        frame.astype(str),
        document,
        epsilon=epsilon / part,
        delta=DELTA / part,
        tables=wanted or (),
        sets=1,
        seed=seed,
    )


def codes_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a set with its labels as codes."""
    return frame.assign(**{name: frame[name].astype(str).astype(int) for name in LEVELS})


def one_repeat(persons: int, epsilon: float, absent: float, seed: int) -> dict[str, Any]:
    """Return the distances of each way, and its CPU seconds."""
    rows = generated(persons, seed, absent)
    exact = tables(rows, linked=True)
    found: dict[str, Any] = {}

    def note(way: str, made: pd.DataFrame, began: float, *, linked: bool) -> None:
        used = time.process_time() - began
        found[way] = distances(tables(made, linked=linked), exact) | {"CPU s": used}

    began = time.process_time()
    drawn = np.random.default_rng(seed + 1).integers(0, persons, persons)
    copies = pd.DataFrame({"person": drawn, "copy": np.arange(persons)})
    again = (
        copies.merge(rows, on="person").drop(columns="person").rename(columns={"copy": "person"})
    )
    note("bootstrap", again, began, linked=True)

    began = time.process_time()
    document = schema(persons, panel=True, everyone=not absent)
    release = released(rows, document, epsilon, seed)
    note("panel", codes_of(release.sets.waves(0)), began, linked=True)

    began = time.process_time()
    wanted = [
        (f"{name}_{first}", f"{name}_{second}")
        for first, second in itertools.combinations(WAVES, 2)
        for name in VARYING
    ]
    release = released(rows, document, epsilon, seed, wanted)
    note("listed", codes_of(release.sets.waves(0)), began, linked=True)

    began = time.process_time()
    document = schema(persons, panel=False, everyone=True, wave=True)
    release = released(rows, document, epsilon, seed)
    part = codes_of(release.sets[0])
    note("rows", part.assign(person=0, wave=part["wave"].astype(str)), began, linked=False)

    began = time.process_time()
    document = schema(persons, panel=False, everyone=True)
    parts = []
    for wave in WAVES:
        release = released(rows[rows["wave"] == wave], document, epsilon, seed, part=len(WAVES))
        parts.append(codes_of(release.sets[0]).assign(person=0, wave=wave))
    note("apart", pd.concat(parts), began, linked=False)
    return found


def pivot(persons: int) -> None:
    """Print CPU seconds and memory of making the records of a file, and those of pandas."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        rows = generated(persons, 0, 0.1).sample(frac=1, random_state=0)
        rows.to_csv(path, index=False)
        print(f"{persons:,} persons, {len(rows):,} rows, {path.stat().st_size / 1e6:.0f} MB")
        del rows
        for way in ("records", "pandas"):
            # A process of its own, so that the memory is its own.
            started = multiprocessing.get_context("spawn").Process(
                target=_pivoted, args=(way, path, Path(folder), persons)
            )
            started.start()
            started.join()


def _pivoted(way: str, path: Path, folder: Path, persons: int) -> None:
    from dp_core.confidential.panel.panel_source import PanelSource
    from dp_core.confidential.panel.row_columns import row_columns
    from dp_core.confidential.source import open_source
    from dp_core.schema.reading.schema_file import parse_schema

    before = _most_memory()
    began = time.process_time()
    if way == "records":
        known = parse_schema(schema(persons, panel=True, everyone=False))
        rows = open_source(path.name, folder, *row_columns(known))
        source = PanelSource(known, known.panel.parts, (rows,), folder / "records")
        found = sum(batch.records.num_rows for batch in source.batches())
    else:
        read = pd.read_csv(path, dtype=str)
        wide = read.pivot(index="person", columns="wave", values=list(VARYING))
        first = read.sort_values("wave").groupby("person")[list(CONSTANT)].first()
        found = len(wide.join(first.set_axis(pd.MultiIndex.from_product([CONSTANT, [""]]), axis=1)))
    used = time.process_time() - began
    memory = _most_memory() - before
    print(f"{way:<10}{found:>12,} records{used:>8.1f} CPU s{memory:>8.0f} MB more", flush=True)


def _most_memory() -> float:
    """Return the most memory of this process so far, in MB; Linux only."""
    # Not `getrusage`, which a new process inherits from the one that started it.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Print the distances, and their ratios to those of `panel`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--persons", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--absent", type=float, default=0.1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pivot", type=int, metavar="PERSONS")
    asked = parser.parse_args()
    if asked.pivot:
        pivot(asked.pivot)
        return
    each = []
    for seed in range(asked.repeats):
        each.append(one_repeat(asked.persons, asked.epsilon, asked.absent, seed))
        print(f"repeat {seed + 1} of {asked.repeats}", file=sys.stderr)
    print(
        f"{asked.persons:,} persons, {len(WAVES)} waves, {len(LEVELS)} columns, epsilon"
        f" {asked.epsilon:g}, absent {asked.absent:g}; mean of {asked.repeats} repeats"
    )
    columns = (*KINDS, "CPU s")
    print(f"{'way':<10}" + "".join(f"{name:>13}" for name in columns))
    means = {
        way: {name: np.mean([one[way][name] for one in each]) for name in columns}
        for way in each[0]
    }
    for way, values in means.items():
        shown = "".join(f"{values[name]:>13.4f}" for name in KINDS)
        print(f"{way:<10}{shown}{values['CPU s']:>13.1f}")
    for way in ("listed", "rows", "apart"):
        ratios = "".join(f"{means[way][name] / means['panel'][name]:>13.2f}" for name in KINDS)
        print(f"{way + ' / p':<10}{ratios}")


if __name__ == "__main__":
    main()
