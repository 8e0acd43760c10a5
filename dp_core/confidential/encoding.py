"""Encoders of the schema's columns, and rules between columns. Confidential side.

In a row that breaks an `impossible` rule or a rule between columns, the last column of the rule
that has a missing level and `out_of_range: missing` is set to missing. If there is none, or the row
still breaks the rule, the row is refused. (A combination has no nearest legal value, so `clip`
cannot apply.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.coding.coding_rule import coding_rule
from dp_core.kernel.coding.encoder import Encoder
from dp_core.kernel.coding.raw_values import Array, Reader
from dp_core.schema.compiled import coding_document
from dp_core.schema.definition import Column, Schema
from dp_core.schema.rules.column_rules import RuleRows
from dp_core.schema.rules.row_rules import RowRule, row_rules

FIRST_ROWS = 5
"""Most rows that are named as examples of a broken rule."""


def encoder_of(column: Column) -> Encoder:
    """Return the encoder of a column of the schema."""
    return Encoder(coding_rule(coding_document(column)))


def reader_of(column: Column) -> Reader:
    """Return the reader of a column of the schema."""
    return Reader(coding_rule(coding_document(column)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BrokenRule:
    """Rows that broke a rule. Confidential.

    Attributes:
        rule: The rule.
        refused: Number of rows that stop the release.
        settled: Number of rows in which a column was set to missing.
        first: The first rows that stop the release, at most `FIRST_ROWS`.
    """

    rule: RowRule[Any]
    refused: int
    settled: int
    first: tuple[int, ...] = ()


def settle_zeros(
    schema: Schema,
    codes: Sequence[Array],
    units: Mapping[str, NDArray[np.int64]] | None = None,
) -> list[BrokenRule]:
    """Set a column to missing in rows that break a rule, where the schema says so.

    Rules are the structural zeros that the schema states, its rules between columns, and that a
    level lies in the level of another column.

    Args:
        schema: The schema, with its rules.
        codes: Codes of each modelled column, shape (rows,); changed in place.
        units: Values that rules between columns compare, as `RuleCheck.units` returns them; None
            (the default) if the schema has no such rules.

    Returns:
        The rules that were broken.
    """
    rules = row_rules(schema)
    if not rules:
        return []
    rows = rule_rows(schema, codes, units or {})
    settled = [0] * len(rules)
    left = [np.zeros(0, dtype=np.intp)] * len(rules)
    # Setting a column to missing can break another rule about missing, so there are several passes.
    for _ in range(len(rules) + 1):
        changed = False
        for number, rule in enumerate(rules):
            broken = np.flatnonzero(rule.broken(rows))
            left[number] = broken
            axis = _settling_axis(rule, schema)
            if broken.size and axis is not None:
                missing = schema.columns[axis].missing_code
                moving = broken[codes[axis][broken] != missing]
                codes[axis][moving] = missing
                rows.missing[schema.columns[axis].name][moving] = True
                settled[number] += moving.size
                changed |= moving.size > 0
        if not changed:
            break
    return [
        BrokenRule(rule, found.size, moved, tuple(found[:FIRST_ROWS].tolist()))
        for rule, found, moved in zip(rules, left, settled, strict=True)
        if found.size or moved
    ]


def rule_rows(
    schema: Schema, codes: Sequence[Array], units: Mapping[str, NDArray[np.int64]]
) -> RuleRows:
    """Return rows as rules between columns see them.

    Args:
        schema: The schema of the codes.
        codes: Codes of each modelled column, shape (rows,).
        units: Values that rules compare, as `RuleCheck.units` returns them.
    """
    by_name = dict(zip(schema.domain.columns, codes, strict=True))
    missing = {
        column.name: by_name[column.name] == column.missing_code
        for column in schema.columns
        if column.missing_code is not None
    }
    return RuleRows(by_name, missing, units, len(codes[0]))


def _settling_axis(rule: RowRule[Any], schema: Schema) -> int | None:
    for axis in reversed(schema.domain.axes(rule.columns)):
        column = schema.columns[axis]
        if column.out_of_range == "missing" and column.missing_code is not None:
            return axis
    return None
