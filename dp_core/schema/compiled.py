"""Compiles a schema to the plain values that the kernel reads."""

from __future__ import annotations

from typing import Any

from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column


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
