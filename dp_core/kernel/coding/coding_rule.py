"""The rule by which the values of one column become codes: public, read from plain values.

A rule is a JSON object. A column of kind `levels` lists the texts of each level; the others state
their legal range and the edges of their bins, as exact numbers:

    {"name": "sex", "kind": "levels", "levels": [["1", "male"], ["2"]], "codes": 3,
     "missing": "level", "missing_values": [""], "out_of_range": "reject"}
    {"name": "born", "kind": "date", "format": "%d.%m.%Y", "low": "701265", "high": "719162",
     "edges": ["701265", "711000", "719163"], "codes": 2, "missing": "reject", ...}

Kinds of values:

- `integer` and `number`: the number itself.
- `date`: days, counted as `datetime.date.toordinal` does.
- `parts`: a text of a fixed form, each part of which counts a number of units: with the pattern
  `^(?P<h>[0-9]{2}):(?P<m>[0-9]{2})` and the weights 60 of `h` and 1 of `m`, 07:30 is
  450. A stored time of day is counted in units of `seconds`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.coding import parsed_texts
from dp_core.kernel.errors import GARBAGE, BadInput
from dp_core.kernel.questions.descriptions import of_type, whole

Kind: TypeAlias = Literal["levels", "integer", "number", "date", "parts"]
Missing: TypeAlias = Literal["reject", "level"]
OutOfRange: TypeAlias = Literal["reject", "clip", "missing"]

LAST_DAY = datetime.date.max.toordinal()


@dataclass(frozen=True, slots=True)
class Parts:
    """The form of the texts of a kind `parts`.

    Attributes:
        pattern: Regular expression (RE2) with a named group of digits for each part.
        weights: Units of each part, by its name.
        seconds: Seconds in a unit of a stored time of day; 0 if none can be stored.
        last: The largest value that there is; the smallest is 0.
    """

    pattern: str
    weights: Mapping[str, int]
    seconds: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingRule:
    """How the values of one column become codes.

    Attributes:
        name: Name of the column.
        kind: Kind of its values.
        codes: Number of codes.
        bins: Number of codes that stand for values: levels or bins.
        texts: Code of each text that is a level; empty for other kinds.
        edges: Edges of the bins: bin `k` has `edges[k] <= value < edges[k + 1]`, and the last bin
            of a `number` its upper edge too. Empty for levels.
        low, high: Smallest and largest legal value; 0 for levels.
        missing: Whether a missing value is refused, or has a code: the one after bins or levels.
        missing_values: Texts that mean missing.
        out_of_range: What happens to a value of the column's kind outside the rule.
        format: Date: format of the texts, of `%d`, `%m` and `%Y`; empty for ISO dates.
        parts: Form of the texts of a kind `parts`; None for other kinds.
    """

    name: str
    kind: Kind
    codes: int
    bins: int
    texts: Mapping[str, int]
    edges: tuple[Fraction, ...] = ()
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(0)
    missing: Missing
    missing_values: tuple[str, ...]
    out_of_range: OutOfRange
    format: str = ""
    parts: Parts | None = None

    @property
    def size(self) -> int:
        """Number of codes, as a domain names it."""
        return self.codes

    @property
    def is_levels(self) -> bool:
        """Whether values are levels."""
        return self.kind == "levels"

    @property
    def continuous(self) -> bool:
        """Whether values are real numbers."""
        return self.kind == "number"

    @property
    def own_texts(self) -> bool:
        """Whether values have texts, and stored types, that are not those of numbers."""
        return self.kind in ("date", "parts")

    @property
    def missing_code(self) -> int | None:
        """Code of a missing value; None if it is refused."""
        return self.bins if self.missing == "level" else None

    @property
    def nobody(self) -> bool:
        """Whether a further code, the last, stands for no member of a household."""
        return self.codes > self.bins + (self.missing == "level")

    @property
    def span(self) -> tuple[int, int] | None:
        """The first and the last value there are; None without limits."""
        if self.kind == "date":
            return 1, LAST_DAY
        return None if self.parts is None else (0, self.parts.last)

    def is_stored(self, kind: pa.DataType) -> bool:
        """Return whether values of an Arrow type are read without their texts."""
        if self.is_levels:
            return False
        if self.kind == "date":
            return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
        if self.parts is not None:
            return bool(pa.types.is_time(kind) and self.parts.seconds)
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
        return any(test(kind) for test in tests)

    def stored_values(self, values: pa.Array) -> NDArray[np.int64]:
        """Return stored dates or times of day as values; arbitrary where null.

        Args:
            values: Of a type that `is_stored` says is read.
        """
        if self.parts is None:
            return parsed_texts.days_and_rest(values)[0] + parsed_texts.EPOCH
        unit = parsed_texts.UNITS[values.type.unit] * self.parts.seconds
        width = pa.int32() if values.type.bit_width == 32 else pa.int64()
        stored = values.view(width).fill_null(0).to_numpy(zero_copy_only=False)
        found: NDArray[np.int64] = stored.astype(np.int64) // unit
        return found

    def parsed(self, texts: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the values of texts, and which texts have one.

        Args:
            texts: Texts without surrounding blanks, of a column without levels.

        Returns:
            Values of int64, or binary64 of a `number`, arbitrary where a text has none; and which
            have one. Both have shape (texts,).
        """
        if self.kind == "integer":
            return parsed_texts.integers_of(texts)
        if self.kind == "number":
            return parsed_texts.numbers_of(texts)
        if self.parts is not None:
            return parsed_texts.sums_of_parts(texts, self.parts.pattern, self.parts.weights)
        if self.format:
            return parsed_texts.days_in_format(self.format, texts)
        return parsed_texts.days_of(texts)


def coding_rule(values: Mapping[str, Any]) -> CodingRule:
    """Return the rule that plain values state.

    Raises:
        BadInput: if a key is unknown, missing or of the wrong type, or values contradict one
            another; the message names column and key.
    """
    name, kind = values.get("name"), values.get("kind")
    if not isinstance(name, str):
        raise BadInput("A column of the kernel's document has no `name`; compile it anew.")
    if kind not in get_args(Kind):
        raise _wrong(name, "kind")
    readers = {**_EVERY_KIND, **_OF_KIND[str(kind)]}
    stated = {"format": "", **values} if kind == "date" else values
    for key in sorted({*readers} ^ {*stated}):
        raise _wrong(name, key)
    found: dict[str, Any] = {}
    for key, read in readers.items():
        try:
            found[key] = read(stated[key])
        except (*GARBAGE, re.error):
            raise _wrong(name, key) from None
    levels = found.pop("levels", ())
    rule = CodingRule(
        **found,
        bins=len(levels) if kind == "levels" else len(found["edges"]) - 1,
        texts={text: code for code, texts in enumerate(levels) for text in texts},
    )
    _check(rule)
    return rule


def _check(rule: CodingRule) -> None:
    """Raise if what a rule says is contradictory."""
    if rule.bins < 1 or not 0 <= rule.codes - rule.bins - (rule.missing == "level") <= 1:
        raise _wrong(rule.name, "codes")
    # A text has one code.
    if {*rule.texts} & {*rule.missing_values}:
        raise _wrong(rule.name, "missing_values")
    if rule.is_levels:
        return
    numbers = (*rule.edges, rule.low, rule.high)
    are_whole = rule.continuous or all(each.denominator == 1 for each in numbers)
    if not are_whole or any(low >= high for low, high in pairwise(rule.edges)):
        raise _wrong(rule.name, "edges")
    if not rule.edges[0] <= rule.low <= rule.high <= rule.edges[-1]:
        raise _wrong(rule.name, "low")


def _levels(values: Any) -> tuple[tuple[str, ...], ...]:
    levels: tuple[tuple[str, ...], ...] = of_type(tuple[tuple[str, ...], ...], values)
    texts = [text for level in levels for text in {*level}]
    if len({*texts}) < len(texts):
        raise ValueError("A text has one code.")
    return levels


def _number(value: Any) -> Fraction:
    return Fraction(of_type(str, value))


def _numbers(values: Any) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, of_type(tuple[str, ...], values)))


def _date_format(value: Any) -> str:
    """Return a format that has day, month and year once each, or the empty text."""
    form: str = of_type(str, value)
    if form and sorted(re.findall("%.?", form)) != ["%Y", "%d", "%m"]:
        raise ValueError("A format has day, month and year.")
    return form


def _parts(values: Any) -> Parts:
    pattern, weights = of_type(str, values["pattern"]), values["weights"]
    if len(values) != len(fields(Parts)) or {*re.compile(pattern).groupindex} != {*weights}:
        raise ValueError("Every part has a weight.")
    units = {part: whole(weights, part) for part in weights}
    return Parts(pattern, units, whole(values, "seconds"), whole(values, "last"))


_EVERY_KIND: Mapping[str, Callable[[Any], Any]] = {
    **{key: partial(of_type, str) for key in ("name", "kind")},
    "codes": partial(of_type, int),
    "missing": partial(of_type, Missing),
    "missing_values": partial(of_type, tuple[str, ...]),
    "out_of_range": partial(of_type, OutOfRange),
}
_OF_BINS: Mapping[str, Callable[[Any], Any]] = {"low": _number, "high": _number, "edges": _numbers}
_OF_KIND: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    "levels": {"levels": _levels},
    **dict.fromkeys(("integer", "number"), _OF_BINS),
    "date": {**_OF_BINS, "format": _date_format},
    "parts": {**_OF_BINS, "parts": _parts},
}
"""How the value of each key is read; a reader raises one of `GARBAGE` if it is malformed."""


def _wrong(name: str, key: str) -> BadInput:
    return BadInput(
        f"The kernel's document states {key!r} of column {name!r} in no valid form; compile it anew"
        " with the version of dp-release that reads it."
    )
