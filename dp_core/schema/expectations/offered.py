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


@dataclass(frozen=True, slots=True)
class Offer:
    """One of Great Expectations' expectations, as a schema may state it.

    Attributes:
        sees: What the expectation sees.
        takes: What each argument is.
        required: Arguments that must be given.
        bounded: Whether at least one of `min_value` and `max_value` must be given.
    """

    sees: Sees
    takes: Mapping[str, Takes]
    required: tuple[str, ...] = ()
    bounded: bool = False


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
_MATCH: dict[str, Takes] = {"match_on": "any or all"}
_SET_OF_TEXTS: dict[str, Takes] = {"column": "text column", **_VALUES}
_REGEXES: dict[str, Takes] = {"column": "text column", "regex_list": "regexes"}


def _of_column(sees: Sees, takes: Mapping[str, Takes], *required: str) -> Offer:
    return Offer(sees, {"column": "column", **takes}, ("column", *required))


def _between(sees: Sees, takes: Mapping[str, Takes], column: Takes = "column") -> Offer:
    return Offer(sees, {"column": column, **takes}, ("column",), bounded=True)


def _of_text(takes: Mapping[str, Takes], *required: str) -> Offer:
    return Offer("rows", {"column": "text column", **takes}, ("column", *required))


OFFERED: Mapping[str, Offer] = MappingProxyType(
    {
        "expect_table_row_count_to_be_between": Offer("table", _LENGTH, bounded=True),
        "expect_table_row_count_to_equal": Offer("table", _EQUAL, ("value",)),
        "expect_column_max_to_be_between": _between("profile", _BOUNDS),
        "expect_column_min_to_be_between": _between("profile", _BOUNDS),
        "expect_column_distinct_values_to_be_in_set": Offer(
            "profile", _SET_OF_TEXTS, ("column", "value_set")
        ),
        "expect_column_distinct_values_to_contain_set": Offer(
            "profile", _SET_OF_TEXTS, ("column", "value_set")
        ),
        "expect_column_distinct_values_to_equal_set": Offer(
            "profile", _SET_OF_TEXTS, ("column", "value_set")
        ),
        "expect_column_values_to_be_between": _between("rows", _BOUNDS | _SHARE),
        "expect_column_values_to_be_in_set": _of_column("rows", _VALUES | _SHARE, "value_set"),
        "expect_column_values_to_not_be_in_set": _of_column("rows", _VALUES | _SHARE, "value_set"),
        "expect_column_values_to_be_null": _of_column("rows", _SHARE),
        "expect_column_values_to_not_be_null": _of_column("rows", _SHARE),
        "expect_column_value_lengths_to_be_between": _between(
            "rows", _LENGTH | _SHARE, "text column"
        ),
        "expect_column_value_lengths_to_equal": _of_text(_EQUAL | _SHARE, "value"),
        "expect_column_values_to_match_regex": _of_text(_REGEX | _SHARE, "regex"),
        "expect_column_values_to_not_match_regex": _of_text(_REGEX | _SHARE, "regex"),
        "expect_column_values_to_match_regex_list": Offer(
            "rows", _REGEXES | _MATCH | _SHARE, ("column", "regex_list")
        ),
        "expect_column_values_to_not_match_regex_list": Offer(
            "rows", _REGEXES | _SHARE, ("column", "regex_list")
        ),
        "expect_column_values_to_match_strftime_format": _of_text(
            _FORMAT | _SHARE, "strftime_format"
        ),
        "expect_column_pair_values_a_to_be_greater_than_b": Offer(
            "rows", _PAIR | _ORDER_OF_PAIR | _NULLS | _SHARE, ("column_A", "column_B")
        ),
        "expect_column_pair_values_to_be_equal": Offer(
            "rows", _PAIR | _NULLS | _SHARE, ("column_A", "column_B")
        ),
        "expect_column_pair_values_to_be_in_set": Offer(
            "rows",
            _PAIR | _PAIRS | _NULLS | _SHARE,
            ("column_A", "column_B", "value_pairs_set"),
        ),
        "expect_multicolumn_sum_to_equal": Offer(
            "rows",
            _SUM | _NULLS | _SHARE,
            ("column_list", "sum_total"),
        ),
        "expect_select_column_values_to_be_unique_within_record": Offer(
            "rows", _LIST | _NULLS | _SHARE, ("column_list",)
        ),
        "expect_column_mean_to_be_between": _between("aggregate", _FIGURE, "number column"),
        "expect_column_median_to_be_between": _between("aggregate", _FIGURE, "number column"),
        "expect_column_stdev_to_be_between": _between("aggregate", _FIGURE, "number column"),
        "expect_column_most_common_value_to_be_in_set": _of_column(
            "aggregate", _VALUES | _TIES, "value_set"
        ),
        "expect_column_proportion_of_non_null_values_to_be_between": _between("aggregate", _FIGURE),
    }
)
"""The expectations that a schema may state, by name."""
