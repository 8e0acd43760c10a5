"""The suite of Great Expectations that follows from a schema, as the library writes it to JSON.

Its expectations are about columns of two kinds. A column of the file is judged by its distinct
values or its bounds, collected over all partitions: an expectation that is true of these is true of
every row. A `counted` column has one value, the number of rows with a problem that no single value
shows: texts that cannot be read, impossible combinations, broken rules between columns, columns
that do not follow from another, rows without an identifier. That number must be 0. The texts of a
column of more than `MOST_LISTED` levels are judged by such a number, too: the library copies a set
of values dozens of times.

The same suite judges the synthetic sets, with labels translated to the texts of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dp_core.kernel.coding.problems import Problem
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.offered import Expectation
from dp_core.schema.rules.row_rules import row_rules

Seen = Literal["profile", "rows", "table"]
"""The frame on which an expectation is judged."""
Kind = Literal["value", "identifier", "dependency", "impossible", "rule", "own"]
"""Kind of an expectation: about values, about a rule of the schema, or a team's own."""

MOST_LISTED = 1000
"""Most levels of a column that an expectation of the suite lists."""
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """One expectation of a suite.

    Attributes:
        kind: What it says.
        about: Column, text of the `impossible` rule or rule between columns, or name of the team's
            expectation.
        problem: Problem that values must not have, if it is about a value.
        seen: The frame on which it is judged.
        type: Name in Great Expectations.
        kwargs: Its arguments, as JSON's own types.
        file_only: Whether it is about the confidential file only.
        dates: Columns that a team's own expectation names and whose values it states as texts,
            such as dates.
    """

    kind: Kind
    about: str
    problem: Problem | None
    seen: Seen
    type: str
    kwargs: Mapping[str, Any]
    file_only: bool = False
    dates: frozenset[str] = frozenset()

    def configuration(self, number: int) -> dict[str, Any]:
        """Return the expectation as the library writes it; `number` is its place in the suite."""
        return {
            "type": self.type,
            "kwargs": dict(self.kwargs),
            "meta": {"number": number, "says": self.kind, "seen": self.seen},
        }

    @property
    def compares_texts(self) -> bool:
        """Whether it compares dates with a set of values, which the library reads as texts."""
        return bool(self.dates) and not {"value_set", "value_pairs_set"}.isdisjoint(self.kwargs)


def rules_of(schema: Schema, *, sets: bool = False) -> tuple[Rule, ...]:
    """Return all expectations of a schema: of each column, between columns, and the team's own.

    Those of linked tables are the expectations of the table of households by itself, then those of
    the table of persons. Rules over columns of both are not among them.

    Args:
        schema: The schema whose codes the file is stored in or, for the sets, with its choices.
        sets: Whether to return the expectations of the synthetic sets, without those about
            identifiers and about the file only. False by default.
    """
    if schema.linked is not None:
        homes, persons = schema.household_schema, schema.person_schema
        return (*rules_of(homes, sets=sets), *rules_of(persons, sets=sets))
    names = {*schema.names}
    found = [rule for column in schema.checked for rule in _of_values(column, names)]
    if schema.unit.column is not None and not sets:
        what = counted_column(f"{schema.unit.column}: rows without an identifier", names)
        found.append(_none("identifier", schema.unit.column, None, what))
    for dependent in schema.dependents:
        name = dependent.column.name
        if dependent.column.out_of_range == "reject":
            what = counted_column(f"{name}: rows that do not follow from {dependent.source}", names)
            found.append(_none("dependency", name, None, what))
    kinds: dict[Kind, dict[str, None]] = {"impossible": {}, "rule": {}}
    for rule in row_rules(schema):
        kinds["impossible" if rule.key == "impossible" else "rule"][rule.text] = None
    for kind, texts in kinds.items():
        found += [
            _none(kind, text, None, counted_column(f"{kind}: {text}", names)) for text in texts
        ]
    binned = [column for column in schema.released if not column.type.levels]
    dates = frozenset(one.name for one in binned if isinstance(bounds(one)[0], str))
    own = [one for one in schema.expectations if not (sets and one.file_only)]
    return (*found, *(_own(one, dates) for one in own))


def suite_document(schema: Schema, *, sets: bool = False) -> dict[str, Any]:
    """Return the suite of a schema in the JSON form of Great Expectations 1.x.

    `great_expectations.ExpectationSuite(**document)` reads it.

    Args:
        schema: The schema.
        sets: Whether it is the suite of the synthetic sets; see `rules_of`.
    """
    rules = rules_of(schema, sets=sets)
    return {
        "name": schema.title,
        "expectations": [rule.configuration(number) for number, rule in enumerate(rules)],
        "meta": {"great_expectations_version": "1"},
    }


def counted_column(name: str, taken: set[str]) -> str:
    """Return the name of a counted column, which no column of the file has."""
    while name in taken:
        name += "*"
    return name


def unreadable(column: Column, taken: set[str]) -> str:
    """Return the name of the counted column of values that are not of the column's type."""
    return counted_column(f"{column.name}: rows that are not {column.scale.values}", taken)


def unlisted_column(column: Column, taken: set[str]) -> str:
    """Return the name of the counted column of texts that are no levels."""
    return counted_column(f"{column.name}: rows that are no level", taken)


def outside(column: Column, taken: set[str]) -> str:
    """Return the name of the counted column of values outside the bounds."""
    return counted_column(f"{column.name}: rows outside the bounds", taken)


def bounds(column: Column) -> tuple[Any, Any]:
    """Return the least and the greatest legal value as the suite states them; dates as ISO texts.

    Numbers are binary64; whole numbers are within 64 bits, as the file's are.
    """
    low, high = legal_range(column)
    if column.type.continuous:
        return float(low), float(high)
    least, most = (min(max(int(end), _INT64_MIN), _INT64_MAX) for end in (low, high))
    return column.scale.expected(Fraction(least)), column.scale.expected(Fraction(most))


def _of_values(column: Column, names: set[str]) -> Iterator[Rule]:
    column = column.in_sets
    for problem in Problem:
        # Levels have no other problems than these two, and other values do not have the second.
        possible = problem is Problem.MISSING or (problem is Problem.LEVEL) == bool(column.levels)
        if problem not in column.refuses or not possible:
            continue
        counted = ""
        if problem is Problem.TYPE:
            counted = unreadable(column, names)
        elif problem is Problem.LEVEL and len(column.levels) > MOST_LISTED:
            counted = unlisted_column(column, names)
        elif problem is Problem.RANGE and not _exact(column):
            counted = outside(column, names)
        if counted:
            yield _none("value", column.name, problem, counted)
            continue
        kwargs: dict[str, Any] = {}
        if problem is Problem.MISSING:
            kind = "expect_column_values_to_not_be_null"
        elif problem is Problem.LEVEL:
            kind = "expect_column_values_to_be_in_set"
            kwargs = {"value_set": [level.text for level in column.levels]}
        else:
            kind = "expect_column_values_to_be_between"
            kwargs = dict(zip(("min_value", "max_value"), bounds(column), strict=True))
        kwargs = {"column": column.name, **kwargs}
        yield Rule("value", column.name, problem, "profile", kind, kwargs)


def _exact(column: Column) -> bool:
    """Return whether the library keeps whole bounds as they are: it reads numbers as binary64."""
    return column.type.continuous or all(abs(end) <= 2**53 for end in legal_range(column))


def _none(kind: Kind, about: str, problem: Problem | None, column: str) -> Rule:
    """Return the rule that a counted column is 0."""
    kwargs = {"column": column, "max_value": 0}
    return Rule(kind, about, problem, "profile", "expect_column_values_to_be_between", kwargs)


def _own(one: Expectation, dates: frozenset[str]) -> Rule:
    seen: Seen = "rows" if one.sees == "aggregate" else one.sees
    return Rule(
        kind="own",
        about=one.name,
        problem=None,
        seen=seen,
        type=one.name,
        kwargs=one.arguments,
        file_only=one.file_only,
        dates=dates.intersection(one.columns),
    )
