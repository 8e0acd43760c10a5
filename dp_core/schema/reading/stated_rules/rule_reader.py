"""Rules of `impossible`, as boxes of codes, and rules that count members of a household.

A rule of `impossible` maps columns to conditions; a row that meets all of them cannot occur. A
condition is

- of a category or ordinal: a level, by the file's text or else by its label;
- of an integer, number or date: `"<15"`, `"<=14"`, `">=18"`, `">17"`, `"15..17"`, or one value,
  where every threshold is a bin edge (a bin is impossible as a whole or not at all);
- `missing`: the missing level (`(missing)` if a level is itself called `missing`);
- `{not: condition}`: every other value; it never includes the missing level;
- a list of conditions: any of them.

A rule may name a dependent column like any other; its box of codes is then one of the source.

A rule that names a column whose bins or levels are chosen privately is no box of codes before the
choice. It becomes a rule between columns (`dp_core.schema.rules`), which is judged by values; its
thresholds need not be bin edges, and of private levels it can name the missing level only.

A rule that counts members, such as `exactly one relation == reference`, is one of the texts under
`rules`. It begins with `exactly`, `at least` or `at most` and
a number (a word up to ten, or digits). Conditions follow, as in other rules, joined by `and`. They
are about columns of persons, and codes must decide each of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dp_core.errors import nearest
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.schema.definition import Column, Schema
from dp_core.schema.dependencies import origin
from dp_core.schema.reading.dependency_reader import check_rule
from dp_core.schema.reading.level_reader import (
    MISSING_WORDS,
    check_public,
    level_names,
    missing_code,
    read_level,
)
from dp_core.schema.reading.stated_rules.column_rule_reader import read_conditions, rule_text
from dp_core.schema.reading.stated_rules.forms.counted_members import FORM
from dp_core.schema.reading.stated_rules.rule_conditions import (
    Alternatives,
    Stated,
    by_bin,
    comparison,
    decided_codes,
    join_conditions,
    of_codes,
    rule_of,
    units_of,
)
from dp_core.schema.rules.column_rules import ColumnRule, Missing
from dp_core.schema.structure.member_rules import MemberRule
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.text.documents.faults import Faults
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

EXAMPLE = '- {age: "<15", marital: [married, widowed]}'
_COMPARISON = re.compile(r"(<=|>=|<|>)\s*(.+)", re.DOTALL)
_INTERVAL = re.compile(r"(.+?)\s*\.\.\s*(.+)", re.DOTALL)


def read_rules(
    node: Node, schema: Schema, faults: Faults
) -> tuple[StructuralZeros, tuple[ColumnRule, ...]]:
    """Return the structural zeros of a schema, and the rules about private bins and levels.

    Args:
        node: List of rules.
        schema: The schema, with all columns that could be read.
        faults: Notes the fault of each rule: an unknown column or level, a threshold inside a bin,
            a condition that no value meets, and rules that leave a column without any possible
            value.

    Raises:
        BadInput: if it is not a list.
    """
    known = {column.name: column for column in schema.released}
    rules: list[Rule] = []
    between: list[ColumnRule] = []
    dead: dict[str, set[int]] = {}

    def add(item: Node) -> None:
        rule = _read_rule(item, schema, known)
        check_rule(schema, rule.text, rule.columns, item)
        if isinstance(rule, ColumnRule):
            between.append(rule)
            return
        rules.append(rule)
        # A condition that every value meets has no effect; a rule for one column bans its codes.
        narrow = [
            (name, codes)
            for name, codes in zip(rule.columns, rule.codes, strict=True)
            if len(codes) < known[name].size
        ]
        if not narrow:
            raise item.error("makes every row impossible; restrict one of its conditions.")
        if len(narrow) == 1:
            name, codes = narrow[0]
            dead.setdefault(name, set()).update(codes)
            if len(dead[name]) == known[name].size:
                raise item.error(
                    f"leaves column {name!r} without any possible value, together with the rules"
                    " before it; remove one of them."
                )

    for item in faults.items(node, example=EXAMPLE):
        faults.of(None, add, item)
    return StructuralZeros(tuple(rules)), tuple(between)


def place_of(rule: ColumnRule, node: Node) -> Node:
    """Return the item that states a rule.

    Args:
        rule: The rule.
        node: The list of rules from which it was read, under the rule's key.
    """
    texts = (
        rule_text(item)
        if rule.key == "rules"
        else _rule_text(item.ordered_entries(example=EXAMPLE))
        for item in node.items()
    )
    return next(item for item, text in zip(node.items(), texts, strict=True) if text == rule.text)


def _read_rule(item: Node, schema: Schema, known: Mapping[str, Column]) -> Rule | ColumnRule:
    """Return a rule as a box of codes, or about values if it names private bins or levels."""
    entries = item.ordered_entries(example=EXAMPLE)
    if not entries:
        raise item.error("is empty; give at least one column with its impossible values.")
    for name in entries:
        if name not in known:
            raise item.error(
                f"there is no column {quote(name)} in the schema.{nearest(name, known)}"
            )
    origins = {name: origin(schema, name) for name in entries}
    private = any(
        each.choice is not None
        for name, (source, _) in origins.items()
        for each in (known[name], schema.column(source))
    )
    boxes: dict[str, set[int]] = {}
    stated: list[Stated] = []
    for name, condition in entries.items():
        column, (source, becomes) = known[name], origins[name]
        of = schema.column(source)
        if column.choice is not None:
            met = _by_values(condition, column)[0]
        else:
            check_public(item, of, "no rule can name columns that follow them")
            own = _codes(condition, column)
            codes = {code for code, its in enumerate(becomes.tolist()) if its in own}
            also = ""
            if source in boxes:
                codes, also = codes & boxes[source], " and the conditions before it"
            if not codes:
                raise condition.error(
                    f"no value of column {source!r} meets {_text(condition)}{also}; correct or"
                    " remove it."
                )
            if not private:
                boxes[source] = codes
                continue
            met = of_codes(of, codes)
        stated.append(Stated(met, (), (source,), () if of.levels else (units_of(of),)))
    text = _rule_text(entries)
    if not private:
        return Rule(tuple(boxes), tuple(tuple(sorted(codes)) for codes in boxes.values()), text)
    clauses = join_conditions(item, [each.met for each in stated])
    return rule_of(item, schema, text, clauses, stated, key="impossible")


def _rule_text(entries: Mapping[str, Node]) -> str:
    return ", ".join(f"{name}: {_text(condition)}" for name, condition in entries.items())


def _text(node: Node) -> str:
    if isinstance(node.content, tuple):
        return f"[{', '.join(_text(item) for item in node.content)}]"
    if isinstance(node.content, Mapping):
        return f"not {_text(node.content['not'])}"
    return node.content or '""'


def _codes(node: Node, column: Column, names: Mapping[str, int] | None = None) -> set[int]:
    """Return the codes that meet a condition; `names` are the level names, if known already."""
    if column.levels and names is None:
        names = level_names(column)
    if (items := _items(node)) is not None:
        return set().union(*(_codes(item, column, names) for item in items))
    if isinstance(node.content, Mapping):
        return set(range(column.bins)) - _codes(_excluded_node(node), column, names)
    text = node.text(example="a level" if column.levels else '"<15"')
    if names is not None:
        return {read_level(node, text, column, names)}
    if text in MISSING_WORDS:
        return {missing_code(node, column)}
    # By its bins, a number has the thresholds of its edges alone, also if it has decimals.
    by_bins = replace(column, decimals=None)
    return decided_codes(node, _within(node, text, by_bins)[0], by_bins)


def _by_values(node: Node, column: Column) -> tuple[Alternatives, Alternatives]:
    """Return when a condition on a column with private bins or levels is met, and when not."""
    if (items := _items(node)) is not None:
        parts = [_by_values(item, column) for item in items]
        met = tuple(clause for part in parts for clause in part[0])
        return met, tuple(join_conditions(node, [part[1] for part in parts]))
    present: Alternatives = ((Missing(column.name, False),),)
    if isinstance(node.content, Mapping):
        met, broken = _by_values(_excluded_node(node), column)
        return tuple(join_conditions(node, [present, broken])), met
    text = node.text(example='"<15"')
    if text in MISSING_WORDS:
        missing_code(node, column)
        return ((Missing(column.name, True),),), present
    if column.levels:
        check_public(node, column, "no rule can name them")
    return _within(node, text, column)


def _items(node: Node) -> tuple[Node, ...] | None:
    """Return the conditions of a list, any of which may be met; None for a single condition."""
    if not isinstance(node.content, tuple):
        return None
    if not node.content:
        raise node.error("the list is empty; give at least one value.")
    return node.content


def _excluded_node(node: Node) -> Node:
    return node.fields(("not",), required=("not",), example="{not: [a, b]}")["not"]


def _within(node: Node, text: str, column: Column) -> tuple[Alternatives, Alternatives]:
    """Return when a value is in the range that a text states, and when it is not."""
    scale = column.scale
    text = text.strip().replace("≤", "<=").replace("≥", ">=")

    def value(part: str) -> Fraction:
        return scale.read(replace(node, content=part))

    def against(sign: str, value: Fraction) -> Stated:
        if scale.continuous and column.decimals is None:
            return by_bin(node, column, sign, value)
        return comparison(node, text, (column,), ((column.name, 1),), sign, value)

    if match := _COMPARISON.fullmatch(text):
        said = against(match[1], value(match[2]))
        return said.met, said.broken
    if match := _INTERVAL.fullmatch(text):
        low, high = value(match[1]), value(match[2])
        if high < low:
            raise node.error(f"{quote(text)} is reversed; write the smaller value first.")
        # A range of numbers contains its lower end and not its upper one.
        first, last = against(">=", low), against("<" if scale.continuous else "<=", high)
        return tuple(join_conditions(node, [first.met, last.met])), (*first.broken, *last.broken)
    said = against("==", value(text))
    return said.met, said.broken


MEMBER_EXAMPLE = "exactly one relation == reference"
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def counts_members(node: Node) -> bool:
    """Return whether an item of `rules` counts members of a household."""
    return isinstance(node.content, str) and FORM.pattern.fullmatch(rule_text(node)) is not None


def read_member_rule(
    node: Node, schema: Schema, *, persons: Sequence[str], table: str, max_members: int
) -> MemberRule:
    """Return a rule that counts members of a household.

    Args:
        node: The text, which begins as `counts_members` says.
        schema: The schema with the columns of both tables and `members`.
        persons: Names of the person columns.
        table: Name of the table of persons.
        max_members: Most members of a household.

    Raises:
        BadInput: if the number or a condition cannot be read, a condition is about a column of the
            household, or is not decided by codes, or every person meets the conditions, or none, or
            every household obeys the rule, or none.
    """
    text = rule_text(node)
    match = FORM.pattern.fullmatch(text)
    assert match is not None
    sign, word, rest = match[1].lower(), match[2], match[3]
    number = _number(node, word)
    if not rest:
        raise node.error(f"ends after the number; add a condition, as in {MEMBER_EXAMPLE}.")
    found: dict[str, set[int]] = {}
    for stated in read_conditions(node, rest, schema):
        name = _column(node, stated, persons, table)
        codes = decided_codes(node, stated.met, schema.column(name))
        found[name] = found.get(name, codes) & codes
    narrow = {name: codes for name, codes in found.items() if len(codes) < schema.column(name).size}
    if not all(found.values()):
        raise node.error(f"no person meets the conditions of `{text}`; correct or remove it.")
    if not narrow:
        raise node.error(
            f"every person meets the conditions of `{text}`; to limit the size of households, name"
            f" `{MEMBERS}` under `impossible`."
        )
    least = 0 if sign == "at most" else number
    most = None if sign == "at least" else number
    if least > max_members:
        raise node.error(
            f"no household obeys `{text}`, because a household has at most {max_members} members;"
            " correct or remove it."
        )
    if sign == "at most" and number >= max_members:
        raise node.error(
            f"every household obeys `{text}`, because a household has at most {max_members}"
            " members; correct or remove it."
        )
    return MemberRule(
        text=text,
        columns=tuple(name for name in persons if name in narrow),
        codes=tuple(tuple(sorted(narrow[name])) for name in persons if name in narrow),
        least=least,
        most=most,
    )


def _number(node: Node, word: str) -> int:
    if word.lower() in _WORDS:
        return _WORDS.index(word.lower()) + 1
    number = int(word) if word.isascii() and word.isdecimal() and len(word) <= 3 else None
    if number is None:
        raise node.error(
            f"{quote(word)} is not a number of members; write one to ten, or digits, as in"
            f" {MEMBER_EXAMPLE}."
        )
    if number == 0:
        raise node.error(
            "a rule cannot count 0 members; state a value that no member may have under"
            " `impossible`."
        )
    return number


def _column(node: Node, stated: Stated, persons: Sequence[str], table: str) -> str:
    """Return the person column that a condition is about."""
    for name in stated.columns:
        if name == MEMBERS:
            raise node.error(
                f"names `{MEMBERS}`, but a rule that counts members is about columns of the table"
                f" {table}; remove this condition."
            )
        if name not in persons:
            raise node.error(
                f"names {name!r}, a column of the household, but a rule that counts members is"
                f" about columns of the table {table}; remove this condition."
            )
    if len(stated.columns) > 1:
        raise node.error(
            f"compares {stated.columns[0]!r} with {stated.columns[1]!r}, but a rule that counts"
            " members compares columns only with values; write a value."
        )
    return stated.columns[0]
