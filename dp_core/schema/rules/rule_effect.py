"""Whether a rule between columns has an effect: some possible records obey it, others do not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Column, Schema
from dp_core.schema.rules.column_rules import AtMost, Clause, ColumnRule, Condition, Units
from dp_core.schema.rules.unit_bounds import MOST_NUMBER_UNITS, MOST_UNITS, unit_bounds


def lacks_effect(rule: ColumnRule, schema: Schema) -> str:
    """Return why a rule cannot be used: nothing if some records obey it and others do not.

    Args:
        rule: The rule.
        schema: Its schema, with the columns of the rule.

    Returns:
        The end of a sentence about the rule: every record obeys it, or none, or its numbers are too
        large to be compared. Empty otherwise.
    """
    columns = {name: schema.column(name) for name in rule.columns}
    bounds = {each.column: _ends(columns[each.column], each) for each in rule.units}
    for clause in rule.clauses:
        for condition in clause:
            if isinstance(condition, AtMost):
                most = {name: max(map(abs, bounds[name])) for name, _ in condition.terms}
                sizes = [abs(factor) * most[name] for name, factor in condition.terms]
                # privacy: one value decides whether a program drops the third decimal of others.
                fine = [most.get(each.column, 0) for each in rule.units if each.decimals > 2]
                if (
                    max([sum(sizes), abs(condition.bound)]) > MOST_UNITS
                    or max(fine, default=0) > MOST_NUMBER_UNITS
                ):
                    return (
                        "compares numbers that are too large for their decimals; state fewer"
                        " decimals, or narrower bounds."
                    )
    verdicts = [[_verdict(each, columns, bounds) for each in clause] for clause in rule.clauses]
    if any(all(verdict is True for verdict in clause) for clause in verdicts):
        return "no record that the schema allows obeys this rule; correct or remove it."
    if not any(
        False not in verdict and not _contradicts(clause, columns)
        for clause, verdict in zip(rule.clauses, verdicts, strict=True)
    ):
        return (
            "every record that the schema allows obeys this rule, so it says nothing; correct or"
            " remove it."
        )
    return ""


def _ends(column: Column, units: Units) -> tuple[int, int]:
    bounds = unit_bounds(column, units)
    return int(bounds.low[0]), int(bounds.high[column.bins - 1])


def _verdict(
    condition: Condition, columns: Mapping[str, Column], bounds: Mapping[str, tuple[int, int]]
) -> bool | None:
    """Return whether a condition holds for every record (true), for none (false), or neither."""
    if not isinstance(condition, AtMost):
        (name,) = condition.columns
        held = condition.codes_of(columns[name])
        return bool(held[0]) if (held == held[0]).all() else None
    least = sum(factor * bounds[name][factor < 0] for name, factor in condition.terms)
    most = sum(factor * bounds[name][factor > 0] for name, factor in condition.terms)
    if least > condition.bound:
        return False
    present = all(columns[name].missing_code is None for name in condition.columns)
    return True if most <= condition.bound and present else None


def _contradicts(clause: Clause, columns: Mapping[str, Column]) -> bool:
    """Return whether conditions of a clause about levels and missing values exclude each other."""
    left: dict[str, NDArray[np.bool_]] = {}
    for condition in clause:
        for name in condition.columns:
            found = condition.codes_of(columns[name])
            left[name] = found & left.get(name, found)
    return not all(codes.any() for codes in left.values())
