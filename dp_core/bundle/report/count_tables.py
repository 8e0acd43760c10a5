"""Counts with margins of error for the report: published tables, and a chosen cross-tabulation.

Both come from all noisy tables together, like the answers of `dp-release query`, and are bounded in
size: a release can have thousands of tables, or tables of millions of cells.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dp_core.kernel.counting.domain import Clique
from dp_core.methods.reconstruction.estimates.functional_noise import cells
from dp_core.methods.reconstruction.estimates.pooled_functionals import is_determined
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.schema.definition import Schema

MOST_CELLS = 200
"""Most cells of a table that the report lists."""
MOST_LISTED = 6000
"""Most cells of all tables that it lists."""
MOST_COLUMNS = 40
"""Most columns among which a cross-tabulation can be chosen."""
MOST_CROSSED = 1500
"""Most cells of a cross-tabulation."""
MOST_STORED = 60_000
"""Most counts that are stored in the page for all cross-tabulations."""


@dataclass(frozen=True, slots=True)
class CountRow:
    """A row of a table: the labels of its codes, and a count for each code of the last column."""

    labels: tuple[str, ...]
    counts: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class CountTable:
    """A table of counts with one margin of error.

    Attributes:
        name: Its columns.
        down: Columns that name the rows.
        across: Labels of the columns of numbers; a single one, "Records" or "Households", for a
            table of one column.
        over: Name of the column across; empty for a table of one column.
        margin: Half of the width of the 95 % interval of each count, records.
        rows: The counts, rounded; None for an impossible combination.
    """

    name: str
    down: tuple[str, ...]
    across: tuple[str, ...]
    over: str
    margin: int
    rows: tuple[CountRow, ...]


@dataclass(frozen=True, slots=True)
class CountTables:
    """The counts in the report.

    Attributes:
        listed: Published tables with their counts.
        left_out: Number of published tables that are too large to be listed.
        crossed: Counts of pairs of columns for the cross-tabulation, as JSON text that cannot end
            the element that contains it; empty if no pair is determined.
        columns: Names of the columns that can be chosen.
        more_columns: Number of columns that cannot be chosen.
    """

    listed: tuple[CountTable, ...]
    left_out: int
    crossed: str
    columns: tuple[str, ...]
    more_columns: int

    @property
    def any(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.listed or self.left_out or self.crossed)


def count_tables(pooled: Pooled, schema: Schema) -> CountTables:
    """Return the counts that the report shows.

    Args:
        pooled: All measurements of the release.
        schema: The schema as written, not on a grid.
    """
    wanted = {table.clique for table in pooled.tables if table.clique} | {*pooled.interactions}
    cliques = sorted(wanted, key=lambda each: (len(each), pooled.domain.axes(each)))
    listed: list[CountTable] = []
    room, left_out = MOST_LISTED, 0
    for clique in cliques:
        size = pooled.domain.size(clique)
        if size > min(MOST_CELLS, room):
            left_out += is_determined(pooled, clique)
        elif (found := _rounded_counts(pooled, schema, clique)) is not None:
            listed.append(_table(schema, clique, *found))
            room -= size
    names = pooled.domain.columns[:MOST_COLUMNS]
    crossed = _pair_counts(pooled, schema, names)
    return CountTables(
        listed=tuple(listed),
        left_out=left_out,
        crossed=_json_in_html(crossed) if crossed["pairs"] else "",
        columns=names,
        more_columns=len(pooled.domain.columns) - len(names),
    )


@cache
def script() -> tuple[str, str]:
    """Return the page's script, and the source by which its policy admits this script only."""
    text = (Path(__file__).parent / "crosstab.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return text, f"'sha256-{digest}'"


def _rounded_counts(
    pooled: Pooled, schema: Schema, clique: Clique
) -> tuple[list[int | None], int] | None:
    """Return the rounded counts of a table and their margin; None if they are not determined.

    All cells of a table have the same margin, because their noise differs by a permutation only.
    Areas within areas have different margins: their table has the largest of them.
    """
    found = cells(pooled, clique)
    if found is None:
        return None
    counts, margin = found[0], float(found[1].max())
    none = schema.zeros.mask(pooled.domain.project(clique)).ravel()
    rounded = [
        None if impossible else int(count)
        for impossible, count in zip(none, np.rint(counts).ravel(), strict=True)
    ]
    return rounded, math.ceil(margin - 1e-9)


def _table(schema: Schema, clique: Clique, counts: list[int | None], margin: int) -> CountTable:
    labels = [schema.column(name).code_labels() for name in clique]
    name = " × ".join(clique)
    if len(clique) == 1:
        single = tuple(
            CountRow((label,), (count,)) for label, count in zip(labels[0], counts, strict=True)
        )
        counted = "Records" if schema.linked is None else "Households"
        return CountTable(name, clique, (counted,), "", margin, single)
    width = len(labels[-1])
    rows = tuple(
        CountRow(codes, tuple(counts[place * width : (place + 1) * width]))
        for place, codes in enumerate(itertools.product(*labels[:-1]))
    )
    return CountTable(name, clique[:-1], labels[-1], clique[-1], margin, rows)


def _pair_counts(pooled: Pooled, schema: Schema, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the counts of single columns and of pairs, by places in `names`.

    Each is a margin and the rounded counts, null for an impossible combination. A pair that is too
    large has no counts; one that is not determined is not there.
    """
    room = MOST_STORED
    ones: list[list[Any] | None] = []
    pairs: dict[str, list[Any]] = {}
    for name in names:
        found = (
            _rounded_counts(pooled, schema, (name,))
            if pooled.domain.size((name,)) <= room
            else None
        )
        ones.append(None if found is None else [found[1], found[0]])
        room -= len(found[0]) if found else 0
    for (one, first), (two, second) in itertools.combinations(enumerate(names), 2):
        pair, size = (first, second), pooled.domain.size((first, second))
        if not is_determined(pooled, pair):
            continue
        found = _rounded_counts(pooled, schema, pair) if size <= min(MOST_CROSSED, room) else None
        pairs[f"{one} {two}"] = [] if found is None else [found[1], found[0]]
        room -= size if found else 0
    labels = {name: schema.column(name).code_labels() for name in names}
    columns = [{"name": name, "labels": labels[name]} for name in names]
    unit = "records" if schema.linked is None else "households"
    return {"unit": unit, "columns": columns, "ones": ones, "pairs": pairs}


def _json_in_html(value: Mapping[str, Any]) -> str:
    """Return JSON in which no text can end the element or begin another one."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
