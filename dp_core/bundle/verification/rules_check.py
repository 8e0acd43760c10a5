"""Check that every row of the sets obeys the rules that the schema states between columns.

These are the combinations that the schema calls impossible, its rules between columns, and its maps
of areas (`within`). For linked tables, rules that count members are checked for every household.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from dp_core.bundle.files.codebook import synthetic_path
from dp_core.bundle.files.linked_sets import (
    LinkedSet,
    codes_of_set,
    households_with_members,
    join_households,
    read_linked_set,
)
from dp_core.bundle.files.parquet_file import read_parquet
from dp_core.bundle.quality.table_fit import TableFit, ruled_tables
from dp_core.bundle.verification.claims import Claims
from dp_core.bundle.verification.figures_check import same_figure
from dp_core.errors import BadInput
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Schema
from dp_core.schema.rules.column_rules import RuleRows, Units
from dp_core.schema.rules.row_rules import RowRule, row_rules
from dp_core.schema.structure.member_rules import households_that_break

_Rules: TypeAlias = tuple[RowRule[Any], ...]
_Read: TypeAlias = Callable[[Sequence[str]], Iterable[pa.RecordBatch]]
"""Returns some columns of all rows."""


def check_rules(
    folder: Path,
    document: Mapping[str, Any],
    claims: Claims,
    fits: Callable[[], Sequence[TableFit]],
) -> str | tuple[str, ...]:
    """Return that all rows obey the rules and that the statement says so, or what is wrong.

    Args:
        folder: The bundle.
        document: The statement.
        claims: Its claims.
        fits: Returns the distance of the sets from the noisy tables, `fits_of_sets`.
    """
    schema = claims.schema.coarse or claims.schema
    rules = [*dict.fromkeys(rule.text for rule in row_rules(schema))]
    rules += [rule.text for rule in schema.member_rules]
    if not rules:
        return "The schema states no rules between columns."
    wrong = []
    for number in range(1, claims.sets + 1):
        path = synthetic_path(number) if schema.linked is None else f"Set {number}"
        try:
            data = None if schema.linked is None else read_linked_set(folder, schema, number)
            found = [
                what
                for rules_of, read in _rows_with_rules(folder, schema, number, data)
                for what in _rule_faults(schema, rules_of, read)
            ]
            broken = [*dict.fromkeys(found), *_broken_counts(schema, data)]
        except (OSError, pa.ArrowException, ValueError, LookupError, BadInput):
            wrong.append(f"{path} cannot be compared with the rules of its schema.")
            continue
        wrong += [f"{path} {what}" for what in broken]
    if not wrong and claims.sets and (schema.rules or schema.member_rules):
        stated, made = document["sets"]["rules"], ruled_tables(claims.schema, fits()) or {}
        wrong += [
            f"'sets.rules.{name}' of the statement does not follow from tables and sets."
            for name, value in made.items()
            if not same_figure(stated[name], value)
        ][:1]
    if wrong:
        return tuple(wrong)
    which = f"{len(rules)} rules" if len(rules) > 1 else "rule"
    what = "row and household" if schema.member_rules else "row"
    return f"Every {what} of the sets obeys the {which} of the schema."


def _rows_with_rules(
    folder: Path, schema: Schema, number: int, data: LinkedSet | None
) -> Iterator[tuple[_Rules, _Read]]:
    """Yield rules, and a function that reads the rows of a set to which they apply.

    In linked tables, rules over household columns and `members` apply to all households, with or
    without members. All other rules apply to all persons, each with its household. A rule about
    another member repeats one about a member.
    """
    linked, rules = schema.linked, row_rules(schema)
    if linked is None or data is None:
        yield rules, partial(read_parquet, folder / synthetic_path(number))
        return
    rules = tuple(each for each in rules if not {*linked.others} & {*each.columns})
    homes = {*linked.household_columns, MEMBERS}
    for of_homes, table in (
        (True, households_with_members(data)),
        (False, join_households(schema, data)),
    ):
        part = tuple(each for each in rules if ({*each.columns} <= homes) == of_homes)
        yield part, partial(_batches, table)


def _batches(table: pa.Table, names: Sequence[str]) -> Iterable[pa.RecordBatch]:
    yield from table.select(list(names)).unify_dictionaries().combine_chunks().to_batches()


def _rule_faults(schema: Schema, rules: _Rules, read: _Read) -> list[str]:
    """Return what is wrong with the rows of a set: rules that they break, values off their unit.

    Rules compare values in whole units. A value with more digits than `decimals` would be rounded
    before it is judged, so it is a fault of its own. Of linked tables a rule about another member
    repeats one about a member, which is judged for every person.

    Args:
        schema: The schema as written.
        rules: The rules.
        read: Yields columns of the rows.
    """
    named = {name for rule in rules for name in rule.columns}
    if not named:
        return []
    columns = [column for column in schema.columns if column.name in named]
    units: dict[str, Units] = {each.column: each for rule in rules for each in rule.units}
    found: dict[str, None] = {}
    finer: dict[str, None] = {}
    for batch in read([column.name for column in columns]):
        arrays = {column.name: batch.column(column.name) for column in columns}
        codes = {column.name: codes_of(column, arrays[column.name]) for column in columns}
        values = {name: schema.column(name).scale.values_in(arrays[name]) for name in units}
        rows = RuleRows(
            codes,
            {
                column.name: codes[column.name] == column.missing_code
                for column in columns
                if column.missing_code is not None
            },
            {name: each.of(values[name]) for name, each in units.items()},
            batch.num_rows,
        )
        finer |= {
            name: None
            for name, each in units.items()
            if not each.edges
            and values[name].dtype.kind == "f"
            and (values[name] != rows.units[name] / 10.0**each.decimals).any()
        }
        found |= {rule.text: None for rule in rules if rule.broken(rows).any()}
    return [
        *(f"has rows that break the rule {text:.80}." for text in found),
        *(
            f"has values of {name!r:.40} with more decimals than its schema states."
            for name in finer
        ),
    ]


def _broken_counts(schema: Schema, data: LinkedSet | None) -> list[str]:
    """Return which rules that count members a household of a set breaks."""
    if schema.linked is None or data is None or not schema.member_rules:
        return []
    rows = codes_of_set(schema, data)
    return [
        f"has households that break the rule {rule.text:.80}."
        for rule in schema.member_rules
        if households_that_break(rule, schema.linked.person_columns, rows).any()
    ]
