"""Accuracy of a file with a column of 10,000 levels, with and without merging its rare levels.

The file is generated (nobody's data): seven columns of 4 to 12 levels, and a column `code` whose
levels have Zipf shares (exponent 1). Two of the seven depend on the code: each code has a level of
its own in both, which 7 in 10 of its records have. The others form chains. The error is the mean
total variation distance over all pairs of columns, always at the level of the file's own codes,
and over the pairs with `code`. The time is the CPU of the release in memory.

    python benchmarks/many_levels.py
    python benchmarks/many_levels.py --rows 20000 --kept 100 --runs 1
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np

SIZES = (4, 6, 12, 5, 8, 10, 4)
LEVELS = 10_000
ROWS = (20_000, 200_000)
KEPT = (100, 400, 1_500)
WITH_CODE = (0, 4)
"""Columns that depend on `code`."""
FOLLOWS = 0.7


def make_codes(rows: int, seed: int) -> np.ndarray:
    """Return generated records, shape (columns, rows); `code` is the last column."""
    # The population is the same for every seed; the file is a sample of it.
    rng, population = np.random.default_rng(seed), np.random.default_rng(5)
    shares = 1 / np.arange(1, LEVELS + 1)
    code = rng.choice(LEVELS, rows, p=shares / shares.sum())
    columns: list[np.ndarray] = []
    for number, size in enumerate(SIZES):
        own = rng.choice(size, rows, p=population.dirichlet(np.full(size, 3.0)))
        if number in WITH_CODE:
            usual = population.choice(size, LEVELS)
            own = np.where(rng.random(rows) < FOLLOWS, usual[code], own)
        elif number:
            shift = population.permutation(max(size, SIZES[number - 1]))
            own = np.where(rng.random(rows) < 0.5, shift[columns[-1]] % size, own)
        columns.append(own)
    return np.stack([*columns, code]).astype(np.uint16)


def make_spec(folder: Path, rows: int, kept: int, method: str) -> Path:
    """Write a schema and a spec; return the spec's path.

    Args:
        folder: Where to write.
        rows: Number of rows.
        kept: Levels of `code` to keep, whose others are drawn again; 0 to carry all levels.
        method: Preset.
    """
    lines = [
        f"  c{number}: {{type: category, levels: [{', '.join(f'v{at}' for at in range(size))}]}}"
        for number, size in enumerate(SIZES)
    ]
    every = ", ".join(f"v{at}" for at in range(LEVELS))
    its = f"levels: [{every}]"
    if kept:
        its = f"levels: {{private: {kept}, rest: drawn}}, groups: {{codes: [{every}]}}"
    lines.append(f"  code: {{type: category, {its}}}")
    head = f"version: 1\ntitle: Generated\nrows_about: {rows}\ncolumns:\n"
    (folder / "schema.yaml").write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    (folder / "data.csv").touch()
    spec = folder / "release.yaml"
    spec.write_text(
        "version: 1\nrelease: generated\ndata: data.csv\nschema: schema.yaml\naccount: a\n"
        f"privacy: {{epsilon: 1, delta: 1e-9}}\nmethod: {method}\nsynthesize: {{sets: 1}}\n",
        encoding="utf-8",
    )
    return spec


def released(rows: int, kept: int, method: str, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the file and the set of one release, in the file's codes, and CPU seconds."""
    from dp_core.confidential.memory_counter import MemoryCounter
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.plan.plan import make_plan
    from dp_core.plan.procedure import carry_out, decode_piece, sample
    from dp_core.schema.decoding import codes_of
    from tasks.run.earlier_releases import load_release

    with tempfile.TemporaryDirectory() as scratch:
        plan = make_plan(load_release(make_spec(Path(scratch), rows, kept, method)))
    schema = plan.spec.schema
    data = Dataset(schema.stored.domain, make_codes(rows, seed))
    start = time.process_time()
    outcome = carry_out(plan, MemoryCounter(data))
    table = decode_piece(outcome.plan, sample(outcome.plan, outcome.models, 1), 1, 0)
    spent = time.process_time() - start
    stored = schema.stored.columns
    drawn = [codes_of(one, table.column(one.name).combine_chunks()) for one in stored]
    return data.codes, np.stack(drawn), spent


def errors(data: np.ndarray, drawn: np.ndarray) -> tuple[float, float]:
    """Return the mean TVD over all pairs of columns, and over those with `code`."""
    sizes = (*SIZES, LEVELS)
    found = {}
    for one, two in itertools.combinations(range(len(sizes)), 2):
        tables = [
            np.bincount(codes[one].astype(np.int64) * sizes[two] + codes[two],
                        minlength=sizes[one] * sizes[two]) / codes.shape[1]
            for codes in (data, drawn)
        ]  # fmt: skip
        found[one, two] = float(np.abs(tables[0] - tables[1]).sum()) / 2
    code = [error for (_, two), error in found.items() if two == len(SIZES)]
    return float(np.mean([*found.values()])), float(np.mean(code))


def main() -> None:
    """Print a table, one line per variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--kept", type=int, nargs="*", default=KEPT)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print("   rows  method          kept   all pairs  with code    CPU s")
    variants = [("independent", 0), ("auto", 0), *(("auto", kept) for kept in options.kept)]
    for rows in options.rows:
        limit = _resampled(rows)
        print(f"{rows:7,}  {'another sample':22}{limit[0]:10.4f}{limit[1]:11.4f}", flush=True)
        for method, kept in variants:
            runs = []
            for seed in range(options.runs):
                data, drawn, spent = released(rows, kept, method, seed)
                runs.append((*errors(data, drawn), spent))
            mean = np.mean(runs, axis=0)
            shown = str(kept) if kept else "all"
            print(
                f"{rows:7,}  {method:14}{shown:>8}{mean[0]:10.4f}{mean[1]:11.4f}{mean[2]:9.1f}",
                flush=True,
            )


def _resampled(rows: int) -> tuple[float, float]:
    """Return the errors of another sample of the same population: what no release can beat."""
    return errors(make_codes(rows, 0), make_codes(rows, 1_000))


if __name__ == "__main__":
    main()
