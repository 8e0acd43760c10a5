"""Combinations of codes in which no values obey a rule, as structural zeros.

A clause excludes a combination of bins if all its conditions hold for all values in these bins. The
combinations form a staircase, which is written as few boxes: every box is as large as possible, and
a column whose codes are all in the box is left out. So methods that handle structural zeros handle
rules, also where a table has only some columns of a rule.

A rule that compares columns with very many combinations is coarsened: neighbouring bins are joined,
which excludes fewer combinations and never too many. The repair of synthetic codes
(`dp_core.schema.rules.possible_codes`) finds the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Column, Schema
from dp_core.schema.rules.column_rules import AtMost, Clause, ColumnRule, Condition
from dp_core.schema.rules.unit_bounds import (
    MOST_NUMBER_UNITS,
    MOST_UNITS,
    UnitBounds,
    codes_that_hold,
    unit_bounds,
    units_by_column,
)
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros

MOST_CELLS = 40_000
"""Most combinations of bins, or of joined bins, that are examined for a clause."""
MOST_BOXES = 1_000
"""Most boxes of a clause; the smallest ones are left out."""


def with_excluded_boxes(schema: Schema, rules: tuple[ColumnRule, ...]) -> StructuralZeros:
    """Return the structural zeros of a schema: those it states, and those that follow from rules.

    Args:
        schema: The schema as written; its bins may be chosen or not. Boxes of earlier rules are
            replaced.
        rules: All its rules between columns.
    """
    zeros = [rule for rule in schema.zeros.rules if not rule.derived]
    for rule in rules:
        columns = {name: schema.column(name) for name in rule.columns}
        bounds = {
            name: unit_bounds(columns[name], units)
            for name, units in units_by_column(rule.units).items()
        }
        boxes = [box for clause in rule.clauses for box in _boxes(clause, columns, bounds)]
        found: dict[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]], None] = {}
        for box in boxes:
            kept = {name: codes for name, codes in box.items() if len(codes) < columns[name].size}
            if kept:
                found[tuple(kept), tuple(kept.values())] = None
        zeros += (Rule(names, codes, rule.text, derived=True) for names, codes in found)
    return StructuralZeros(tuple(zeros))


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
    bounds = {each.column: unit_bounds(columns[each.column], each) for each in rule.units}
    for clause in rule.clauses:
        for condition in clause:
            if isinstance(condition, AtMost):
                most = {
                    name: max(
                        abs(int(bounds[name].low[0])),
                        abs(int(bounds[name].high[columns[name].bins - 1])),
                    )
                    for name, _ in condition.terms
                }
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


def _verdict(
    condition: Condition, columns: Mapping[str, Column], bounds: Mapping[str, UnitBounds]
) -> bool | None:
    """Return whether a condition holds for every record (true), for none (false), or neither."""
    if not isinstance(condition, AtMost) or len(condition.terms) == 1:
        sure, able = codes_that_hold(condition, columns[condition.columns[0]], bounds)
        return bool(sure[0]) if sure.all() or not able.any() else None
    ends = {
        name: (bounds[name].low[0], bounds[name].high[columns[name].bins - 1])
        for name, _ in condition.terms
    }
    if sum(factor * ends[name][factor < 0] for name, factor in condition.terms) > condition.bound:
        return False
    most = sum(factor * ends[name][factor > 0] for name, factor in condition.terms)
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


def _boxes(
    clause: Clause, columns: Mapping[str, Column], bounds: Mapping[str, UnitBounds]
) -> list[dict[str, tuple[int, ...]]]:
    """Return boxes whose rows all meet all conditions; codes by column."""
    fixed: dict[str, NDArray[np.bool_]] = {}
    joint: list[AtMost] = []
    for condition in clause:
        if isinstance(condition, AtMost) and len(condition.terms) > 1:
            joint.append(condition)
            continue
        (name,) = condition.columns
        held, _ = codes_that_hold(condition, columns[name], bounds)
        fixed[name] = fixed.get(name, np.ones(columns[name].size, bool)) & held
    if not all(held.any() for held in fixed.values()):
        return []
    plain = {name: tuple(np.flatnonzero(held).tolist()) for name, held in fixed.items()}
    if not joint:
        return [plain]
    names = list(dict.fromkeys(name for each in joint for name, _ in each.terms))
    present = [
        np.flatnonzero(fixed.get(name, np.ones(columns[name].bins, bool))[: columns[name].bins])
        for name in names
    ]
    if not all(codes.size for codes in present):  # a column would have to be missing, and compared
        return []
    groups = _groups(present)
    impossible = np.ones([len(group) for group in groups], dtype=bool)
    for condition in joint:
        most = np.zeros([1] * len(names), dtype=np.int64)
        for name, factor in condition.terms:
            axis = names.index(name)
            ends = bounds[name].high if factor > 0 else bounds[name].low
            outer = np.max if factor > 0 else np.min
            largest = np.array([factor * outer(ends[group]) for group in groups[axis]])
            most = most + largest.reshape([-1 if at == axis else 1 for at in range(len(names))])
        impossible &= most <= condition.bound
    boxes = _covering_boxes(impossible)
    boxes.sort(key=lambda box: -np.prod([float(part.size) for part in box]))
    return [
        {
            name: tuple(np.sort(np.concatenate([group[place] for place in part])).tolist())
            for name, group, part in zip(names, groups, box, strict=True)
        }
        | {name: codes for name, codes in plain.items() if name not in names}
        for box in boxes[:MOST_BOXES]
    ]


def _groups(codes: list[NDArray[np.intp]]) -> list[list[NDArray[np.intp]]]:
    """Return the codes of each column in groups, which are joined if there are too many cells."""
    sizes = [each.size for each in codes]
    while np.prod([float(size) for size in sizes]) > MOST_CELLS:
        largest = int(np.argmax(sizes))
        sizes[largest] = sizes[largest] * 3 // 4
    return [np.array_split(each, size) for each, size in zip(codes, sizes, strict=True)]


def _covering_boxes(impossible: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], ...]]:
    """Return boxes that cover exactly the impossible cells, as indices along each axis.

    Boxes may overlap; each extends along every axis as far as all its cells are impossible.
    """
    if impossible.ndim == 1:
        codes = np.flatnonzero(impossible)
        return [(codes,)] if codes.size else []
    found: dict[bytes, tuple[NDArray[np.intp], ...]] = {}
    before: NDArray[np.bool_] | None = None
    for part in impossible:
        if before is not None and np.array_equal(part, before):
            continue
        before = part
        for box in _covering_boxes(part):
            others = np.ix_(np.arange(len(impossible)), *box)
            along = impossible[others].reshape(len(impossible), -1).all(axis=1)
            whole = (np.flatnonzero(along), *box)
            found[b"|".join(each.tobytes() for each in whole)] = whole
    return list(found.values())
