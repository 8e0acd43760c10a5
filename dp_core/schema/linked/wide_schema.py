"""The schema of the wide domain, from the columns and rules of the two tables. Public."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import prod

from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.kernel.document import ProtectedUnit
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.linked.linked_tables import NO_OTHER, LinkedTables, other
from dp_core.schema.linked.member_counts import zeros_of_counts
from dp_core.schema.rules.column_rules import AtMost, ColumnRule
from dp_core.schema.rules.excluded_boxes import MOST_CELLS
from dp_core.schema.rules.unit_bounds import codes_that_hold, unit_bounds, units_by_column
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros


def widen_schema(flat: Schema, linked: LinkedTables, missing_values: tuple[str, ...]) -> Schema:
    """Return the schema of the wide domain.

    Args:
        flat: Schema of the household columns, `members` and the person columns, in this order, with
            its rules. Its document is kept.
        linked: The two tables.
        missing_values: Texts of the files that mean a missing key.

    Returns:
        The same schema with the columns of another member. A structural zero over person columns
        also holds for another member; rules between columns are unchanged. Rules that count members
        have structural zeros, too. If households may be without members, person columns have a code
        for no member, and structural zeros for it.

    Raises:
        BadInput: if the rules that count members leave no household possible, or are too many.
    """
    persons = set(linked.person_columns)
    others = tuple(other_column(flat.column(name)) for name in linked.person_columns)
    also = tuple(
        replace(rule, columns=tuple(other(n) if n in persons else n for n in rule.columns))
        for rule in flat.zeros.rules
        if persons & {*rule.columns}
    )
    counted = zeros_of_counts(linked.rules, linked, flat.domain, flat.zeros)
    columns = (*flat.columns, *others)
    empty: tuple[Rule, ...] = ()
    if linked.min_members == 0:
        columns = tuple(replace(c, nobody=True) if c.name in persons else c for c in columns)
        empty = _zeros_of_empty(linked, columns)
    return replace(
        flat,
        columns=columns,
        zeros=StructuralZeros((*flat.zeros.rules, *also, *counted, *empty)),
        unit=ProtectedUnit(
            "household", linked.key, linked.max_members, missing_values, link=linked.link
        ),
        order=linked.columns,
        linked=linked,
    )


def _zeros_of_empty(linked: LinkedTables, columns: tuple[Column, ...]) -> tuple[Rule, ...]:
    """Return the structural zeros of households without members.

    A household has no members if and only if every person column has the code for no member. It
    then has no other member, either. Each pair of columns has its own rules, because the table of a
    pair uses only rules about its two columns.

    Args:
        linked: The two tables.
        columns: Columns of the wide domain.
    """
    size = {column.name: column.size for column in columns}
    none = {name: (size[name] - 1,) for name in (*linked.person_columns, *linked.others)}
    some = {name: tuple(range(size[name] - 1)) for name in none}
    none[MEMBERS], some[MEMBERS] = (0,), tuple(range(1, size[MEMBERS]))
    found = []
    for one, two in itertools.combinations((MEMBERS, *linked.person_columns), 2):
        found += [((one, two), (none[one], some[two])), ((one, two), (some[one], none[two]))]
    for one, two in itertools.product((MEMBERS, *linked.person_columns), linked.others):
        found.append(((one, two), (none[one], some[two])))
    return tuple(Rule(names, codes, "no member", derived=True) for names, codes in found)


def other_column(column: Column) -> Column:
    """Return a person column for another member of the same household.

    Its codes are those of the column, with that of missing, followed by one for no other member.
    """
    labels = column.code_labels()
    texts = [level.text for level in column.levels] or list(labels)
    texts += labels[len(texts) :]
    levels = [Level(text, label) for text, label in zip(texts, labels, strict=True)]
    return Column(
        name=other(column.name),
        kind="category" if not column.type.ordered else "ordinal",
        levels=(*levels, Level(NO_OTHER, NO_OTHER)),
        missing_values=(),
        description=f"{column.name} of another member of the household",
    )


def decided_by_codes(rule: ColumnRule, schema: Schema) -> bool:
    """Return whether the codes of a row decide whether it breaks a rule, whatever its values.

    If so, the structural zeros that follow from the rule express all of it.
    """
    bounds = {
        name: unit_bounds(schema.column(name), units)
        for name, units in units_by_column(rule.units).items()
    }

    def decided(condition: object) -> bool:
        if not isinstance(condition, AtMost):
            return True
        names = [name for name, _ in condition.terms]
        bins = {name: schema.column(name).bins for name in names}
        if len(names) > 1:
            single = all(
                (bounds[name].low[: bins[name]] == bounds[name].high[: bins[name]]).all()
                for name in names
            )
            return single and prod(bins.values()) <= MOST_CELLS
        sure, able = codes_that_hold(condition, schema.column(names[0]), bounds)
        return bool((sure == able).all())

    return all(decided(each) for clause in rule.clauses for each in clause)
