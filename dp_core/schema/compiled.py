"""Compiles a schema, and the budget of a release, to the document that the kernel reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.kernel.document import A_ROW, NAME, VERSION, ProtectedUnit
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema


def kernel_document(
    schema: Schema,
    *,
    release: str,
    neighbours: str,
    currency: Mapping[str, str],
    costs: Mapping[str, str],
) -> dict[str, Any]:
    """Return the document of a release, as plain values.

    Args:
        schema: Schema of the release.
        release: Its name.
        neighbours: Which files are neighbours.
        currency: The currency as plain values, with its total.
        costs: Budget of each stage.
    """
    return {
        "format": {"name": NAME, "version": VERSION},
        "release": release,
        "neighbours": neighbours,
        "unit": unit_of(schema).to_json(),
        "columns": [coding_document(column) for column in schema.stored.columns],
        "currency": dict(currency),
        "stages": dict(costs),
    }


def unit_of(schema: Schema) -> ProtectedUnit:
    """Return who is protected in a file of the schema."""
    unit, panel, linked = schema.unit, schema.panel, schema.linked
    missing = unit.missing_values
    if linked is not None:
        return ProtectedUnit(unit.word, linked.key, unit.most, missing)
    if panel is not None:
        return ProtectedUnit("person", panel.person, 1, missing, (panel.waves[0], panel.waves[-1]))
    if unit.column is None:
        return A_ROW
    return ProtectedUnit("person", unit.column, unit.max_rows, missing)


def coding_document(column: Column) -> dict[str, Any]:
    """Return the rule by which a column's values become codes, as plain values.

    `dp_core.kernel.coding.coding_rule` reads it.
    """
    document: dict[str, Any] = {
        "name": column.name,
        "codes": column.size,
        "missing": column.missing,
        "missing_values": list(column.missing_values),
        "out_of_range": column.out_of_range,
    }
    if column.levels:
        texts: list[list[str]] = [[] for _ in column.levels]
        for text, level in column.texts().items():
            texts[level].append(text)
        return document | {"kind": "levels", "levels": texts}
    low, high = legal_range(column)
    return document | {
        **column.scale.coding(column.format),
        "low": str(low),
        "high": str(high),
        "edges": [str(edge) for edge in column.edges],
    }
