"""Encoders of the schema's columns, and rules between columns. Confidential side.

In a row that breaks an `impossible` rule or a rule between columns, the last column of the rule
that has a missing level and `out_of_range: missing` is set to missing. If there is none, or the row
still breaks the rule, the row is refused. (A combination has no nearest legal value, so `clip`
cannot apply.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.coding.coding_rule import CodingRule, coding_rule
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.coding.raw_values import Array
from dp_core.schema.compiled import coding_document
from dp_core.schema.definition import Column
from dp_core.schema.rules.column_rules import RuleRows
from dp_core.schema.rules.file_rules import FileRules, Rules, file_rules
from dp_core.schema.rules.row_rules import RowRule

FIRST_ROWS = 5
"""Most rows that are named as examples of a broken rule."""


class Encoder(RuleEncoder):
    """Encodes batches of one column of the schema."""

    def __init__(self, column: Column) -> None:
        super().__init__(coding_rule(coding_document(column)))


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
    schema: Rules,
    codes: Mapping[str, Array],
    units: Mapping[str, NDArray[np.int64]] | None = None,
    fixed: Collection[str] = (),
) -> list[BrokenRule]:
    """Set a column to missing in rows that break a rule, where the schema says so.

    Rules are the structural zeros that the schema states, its rules between columns, and that a
    level lies in the level of another column: those over the given columns alone.

    Args:
        schema: The rules of the file.
        codes: Codes of columns, each of shape (rows,); changed in place.
        units: Values that rules between columns compare, as `RuleCheck.units` returns them; None
            (the default) if the schema has no such rules.
        fixed: Columns that no rule sets to missing; none by default. A rule over these alone is
            left out.

    Returns:
        The rules that were broken.
    """
    rules, names = file_rules(schema), {*codes}
    among = [
        rule
        for rule in rules.row_rules
        if names.issuperset(rule.columns) and not {*rule.columns} <= {*fixed}
    ]
    if not among:
        return []
    rows = rule_rows(rules, codes, units or {})
    settled = [0] * len(among)
    left = [np.zeros(0, dtype=np.intp)] * len(among)
    # Setting a column to missing can break another rule about missing, so there are several passes.
    for _ in range(len(among) + 1):
        changed = False
        for number, rule in enumerate(among):
            broken = np.flatnonzero(rule.breaks(rows))
            left[number] = broken
            column = _settling_column(rule, rules, fixed) if broken.size else None
            if column is not None:
                own = codes[column.name]
                moving = broken[own[broken] != column.missing_code]
                own[moving] = column.missing_code
                rows.missing[column.name][moving] = True
                settled[number] += moving.size
                changed |= moving.size > 0
        if not changed:
            break
    return [
        BrokenRule(rule, found.size, moved, tuple(found[:FIRST_ROWS].tolist()))
        for rule, found, moved in zip(among, left, settled, strict=True)
        if found.size or moved
    ]


def rule_rows(
    rules: FileRules, codes: Mapping[str, Array], units: Mapping[str, NDArray[np.int64]]
) -> RuleRows:
    """Return rows as rules between columns see them.

    Args:
        rules: The rules of the file.
        codes: Codes of columns of the domain, each of shape (rows,).
        units: Values that rules compare, as `RuleCheck.units` returns them.
    """
    missing = {
        column.name: codes[column.name] == column.missing_code
        for column in rules.columns
        if column.name in codes and column.missing_code is not None
    }
    return RuleRows(codes, missing, units, len(next(iter(codes.values()))))


def _settling_column(
    rule: RowRule[Any], rules: FileRules, fixed: Collection[str]
) -> CodingRule | None:
    """Return the last column of a rule that a policy may set to missing; None if none may."""
    for name in reversed(rule.columns):
        column = rules.column(name)
        if name not in fixed and column.out_of_range == "missing" and column.missing == "level":
            return column
    return None
