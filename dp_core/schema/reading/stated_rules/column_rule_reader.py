"""Reads `rules`: comparisons, sums and implications between columns, written as texts.

A rule is a comparison, such as `start <= end` or `total = wages + transfers`, or an implication,
`if CONDITIONS then CONDITIONS`. Conditions are joined by `and`. A condition is a comparison, or

- `COLUMN == LEVEL`, `COLUMN != LEVEL`, `COLUMN in [A, B]`, `COLUMN not in [A, B]`;
- `COLUMN is missing`, `COLUMN is not missing`.

A comparison has sums and differences of columns and constants on its sides; dates differ by days.
A condition about a value is neither met nor broken by a missing value. A name or level that
contains spaces or signs may stand in backquotes or double quotes; without them, the longest name of
a column that fits is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dp_core.errors import nearest
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.column_types.registry import types_with_texts
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.reading.level_reader import check_public, level_names, missing_code, read_level
from dp_core.schema.reading.stated_rules.forms import forms
from dp_core.schema.reading.stated_rules.rule_conditions import (
    Stated,
    by_bin,
    comparison,
    join_conditions,
    of_codes,
    rule_of,
    units_of,
)
from dp_core.schema.rules.column_rules import Among, ColumnRule, Equality, Missing
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import parse_fraction, quote

_FORM = "write a rule as in `start + 30 <= end` or `if status == child then income is missing`"
EXAMPLE = "- start_date <= end_date"
_SIGNS = ("<=", ">=", "==", "!=", "<", ">", "=", "≤", "≥", "≠")
_SAME = {"=": "==", "≤": "<=", "≥": ">=", "≠": "!="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z_0-9])")
_WORD = re.compile(r"[^\s<>=!+\[\],≤≥≠*/]+")


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of columns, a constant, and how many values since a zero it adds up, by their type."""

    terms: tuple[tuple[str, int], ...]
    constant: Fraction
    since: Mapping[ValueType, int]


def read_conditions(node: Node, text: str, schema: Schema) -> list[Stated]:
    """Return the conditions of a text, joined by `and`.

    Args:
        node: The rule of which it is a part, for messages.
        text: The conditions, with single spaces.
        schema: The schema, with all columns.

    Raises:
        BadInput: for a condition that cannot be read, and an unknown column or level.
    """
    when, then = _Reader(node, text, schema).whole()
    if when:
        raise node.error("a rule of this form has no `if`; write the conditions alone.")
    return then


def rule_text(node: Node) -> str:
    """Return a rule as its document has it: as written, with single spaces."""
    return " ".join(node.text(example="start_date <= end_date").split())


def read_column_rule(node: Node, schema: Schema) -> ColumnRule:
    """Return a rule between columns of a schema.

    Args:
        node: The rule.
        schema: The schema, with all columns.

    Raises:
        BadInput: for a rule that cannot be read, an unknown column or level, a comparison of types
            that cannot be compared, and a rule that every record obeys, or none.
    """
    text = rule_text(node)
    for form in forms():
        if match := form.pattern.fullmatch(text):
            return form.read(node, match, schema)
    reader = _Reader(node, text, schema)
    if_said, then_said = reader.whole()
    when = tuple(join_conditions(node, [said.met for said in if_said]))
    clauses = [
        clause for said in then_said for clause in join_conditions(node, [when, said.broken])
    ]
    rule = rule_of(node, schema, text, clauses, (*if_said, *then_said))
    stated = (said.equality for said in then_said if said.equality is not None)
    return replace(rule, equalities=tuple(Equality(when, *equality) for equality in stated))


class _Reader:
    """Reads the text of one rule from left to right."""

    def __init__(self, node: Node, text: str, schema: Schema) -> None:
        self._node, self._text, self._schema = node, text, schema
        self._known = {column.name: column for column in schema.released}
        self._by_length = sorted(self._known, key=len, reverse=True)
        self._at = 0

    def whole(self) -> tuple[list[Stated], list[Stated]]:
        """Return the conditions of the rule, and what must then hold."""
        if not self._text:
            raise self._node.error(f"is empty; write a rule, such as {EXAMPLE[2:]}.")
        when: list[Stated] = []
        if self._word("if"):
            when = self._conditions()
            if not self._word("then"):
                raise self._error("expected `then` or `and`")
        then = self._conditions()
        if self._at < len(self._text):
            raise self._error("expected the end of the rule")
        return when, then

    def _conditions(self) -> list[Stated]:
        found = [self._condition()]
        while self._word("and"):
            found.append(self._condition())
        return found

    def _condition(self) -> Stated:
        start = self._at
        name = self._column(required=False)
        if name is not None:
            column = self._known[name]
            if self._word("is"):
                negated = self._word("not")
                if not self._word("missing"):
                    raise self._error("expected `missing` after `is`")
                return self._missing(name, column, negated)
            negated = self._peek("not in") and self._word("not")
            if self._word("in"):
                return self._among(name, column, negated)
            if column.levels:
                return self._level(name, column)
        self._at = start
        return self._comparison()

    def _missing(self, name: str, column: Column, negated: bool) -> Stated:
        missing_code(self._node, column)
        source, becomes = origin(self._schema, name)
        if source == name:
            met = Missing(name, not negated)
            return Stated(((met,),), ((Missing(name, negated),),), (name,))
        own = becomes.tolist()
        missing = {code for code, its in enumerate(own) if its == column.missing_code}
        present = set(range(len(own))) - missing
        return self._of_source(source, *((present, missing) if negated else (missing, present)))

    def _among(self, name: str, column: Column, negated: bool) -> Stated:
        if not self._symbol("["):
            raise self._error("expected a list after `in`, such as [a, b]")
        if not column.levels:
            said = [self._value_of(name, column, "==")]
            while self._symbol(","):
                said.append(self._value_of(name, column, "=="))
            self._close()
            met = tuple(clause for each in said for clause in each.met)
            broken = tuple(join_conditions(self._node, [each.broken for each in said]))
            both = (broken, met) if negated else (met, broken)
            return Stated(*both, (name,), said[0].units)
        codes = {self._level_code(column)}
        while self._symbol(","):
            codes.add(self._level_code(column))
        self._close()
        return self._levels(name, column, codes, negated)

    def _close(self) -> None:
        if not self._symbol("]"):
            raise self._error("expected `,` or `]`")

    def _level(self, name: str, column: Column) -> Stated:
        sign = self._sign()
        if sign in ("+", "-"):
            raise self._node.error(
                f"{name!r} is {column.type.named}; only"
                " numbers, integers and dates can be added or subtracted."
            )
        if sign not in ("==", "!=") and not column.type.ordered:
            raise self._node.error(
                f"{name!r} is a category, whose levels have no order; compare it with == or !=, or"
                " make it an ordinal."
            )
        code = self._level_code(column)
        codes = {
            "==": {code},
            "!=": {code},
            "<": set(range(code)),
            "<=": set(range(code + 1)),
            ">": set(range(code + 1, column.bins)),
            ">=": set(range(code, column.bins)),
        }[sign]
        return self._levels(name, column, codes, sign == "!=")

    def _levels(self, name: str, column: Column, codes: set[int], negated: bool) -> Stated:
        """Return the condition that a category or ordinal has one of some levels, or none."""
        check_public(self._node, column, "no rule can name them")
        if column.missing_code in codes:
            raise self._node.error(f"write {name} is missing, instead of naming a level.")
        source, becomes = origin(self._schema, name)
        if source == name:
            inside = tuple(sorted(codes))
            outside = tuple(code for code in range(column.bins) if code not in codes)
            met, broken = ((Among(name, inside),),), ((Among(name, outside),),)
            return Stated(*((broken, met) if negated else (met, broken)), (name,))
        own = becomes.tolist()
        present = {code for code, its in enumerate(own) if its != column.missing_code}
        inside_source = {code for code in present if own[code] in codes}
        if negated:
            inside_source = present - inside_source
        return self._of_source(source, inside_source, present - inside_source)

    def _of_source(self, source: str, met: set[int], broken: set[int]) -> Stated:
        """Return a condition about a dependent column as one about codes of its source."""
        column = self._schema.column(source)
        units = () if column.levels else (units_of(column),)
        return Stated(of_codes(column, met), of_codes(column, broken), (source,), units)

    def _comparison(self) -> Stated:
        left = self._sum()
        sign = self._sign()
        if sign in ("+", "-"):
            raise self._error("expected a comparison")
        right = self._sum()
        terms = [*left.terms, *((name, -factor) for name, factor in right.terms)]
        names = [name for name, _ in terms]
        for name in names:
            if names.count(name) > 1:
                raise self._node.error(f"names {name!r} twice in one comparison; name it once.")
        if not terms:
            raise self._error("compares constants; name a column")
        since = Counter(left.since)
        since.subtract(right.since)
        whole = _Sum(tuple(terms), left.constant - right.constant, since)
        return self._comparison_of(whole, sign)

    def _comparison_of(self, whole: _Sum, sign: str) -> Stated:
        columns = [self._known[name] for name, _ in whole.terms]
        for of, number in whole.since.items():
            if number:
                raise self._node.error(
                    f"compares {of.values} with something else; compare {of.values} with"
                    f" {of.values}, or with {of.typed}. A number of {of.difference} may be added to"
                    f" {of.a_value}, and the difference of two {of.values} is a number of"
                    f" {of.difference}."
                )
        numbers = [column for column in columns if column.type.continuous]
        for of in (column.scale for column in columns if column.type.own_texts):
            if numbers or whole.constant.denominator != 1:
                raise self._node.error(
                    f"adds a number to {of.a_value}; add whole {of.difference} (a whole number or"
                    " an integer column)."
                )
        if len(columns) == 1 and numbers and numbers[0].decimals is None:
            ((_, factor),) = whole.terms
            side = sign if factor > 0 else _MIRRORED[sign]
            return by_bin(self._node, numbers[0], side, -whole.constant / factor)
        for column in numbers:
            if column.decimals is None:
                raise self._node.error(
                    f"compares {column.name!r}, a number without `decimals`; state its decimals, so"
                    " that the comparison is exact."
                )
        return comparison(
            self._node, self._text, tuple(columns), whole.terms, sign, -whole.constant
        )

    def _sum(self) -> _Sum:
        terms: list[tuple[str, int]] = []
        constant, since, sign = Fraction(0), Counter[ValueType](), 1
        if self._symbol("-"):
            sign = -1
        while True:
            name = self._column(required=False)
            if name is not None:
                column = self._known[name]
                if column.levels:
                    raise self._node.error(
                        f"{name!r} is {column.type.named}; it"
                        " can be compared with its levels only, on the right of the sign, and not"
                        " be added or subtracted."
                    )
                terms.append((name, sign))
                _add_since(since, column.scale, sign)
            else:
                value, of = self._constant()
                constant += sign * value
                _add_since(since, of, sign)
            if self._symbol("+"):
                sign = 1
            elif self._symbol("-"):
                sign = -1
            else:
                return _Sum(tuple(terms), constant, since)

    def _constant(self) -> tuple[Fraction, ValueType | None]:
        """Return the value that is named next, and its type if that has texts of its own."""
        if found := _with_text(self._rest):
            text, of = found
            self._skip(len(text))
            return of.read(replace(self._node, content=text)), of
        if match := _NUMBER.match(self._rest):
            self._skip(match.end())
            try:
                return parse_fraction(match[0]), None
            except ValueError as error:
                raise self._node.error(str(error)) from None
        self._column(required=True)
        raise AssertionError("a column was read")

    def _value_of(self, name: str, column: Column, sign: str) -> Stated:
        negative = self._symbol("-")
        value, of = self._constant()
        factor = -1 if negative else 1
        since = Counter[ValueType]()
        _add_since(since, column.scale, 1)
        _add_since(since, of, -1)
        return self._comparison_of(_Sum(((name, 1),), -factor * value, since), sign)

    def _level_code(self, column: Column) -> int:
        check_public(self._node, column, "no rule can name them")
        names = level_names(column)
        quoted = self._quotation()
        if quoted is None:
            known = sorted(names, key=len, reverse=True)
            quoted = next((each for each in known if self._starts_with(each)), None)
            if quoted is None:
                stop = re.search(r"\s+(?:and|then)\b|[\],]|$", self._rest)
                assert stop is not None
                quoted = self._rest[: stop.start()].strip()
            self._skip(len(quoted))
        return read_level(self._node, quoted, column, names)

    def _column(self, *, required: bool) -> str | None:
        """Return the column that is named next; None if there is none and it is not required."""
        start = self._at
        name = self._quotation()
        if name is None:
            name = next((each for each in self._by_length if self._starts_with(each)), None)
            if name is not None:
                self._skip(len(name))
                return name
            if not required and (_with_text(self._rest) or _NUMBER.match(self._rest)):
                return None
            match = _WORD.match(self._rest)
            if match is None:
                raise self._error("expected a column or a number")
            name = match[0]
        if name in self._known:
            return name
        self._at = start
        raise self._node.error(
            f"there is no column {quote(name)} in the schema.{nearest(name, self._known)}"
        )

    def _sign(self) -> str:
        for sign in _SIGNS:
            if self._symbol(sign):
                return _SAME.get(sign, sign)
        for sign in ("+", "-"):
            if self._rest.startswith(sign):
                return sign
        raise self._error("expected a comparison")

    @property
    def _rest(self) -> str:
        return self._text[self._at :]

    def _skip(self, length: int) -> None:
        self._at += length
        while self._rest.startswith(" "):
            self._at += 1

    def _symbol(self, symbol: str) -> bool:
        if not self._rest.startswith(symbol):
            return False
        self._skip(len(symbol))
        return True

    def _peek(self, word: str) -> bool:
        return re.match(rf"{word}\b", self._rest, re.IGNORECASE) is not None

    def _word(self, word: str) -> bool:
        # A column may be called so.
        if not self._peek(word) or (word in self._known and not self._rest.startswith(f"{word} ")):
            return False
        self._skip(len(word))
        return True

    def _quotation(self) -> str | None:
        sign = self._rest[:1]
        if sign not in ("`", '"', "'") or not sign:
            return None
        end = self._rest.find(sign, 1)
        if end < 0:
            raise self._error(f"the closing {sign} is missing")
        text = self._rest[1:end]
        self._skip(end + 1)
        return text

    def _starts_with(self, name: str) -> bool:
        rest = self._rest
        if not name or not rest.startswith(name):
            return False
        after = rest[len(name) : len(name) + 1]
        return not (after.isalnum() or after == "_")

    def _error(self, message: str) -> Exception:
        rest = self._rest
        place = f"at {quote(rest[:40])}" if rest else "at the end"
        return self._node.error(f"{message}, {place}; {_FORM}.")


def _add_since(since: Counter[ValueType], of: ValueType | None, times: int) -> None:
    """Count a value of a type with texts of its own in a sum."""
    if of is not None and of.own_texts:
        since[of] += times


def _with_text(text: str) -> tuple[str, ValueType] | None:
    """Return the value with which a text begins, and its type, if the type has its own texts."""
    for of in types_with_texts():
        if of.pattern is not None and (match := of.pattern.match(text)):
            return match[0], of
    return None
