"""A mean, total or quantile that a spec declares, so that the release measures it directly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Literal

from dp_core.errors import BadInput, nearest
from dp_core.schema.definition import Column, Schema

StatisticWord = Literal["mean", "total", "quantile"]


@dataclass(frozen=True, slots=True)
class DeclaredStatistic:
    """A statistic of one number by groups of records, as a spec declares it.

    Attributes:
        text: The sentence as typed.
        measure: `mean`, `total` or `quantile`; a median is the quantile 1/2.
        column: Column of the number.
        by: Columns that make the groups, in the order of the sentence; () for the whole file.
        quantile: Probability of the quantile; None for the other measures.
    """

    text: str
    measure: StatisticWord
    column: str
    by: tuple[str, ...]
    quantile: Fraction | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the number last."""
        return (*self.by, self.column)


FORM = "'mean of income by sex'"
MOST_GROUPS = 10_000
"""Largest number of groups of a declared statistic."""
MOST_BY = 3
"""Largest number of columns that make the groups."""

_MEASURES = re.compile(
    r"\s*(?:the\s+)?(?P<word>means?|averages?|avg|total|sum)\s+(?:(?:of|in)\s+)?(?:the\s+)?(?P<rest>.+)",
    re.IGNORECASE | re.DOTALL,
)
_QUANTILES = re.compile(
    r"\s*(?:the\s+)?(?:(?P<median>medians?)|quantiles?\s+(?P<q>\S+))\s+(?:(?:of|in)\s+)?"
    r"(?:the\s+)?(?P<rest>.+)",
    re.IGNORECASE | re.DOTALL,
)
_LATER = re.compile(r"\s*(?:the\s+)?(?:count|share|ratio|difference)\b", re.IGNORECASE)


def is_statistic(text: str) -> bool:
    """Return whether a text is not a formula, which has a `~`."""
    return "~" not in text and bool(text.strip())


def declared_statistic(text: str, schema: Schema) -> DeclaredStatistic:
    """Return the declared statistic of a sentence.

    Args:
        text: The sentence as typed.
        schema: Schema of the release.

    Raises:
        BadInput: if it is not a statistic that can be measured.
    """
    found = _MEASURES.fullmatch(text.strip().rstrip("?."))
    asked = _QUANTILES.fullmatch(text.strip().rstrip("?."))
    if asked is not None:
        quantile = Fraction(1, 2) if asked["median"] else _quantile(text, asked["q"])
        return _declared_statistic(text, "quantile", asked["rest"], schema, quantile)
    if found is None:
        what = "is neither a formula nor a statistic"
        if _LATER.match(text):
            what = "is answered from the tables, and need not be declared"
        elif re.fullmatch(r"[\w-]+", text.strip()):
            what += " (a sentence with a comma needs quotes)"
        raise BadInput(
            f"{text!r:.120} {what}; a declared analysis is a formula such as 'income ~ age + sex',"
            f" or a mean, total, median or quantile such as {FORM}."
        )
    word: StatisticWord = "total" if found["word"].casefold() in ("total", "sum") else "mean"
    return _declared_statistic(text, word, found["rest"], schema)


def _quantile(text: str, stated: str) -> Fraction:
    try:
        found = Fraction(stated)
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if not 0 < found < 1:
        raise BadInput(
            f"{text!r:.120} states the quantile {stated!r:.30}; write a number between 0 and 1,"
            " such as quantile 0.9 of income by sex."
        )
    return found


def _declared_statistic(
    text: str, word: StatisticWord, rest: str, schema: Schema, quantile: Fraction | None = None
) -> DeclaredStatistic:
    name, by = _columns(text, rest, schema)
    for each in (name, *by):
        _check_measured(text, each, schema)
    _check_number(text, schema.column(name))
    for each in by:
        _check_group(text, schema.column(each))
    if name in by or len({*by}) < len(by):
        raise BadInput(f"{text!r:.120} names a column twice; name it once.")
    if len(by) > MOST_BY:
        raise BadInput(
            f"{text!r:.120} has {len(by)} columns after by; a declared statistic has at most"
            f" {MOST_BY}."
        )
    groups = prod(schema.column(each).size for each in by)
    if groups > MOST_GROUPS:
        raise BadInput(
            f"{text!r:.120} has {groups:,} groups; a declared statistic has at most"
            f" {MOST_GROUPS:,}. Name fewer columns after by."
        )
    return DeclaredStatistic(text, word, name, by, quantile)


def _columns(text: str, rest: str, schema: Schema) -> tuple[str, tuple[str, ...]]:
    """Return the number and the groups that the end of a sentence names."""
    names = {_fold_case(name): name for name in schema.names}
    if re.search(r"\b(where|for|among|if)\b", rest, re.IGNORECASE) and not _column_named(
        rest, names
    ):
        raise BadInput(
            f"{text!r:.120} has a condition; declare the statistic by groups instead. A question"
            " with a condition on these groups is then answered from it."
        )
    if (name := _column_named(rest, names)) is not None:
        return name, ()
    for divider in re.finditer(r"\s(?:by|per)\s", rest, re.IGNORECASE):
        name = _column_named(rest[: divider.start()], names)
        if name is not None:
            return name, tuple(_list_names(text, rest[divider.end() :], names))
    unknown = re.split(r"\s(?:by|per)\s", rest, flags=re.IGNORECASE)[0].strip()
    raise BadInput(
        f"{text!r:.120} names {unknown!r}, which is not a column.{nearest(unknown, schema.names)}"
    )


def _list_names(text: str, rest: str, names: dict[str, str]) -> Sequence[str]:
    """Return the columns of a list; a name may itself contain commas or `and`."""
    pieces = re.split(r"(\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*)", rest.strip())
    found, place = [], 0
    while place < len(pieces):
        for end in range(len(pieces), place, -1):
            name = _column_named("".join(pieces[place:end]), names)
            if name is not None and (end - place) % 2:
                found.append(name)
                place = end + 1
                break
        else:
            unknown = pieces[place].strip()
            raise BadInput(
                f"{text!r:.120} names {unknown!r} after by, which is not a"
                f" column.{nearest(unknown, [*names.values()])}"
            )
    return found


def _column_named(text: str, names: dict[str, str]) -> str | None:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        text = text[1:-1]
    return names.get(_fold_case(text))


def _fold_case(text: str) -> str:
    return " ".join(text.split()).casefold()


def _check_measured(text: str, name: str, schema: Schema) -> None:
    if name not in schema.domain.columns:
        source = next(each.source for each in schema.dependents if each.column.name == name)
        raise BadInput(
            f"{text!r:.120} uses {name!r}, which is derived from {source!r} and not measured; use"
            f" {source!r}."
        )


def _check_number(text: str, column: Column) -> None:
    if not column.type.sums:
        what = "levels" if column.levels else column.scale.values
        raise BadInput(
            f"{text!r:.120} is about {column.name!r}, which has {what}; a declared statistic is"
            " about an integer or number column."
        )
    if column.choice is not None:
        raise BadInput(
            f"{text!r:.120} is about {column.name!r}, whose bins are chosen privately; state its"
            " bins in the schema."
        )


def _check_group(text: str, column: Column) -> None:
    if column.choice is not None:
        what = "levels" if column.levels else "bins"
        raise BadInput(
            f"{text!r:.120} has groups by {column.name!r}, whose {what} are chosen privately; state"
            f" its {what} in the schema."
        )
