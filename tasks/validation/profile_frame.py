"""The frame of a file's profile: distinct values or bounds of its columns, and counted problems.

An expectation about every value of a column holds of the rows exactly if it holds of this frame.
The frame has a few dozen rows however large the file is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dp_core.confidential.column_profiles import Profile, Profiler
from dp_core.schema.bin_values import legal_range
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.suite import Rule, bounds, outside, unlisted_column, unreadable
from dp_core.schema.problems import Problem, refused_problems


class FileProfile:
    """The profile of a whole file, to which the partitions' profiles are added. Confidential.

    Attributes:
        profilers: One for each profiled column of the schema.
        rows: Number of rows so far.

    Args:
        schema: Schema of the file.
        rules: Rules of its suite.
    """

    def __init__(self, schema: Schema, rules: Sequence[Rule]) -> None:
        self.profilers = [Profiler(column) for column in schema.profiled]
        self._rules = [rule for rule in rules if rule.seen == "profile"]
        self.rows = 0
        self._names = {*schema.names}
        self._columns = [Profile() for _ in self.profilers]

    def begin(self) -> list[Profile]:
        """Return empty profiles of a partition."""
        return [Profile() for _ in self.profilers]

    def add(self, partition: Sequence[Profile]) -> None:
        """Add the finished profiles of a partition."""
        self.rows += max((profile.rows for profile in partition), default=0)
        for whole, profiler, part in zip(self._columns, self.profilers, partition, strict=True):
            profiler.merge(whole, part)

    def frame(self, broken: Mapping[str, int | None]) -> tuple[dict[str, list[Any]], int]:
        """Return the columns that the rules are about, all of one length, and that length.

        Args:
            broken: Rows that break each rule between columns, by what the rule is about (0 for
                those that are not among them); None for rules that were not checked.
        """
        columns: dict[str, list[Any]] = {}
        for profiler, profile in zip(self.profilers, self._columns, strict=True):
            column = profiler.column
            columns[column.name] = _profile_values(column, profile)
            if column.levels:
                columns[unlisted_column(column, self._names)] = [profile.problems[Problem.LEVEL]]
            else:
                wrong = profile.problems[Problem.TYPE] + _outside_span(column, profile)
                columns[unreadable(column, self._names)] = [wrong]
                columns[outside(column, self._names)] = [profile.problems[Problem.RANGE]]
        for rule in self._rules:
            if rule.kind in ("identifier", "dependency", "impossible", "rule"):
                columns[rule.kwargs["column"]] = [broken.get(rule.about, 0)]
        needed = {rule.kwargs["column"]: columns[rule.kwargs["column"]] for rule in self._rules}
        length = max(map(len, needed.values()), default=0)
        return {name: _repeat_to_length(values, length) for name, values in needed.items()}, length


def _profile_values(column: Column, profile: Profile) -> list[Any]:
    """Return the distinct texts or the bounds of a column, and None if values are missing."""
    values = _values(column, profile)
    if profile.problems[Problem.MISSING]:
        return [*values, None]
    if values:
        return values
    # No row has a readable value; that must not look like a missing one.
    return [legal_value(column) if Problem.MISSING in refused_problems(column) else None]


def _values(column: Column, profile: Profile) -> list[Any]:
    if column.levels:
        return sorted(profile.texts)
    ends = [end for end in (profile.low, profile.high) if end is not None]
    return [column.scale.python(end) for end in ends]


def legal_value(column: Column) -> Any:
    """Return a value that the column may have: its first level, or its least number or date."""
    if column.levels:
        return column.levels[0].text
    low, _ = bounds(column)
    return column.scale.python(int(legal_range(column)[0])) if column.type.own_texts else low


def _outside_span(column: Column, profile: Profile) -> int:
    """Return whether a stored value is none of its type, as a day after year 9999, as 0 or 1."""
    span = column.scale.span
    if span is None or Problem.RANGE not in refused_problems(column) or profile.low is None:
        return 0
    assert profile.high is not None
    return int(profile.low < span[0] or profile.high > span[1])


def _repeat_to_length(values: list[Any], length: int) -> list[Any]:
    """Return the values repeated up to a length; the first one is a value, if there is any."""
    return values + values[:1] * (length - len(values))
