"""Reads `totals`: published numbers of records by level, which every synthetic set meets.

An item names one column, with the total of each level as a mapping
(`{north: 12000, south: 30400}`), as rows (`[[north, 12000], [south, 30400]]`) or as a CSV file with
the header `column,total`; and its `source`. Totals that no records can have together, because of
impossible combinations, are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Schema
from dp_core.schema.reading.calibration_reader import (
    MOST_CELLS,
    levelled_column,
    stated_cells,
    tied_columns,
)
from dp_core.schema.reading.level_reader import code_texts, level_names, read_level
from dp_core.schema.structure.public_totals import MOST_RECORDS, PublicTotals, decisive
from dp_core.tables.nested_columns import NestedColumns
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

SOURCE = "source"
_SHOWN = 5  # levels that an error names
_EXAMPLE = '- {county: {north: 12000, south: 30400}, source: "Census 2021, Table 3"}'


_MOST_POSSIBLE = 1 << 17
"""Most possible combinations of a linear program, after levels that can occur with the same levels
of the other columns are merged."""
_ROUNDING = 1e-6
"""Fraction of all records by which a table may miss the totals: the precision of the solver."""
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]


def read_totals(
    node: Node, schema: Schema, folder: Path | None, faults: Faults
) -> tuple[PublicTotals, ...]:
    """Return the public totals.

    Args:
        node: List of totals.
        schema: The schema, with its columns and structural zeros.
        folder: Folder of the schema file; None for a plain mapping.
        faults: Notes each fault of an item.

    Raises:
        BadInput: if there are none, or two lists contradict each other.
    """
    items = node.items(example=_EXAMPLE)
    if not items:
        raise node.error(f"has no totals; add some, such as {_EXAMPLE}.")
    found: dict[str, PublicTotals] = {}
    places: dict[str, Node] = {}
    for item in faults.items(node, example=_EXAMPLE):
        read = faults.of(None, _read_item, item, schema, folder, found)
        if read is not None:
            found[read.column], places[read.column] = read, item
    if len(found) == len(items):
        for one, other in pairwise(found.values()):
            if one.records != other.records:
                raise places[other.column].error(
                    f"the totals of {quote(other.column)} add up to {other.records:,}, but those of"
                    f" {quote(one.column)} to {one.records:,}; make them agree."
                )
        _check_nested(found, places, schema)
        check_possible(tuple(found.values()), places, schema)
    return tuple(found.values())


def check_possible(
    totals: Sequence[PublicTotals], places: Mapping[str, Node], schema: Schema
) -> None:
    """Refuse totals that no records can have together, because of impossible combinations.

    Args:
        totals: Public totals whose sums agree.
        places: Items of the document, by column.
        schema: The schema, with its structural zeros.

    Raises:
        BadInput: if a contradiction is found; see `contradiction`.
    """
    found = contradiction(totals, schema)
    if len(found) == 1:
        (name,) = found
        (stated,) = (each for each in totals if each.column == name)
        labels, possible = schema.column(name).code_labels(), _possible((name,), schema)
        assert possible is not None  # or there would be no contradiction
        codes = np.flatnonzero(~possible & (np.array(stated.counts) > 0))[:_SHOWN]
        levels = ", ".join(quote(labels[code]) for code in codes)
        raise places[name].error(
            f"no record can have {name} = {levels}, because of combinations that the schema calls"
            " impossible; write 0 as the total, or correct the rules."
        )
    if found:
        *others, last = found
        told = "".join(f" and those of {quote(name)}" for name in others)
        raise places[last].error(
            f"no records have these totals{told}, because of combinations that the schema calls"
            " impossible; correct the totals or the rules."
        )


def totals_document(schema: Schema) -> list[dict[str, object]]:
    """Return totals as a schema states them, level by level."""
    return [
        {
            each.column: [
                [text, str(count)]
                for text, count in zip(
                    code_texts(schema.column(each.column)), each.counts, strict=True
                )
            ],
            SOURCE: each.source,
        }
        for each in schema.totals
    ]


def _read_item(
    item: Node, schema: Schema, folder: Path | None, before: Mapping[str, PublicTotals]
) -> PublicTotals:
    keys = item.entries(example=_EXAMPLE[2:])
    columns = [name for name in keys if name != SOURCE]
    if len(columns) != 1:
        raise item.error(
            f"must name one column with its totals, and `source`, such as {_EXAMPLE[2:]}."
        )
    name = columns[0]
    if SOURCE not in keys:
        raise item.error(
            f"the key 'source' is missing beside {quote(name)}; name the publication that states"
            " the totals. Counts of the confidential file itself are not public."
        )
    source = keys[SOURCE].name().strip()
    if name in before:
        raise item.error(f"repeats the totals of {quote(name)}; keep one of the two lists.")
    column = levelled_column(item, schema, name)
    if name not in schema.domain.columns:
        raise item.error(
            f"{quote(name)} follows another column; state the totals of the column that it follows."
        )
    counts: dict[int, int] = {}
    words, labels = level_names(column), column.code_labels()
    possible = ~schema.zeros.mask(schema.domain.project((name,)))
    for (text,), total in stated_cells(keys[name], (name,), folder):
        code = read_level(total, text, column, words)
        if code in counts:
            raise total.error(f"the total of {quote(text)} is given twice; remove one.")
        counts[code] = total.integer(minimum=0, maximum=MOST_RECORDS)
    for code, label in enumerate(labels):
        if code not in counts:
            missing = code == column.missing_code
            raise keys[name].error(
                f"there is no total for {'`missing`' if missing else quote(label)}; add it, or"
                " write 0 if no record of a set may have this level."
            )
        if counts[code] and not possible[code]:
            raise keys[name].error(
                f"{quote(label)} is impossible under the schema's rules; write 0 as its total."
            )
    records = sum(counts.values())
    if not 1 <= records <= MOST_RECORDS:
        raise keys[name].error(
            f"the totals add up to {records:,}, but a set has 1 to {MOST_RECORDS:,} records;"
            " correct them."
        )
    return PublicTotals(name, tuple(counts[code] for code in range(len(labels))), source)


def _check_nested(
    found: Mapping[str, PublicTotals], places: Mapping[str, Node], schema: Schema
) -> None:
    """Refuse totals of smaller areas that do not add up to those of the larger ones."""
    nested: NestedColumns | None = schema.domain.nested
    if nested is None:
        return
    for upper, lower in pairwise(name for name in nested.columns if name in found):
        wanted, counts = found[upper].counts, np.array(found[lower].counts, dtype=np.int64)
        sums = np.zeros(len(wanted), dtype=np.int64)
        np.add.at(sums, nested.map(upper, lower), counts)
        off = np.flatnonzero(sums != np.array(wanted))
        if off.size:
            code = int(off[0])
            label = schema.column(upper).code_labels()[code]
            raise places[lower].error(
                f"the totals of {quote(lower)} within {upper} = {quote(label)} add up to"
                f" {sums[code]:,}, but the total of {quote(label)} is {wanted[code]:,}; make them"
                " agree."
            )


def contradiction(totals: Sequence[PublicTotals], schema: Schema) -> tuple[str, ...]:
    """Return columns whose totals no records can have together; empty if none are found.

    Args:
        totals: Public totals whose sums agree.
        schema: The schema; of linked tables, the flat or the wide one.

    Returns:
        As few columns as possible, in the order of the totals.
    """
    by_name = {each.column: each for each in decisive(totals, schema.domain.nested)}
    tied = [
        tuple(name for name in by_name if _own(name, schema) in part)
        for part in schema.zeros.blocks(schema.domain)
    ]
    for size in range(1, max(map(len, tied), default=0) + 1):
        for names in (each for part in tied for each in itertools.combinations(part, size)):
            possible = _possible(names, schema)
            if possible is None or possible.all():
                continue
            if not _can_be_met(possible, [np.array(by_name[name].counts) for name in names]):
                return names
    return ()


def _own(name: str, schema: Schema) -> str:
    """Return the column that rules name instead: the smallest areas in place of larger ones."""
    nested = schema.domain.nested
    return nested.lowest if nested is not None and name in nested.columns else name


def _possible(names: Sequence[str], schema: Schema) -> Flags | None:
    """Return which combinations of columns can occur; None if there are too many.

    Args:
        names: Columns, of which at most one is among nested ones.
        schema: The schema.
    """
    own = [_own(name, schema) for name in names]
    if schema.domain.size(tuple(own)) > MOST_CELLS:
        return None
    every = tied_columns(own, schema)
    cells = ~schema.zeros.mask(schema.domain.project(every))
    found: Flags = np.logical_or.reduce(cells, axis=tuple(range(len(own), len(every))))
    for axis, (name, lowest) in enumerate(zip(names, own, strict=True)):
        if name != lowest:
            # A larger area can occur with a level if one of its smallest areas can.
            nested = schema.domain.nested
            assert nested is not None
            inside = np.moveaxis(found, axis, 0)
            summed = np.zeros((schema.domain.size((name,)), *inside.shape[1:]), dtype=bool)
            np.logical_or.at(summed, nested.map(name, lowest), inside)
            found = np.moveaxis(summed, 0, axis)
    return found


def _can_be_met(possible: Flags, totals: Sequence[Counts]) -> bool:
    """Return whether a nonnegative table of these possible cells has these sums.

    Args:
        possible: Which cells are possible, one axis for each column.
        totals: Sums for each level, by column.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    sums = [*totals]
    for axis, wanted in enumerate(sums):
        possible, sums[axis] = _merge_levels(possible, axis, wanted)
    cells = np.argwhere(possible)
    if len(cells) > _MOST_POSSIBLE:
        return True
    number = np.arange(len(cells))
    of_levels = vstack(
        [
            csr_array((np.ones(len(cells)), (codes, number)), shape=(wanted.size, len(cells)))
            for codes, wanted in zip(cells.T, sums, strict=True)
        ]
    )
    # Each sum may be missed at a cost, so the program has a solution; its cost decides.
    missed = eye_array(of_levels.shape[0])
    records = int(totals[0].sum())
    solved = linprog(
        np.concatenate([np.zeros(len(cells)), np.ones(2 * of_levels.shape[0])]),
        A_eq=hstack([of_levels, missed, -missed]),
        b_eq=np.concatenate(sums) / records,
        method="highs",
    )
    return not (solved.status == 0 and solved.fun > max(0.5 / records, _ROUNDING))


def _merge_levels(possible: Flags, axis: int, wanted: Counts) -> tuple[Flags, Counts]:
    """Return cells and sums after levels that can occur with the same other levels are merged.

    Levels without records are left out.
    """
    slices = np.moveaxis(possible, axis, 0)[wanted > 0]
    flat = np.packbits(slices.reshape(len(slices), -1), axis=1)
    _, first, of = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    sums = np.zeros(first.size, dtype=np.int64)
    np.add.at(sums, of.reshape(-1), wanted[wanted > 0])
    return np.moveaxis(slices[first], 0, axis), sums
