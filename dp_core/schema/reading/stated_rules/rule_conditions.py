"""Conditions of rules between columns, from what a text or list states.

`column_rule_reader` and `rule_reader` read the words; these functions turn them into alternatives
of `dp_core.schema.rules.column_rules`, and refuse a rule without effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, floor
from typing import Literal, TypeAlias

import numpy as np

from dp_core.schema.definition import Column, Schema
from dp_core.schema.reading.level_reader import check_public
from dp_core.schema.rules.column_rules import Among, AtMost, Clause, ColumnRule, Missing, Units
from dp_core.schema.rules.excluded_boxes import lacks_effect
from dp_core.schema.rules.unit_bounds import codes_that_hold, unit_bounds
from dp_core.text.documents.node import Node

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_MOST_CLAUSES = 200

Alternatives: TypeAlias = tuple[Clause, ...]
"""A condition as alternatives: it is met if all parts of one of them are."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A condition that was read.

    Attributes:
        met: Rows that meet it.
        broken: Rows that break it; a row with a missing value may do neither.
        columns: Columns that it names.
        units: Units of the columns that it compares.
        equality: Terms and value of the sum, if it says that a sum of several columns has a value.
    """

    met: Alternatives
    broken: Alternatives
    columns: tuple[str, ...]
    units: tuple[Units, ...] = ()
    equality: tuple[tuple[tuple[str, int], ...], int] | None = None


def join_conditions(node: Node, parts: Sequence[Alternatives]) -> list[Clause]:
    """Return the alternatives of conditions that are all met, given the alternatives of each.

    Raises:
        BadInput: if there are too many.
    """
    number = 1
    for part in parts:
        number *= max(len(part), 1)
    if number > _MOST_CLAUSES:
        raise node.error("has too many alternatives; write it as several rules.")
    return [
        tuple(dict.fromkeys(each for clause in chosen for each in clause))
        for chosen in product(*parts)
    ]


def comparison(
    node: Node,
    text: str,
    columns: Sequence[Column],
    terms: tuple[tuple[str, int], ...],
    sign: str,
    value: Fraction,
) -> Stated:
    """Return a comparison of a sum with a constant, in whole units.

    Args:
        node: Where it is written, for messages.
        text: The rule, for messages.
        columns: The columns of the sum.
        terms: Their names and factors, 1 or -1.
        sign: The comparison.
        value: The constant.
    """
    units = tuple(units_of(column) for column in columns)
    decimals = max(each.decimals for each in units)
    scaled = tuple(
        (name, factor * 10 ** (decimals - each.decimals))
        for (name, factor), each in zip(terms, units, strict=True)
    )
    value *= 10**decimals
    names = tuple(name for name, _ in terms)
    least = AtMost(scaled, ceil(value) - 1).opposite  # at least the value
    most = AtMost(scaled, floor(value))
    above, below = most.opposite, least.opposite
    exact = value.denominator == 1
    if sign in ("==", "!=") and not exact:
        raise node.error(
            f"compares with a number that has more decimals than the columns of `{text}`; correct"
            " it."
        )
    met: dict[str, Alternatives] = {
        "<": ((below,),),
        "<=": ((most,),),
        ">": ((above,),),
        ">=": ((least,),),
        "==": ((most, least),),
        "!=": ((below,), (above,)),
    }
    equality = (scaled, int(value)) if sign == "==" and len(terms) > 1 else None
    return Stated(met[sign], met[_NEGATED[sign]], names, units, equality)


def by_bin(node: Node, column: Column, sign: str, value: Fraction) -> Stated:
    """Return a comparison of a number with a bin edge; its `decimals` do not matter."""
    check_public(node, column, "a number without `decimals` has no threshold among them")
    if sign not in ("<", ">="):
        other = {"<=": "write < instead of <=", ">": "write >= instead of >"}.get(sign)
        raise node.error(
            f"the bins of {column.name!r} contain their lower edge and not their upper one;"
            f" {other or 'compare by < or >='}. Rules compare a number with `decimals` exactly."
        )
    if value not in column.edges:
        text = column.scale.text
        below = [edge for edge in column.edges if edge < value]
        above = [edge for edge in column.edges if edge > value]
        near = " and ".join(map(text, (*below[-1:], *above[:1])))
        raise node.error(
            f"needs a bin edge of column {column.name!r} at {text(value)}; the nearest edges are"
            f" {near}. Rules compare a number with `decimals` exactly."
        )
    cut = column.edges.index(value)
    below_it = AtMost(((column.name, 1),), cut - 1)
    met, broken = ((below_it,),), ((below_it.opposite,),)
    both = (met, broken) if sign == "<" else (broken, met)
    return Stated(*both, (column.name,), (units_of(column),))


def of_codes(column: Column, codes: set[int]) -> Alternatives:
    """Return the condition that a column of the domain has one of some codes."""
    found: list[Clause] = []
    if column.missing_code in codes:
        found.append((Missing(column.name, True),))
    own = sorted(code for code in codes if code < column.bins)
    if column.levels:
        return (*found, (Among(column.name, tuple(own)),)) if own else tuple(found)
    bounds = unit_bounds(column, units_of(column))
    starts = [code for code in own if code - 1 not in codes]
    for first in starts:
        last = first
        while last + 1 in codes and last + 1 < column.bins:
            last += 1
        low, high = int(bounds.low[first]), int(bounds.high[last])
        name = column.name
        found.append((AtMost(((name, 1),), high), AtMost(((name, -1),), -low)))
    return tuple(found)


def decided_codes(node: Node, met: Alternatives, column: Column) -> set[int]:
    """Return the codes of a column that meet a condition about this column alone.

    Raises:
        BadInput: if some values of a bin meet it and others do not.
    """
    units = () if column.levels else (units_of(column),)
    bounds = {each.column: unit_bounds(column, each) for each in units}
    found: set[int] = set()
    for clause in met:
        codes = {*range(column.size)}
        for condition in clause:
            sure, able = codes_that_hold(condition, column, bounds)
            if (divided := np.flatnonzero(sure != able)).size:
                ends = column.edges[divided[0] : divided[0] + 2]
                raise node.error(
                    f"needs a bin edge of column {column.name!r} within the bin between"
                    f" {' and '.join(map(column.scale.text, ends))}; state the edge, or move the"
                    " value to one of these."
                )
            codes &= {*np.flatnonzero(sure).tolist()}
        found |= codes
    return found


def units_of(column: Column) -> Units:
    """Return the units in which rules compare an integer, number or date column."""
    if column.type.continuous and column.decimals is None:
        return Units(column.name, edges=column.edges)
    return Units(column.name, decimals=column.decimals or 0)


def rule_of(
    node: Node,
    schema: Schema,
    text: str,
    clauses: Iterable[Clause],
    stated: Sequence[Stated],
    *,
    key: Literal["rules", "impossible"] = "rules",
) -> ColumnRule:
    """Return a rule that some records of the schema obey and others do not.

    Args:
        node: Where it is written, for messages.
        schema: The schema, with all columns.
        text: The rule.
        clauses: A row breaks the rule if all conditions of one of them hold.
        stated: The conditions from which they are made.
        key: Key of the schema under which it is written.

    Raises:
        BadInput: if every record obeys it, or none, or its numbers are too large to be compared.
    """
    rule = ColumnRule(
        text=text,
        key=key,
        columns=tuple(dict.fromkeys(name for said in stated for name in said.columns)),
        clauses=tuple(dict.fromkeys(clauses)),
        units=tuple(dict.fromkeys(each for said in stated for each in said.units)),
    )
    if problem := lacks_effect(rule, schema):
        raise node.error(problem)
    return rule
