"""Reads `tables` of a spec: the wanted tables and their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dp_core.errors import nearest
from dp_core.kernel.questions.whole_numbers import MOST_CELLS
from dp_core.methods import registry
from dp_core.methods.selection.budget.wanted_shares import MOST_PARTS
from dp_core.methods.selection.budget.workload import MOST_COLUMNS, WantedTable, worths
from dp_core.schema.definition import Schema
from dp_core.schema.dependencies import origin
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

EXAMPLE = "[{of: [sex, age], weight: 3}, {of: [income, region]}]"
_ENTRY = "{of: [sex, age], weight: 3}"
_MOST_WEIGHT = 10**6


def refuse_wanted(node: Node | None, name: str) -> None:
    """Refuse `tables` for a method that would not use it.

    Raises:
        BadInput: if there is a node, naming the methods that use it.
    """
    if node is None:
        return
    using = " or method: ".join(methods_with_workload())
    raise node.error(
        f"{name} does not divide its budget by wanted tables; use method: {using}, or remove"
        " tables."
    )


def methods_with_workload() -> tuple[str, ...]:
    """Return the selection methods that use `tables`."""

    def fields(name: str) -> set[str]:
        found: Any = registry.find("selection", name)
        return {field.name for field in dataclasses.fields(found)}

    return tuple(name for name in registry.available("selection") if "workload" in fields(name))


def read_wanted(node: Node, schema: Schema) -> tuple[WantedTable, ...]:
    """Return the wanted tables, columns in the schema's order.

    Raises:
        BadInput: for any mistakes, each with its place.
    """
    items = node.items(example=EXAMPLE)
    if not items:
        raise node.error(f"is empty; list the tables that are wanted, such as {EXAMPLE}.")
    found: list[WantedTable] = []

    def add(item: Node) -> None:
        table = _entry(_written_out(item, schema), schema)
        if any(_asks(table) == _asks(other) for other in found):
            raise item.error(
                f"the table {' x '.join(table.of)} is listed twice; remove one, or give one the sum"
                " of the weights."
            )
        found.append(table)

    faults = Faults(node.source, each=bool(node.line))
    for item in items:
        faults.of(None, add, item)
    faults.stop()
    parts = len(worths(found, schema.domain))
    if parts > MOST_PARTS:
        raise node.error(
            f"the tables have {parts:,} different margins in all, more than the {MOST_PARTS:,} that"
            " one budget is divided among; remove tables, or columns from them."
        )
    return tuple(found)


def _written_out(item: Node, schema: Schema) -> Node:
    """Return the entry as a mapping; `sex, age` and `[sex, age]` mean `{of: [sex, age]}`."""
    if isinstance(item.content, Mapping):
        return item
    of = item
    if isinstance(item.content, str):
        text = item.content
        names = [text] if text in schema.domain else [name.strip() for name in text.split(",")]
        of = replace(item, content=tuple(replace(item, content=name) for name in names))
    elif not isinstance(item.content, tuple):
        raise item.error(f"must be a mapping such as {_ENTRY}; put the columns under `of`.")
    return replace(item, content={"of": of})


def _entry(item: Node, schema: Schema) -> WantedTable:
    keys = item.fields(("of", "weight", "ranges", "prefixes"), required=("of",), example=_ENTRY)
    domain = schema.domain
    names = read_columns(keys["of"], schema)
    of = tuple(name for name in domain.columns if name in names)
    if domain.nested is not None and domain.nested.together(of):
        upper, *_, lower = (name for name in domain.nested.columns if name in of)
        raise keys["of"].error(
            f"{lower!r} lies within {upper!r} and decides it; remove {upper!r} from the table."
        )
    if len(of) > MOST_COLUMNS:
        raise keys["of"].error(
            f"has {len(of)} columns; a wanted table has at most {MOST_COLUMNS}. Remove some."
        )
    if domain.size(of) > MOST_CELLS:
        raise keys["of"].error(
            f"the table {' x '.join(of)} has {domain.size(of):,} cells, more than the maximum of"
            f" {MOST_CELLS:,}; remove a column from it, or give its columns wider bins."
        )
    if domain.size(of) == 1:
        raise keys["of"].error(
            f"{' x '.join(of)} has a single cell, which is the number of rows; name a column of two"
            " levels or more."
        )
    weight = keys["weight"].fraction(above=0, maximum=_MOST_WEIGHT) if "weight" in keys else None
    sums = {kind: _sums(keys.get(kind), kind, of, schema) for kind in ("ranges", "prefixes")}
    both = [name for name in sums["ranges"] if name in sums["prefixes"]]
    if both:
        raise keys["prefixes"].error(
            f"{quote(both[0])} is also under ranges, which contain its prefixes; remove one."
        )
    return WantedTable(
        of=of,
        weight=Fraction(1) if weight is None else weight,
        ranges=sums["ranges"],
        prefixes=sums["prefixes"],
        missing=tuple(name for name in of if schema.column(name).missing_code is not None),
    )


def read_columns(node: Node, schema: Schema) -> tuple[str, ...]:
    """Return the columns that a list names, at least one.

    Raises:
        BadInput: if one is not in the schema, is derived from another one, or is named twice.
    """
    names = node.texts(example="[sex, age]")
    if not names:
        raise node.error("names no column; write for example [sex, age].")
    sources = {dependent.column.name: dependent.source for dependent in schema.dependents}
    for item in node.items():
        name = item.text()
        if name in sources:
            raise item.error(
                f"{name!r} is derived from {sources[name]!r} and not measured; use"
                f" {origin(schema, name)[0]!r} instead."
            )
        if name not in schema.domain:
            raise item.error(
                f"there is no column {quote(name)} in the schema."
                f"{nearest(name, schema.domain.columns)}"
            )
    return names


def _sums(node: Node | None, kind: str, of: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    if node is None:
        return ()
    names = node.texts(example="[age]")
    for item in node.items():
        name = item.text()
        if name not in of:
            raise item.error(
                f"{quote(name)} is not a column of this table; `{kind}` names columns of `of`."
                f"{nearest(name, of)}"
            )
        if not schema.column(name).type.ordered:
            raise item.error(
                f"{quote(name)} is a category, whose levels have no order; {kind} need an ordinal,"
                " integer, number or date."
            )
    return tuple(name for name in of if name in names)


def _asks(table: WantedTable) -> tuple[object, ...]:
    return table.of, table.ranges, table.prefixes
