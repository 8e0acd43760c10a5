"""A question about the counts of a file as it was understood, and its conditions as codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, get_args

from dp_core.errors import BadInput, nearest
from dp_core.schema.definition import MISSING_LABEL, Column

SpreadWord = Literal["standard deviation", "gini coefficient", "top share"]
"""Measures of spread and inequality (`dp_core.inference.spread_measures`)."""
Measure = Literal["count", "share", "mean", "total", "ratio", "quantile"] | SpreadWord


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one column: which of its codes are meant.

    Attributes:
        column: Name of a released column.
        codes: Codes that meet the condition, ascending, at least one.
        text: The condition in words, as it was understood.
        note: What the reader must know about how it was understood; empty if nothing.
    """

    column: str
    codes: tuple[int, ...]
    text: str
    note: str = ""


Conditions = tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked.

    Attributes:
        measure: What is computed in each group.
        number: Column whose mean, total, quantile or spread is asked; None for a count, share or
            ratio.
        quantile: Which quantile is asked, or which part of the records with the largest values has
            the share; above 0 and below 1. None for the other measures.
        of: Share: conditions of the part. Count: further conditions. Ratio: conditions of the
            numerator.
        to: Ratio: conditions of the denominator.
        levels_of: Share: column whose levels are the parts, as in `share of sex by region`.
        by: Columns that make the groups.
        where: Conditions that every counted record meets.
        between: Difference: conditions of the first and of the second group; None without one.
        waves: Change between two waves of a panel: the earlier and the later one as they were
            named; None without one. `number` and the conditions then name columns of the panel's
            file, and `in_waves` those of the record.
        in_waves: The question in the first wave and in the second; None without a change.
    """

    measure: Measure
    number: str | None = None
    quantile: Fraction | None = None
    of: Conditions = ()
    to: Conditions = ()
    levels_of: str | None = None
    by: tuple[str, ...] = ()
    where: Conditions = ()
    between: tuple[Conditions, Conditions] | None = None
    waves: tuple[str, str] | None = None
    in_waves: tuple[Question, Question] | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        """Columns whose levels name an answer, in the order of the output."""
        return self.by if self.levels_of is None else (self.levels_of, *self.by)

    @property
    def is_of_spread(self) -> bool:
        """Whether it is about the spread or inequality of a number."""
        return self.measure in get_args(SpreadWord)

    @property
    def adds_up(self) -> bool:
        """Whether sums of answers have a meaning: of counts, shares and totals."""
        return self.measure in ("count", "share", "total")

    @property
    def conditions(self) -> Conditions:
        """All conditions."""
        first, second = self.between or ((), ())
        return (*self.of, *self.to, *first, *second, *self.where)

    @property
    def columns(self) -> frozenset[str]:
        """Names of all columns that it involves."""
        if self.in_waves is not None:
            return self.in_waves[0].columns | self.in_waves[1].columns
        number = () if self.number is None else (self.number,)
        return frozenset((*self.groups, *(each.column for each in self.conditions), *number))

    @property
    def in_words(self) -> str:
        """The question as it was understood."""
        found = {
            "count": "count" + (f" of {_all(self.of)}" if self.of else ""),
            "share": f"share of {self.levels_of or _all(self.of)}"
            if self.of or self.levels_of
            else "share",
            "quantile": f"{self._quantile_words} of {self.number}",
            "top share": f"top {100 * float(self.quantile or 0):.12g} % share of {self.number}",
            "ratio": f"ratio of {_all(self.of)} to {_all(self.to)}",
        }.get(self.measure, f"{self.measure} of {self.number}")
        if self.between:
            one, two = self.between
            found = f"difference in {found} between {_all(one, ', ')} and {_all(two, ', ')}"
        if self.waves:
            found = f"change in {found} from {self.waves[0]} to {self.waves[1]}"
        if self.by:
            found += f" by {', '.join(self.by)}"
        return found + (f" where {_all(self.where)}" if self.where else "")

    @property
    def _quantile_words(self) -> str:
        if self.quantile == Fraction(1, 2):
            return "median"
        text = f"{float(self.quantile or 0):.12f}".rstrip("0")
        return f"quantile {text if Fraction(text) == self.quantile else self.quantile}"


def _all(conditions: Conditions, between: str = " and ") -> str:
    return between.join(condition.text for condition in conditions)


MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison with its two sides exchanged."""


def fold_text(text: str) -> str:
    """Return a text without differences of case and of spaces."""
    return " ".join(text.casefold().split())


def codes_by_text(column: Column) -> Mapping[str, tuple[int, ...]]:
    """Return the codes of each text that can name a level or bin: labels and the file's texts.

    A text that is one level's label and another level's text names both.
    """
    found: dict[str, list[int]] = {}
    for code, label in enumerate(column.code_labels()):
        texts = {fold_text(label)}
        if code < len(column.levels):
            texts.add(fold_text(column.levels[code].text))
        if label == MISSING_LABEL:
            texts.add("missing")
        for text in texts:
            found.setdefault(text, []).append(code)
    if column.type.whole:
        for code, (low, high) in enumerate(pairwise(column.edges)):
            text = fold_text(column.scale.text(low))
            if high - low == 1 and code not in found.setdefault(text, []):
                found[text].append(code)
    return {text: tuple(codes) for text, codes in found.items()}


def level_code(column: Column, text: str) -> int:
    """Return the code of a level or bin, by its label or its text in the file.

    Raises:
        BadInput: if there is no such level, or if the text means two of them.
    """
    found = codes_by_text(column).get(fold_text(text), ())
    if len(found) > 1:
        # The text of the file is more exact than a label.
        own = [code for code in found if code < len(column.levels)]
        own = [code for code in own if column.levels[code].text == text.strip()]
        found = tuple(own) if len(own) == 1 else found
    if len(found) == 1:
        return found[0]
    if found:
        named = " and ".join(f"{column.levels[code].text!r}" for code in found[:2])
        raise BadInput(
            f"{text!r} means two levels of {column.name!r}: use the text of the file, {named}."
        )
    if not column.levels:
        raise BadInput(_no_bin(column, text))
    if (code := column.texts().get(text.strip())) is not None:
        raise BadInput(
            f"{text!r} is not among the levels of {column.name!r} that the release kept; the tables"
            f" count it in {column.levels[code].label!r}."
        )
    labels = list(dict.fromkeys(level.label for level in column.levels))
    if len(labels) > 12:
        hint = nearest(text, labels[:1000])
        hint = hint if hint.startswith(" Did") else f" It has {len(labels)} levels."
    else:
        hint = nearest(text, labels)
    raise BadInput(f"Column {column.name!r} has no level {text!r}.{hint}")


def equal_to(column: Column, texts: Sequence[str], *, negated: bool = False) -> Condition:
    """Return the condition that a column has one of some levels, or none of them.

    Negated, it excludes missing values too.
    """
    codes = tuple(sorted({level_code(column, text) for text in texts}))
    labels = [column.code_labels()[code] for code in codes]
    several = f"({', '.join(labels)})" if len(labels) > 1 else labels[0]
    note = ""
    if negated:
        missing = column.missing_code
        codes = tuple(code for code in range(column.size) if code not in codes and code != missing)
        if missing is not None:
            note = f"{column.name} not {several} leaves out missing values."
        word = "not in" if len(labels) > 1 else "!="
    else:
        word = "in" if len(labels) > 1 else "="
    return _condition(column, codes, f"{column.name} {word} {several}", note)


def missing(column: Column, *, negated: bool) -> Condition:
    """Return the condition that a value is missing, or that it is not.

    Raises:
        BadInput: if the column has no missing values.
    """
    if column.missing_code is None:
        raise BadInput(f"Column {column.name!r} has no missing values; leave the condition out.")
    codes = range(column.bins) if negated else (column.missing_code,)
    word = "is not missing" if negated else "is missing"
    return _condition(column, codes, f"{column.name} {word}")


def threshold_condition(column: Column, sign: str, text: str) -> Condition:
    """Return the condition that a value is below or above a threshold.

    The threshold of an ordinal is one of its levels. Any other threshold must be the edge of a bin,
    because the tables do not tell values within a bin apart.

    Args:
        column: An ordinal, integer, number or date.
        sign: `<`, `<=`, `>` or `>=`.
        text: The threshold as typed.

    Raises:
        BadInput: if the column has no order, or the threshold is not the edge of a bin.
    """
    if not column.type.ordered:
        raise BadInput(
            f"The levels of {column.name!r} have no order: use {column.name} = LEVEL, or"
            f" {column.name} in (LEVEL, LEVEL)."
        )
    if column.levels:
        code = level_code(column, text)
        below = {"<": code, "<=": code + 1, ">": code + 1, ">=": code}[sign]
        label = column.code_labels()[code]
    else:
        below, label = _edge(column, sign, text)
    codes = range(below) if sign in ("<", "<=") else range(below, column.bins)
    note = ""
    if column.type.continuous and sign in ("<=", ">") and 0 < below < column.bins:
        other = "<" if sign == "<=" else ">="
        note = f"{column.name} {sign} {label} was answered as {column.name} {other} {label}."
    return _condition(column, codes, f"{column.name} {sign} {label}", note)


def _condition(column: Column, codes: Iterable[int], text: str, note: str = "") -> Condition:
    found = tuple(codes)
    if not found:
        raise BadInput(f"No value of {column.name!r} meets {text!r}{_range(column)}.")
    return Condition(column.name, found, text, note)


def _range(column: Column) -> str:
    if column.levels:
        return ""
    scale = column.scale
    low, high = column.edges[0], column.edges[-1] - scale.step
    return f": its values are from {scale.text(low)} to {scale.text(high)}"


def _edge(column: Column, sign: str, text: str) -> tuple[int, str]:
    """Return the number of bins below a threshold, and the threshold as it is written."""
    value = _value(column, text)
    # Whole numbers: x <= 29 is x < 30. Of a number, the edge belongs to the bin above it.
    step = column.scale.step
    cut = value + step if sign in ("<=", ">") else value
    scale, edges = column.scale, column.edges
    if cut <= edges[0]:
        return 0, scale.text(value)
    if cut >= edges[-1]:
        return column.bins, scale.text(value)
    if cut in edges:
        return edges.index(cut), scale.text(value)
    near = [max(edge for edge in edges if edge < cut), min(edge for edge in edges if edge > cut)]
    none = edges[0] if sign in ("<", "<=") else edges[-1]  # no value is beyond it
    shift = step if sign in ("<=", ">") else 0
    offered = [f"{column.name} {sign} {scale.text(edge - shift)}" for edge in near if edge != none]
    raise BadInput(
        f"{column.name} {sign} {scale.text(value)} is inside a bin, and the tables do not"
        f" tell its values apart: use {' or '.join(offered) or 'another column'}."
    )


def _value(column: Column, text: str) -> Fraction:
    scale = column.scale
    try:
        # It bounds digits and exponents; 1e99999999 alone would take hours.
        found = scale.parse(text.replace("−", "-"))
    except ValueError:
        raise BadInput(
            f"{text!r} is compared with {column.name!r} but is not {scale.typed}."
        ) from None
    if scale.whole and found.denominator != 1:
        raise BadInput(
            f"{column.name!r} has whole numbers, and {text} is between two of them: write"
            f" {math.floor(found)} or {math.ceil(found)}."
        )
    return found


def _no_bin(column: Column, text: str) -> str:
    """Return why a text names no bin of a number, and what to type instead."""
    labels = column.code_labels()
    try:
        value = _value(column, text)
    except BadInput:
        shown = ", ".join(labels[:3]) + (" ..." if len(labels) > 3 else "")
        return f"Column {column.name!r} has no bin {text!r}; its bins are {shown}."
    for code in range(column.bins):
        low, high = column.edges[code], column.edges[code + 1]
        last = column.type.continuous and code == column.bins - 1
        if low <= value < high or (last and value == high):
            return (
                f"{column.name} = {text} is inside a bin, and the tables do not tell its values"
                f" apart: use {column.name} = {labels[code]}."
            )
    return f"{column.name!r} has no value {text}{_range(column)}."
