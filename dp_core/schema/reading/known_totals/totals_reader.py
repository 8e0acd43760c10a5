"""Reads `totals`: published numbers of records by level, which every synthetic set meets.

An item names one column, with the total of each level as a mapping
(`{north: 12000, south: 30400}`), as rows (`[[north, 12000], [south, 30400]]`) or as a CSV file with
the header `column,total`; and its `source`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from dp_core.errors import nearest
from dp_core.schema.definition import MISSING_LABEL, Column, Schema
from dp_core.schema.reading.known_totals.calibration_reader import stated_cells
from dp_core.schema.reading.known_totals.possible_totals import contradiction, impossible_levels
from dp_core.schema.reading.level_reader import check_public, level_names, read_level
from dp_core.tables.nested_columns import NestedColumns
from dp_core.tables.public_totals import MOST_RECORDS, PublicTotals
from dp_core.text.documents.faults import Faults, names_any
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

SOURCE = "source"
_SHOWN = 5  # levels that an error names
_EXAMPLE = '- {county: {north: 12000, south: 30400}, source: "Census 2021, Table 3"}'


def read_totals(
    node: Node,
    schema: Schema,
    folder: Path | None,
    faults: Faults,
    bad: Collection[str],
) -> tuple[PublicTotals, ...]:
    """Return the public totals.

    Args:
        node: List of totals.
        schema: The schema, with its columns and structural zeros.
        folder: Folder of the schema file; None for a plain mapping.
        faults: Notes each fault of an item.
        bad: Columns with faults of their own; nothing that names them is judged.

    Raises:
        BadInput: if there are none, or two lists contradict each other.
    """
    items = node.items(example=_EXAMPLE)
    if not items:
        raise node.error(f"has no totals; add some, such as {_EXAMPLE}.")
    found: dict[str, PublicTotals] = {}
    places: dict[str, Node] = {}
    for item in items:
        if names_any(item, bad):
            continue
        read = faults.of(None, _read_item, item, schema, folder, found)
        if read is not None:
            found[read.column], places[read.column] = read, item
    if len(found) == len(items):
        _check_sums(tuple(found.values()), places)
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
        labels = schema.column(name).code_labels()
        levels = ", ".join(
            shown(labels[code]) for code in impossible_levels(stated, schema)[:_SHOWN]
        )
        raise places[name].error(
            f"no record can have {name} = {levels}, because of combinations that the schema calls"
            " impossible; write 0 as the total, or correct the rules."
        )
    if found:
        *others, last = found
        told = "".join(f" and those of {shown(name)}" for name in others)
        raise places[last].error(
            f"no records have these totals{told}, because of combinations that the schema calls"
            " impossible; correct the totals or the rules."
        )


def refuse_of_persons(places: Mapping[str, Node], persons: Collection[str]) -> None:
    """Refuse totals of a column of persons of linked tables, whose records are households.

    Args:
        places: Items of the document, by column.
        persons: Columns of the table of persons.

    Raises:
        BadInput: if a list names one of them.
    """
    for name, item in places.items():
        if name in persons:
            raise item.error(
                f"{shown(name)} is a column of persons, but totals of linked tables count"
                " households; name a column of households, or remove this list."
            )


def totals_document(schema: Schema) -> list[dict[str, object]]:
    """Return totals as a schema states them, level by level."""
    return [
        {
            each.column: [
                [text, str(count)]
                for text, count in zip(_texts(schema.column(each.column)), each.counts, strict=True)
            ],
            SOURCE: each.source,
        }
        for each in schema.totals
    ]


def _texts(column: Column) -> list[str]:
    texts = [level.text for level in column.levels]
    return texts if column.missing_code is None else [*texts, MISSING_LABEL]


def _read_item(
    item: Node, schema: Schema, folder: Path | None, before: Mapping[str, PublicTotals]
) -> PublicTotals:
    keys = item.entries(example=_EXAMPLE[2:])
    columns = [name for name in keys if name != SOURCE]
    if len(columns) != 1:
        several = " A list cannot state totals of combinations of columns." * ("columns" in keys)
        raise item.error(
            f"must name one column with its totals, and `source`, such as {_EXAMPLE[2:]}.{several}"
        )
    name = columns[0]
    if SOURCE not in keys:
        inner = keys[name].content
        names = level_names(schema.column(name)) if name in schema.domain.columns else ()
        is_level = any(SOURCE in words for words in names)
        if isinstance(inner, Mapping) and SOURCE in inner and not is_level:
            raise inner[SOURCE].error(
                f"stands among the totals of {shown(name)}; move it one level up, beside"
                f" `{name}`, as in {_EXAMPLE[2:]}."
            )
        raise item.error(
            "the key 'source' is missing; name the publication that states the totals. Counts of"
            " the confidential file itself are not public."
        )
    source = keys[SOURCE].name().strip()
    if name in before:
        raise item.error(f"repeats the totals of {shown(name)}; keep one of the two lists.")
    column = _levelled(item, schema, name)
    counts: dict[int, int] = {}
    words, labels = level_names(column), column.code_labels()
    for (text,), total in stated_cells(keys[name], (name,), folder):
        code = read_level(total, text, column, words)
        if code in counts:
            raise total.error(f"the total of {shown(text)} is given twice; remove one.")
        counts[code] = total.integer(minimum=0, maximum=MOST_RECORDS)
    for code, label in enumerate(labels):
        if code not in counts:
            missing = code == column.missing_code
            raise keys[name].error(
                f"there is no total for {'`missing`' if missing else shown(label)}; add it, or"
                " write 0 if no record of a set may have this level."
            )
    possible = ~schema.zeros.mask(schema.domain.project((name,)))
    for code, label in enumerate(labels):
        if counts[code] and not possible[code]:
            raise keys[name].error(
                f"{shown(label)} is impossible under the schema's rules; write 0 as its total."
            )
    records = sum(counts.values())
    if not 1 <= records <= MOST_RECORDS:
        raise keys[name].error(
            f"the totals add up to {records:,}, but a set has 1 to {MOST_RECORDS:,} records;"
            " correct them."
        )
    return PublicTotals(name, tuple(counts[code] for code in range(len(labels))), source)


def _levelled(item: Node, schema: Schema, name: str) -> Column:
    if name not in schema.domain.columns:
        if name in schema.names:
            raise item.error(
                f"{shown(name)} follows another column; state the totals of the column that it"
                " follows."
            )
        known = schema.domain.columns
        raise item.error(f"there is no column {shown(name)}.{nearest(name, known)}")
    column = schema.column(name)
    check_public(item, column, "no public total can name them")
    if not column.levels:
        raise item.error(
            f"{shown(name)} is not a category or an ordinal, so it has no levels to count; name a"
            " column that has."
        )
    return column


def _check_sums(totals: Sequence[PublicTotals], places: Mapping[str, Node]) -> None:
    for one, other in pairwise(totals):
        if one.records != other.records:
            raise places[other.column].error(
                f"the totals of {shown(other.column)} add up to {other.records:,}, but those of"
                f" {shown(one.column)} to {one.records:,}; make them agree."
            )


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
                f"the totals of {shown(lower)} within {upper} = {shown(label)} add up to"
                f" {sums[code]:,}, but the total of {shown(label)} is {wanted[code]:,}; make them"
                " agree."
            )
