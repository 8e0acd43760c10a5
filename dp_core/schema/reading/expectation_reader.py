"""Reads `expectations`: a team's own, by the names and arguments of Great Expectations.

Each is one mapping from the name to its arguments; `only: file` among them says that it is about
the confidential file and not about the synthetic sets.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dp_core.errors import nearest, similar
from dp_core.schema.definition import Column, Schema
from dp_core.schema.expectations.offered import OFFERED, Expectation, Offer
from dp_core.schema.reading.level_reader import level_names
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

EXAMPLE = "- expect_column_values_to_be_between: {column: age, min_value: 0}"
PAGE = "docs/schema.md#expectations"
MOST = 2**53 - 1
"""The greatest size of a whole number in an expectation; the library reads numbers as binary64."""
_NULL_ROWS = {
    "pair": ("both_values_are_missing", "either_value_is_missing", "neither"),
    "list": ("all_values_are_missing", "any_value_is_missing", "never"),
}


def read_expectation(node: Node, schema: Schema) -> Expectation:
    """Return an expectation of a schema.

    Args:
        node: The expectation.
        schema: The schema, with all columns.

    Raises:
        BadInput: for an unknown name, column, argument or value; it names the nearest valid one.
    """
    known = {column.name: column for column in schema.released}
    entries = node.entries(example=EXAMPLE[2:])
    if len(entries) != 1:
        raise node.error(f"must be one name with its arguments, as in {EXAMPLE}.")
    ((name, given),) = entries.items()
    if name not in OFFERED:
        raise node.error(
            f"{quote(name)} is not an expectation that a schema can state."
            f"{similar(name, OFFERED)} {PAGE} says which ones can."
        )
    offer = OFFERED[name]
    fields = given.fields((*offer.takes, "only"), required=offer.required)
    if offer.bounded and not {"min_value", "max_value"} & set(fields):
        raise given.error("sets no bound; give min_value, max_value, or both.")
    if "only" in fields:
        fields["only"].choice(("file",))
    return Expectation(
        name=name,
        arguments=_Arguments(offer, fields, known).read(given),
        file_only="only" in fields,
    )


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of one expectation, whose columns are read first."""

    _offer: Offer
    _fields: Mapping[str, Node]
    _known: Mapping[str, Column]

    def read(self, node: Node) -> dict[str, object]:
        """Return all arguments as JSON's own types."""
        takes = {key: kind for key, kind in self._offer.takes.items() if key in self._fields}
        found: dict[str, object] = {}
        for key, kind in takes.items():
            if kind.endswith("column"):
                found[key] = self._column(self._fields[key], kind).name
            elif kind.endswith("columns"):
                place = self._fields[key]
                if len(place.texts(example="[wages, transfers]")) < 2:
                    raise place.error("must name at least two columns.")
                found[key] = [self._column(item, kind).name for item in place.items()]
        if "column_A" in found:
            one, other = (self._known[str(found[key])] for key in ("column_A", "column_B"))
            if _scale(one) != _scale(other):
                raise self._fields["column_B"].error(
                    f"{quote(other.name)} is of type {other.kind} and {quote(one.name)} of type"
                    f" {one.kind}; name two columns that can be compared."
                )
        for key, kind in takes.items():
            if key not in found:
                found[key] = self._value(self._fields[key], kind, found)
        low, high = found.get("min_value"), found.get("max_value")
        # Both are numbers or both are ISO dates, so they compare.
        if low is not None and high is not None and low > high:  # type: ignore[operator]
            raise node.error("min_value is greater than max_value; swap them.")
        return {key: found[key] for key in takes}

    def _column(self, node: Node, kind: str) -> Column:
        name = node.text(example="age")
        if name not in self._known:
            raise node.error(
                f"there is no column {quote(name)} in the schema.{nearest(name, self._known)}"
            )
        column = self._known[name]
        if kind.startswith("text") and not column.levels:
            raise node.error(
                f"{quote(name)} is of type {column.kind}; this expectation is about a category or"
                " an ordinal."
            )
        if kind.startswith("number") and not column.type.sums:
            raise node.error(
                f"{quote(name)} is of type {column.kind}; this expectation is about an integer or a"
                " number."
            )
        return column

    def _value(self, node: Node, kind: str, found: Mapping[str, object]) -> object:
        if kind in ("value", "values"):
            column = self._known[str(found["column"])]
            if kind == "values":
                return [_member(item, column) for item in _some(node)]
            if column.levels:
                raise node.error(
                    f"the values of {column.name!r} are texts without bounds; use"
                    " expect_column_values_to_be_in_set."
                )
            return _member(node, column)
        if kind == "value pairs":
            pair = [self._known[str(found[key])] for key in ("column_A", "column_B")]
            return [_pair(item, pair) for item in _some(node)]
        if kind == "null rows":
            return node.choice(_NULL_ROWS["pair" if "column_A" in found else "list"])
        return _PLAIN[kind](node)


def _some(node: Node) -> tuple[Node, ...]:
    items = node.items()
    if not items:
        raise node.error("the list is empty; give at least one value.")
    return items


def _member(node: Node, column: Column) -> object:
    """Return a value of a column: a level's text, a number, or an ISO date."""
    if column.levels:
        text = node.text(example="a level")
        names, texts = level_names(column), {level.text for level in column.levels}
        # Values of the file that are no levels are refused or settled before.
        if column.choice is None and text not in texts:
            also = f" Write its text, {column.levels[names[text]].text!r}." if text in names else ""
            raise node.error(
                f"{quote(text)} is not a level of {column.name!r}.{also or nearest(text, texts)}"
            )
        return text
    scale = column.scale
    if scale.own_texts:
        return scale.expected(scale.read(node))
    value = scale.read(node)
    return _number(_exact(node, value) if scale.whole else value)


def _exact(node: Node, value: Fraction) -> Fraction:
    """Return a number if the library can tell it from its neighbours."""
    if value.denominator == 1 and abs(value) > MOST:
        raise node.error(
            f"is beyond {MOST} in size, and Great Expectations rounds such whole numbers; give a"
            " smaller one, or state the bounds in `columns`."
        )
    return value


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _pair(node: Node, columns: list[Column]) -> list[object]:
    items = node.items(example="[a, b]")
    if len(items) != 2:
        raise node.error("must be a pair of values, such as [a, b].")
    return [_member(item, column) for item, column in zip(items, columns, strict=True)]


def _regex(node: Node) -> str:
    """Return a regular expression that RE2 takes.

    privacy: RE2 takes time in proportion to the text. Others can take time that is exponential in
    it, and then the time of a stage would tell of single texts.
    """
    import pyarrow as pa
    import pyarrow.compute as pc  # not needed by schemas without one

    text = node.text(example='"^[A-Z]"')
    try:
        pc.match_substring_regex(pa.array(["x"]), text)
    except pa.ArrowInvalid as error:
        what = str(error).rpartition("expression: ")[2].strip().rstrip(".")
        raise node.error(
            f"{quote(text)} is not a regular expression of RE2, which has no lookaround and no"
            f" backreference: {what}. Correct it."
        ) from None
    return text


def _date_format(node: Node) -> str:
    """Return a format by which Python writes and reads dates."""
    text = node.name()
    day = datetime.datetime(2001, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    try:
        with warnings.catch_warnings():
            # A day without a year is deprecated: it is read as one of 1900.
            warnings.simplefilter("ignore", DeprecationWarning)
            datetime.datetime.strptime(day.strftime(text), text).replace(tzinfo=datetime.UTC)
    except (ValueError, re.error):
        raise node.error(
            f"{quote(text)} is not a format that Python can read dates by; write one such as"
            ' "%Y-%m-%d".'
        ) from None
    return text


def _scale(column: Column) -> str:
    if column.levels:
        return "text"
    return column.kind if column.type.own_texts else "number"


_PLAIN: Mapping[str, Callable[[Node], object]] = {
    "whole": lambda node: node.integer(minimum=0, maximum=MOST),
    "number": lambda node: _number(_exact(node, node.fraction())),
    "share": lambda node: float(node.fraction(above=0, maximum=1)),
    "flag": Node.boolean,
    "any or all": lambda node: node.choice(("any", "all")),
    "regex": _regex,
    "regexes": lambda node: [_regex(item) for item in _some(node)],
    "date format": _date_format,
}
"""How arguments are read that do not depend on a column, by their kinds."""
