"""Reads the survey weights of a schema: the column of that role, and the totals of `calibrate`.

A margin is one of

- `{sex: {male: 1200000, female: 1300000}}`: totals by the levels of one column;
- `{columns: [sex, region], totals: ...}`: totals by several columns, as nested mappings
  (`{male: {north: 1, south: 2}, ...}`), rows (`[[male, north, 1], ...]`), or a CSV file with the
  columns' names and `total` in its header;
- a number: the total of all weights.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from dp_core.errors import nearest
from dp_core.schema.bin_pieces import exact_text
from dp_core.schema.definition import Column, Margin, Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.reading.code_list_reader import read_table
from dp_core.schema.reading.level_reader import check_public, code_texts, level_names, read_level
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

TOLERANCE = 1e-9
"""Relative difference up to which two totals count as equal."""
MOST_CELLS = 1 << 20
"""Most cells that are enumerated for some totals."""
_EXAMPLE = "- {sex: {male: 1200000, female: 1300000}}"


def read_margins(node: Node, schema: Schema, folder: Path | None) -> tuple[Margin, ...]:
    """Return the margins of `calibrate`.

    Args:
        node: List of margins.
        schema: The schema, with its columns and structural zeros.
        folder: Folder of the schema file; None for a plain mapping.

    Raises:
        BadInput: if there is no column of weights, a margin does not state every total, or two
            margins contradict each other.
    """
    if schema.weight is None:
        raise node.error("needs a column of weights; add `role: weight` to a number column.")
    found: list[Margin] = []
    complete: list[Margin] = []
    for item in node.items(example=_EXAMPLE):
        margin = _margin(item, schema, folder)
        if any(set(margin.columns) == set(other.columns) for other in found):
            raise item.error("repeats the columns of an earlier margin; keep one of them.")
        reachable = _reachable(margin, schema)
        if reachable is not None:
            _check_complete(item, margin, schema, reachable)
        if reachable is None or reachable <= {codes for codes, _ in margin.totals}:
            _check_agree(item, margin, complete, schema)
            complete.append(margin)
        found.append(margin)
    if not found:
        raise node.error(f"has no totals; add some, such as {_EXAMPLE}.")
    names = {name for margin in found for name in margin.columns}
    if math.prod(schema.column(name).size for name in names) >= 2**62:
        raise node.error("has too many columns with too many levels; use fewer columns.")
    return tuple(found)


def margins_document(margins: Sequence[Margin], schema: Schema) -> list[dict[str, object]]:
    """Return margins as a schema states them, in exact numbers."""

    def texts_of(names: Sequence[str], codes: Sequence[int]) -> list[str]:
        pairs = zip(names, codes, strict=True)
        return [code_texts(schema.column(name))[code] for name, code in pairs]

    return [
        {
            "columns": list(margin.columns),
            "totals": [
                [*texts_of(margin.columns, codes), exact_text(total)]
                for codes, total in margin.totals
            ],
        }
        for margin in margins
    ]


def _margin(item: Node, schema: Schema, folder: Path | None) -> Margin:
    if not isinstance(item.content, Mapping):
        return Margin((), (((), item.fraction(above=0)),))
    if set(item.content) == {"columns", "totals"}:
        names = item.content["columns"].texts(example="[sex, region]")
        where = item.content["totals"]
    elif len(item.content) == 1:
        ((name, where),) = item.content.items()
        names = (name,)
    else:
        raise item.error(
            f"must be one column with its totals, such as {_EXAMPLE[2:]}, or have the keys columns"
            " and totals."
        )
    columns = [levelled_column(item, schema, name) for name in names]
    totals: dict[tuple[int, ...], Fraction] = {}
    for words, total in stated_cells(where, names, folder):
        codes = tuple(
            read_level(total, word, column, level_names(column))
            for word, column in zip(words, columns, strict=True)
        )
        if codes in totals:
            raise total.error(f"the total of {', '.join(words)} is given twice.")
        totals[codes] = total.fraction(above=0)
    return Margin(names, tuple(sorted(totals.items())))


def levelled_column(item: Node, schema: Schema, name: str) -> Column:
    """Return a column with public levels, whose totals an item of a document states."""
    if name not in schema.names:
        raise item.error(f"there is no column {quote(name)}.{nearest(name, schema.names)}")
    column = schema.column(name)
    if not column.levels:
        raise item.error(
            f"{quote(name)} is not a category or an ordinal, so it has no levels to count; name a"
            " column that has."
        )
    check_public(item, column, "no public total can name them")
    return column


def stated_cells(
    node: Node, names: Sequence[str], folder: Path | None
) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield the levels and the total of each cell.

    Args:
        node: The totals, in one of the forms that the module states.
        names: Columns of the cells.
        folder: Folder of the schema file; None for a plain mapping.
    """
    if isinstance(node.content, str) and names:
        for line, cells, name in read_table(node, folder, (*names, "total"), "table of totals"):
            yield cells[:-1], Node(cells[-1], name, line)
    elif isinstance(node.content, tuple):
        for row in node.content:
            items = row.items(example="[male, north, 600000]")
            if len(items) != len(names) + 1:
                raise row.error(f"has {len(items)} values; write {', '.join(names)} and the total.")
            yield tuple(one.text() for one in items[:-1]), items[-1]
    else:
        yield from _nested_totals(node, len(names))


def _nested_totals(node: Node, depth: int) -> Iterator[tuple[tuple[str, ...], Node]]:
    if depth == 0:
        yield (), node
        return
    for word, inner in node.entries(example="{male: 1200000, female: 1300000}").items():
        for words, total in _nested_totals(inner, depth - 1):
            yield (word, *words), total


def tied_columns(names: Collection[str], schema: Schema) -> tuple[str, ...]:
    """Return columns, and those that rules link to them, as far as cells can be enumerated."""
    found = list(dict.fromkeys(names))
    rules = [rule.columns for rule in schema.zeros.rules]
    while True:
        near = {name for columns in rules if {*columns} & {*found} for name in columns}
        for name in sorted(near - {*found}, key=lambda name: schema.domain.size((name,))):
            if schema.domain.size((*found, name)) <= MOST_CELLS:
                found.append(name)
                break
        else:
            return tuple(found)


def _reachable(margin: Margin, schema: Schema) -> set[tuple[int, ...]] | None:
    """Return the cells that rows can have; None if there are too many to enumerate."""
    origins = [origin(schema, name) for name in margin.columns]
    names = tuple(dict.fromkeys(name for name, _ in origins))
    if schema.domain.size(names) > MOST_CELLS:
        return None
    domain = schema.domain.project(tied_columns(names, schema))
    possible = np.argwhere(~schema.zeros.mask(domain))
    cells = [codes[possible[:, domain.columns.index(name)]] for name, codes in origins]
    if not cells:
        return {()}
    return {tuple(cell) for cell in np.unique(np.stack(cells, axis=1), axis=0).tolist()}


def _check_complete(
    item: Node, margin: Margin, schema: Schema, reachable: set[tuple[int, ...]]
) -> None:
    totals = dict(margin.totals)
    missing = [schema.column(name).missing_code for name in margin.columns]
    for codes in sorted(reachable):
        if codes not in totals and not any(map(operator.eq, codes, missing)):
            raise item.error(f"the total of {_cell(margin, codes, schema)} is missing; add it.")
    for codes in totals:
        if codes not in reachable:
            raise item.error(
                f"{_cell(margin, codes, schema)} cannot occur under the schema; remove its total."
            )


def _check_agree(item: Node, margin: Margin, complete: Sequence[Margin], schema: Schema) -> None:
    """Refuse totals whose sums differ from those of an earlier margin with all its totals."""
    for other in complete:
        shared = tuple(name for name in margin.columns if name in other.columns)
        mine, theirs = _margin_of(margin, shared), _margin_of(other, shared)
        for codes, total in mine.items():
            against = theirs.get(codes, Fraction(0))
            if abs(total - against) > TOLERANCE * max(total, against):
                of = _cell(Margin(shared, ()), codes, schema) if shared else "all rows"
                raise item.error(
                    f"the totals of {of} add up to {exact_text(total)} here and to"
                    f" {exact_text(against)} under"
                    f" {' and '.join(other.columns) or 'the total of all rows'}; make them agree."
                )


def _margin_of(margin: Margin, shared: Sequence[str]) -> dict[tuple[int, ...], Fraction]:
    found: dict[tuple[int, ...], Fraction] = {}
    for codes, total in margin.totals:
        by_name = dict(zip(margin.columns, codes, strict=True))
        key = tuple(by_name[name] for name in shared)
        found[key] = found.get(key, Fraction(0)) + total
    return found


def _cell(margin: Margin, codes: Sequence[int], schema: Schema) -> str:
    labels = (
        f"{name} = {schema.column(name).code_labels()[code]!r}"
        for name, code in zip(margin.columns, codes, strict=True)
    )
    return ", ".join(labels)
