"""The releases `first` and `before` of the examples: a town of public values, with fixed noise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from dp_core.bundle.best_set import BestSet
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.reading.schema_file import load_schema
from tests.dp_core.bundle.conftest import Survey, make_published, write

SCHEMA = """\
version: 1
title: Town survey
columns:
  sex:    {type: category, levels: {1: male, 2: female}}
  age:    {type: integer, min: 0, max: 99, edges: [0, 15, 30, 45, 65, 100]}
  region: {type: category, levels: [north, south], missing: level}
  income: {type: number, min: 0, max: 1000, bins: 10, decimals: 2}
"""
RECORDS = 5000
SETS = 5  # so that combined intervals have enough degrees of freedom


def make_town(folder: Path) -> Path:
    """Write `town.schema.yaml` and two bundles into a folder; return the folder of `first`.

    `before` is an earlier wave of the town, with lower incomes and fewer people in the south.
    """
    path = folder / "town.schema.yaml"
    path.write_text(SCHEMA)
    _wave(folder, "before", seed=12, south=0.34, more=0)
    return _wave(folder, "first", seed=11, south=0.38, more=1)


def _wave(folder: Path, name: str, *, seed: int, south: float, more: int) -> Path:
    schema, rng = load_schema(folder / "town.schema.yaml"), np.random.default_rng(seed)
    sex = rng.integers(0, 2, RECORDS)
    age = np.minimum(rng.integers(0, 6, RECORDS), 4)
    region = rng.choice(3, RECORDS, p=[0.98 - south, south, 0.02])
    income = np.clip(rng.binomial(5, 0.5, RECORDS) + age - sex + (age > 1) * more, 0, 9)
    codes = np.stack([sex, age, region, income]).astype(np.uint16)
    pairs = (("sex", "age"), ("sex", "income"), ("age", "income"), ("sex", "region"))
    published, sets = make_published(
        survey=Survey(schema, Dataset(schema.domain, codes), pairs),
        mode="posterior",
        sets=SETS,
        rows=RECORDS,
        planned_rows=RECORDS,
        records=float(RECORDS),
    )
    published = dataclasses.replace(published, best=BestSet(RECORDS))
    return write(folder / name, published, sets, folder / f"scratch-{name}")
