"""The answer of `dp-release query`: estimates from noisy tables and sets, or their changes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dp_core.analysis.query.answer_notes import Undetermined
from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.asked_counts import Counted
from dp_core.analysis.query.sources import Sources
from dp_core.bundle.reading import Bundle
from dp_core.bundle.report.provenance import enumeration
from dp_core.inference.questions.question import Question
from dp_core.inference.spread_measures import SPREAD_MEASURES
from dp_core.schema.column_types.registry import type_with_texts, types_with_texts
from dp_core.schema.definition import Column, Schema
from dp_core.text.documents.spreadsheet_text import spreadsheet_text
from dp_core.text.pages.answer import OMITTED, Answer
from dp_core.text.pages.number_texts import decimals, level_text
from dp_core.text.pages.page import Bars, Fact, Listing, Page, Sentence, numbers, texts

if TYPE_CHECKING:
    import pandas as pd

MOST_BARS = 40
"""Most groups that an answer draws as bars."""
NUMBERS = ("estimate", "margin", "low", "high")
WITHOUT_BINS = "margin_without_bins"
OWN = (*NUMBERS, WITHOUT_BINS, "determined", "possible")
"""Keys of a cell besides its columns."""
CHANGES = ("earlier", "later", "change", "margin", "low", "high", "noise_explains")
"""Keys of the numbers of a cell of a change."""
OWN_OF_CHANGE = (*CHANGES, "explained_by", "determined", "possible")
"""Keys of a cell of a change besides its columns."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class QueryAnswer(Answer):
    """An answer from the tables and sets of a release, or its change since an earlier release.

    Attributes:
        folder, release: Folder and name of the release; of a change, of the later one.
        since, earlier_release: Of a change, folder and name of the earlier release; otherwise None.
        question: The question as it was understood; of a change, as the later release understands
            it.
        measure: `count`, `share`, `mean`, `total`, `ratio`, `quantile`, `standard deviation`, `gini
            coefficient`, `top share`; of a difference, that of its groups.
        unit: Unit of the numbers: `records` (of linked tables `households` or `persons`), `share`
            (1 is all), `ratio`, `coefficient` (Gini), `date` (with margins and changes
            in days), `days`, `level` (a level of an ordinal, which has no margin) or the name of a
            column, whose unit it is.
        covers: What the intervals cover: `noise` (of a change, of both releases) or `noise and
            sampling`; for a number with bins of several values, `noise and bins` or `noise,
            sampling and bins`.
        determined: Whether the published tables determine the answer.
        labels: Label of each level that occurs in the cells, by column and text of the file.
        cells: One object for each group: the text of the file of each column's level (or the label
            of its bin), and the estimate with its interval. Its margin is the distance from the
            estimate to the farther end of the interval. If the intervals cover bins,
            `margin_without_bins` is half of the width that they would have without bins. A change
            has, for each group of both releases, the answers `earlier` and `later` and the `change`
            in place of the estimate; `noise_explains`, the largest change in this direction that
            noise alone could explain; and `explained_by`: `noise` if it explains the change,
            otherwise what `covers` names if that does, otherwise null. `possible` is false in a
            group in which the schema allows no record; otherwise it is left out.
        reason: Why there is no answer.
        missing: Groups of columns that no published table has together.
        counted: What was counted, `households` or `persons`, of linked tables; otherwise None.
        answered_from: `declared` if the answer is from the sums of a declared statistic; otherwise
            None.
        levels_of: The ordinal whose levels are the estimates; None if they are numbers or dates.
        needed: Table that would give the answer, with its cells and, for a share of the budget, the
            95 % margin of one of its counts, in records.
    """

    folder: str
    release: str
    since: str | None = field(default=None, metadata=OMITTED)
    earlier_release: str | None = field(default=None, metadata=OMITTED)
    question: str
    measure: str
    unit: str
    level: float
    covers: str
    determined: bool
    columns: tuple[str, ...]
    labels: Mapping[str, Mapping[str, str]]
    cells: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    reason: str | None = field(default=None, metadata=OMITTED)
    missing: tuple[tuple[str, ...], ...] | None = field(default=None, metadata=OMITTED)
    needed: object = field(default=None, metadata=OMITTED)
    counted: str | None = field(default=None, metadata=OMITTED)
    answered_from: str | None = field(default=None, metadata=OMITTED)
    levels_of: str | None = field(default=None, metadata=OMITTED)

    @property
    def exit_code(self) -> int:
        """2 if the published tables do not determine the answer, otherwise 0."""
        return 0 if self.determined else 2

    @property
    def fault(self) -> str | None:
        """Why the published tables do not determine the answer."""
        return None if self.determined else self.reason or ""

    @property
    def is_change(self) -> bool:
        """Whether it is the change since an earlier release."""
        return self.since is not None

    @property
    def in_bins(self) -> bool:
        """Whether the intervals cover the error of bins."""
        return self.covers.endswith("bins")

    @property
    def numbers(self) -> tuple[str, ...]:
        """Keys of the numbers of a cell; a level has no margin."""
        if self.is_change:
            return CHANGES
        if self.unit == "level":
            return "estimate", "low", "high"
        return (*NUMBERS, WITHOUT_BINS) if self.in_bins else NUMBERS

    @property
    def frame(self) -> pd.DataFrame:
        """The estimates or changes: one row for each group.

        A column of the file is a categorical of the labels that the synthetic sets have; one that
        has the name of another column of the frame is called `column NAME`. The other columns are
        the keys of the numbers (`numbers`), NaN where they are not determined; for a change also
        `explained`, which says in words whether it is within the noise. Dates are dates, with
        margins and changes in days. Quantiles of an ordinal are labels of its levels. The frame is
        empty if the tables do not determine the answer.
        """
        import pandas as pd

        groups = list(zip(*(self.labels_of(cell) for cell in self.cells), strict=True))
        found: dict[str, Any] = {}
        for place, name in enumerate(self.columns):
            labels = groups[place] if groups else ()
            found[self.key(name)] = pd.Categorical(labels, categories=list(dict.fromkeys(labels)))
        of = type_with_texts(self.unit)
        for name in self.numbers:
            values = [cell[name] for cell in self.cells]
            if self.unit == "level":
                found[name] = [value and self._level(value) for value in values]
            elif of is not None and any(isinstance(value, str) for value in values):
                found[name] = [value and of.python(int(of.parse(value))) for value in values]
            else:
                found[name] = pd.array(values, dtype="float64")
        if self.is_change:
            found["explained"] = [self.in_words(cell) for cell in self.cells]
        return pd.DataFrame(found)

    def page(self) -> Page:
        """Return the table of estimates or changes, what the margins cover, and the notes."""
        change = "change in " if self.is_change else ""
        asked = Sentence(f"{change}{self.question}   ({self._unit_words()})")
        if not self.determined:
            return asked, Sentence(self.reason or "", warns=True)
        percent = f"{level_text(self.level)} from"
        order, heads = self.numbers, {"low": percent, "high": "to"}
        if self.is_change:
            order = tuple(name for name in order if name not in heads)
        cells = self._texts(order)
        columns = (
            *texts(*self.columns),
            *numbers(*(heads.get(name, name.replace("_", " ")) for name in order)),
            *texts(*(["the change is"] if self.is_change else [])),
        )
        return (
            asked,
            Listing(columns, cells),
            *self._plot(f"{change}{self.question}"),
            *(
                (
                    Fact("Earlier", f"{self.earlier_release} ({self.since})"),
                    Fact("Later", f"{self.release} ({self.folder})"),
                )
                if self.is_change
                else ()
            ),
            Fact(self._width_word.capitalize(), self._margin_words()),
            *(Fact("Note", text, warns=True) for text in self.notes),
        )

    def in_words(self, cell: Mapping[str, Any]) -> str:
        """Return whether the noise explains the change of a group."""
        if not cell["determined"]:
            return _without_value(cell)
        if cell["explained_by"] is None:
            return f"more than {self.covers}"
        named = cell["explained_by"]
        return "within the noise" if named == "noise" else f"within {named}"

    def csv(self) -> str:
        """Return a header and one line for each group, with the labels that the sets have.

        An apostrophe stands before a label that a spreadsheet would run as a formula.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        last = ["explained"] if self.is_change else []
        writer.writerow([*map(spreadsheet_text, self.columns), *self.numbers, *last])
        for cell in self.cells:
            values = ["" if cell[name] is None else cell[name] for name in self.numbers]
            if self.unit == "level":
                values = [spreadsheet_text(self._level(value)) for value in values]
            labels = map(spreadsheet_text, self.labels_of(cell))
            words = [self.in_words(cell)] if self.is_change else []
            writer.writerow([*labels, *values, *words])
        return out.getvalue()

    def key(self, column: str) -> str:
        """Return the key of a column of the file in a cell."""
        return cell_key(column, OWN_OF_CHANGE if self.is_change else OWN)

    def labels_of(self, cell: Mapping[str, Any]) -> list[str]:
        """Return the labels of a cell's group, for people."""
        named = [(name, cell[self.key(name)]) for name in self.columns]
        return [self.labels[name].get(text, text) for name, text in named]

    def _texts(self, order: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the labels and the numbers of every group as texts."""
        known = [cell for cell in self.cells if cell["determined"]]
        whole: Sequence[str] = ()
        if self.unit not in ("share", "level") and type_with_texts(self.unit) is None:
            whole = order if self.is_change else NUMBERS if self.measure == "quantile" else ()
        integers = bool(whole) and all(
            float(cell[name]).is_integer()
            for cell in known
            for name in whole
            if self.is_change or name != "margin"
        )
        widths = [cell.get(name) for cell in known for name in ("margin", "noise_explains")]
        least = min(filter(None, widths), default=0.0)
        rows = []
        for cell in self.cells:
            if self.unit == "level" and cell["determined"]:
                found = tuple(self._level(cell[name]) for name in order)
            else:
                found = _texts(cell, self.unit, least, order, integers=integers)
            words = [self.in_words(cell) if cell["determined"] else ""] if self.is_change else []
            rows.append((*self.labels_of(cell), *found, *words))
        return rows

    def _level(self, text: str) -> str:
        """Return the label of a level of `levels_of`."""
        return self.labels[str(self.levels_of)].get(text, text)

    def _plot(self, heading: str) -> tuple[Bars, ...]:
        """Return the numbers as bars with their intervals; of a few groups only."""
        known = [cell for cell in self.cells if cell["determined"]]
        drawn = "change" if self.is_change else "estimate"
        if not 1 < len(known) <= MOST_BARS or any(isinstance(each[drawn], str) for each in known):
            return ()
        return (
            Bars(
                heading,
                tuple((", ".join(self.labels_of(each)), float(each[drawn])) for each in known),
                tuple((float(each["low"]), float(each["high"])) for each in known),
                percent=self.unit == "share",
            ),
        )

    def _unit_words(self) -> str:
        of = type_with_texts(self.unit)
        if self.unit == "share":
            points = re.match(r"\s*(change|difference)\b", self.question, re.IGNORECASE)
            if self.is_change:
                return "percent; changes in percentage points"
            return "percentage points" if points else "percent"
        if of is not None:
            return f"{of.word}; changes in {of.difference}" if self.is_change else of.word
        if self.unit in ("ratio", "coefficient", "records", "households", "persons", "level"):
            return self.unit
        days = self.unit in {each.difference for each in types_with_texts()}
        return f"{self.measure}, in {self.unit if days else 'its own unit'}"

    @property
    def _width_word(self) -> str:
        return "interval" if self.unit == "level" else "margin"

    def _margin_words(self) -> str:
        percent, what = level_text(self.level), self._width_word
        bins = "the usual error of values in bins"
        if self.answered_from == "declared":
            more = "" if self.measure == "quantile" else " and a bias allowance for clipped values"
            return (
                f"{percent} for the value in the confidential file: the margin covers the privacy"
                f" noise{more} and, of what the tables tell, {bins}. It does not cover the error of"
                " the file as a sample."
            )
        value, of, noise = "value in the confidential file", "population", "privacy noise"
        error, drawn = "error of the file", "a simple random sample of a large population"
        sample = "a sample"
        if self.is_change:
            value, of = "change between the two confidential files", "change in the population"
            noise = "noise of both releases"
            error, drawn = "errors of both files", "simple random samples of large populations"
            sample = "samples"
        if "sampling" in self.covers:
            within = f", {bins}," if self.in_bins else ""
            covered = f"{noise}{within} and the {error} as {drawn}"
            return f"{percent} for the {of}: the {what} covers the {covered}."
        also = f" and {bins}" if self.in_bins else " only"
        words = f"{percent} for the {value}: the {what} covers the {noise}{also}."
        if self.counted == "persons":  # for them, --sampling is refused
            return words
        return f"{words} --sampling adds the {error} as {sample}."


def answer_query(
    bundle: Bundle, sources: Sources, text: str, *, level: float = 0.95, sampling: bool = False
) -> QueryAnswer:
    """Return the answer to a question about the file of a release.

    Args:
        bundle: The release.
        sources: Its pooled tables, as `sources_of(bundle)` returns them.
        text: The question (`dp_core.inference.questions.question_grammar`).
        level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
        sampling: Whether they also contain the sampling error of the file; False by default.

    Raises:
        BadInput: if the text is not a question about this release.
    """
    schema = sources.schema
    result = ask(sources, text, level=level, sampling=sampling)
    why, unit = result.undetermined, unit_of(result.question, schema, result.counted)

    def stated(value: float | None) -> float | str | None:
        if unit != "level" or value is None:
            return stated_value(value, unit)
        return text_of(schema.column(str(result.question.number)), round(value))

    found = stated_answer(
        bundle,
        (result.question, schema, result.counted),
        why,
        result.columns,
        [cell.codes for cell in result.cells],
        [
            {
                "estimate": stated(cell.estimate),
                "margin": cell.margin if unit != "level" else None,
                "low": stated(cell.low),
                "high": stated(cell.high),
                **({WITHOUT_BINS: cell.margin_without_bins} if result.in_bins else {}),
                "determined": cell.determined,
                **({} if cell.possible else {"possible": False}),
            }
            for cell in result.cells
        ],
        level=level,
        covers=coverage(sampling=sampling, in_bins=result.in_bins),
        notes=result.notes,
        answered_from="declared" if result.declared else None,
    )
    if unit != "level":
        return found
    own = schema.column(str(result.question.number))
    ends = ((cell.estimate, cell.low, cell.high) for cell in result.cells)
    met = sorted({round(code) for each in ends for code in each if code is not None})
    labels = {**found.labels.get(own.name, {}), **_labels_by_text(own, met)}
    return replace(found, labels={**found.labels, own.name: labels}, levels_of=own.name)


def stated_answer(
    bundle: Bundle,
    asked: tuple[Question, Schema, Counted],
    why: Undetermined | None,
    columns: tuple[str, ...],
    groups: Sequence[Sequence[int]],
    numbers: Sequence[Mapping[str, Any]],
    **stated: Any,
) -> QueryAnswer:
    """Return an answer with the texts and the labels of its groups.

    Args:
        bundle: The release; of a change, the later one.
        asked: The question, the schema by which it was understood, and what was counted.
        why: Why there is no answer; None if there is one.
        columns: Columns of the groups.
        groups: Codes of each group, in the order of the columns.
        numbers: The other keys of each group's cell.
        stated: Further fields of the answer.
    """
    question, schema, counted = asked
    parts = [schema.column(name) for name in columns]
    own = OWN if stated.get("since") is None else OWN_OF_CHANGE
    fields: dict[str, Any] = {
        "folder": bundle.place,
        "release": bundle.claims.name,
        "question": question.in_words,
        "measure": question.measure,
        "unit": unit_of(question, schema, counted),
        "determined": why is None,
        "columns": columns,
        "labels": {
            column.name: _labels_by_text(column, dict.fromkeys(codes[place] for codes in groups))
            for place, column in enumerate(parts)
        },
        "cells": tuple(
            {
                **{
                    cell_key(column.name, own): text_of(column, code)
                    for column, code in zip(parts, codes, strict=True)
                },
                **cell,
            }
            for codes, cell in zip(groups, numbers, strict=True)
        ),
        "reason": why.sentence if why else None,
        "missing": why.missing if why else None,
        "needed": why.needed if why else None,
        "counted": None if schema.linked is None else counted,
    }
    return QueryAnswer(**fields | stated)


def coverage(*, sampling: bool, in_bins: bool) -> str:
    """Return what intervals cover, as `QueryAnswer.covers` states it.

    >>> coverage(sampling=False, in_bins=False), coverage(sampling=True, in_bins=True)
    ('noise', 'noise, sampling and bins')
    """
    return enumeration(
        ["noise", *(["sampling"] if sampling else []), *(["bins"] if in_bins else [])]
    )


def cell_key(name: str, own: Sequence[str] = OWN) -> str:
    """Return the key of a column in a cell: its name, unless that is a key of every cell."""
    return f"column {name}" if name in own else name


def _texts(
    cell: Mapping[str, Any],
    unit: str,
    least: float,
    order: Sequence[str],
    *,
    integers: bool = False,
) -> tuple[str, ...]:
    """Return the numbers of a cell as texts.

    Args:
        cell: The cell.
        unit: Unit of its numbers.
        least: Smallest margin of all cells, which decides the number of decimals. A margin
            without bins decides its own.
        order: Keys of the numbers, in the order of the output.
        integers: Whether estimates and ends of intervals are whole numbers, False by default.
    """
    if not cell["determined"]:
        return _without_value(cell), *["–"] * (len(order) - 1)
    of, scale = type_with_texts(unit), 100.0 if unit == "share" else 1.0
    values = {name: cell[name] for name in order}
    stated = {name: scale * float(n) for name, n in values.items() if not isinstance(n, str)}
    exact = least <= 0 and unit != "share" and all(n.is_integer() for n in stated.values())
    whole = integers or exact or of is not None
    digits = dict.fromkeys(stated, 0 if whole else decimals(scale * least))
    if WITHOUT_BINS in stated and stated[WITHOUT_BINS] > 0 and of is None:
        # A margin of 0, or of a rounding error only, does not add decimals.
        digits[WITHOUT_BINS] = decimals(scale * max(float(cell[WITHOUT_BINS]), least / 1000))
    found = []
    for name in order:
        if name not in stated:
            found.append(values[name])
            continue
        number = stated[name]
        sign = "+" if name == "change" and round(number, digits[name]) else ""
        # Changes of shares, and their margins, are in percentage points.
        in_points = "change" in cell and name not in ("earlier", "later")
        percent = " %" if unit == "share" and not in_points else ""
        after = percent if of is None else f" {of.difference}"
        found.append(f"{number:{sign}z,.{digits[name]}f}{after}")
    return tuple(found)


def _without_value(cell: Mapping[str, Any]) -> str:
    """Return why a cell has no numbers."""
    return "not determined" if cell.get("possible", True) else "no record possible"


def _labels_by_text(column: Column, codes: Iterable[int]) -> dict[str, str]:
    labels = column.code_labels()
    return {text_of(column, code): labels[code] for code in codes}


def text_of(column: Column, code: int) -> str:
    """Return the text of the file of a level, or the label of a bin or of missing."""
    return column.levels[code].text if code < len(column.levels) else column.code_labels()[code]


def unit_of(question: Question, schema: Schema, counted: Counted) -> str:
    """Return the unit of an answer (`QueryAnswer.unit`)."""
    if question.measure in ("share", "ratio"):
        return question.measure
    spread = SPREAD_MEASURES.get(question.measure)
    if spread is not None and spread.unit != "number":
        return spread.unit
    if question.in_waves is not None:
        found = unit_of(question.in_waves[1], schema, counted)
        return found if (of := type_with_texts(found)) is None else of.difference
    if question.number is None:
        return counted
    if schema.column(question.number).levels:
        return "level"
    scale = schema.column(question.number).scale
    if scale.own_texts:
        return scale.difference if question.between or spread else scale.word
    return question.number


def stated_value(value: float | None, unit: str) -> float | str | None:
    """Return a number; of a date or the like, the text of the nearest value."""
    of = type_with_texts(unit)
    return value if value is None or of is None else of.axis_text(value)
