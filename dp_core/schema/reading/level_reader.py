"""Reads a level where a schema names one: by the file's text, by its label, or as missing."""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.errors import nearest
from dp_core.schema.definition import MISSING_LABEL, Column
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
