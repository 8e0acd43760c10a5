"""Compiles a schema, and the budget of a release, to the document that the kernel reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dp_core.accounts.requested import plain_unit
from dp_core.kernel.document import NAME, VERSION
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.rules.column_rules import CONDITIONS, Condition


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
    return {
        "format": {"name": NAME, "version": VERSION},
        "release": release,
        "neighbours": neighbours,
        **file_document(schema.stored),
        "currency": dict(currency),
        "stages": dict(costs),
        "extensions": list(extensions),
    }


def file_document(schema: Schema) -> dict[str, Any]:
    """Return the part of a document by which a file is coded in the codes of a schema.

    `dp_core.schema.rules.file_rules` reads it. Public totals are not in it: they change no code.
    """
    return {
        "unit": plain_unit(schema.unit),
        "records": _records(schema),
        "columns": [coding_document(column) for column in schema.columns],
        "dependents": [
            {
                "column": coding_document(each.column),
                "source": each.source,
                "codes": list(each.codes),
                "cuts": [str(cut) for cut in each.cuts],
            }
            for each in schema.dependents
        ],
        "rules": _rules(schema),
    }


def _rules(schema: Schema) -> dict[str, Any]:
    """Return the rules between columns, by which cells are set to missing and files refused."""
    nested = schema.domain.nested
    return {
        "impossible": [
            {"text": rule.text, "columns": list(rule.columns), "codes": _plain(rule.codes)}
            for rule in schema.zeros.rules
            if not rule.derived
        ],
        "between": [
            {name: value for name, value in _fields(rule).items() if name != "equalities"}
            for rule in schema.rules
        ],
        "nested": None if nested is None else _fields(nested),
        "members": [_fields(rule) for rule in schema.member_rules],
    }


def _fields(one: Any) -> dict[str, Any]:
    """Return the fields of an object as plain values, by name."""
    return {each.name: _plain(getattr(one, each.name)) for each in dataclasses.fields(one)}


def _plain(value: Any) -> Any:
    """Return tuples as lists, mappings and fields as objects, and exact numbers as texts."""
    if isinstance(value, Condition):
        word = next(word for word, kind in CONDITIONS.items() if type(value) is kind)
        return {"kind": word, **_fields(value)}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return str(value) if isinstance(value, Fraction) else value


def _records(schema: Schema) -> dict[str, Any]:
    """Return what a record is made of."""
    if schema.linked is not None:
        found = _fields(schema.linked)
        unread = ("household_ignore", "person_ignore", "rules")
        return {"of": "households", **{name: found[name] for name in found if name not in unread}}
    if schema.panel is None:
        return {"of": "rows"}
    waves = _fields(schema.panel)
    del waves["required"]  # the rules say so, too
    return {"of": "panel", **waves}


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
