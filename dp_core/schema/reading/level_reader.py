"""Reads a level where a schema names one: by the file's text, by its label, or as missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dp_core.errors import nearest
from dp_core.schema.definition import MISSING_LABEL, Column, Level
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

MISSING_WORDS = ("missing", MISSING_LABEL)


def level_names(column: Column) -> dict[str, int]:
    """Return the code of each text and label of a column's levels; a text goes before a label."""
    labels = {level.label: code for code, level in enumerate(column.levels)}
    return labels | {level.text: code for code, level in enumerate(column.levels)}


def read_level(node: Node, text: str, column: Column, names: Mapping[str, int]) -> int:
    """Return the code of a level.

    Args:
        node: Where the level is named, for the message.
        text: The name.
        column: A category or ordinal.
        names: Code of each accepted text and label.

    Raises:
        BadInput: if the column has no such level.
    """
    if text in names:
        return names[text]
    if text in MISSING_WORDS:
        return missing_code(node, column)
    raise node.error(f"{quote(text)} is not a level of {column.name!r}.{nearest(text, names)}")


def code_texts(column: Column) -> list[str]:
    """Return the text by which a schema names each code of a category or ordinal."""
    missing = [] if column.missing_code is None else [MISSING_LABEL]
    return [*(level.text for level in column.levels), *missing]


def check_levels(
    levels: Iterable[tuple[Node, str, str]], missing_values: Collection[str]
) -> tuple[Level, ...]:
    """Return levels whose texts and labels have one meaning.

    Args:
        levels: Where each level is stated, its text and its label.
        missing_values: Texts that mean missing in the column.

    Raises:
        BadInput: if a text or label also means missing, or a label is blank or given twice.
    """
    found: dict[str, Level] = {}
    for place, text, label in levels:
        for word in (text, label):
            if word in missing_values:
                raise place.error(
                    f"{quote(word)} is both a level and a missing value; remove the level, or give"
                    " the column its own `missing_values`."
                )
        if not label.strip():
            raise place.error(f'level {quote(text)} needs a label, as in {{"{text}": none}}.')
        if label in found:
            raise place.error(f"{quote(text)} and {quote(found[label].text)} have the same label.")
        if label == MISSING_LABEL:
            raise place.error(
                f"{quote(label)} is reserved for missing values; choose another label."
            )
        found[label] = Level(text, label)
    return tuple(found.values())


def missing_code(node: Node, column: Column) -> int:
    """Return the code of a column's missing level.

    Raises:
        BadInput: if the column has none.
    """
    if column.missing_code is None:
        raise node.error(
            f"column {column.name!r} has no missing level; add `missing: level` to the column, or"
            " remove `missing` here."
        )
    return column.missing_code


def check_public(node: Node, column: Column, why: str) -> None:
    """Refuse a column whose levels or bins are chosen privately.

    Args:
        node: Where the column is named, for the message.
        column: Any column.
        why: What is impossible for this column, as the middle of a sentence.
    """
    if column.choice is not None:
        what = "levels" if column.levels else "bins"
        raise node.error(
            f"the {what} of {column.name!r} are chosen privately, so {why}; state the {what} in the"
            " schema instead."
        )
