"""Reads the rules that count members of a household, such as `exactly one relation == reference`.

Such a rule is one of the texts under `rules`. It begins with `exactly`, `at least` or `at most` and
a number (a word up to ten, or digits). Conditions follow, as in other rules, joined by `and`. They
are about columns of persons, and codes must decide each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.schema.definition import Schema
from dp_core.schema.reading.stated_rules.column_rule_reader import (
    read_conditions,
    rule_text,
)
from dp_core.schema.reading.stated_rules.forms.counted_members import FORM
from dp_core.schema.reading.stated_rules.rule_conditions import Stated, decided_codes
from dp_core.schema.structure.member_rules import MemberRule
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

EXAMPLE = "exactly one relation == reference"
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
        raise node.error(f"ends after the number; add a condition, as in {EXAMPLE}.")
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
            f"{shown(word)} is not a number of members; write one to ten, or digits, as in"
            f" {EXAMPLE}."
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
