"""Columns with very many levels for their number of records, by the schema alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dp_core.methods.selection.selector import Selector
from dp_core.schema.definition import Column, Schema

MANY = 1000
"""Least number of levels of a column that is named."""
FEW_ROWS = 10
"""Records per level below which merging rare levels is more exact than tables of all levels
(`benchmarks/many_levels.py`)."""


@dataclass(frozen=True, slots=True)
class ManyLevels:
    """A category that has very many levels for its file.

    Attributes:
        column: Name of the column.
        levels: Number of its levels.
        rows_per_level: Records per level, by `rows_about`.
        never_with: Columns with which the method never measures it, since their table is too large.
        in_words: Sentences that say what this means, and what to write instead.
    """

    column: str
    levels: int
    rows_per_level: float
    never_with: tuple[str, ...]
    in_words: str


def many_levels(schema: Schema, selector: Selector) -> Iterator[ManyLevels]:
    """Yield the categories that have fewer than `FEW_ROWS` records for each of many levels.

    Args:
        schema: The schema; without `rows_about` nothing is yielded.
        selector: Selection of the release.
    """
    rows = schema.rows_about
    if rows is None:
        return
    many = [
        column
        for column in schema.columns
        if not column.type.ordered
        and column.choice is None
        and column.bins >= MANY
        and rows < FEW_ROWS * column.bins
    ]
    if not many:
        return
    pairs = {frozenset(clique) for clique in selector.needs(schema.domain) if len(clique) == 2}
    for column in many:
        never = tuple(
            other.name
            for other in schema.columns
            if pairs and other is not column and {column.name, other.name} not in pairs
        )
        each = rows / column.bins
        yield ManyLevels(column.name, column.bins, each, never, _in_words(column, each, never))


def _in_words(column: Column, rows_per_level: float, never_with: Sequence[str]) -> str:
    never = ""
    if never_with:
        named = ", ".join(never_with[:5])
        more = len(never_with) - 5
        named += f" and {more} more columns" if more > 0 else ""
        never = f" Its tables with {named} are too large and are never measured."
    # A code list has its own groups.
    groups = "" if column.codes else ", and list all levels under `groups: {codes: [...]}`"
    return (
        f"{column.name}: {column.bins:,} levels with about {rows_per_level:.2g} rows each;"
        f" noise may hide most of their counts.{never} To measure only the 200 most frequent"
        " levels and draw the others at random, write `levels: {private: 200, rest: drawn}` in"
        f" the schema{groups}."
    )
