"""A project of two linked tables: homes and the people in them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from dp_core.kernel.cost.composition import Terms
from tests.flows.conftest import Project
from tests.linked_release import frames

SCHEMA = """\
version: 1
title: Households of a town
unit: {table: homes, max_members: 4}
rows_about: 300
tables:
  homes:
    key: home
    columns:
      tenure: {type: category, levels: {1: own, 2: rent}}
      income: {type: ordinal, levels: {1: low, 2: middle, 3: high}}
    ignore: [street]
  people:
    key: nr
    parent: homes
    link: home_id
    columns:
      age:  {type: integer, min: 0, max: 99, edges: [0, 18, 65, 100]}
      work: {type: category, levels: {1: employed, 2: not employed}}
impossible:
  - {age: "<18", work: [employed]}
"""
DATA = "{homes: homes.csv, people: people.csv}"
SHARES = 12
"""Of every household, with at most 4 members."""
HOUSEHOLDS = 300


def tables(households: int = HOUSEHOLDS) -> dict[str, pd.DataFrame]:
    """Return the two tables as texts; `street` is ignored."""
    found = {name: frame.astype(str) for name, frame in frames(households).items()}
    found["homes"]["street"] = "Main street"
    return found


def write_tables(folder: Path, found: Mapping[str, pd.DataFrame]) -> None:
    """Write the tables as CSV files."""
    for name, frame in found.items():
        frame.to_csv(folder / f"{name}.csv", index=False)


def linked_project(folder: Path, home: Path, **terms: Any) -> Project:
    """Return a project with both tables as CSV, and an open account that protects households."""
    folder.mkdir(parents=True, exist_ok=True)
    project = Project(folder, home, {})
    write_tables(folder, tables())
    (folder / "town.schema.yaml").write_text(SCHEMA)
    write_linked_spec(project)
    usual = {"unit": "household", "terms": Terms("basic", Fraction(2000), Fraction("1e-5"))}
    project.open_account(**(usual | terms))
    return project


def write_linked_spec(project: Project, text: str = "", **changes: str) -> None:
    """Write the spec of two sets; `text` is added to it, and a change replaces a line's value."""
    usual = {"data": DATA, "synthesize": "{sets: 2}"}
    project.write_spec(text, **(usual | changes))
