"""Compiles a schema, and the budget of a release, to the document that the kernel reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dp_core.kernel.document import NAME, VERSION
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema


def kernel_document(
    schema: Schema,
    *,
    release: str,
    neighbours: str,
    currency: Mapping[str, str],
    costs: Mapping[str, str],
    extensions: Sequence[str],
) -> dict[str, Any]:
    """Return the document of a release, as plain values.

    Args:
        schema: Schema of the release.
        release: Its name.
        neighbours: Which files are neighbours.
        currency: The currency as plain values, with its total.
        costs: Budget of each stage.
        extensions: Questions outside the core that it may ask, in order.
    """
    stored = schema.stored
    return {
        "format": {"name": NAME, "version": VERSION},
        "release": release,
        "neighbours": neighbours,
        "unit": stored.unit.to_json(),
        "records": _records(stored),
        "columns": [coding_document(column) for column in stored.columns],
        "currency": dict(currency),
        "stages": dict(costs),
        "extensions": list(extensions),
    }


def _records(schema: Schema) -> dict[str, Any]:
    """Return what a record is made of."""
    linked, panel = schema.linked, schema.panel
    if linked is not None:
        return {
            "of": "households",
            "tables": [linked.households, linked.persons],
            "key": linked.key,
            "link": linked.link,
            "person_key": linked.person_key,
            "larger": linked.larger,
            "least": linked.min_members,
            "most": linked.max_members,
        }
    if panel is None:
        return {"of": "rows"}
    return {
        "of": "panel",
        "person": panel.person,
        "waves": list(panel.waves),
        "wave": panel.wave or "",
        "ignored": list(panel.ignore_waves),
        "repeated": panel.repeated,
        "disagreeing": panel.disagreeing,
    }


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
