"""A team's own expectations about the file, by the names of Great Expectations.

`OFFERED` is the table of the names and arguments that a schema may use, and of what each of them
sees. A test compares it with the library, which this package does not import.

What an expectation sees:

- `table`: the number of rows of the whole file;
- `profile`: the distinct values or the bounds of a column, over the whole file;
- `rows`: the rows, one piece of the file after the other; it must hold in every piece;
- `aggregate`: as `rows`, and its figure is the figure of a piece, not of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Sees = Literal["table", "profile", "rows", "aggregate"]
Takes = Literal[
    "column",
    "text column",
    "number column",
    "columns",
    "number columns",
    "value",
    "values",
    "value pairs",
    "number",
    "whole",
    "share",
    "flag",
    "date format",
    "regex",
    "regexes",
    "any or all",
    "null rows",
]
"""What an argument is; `value` is a value of the column that the expectation names."""


_OPTIONAL = ("share", "flag", "null rows", "any or all")
"""Kinds of arguments that need not be given."""
_BOTH_ENDS = ("min_value", "max_value")
"""Arguments of which one is enough."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One of Great Expectations' expectations, as a schema may state it.

    Attributes:
        sees: What the expectation sees.
        takes: What each argument is.
    """

    sees: Sees
    takes: Mapping[str, Takes]

    @property
    def required(self) -> tuple[str, ...]:
        """Arguments that must be given."""
        return tuple(
            key
            for key, kind in self.takes.items()
            if kind not in _OPTIONAL and key not in _BOTH_ENDS
        )

    @property
    def bounded(self) -> bool:
        """Whether at least one of `min_value` and `max_value` must be given."""
        return not self.takes.keys().isdisjoint(_BOTH_ENDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An expectation of a schema's `expectations`.

    Attributes:
        name: Name in Great Expectations, such as `expect_column_values_to_match_regex`.
        arguments: Its arguments, as JSON's own types; dates are ISO texts.
        file_only: Whether it is about the confidential file only, not about synthetic sets.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    file_only: bool = False

    @property
    def sees(self) -> Sees:
        """What it sees."""
        return OFFERED[self.name].sees

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the file that it names."""
        found: list[str] = []
        for key, kind in OFFERED[self.name].takes.items():
            given = self.arguments.get(key)
            if kind in ("column", "text column", "number column") and isinstance(given, str):
                found.append(given)
            elif kind in ("columns", "number columns") and isinstance(given, list):
                found += given
        return tuple(dict.fromkeys(found))


_COLUMN: dict[str, Takes] = {"column": "column"}
_TEXT: dict[str, Takes] = {"column": "text column"}
_NUMBER: dict[str, Takes] = {"column": "number column"}
_SHARE: dict[str, Takes] = {"mostly": "share"}
_STRICT: dict[str, Takes] = {"strict_min": "flag", "strict_max": "flag"}
_BOUNDS: dict[str, Takes] = {"min_value": "value", "max_value": "value", **_STRICT}
_FIGURE: dict[str, Takes] = {"min_value": "number", "max_value": "number", **_STRICT}
_LENGTH: dict[str, Takes] = {"min_value": "whole", "max_value": "whole", **_STRICT}
_PAIR: dict[str, Takes] = {"column_A": "column", "column_B": "column"}
_NULLS: dict[str, Takes] = {"ignore_row_if": "null rows"}
_VALUES: dict[str, Takes] = {"value_set": "values"}
_REGEX: dict[str, Takes] = {"regex": "regex"}
_EQUAL: dict[str, Takes] = {"value": "whole"}
_FORMAT: dict[str, Takes] = {"strftime_format": "date format"}
_ORDER_OF_PAIR: dict[str, Takes] = {"or_equal": "flag"}
_PAIRS: dict[str, Takes] = {"value_pairs_set": "value pairs"}
_TIES: dict[str, Takes] = {"ties_okay": "flag"}
_SUM: dict[str, Takes] = {"column_list": "number columns", "sum_total": "number"}
_LIST: dict[str, Takes] = {"column_list": "columns"}
_REGEXES: dict[str, Takes] = {"regex_list": "regexes"}
_MATCH: dict[str, Takes] = {"match_on": "any or all"}

_TAKES: Mapping[Sees, Mapping[str, Mapping[str, Takes]]] = {
    "table": {
        "expect_table_row_count_to_be_between": _LENGTH,
        "expect_table_row_count_to_equal": _EQUAL,
    },
    "profile": {
        "expect_column_max_to_be_between": _COLUMN | _BOUNDS,
        "expect_column_min_to_be_between": _COLUMN | _BOUNDS,
        "expect_column_distinct_values_to_be_in_set": _TEXT | _VALUES,
        "expect_column_distinct_values_to_contain_set": _TEXT | _VALUES,
        "expect_column_distinct_values_to_equal_set": _TEXT | _VALUES,
    },
    "rows": {
        "expect_column_values_to_be_between": _COLUMN | _BOUNDS | _SHARE,
        "expect_column_values_to_be_in_set": _COLUMN | _VALUES | _SHARE,
        "expect_column_values_to_not_be_in_set": _COLUMN | _VALUES | _SHARE,
        "expect_column_values_to_be_null": _COLUMN | _SHARE,
        "expect_column_values_to_not_be_null": _COLUMN | _SHARE,
        "expect_column_value_lengths_to_be_between": _TEXT | _LENGTH | _SHARE,
        "expect_column_value_lengths_to_equal": _TEXT | _EQUAL | _SHARE,
        "expect_column_values_to_match_regex": _TEXT | _REGEX | _SHARE,
        "expect_column_values_to_not_match_regex": _TEXT | _REGEX | _SHARE,
        "expect_column_values_to_match_regex_list": _TEXT | _REGEXES | _MATCH | _SHARE,
        "expect_column_values_to_not_match_regex_list": _TEXT | _REGEXES | _SHARE,
        "expect_column_values_to_match_strftime_format": _TEXT | _FORMAT | _SHARE,
        "expect_column_pair_values_a_to_be_greater_than_b": _PAIR
        | _ORDER_OF_PAIR
        | _NULLS
        | _SHARE,
        "expect_column_pair_values_to_be_equal": _PAIR | _NULLS | _SHARE,
        "expect_column_pair_values_to_be_in_set": _PAIR | _PAIRS | _NULLS | _SHARE,
        "expect_multicolumn_sum_to_equal": _SUM | _NULLS | _SHARE,
        "expect_select_column_values_to_be_unique_within_record": _LIST | _NULLS | _SHARE,
    },
    "aggregate": {
        "expect_column_mean_to_be_between": _NUMBER | _FIGURE,
        "expect_column_median_to_be_between": _NUMBER | _FIGURE,
        "expect_column_stdev_to_be_between": _NUMBER | _FIGURE,
        "expect_column_most_common_value_to_be_in_set": _COLUMN | _VALUES | _TIES,
        "expect_column_proportion_of_non_null_values_to_be_between": _COLUMN | _FIGURE,
    },
}
"""What each expectation takes, by what it sees and by its name."""

OFFERED: Mapping[str, Offer] = MappingProxyType(
    {name: Offer(sees, takes) for sees, of in _TAKES.items() for name, takes in of.items()}
)
"""The expectations that a schema may state, by name."""
