"""A mean, total or quantile that a spec declares, so that the release measures it directly.

The sentence, such as `mean of turnover by industry`, is a question of `dp-release query`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Literal, cast

from dp_core.errors import BadInput
from dp_core.inference.questions.question_grammar import read_question
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
    try:
        asked = read_question(text, schema)
    except BadInput as error:
        comma = re.fullmatch(r"[\w-]+", text.strip())
        raise BadInput(
            f"{text!r:.120} is neither a formula nor a statistic such as {FORM}"
            f"{' (a sentence with a comma needs quotes)' if comma else ''}. {error.message}"
        ) from None
    name, by = asked.number, asked.by
    if asked.is_of_spread:
        raise BadInput(
            f"{text!r:.120} cannot be declared; `query` answers it. A declared statistic is a mean,"
            f" total, median or quantile such as {FORM}."
        )
    if name is None:
        raise BadInput(
            f"{text!r:.120} is answered from the tables, and need not be declared; a declared"
            f" statistic is a mean, total, median or quantile such as {FORM}."
        )
    if asked.between is not None or asked.where:
        what = "a condition" if asked.where else "a difference"
        raise BadInput(
            f"{text!r:.120} has {what}; declare the statistic by groups instead. A question about"
            " these groups is then answered from it."
        )
    for each in (name, *by):
        _check_measured(text, each, schema)
    _check_number(text, schema.column(name))
    for each in by:
        _check_group(text, schema.column(each))
    if name in by:
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
    return DeclaredStatistic(text, cast("StatisticWord", asked.measure), name, by, asked.quantile)


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
