"""Estimates from the noisy tables, with margins of error: the answer of `dp-release query`."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dp_core.analysis.query.answering import QueryResult, ask
from dp_core.analysis.query.asked_counts import Counted
from dp_core.analysis.query.question import Question
from dp_core.analysis.query.sources import Sources
from dp_core.bundle.reading import Bundle
from dp_core.schema.column_types.registry import type_with_texts, types_with_texts
from dp_core.schema.definition import Column, Schema
from dp_core.text.documents.spreadsheet_text import spreadsheet_text
from dp_core.text.pages.answer import OMITTED, Answer
from dp_core.text.pages.number_texts import decimals
from dp_core.text.pages.page import Bars, Fact, Listing, Page, Sentence
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd

MOST_BARS = 40
"""Most groups that an answer draws as bars."""
NUMBERS = ("estimate", "margin", "low", "high")
WITHOUT_BINS = "margin_without_bins"
OWN = (*NUMBERS, WITHOUT_BINS, "determined")
"""Keys of a cell besides its columns."""
_COVERS = {
    (False, False): "noise",
    (True, False): "noise and sampling",
    (False, True): "noise and bins",
    (True, True): "noise, sampling and bins",
}
"""What intervals cover, by whether they cover sampling and bins."""
MOST_SHOWN = 60
"""Most answers that an answer prints."""


@dataclass(frozen=True, slots=True, repr=False)
class QueryAnswer(Printed, Answer):
    """An answer from the noisy tables of a release.

    Attributes:
        question: The question as it was understood.
        measure: `count`, `share`, `mean`, `total`, `ratio` or `quantile`; of a difference, that of
            its groups.
        unit: Unit of the numbers: `records` (of linked tables `households` or `persons`), `share`
            (1 is all), `ratio`, `date` (with margins in days), `days`, `level` (a level of an
            ordinal, which has no margin) or the name of a column, whose unit it is.
        covers: What the intervals cover: `noise` or `noise and sampling`; for a mean or total over
            bins of several values, `noise and bins` or `noise, sampling and bins`.
        determined: Whether the published tables determine the answer.
        labels: Label of each level that occurs in the cells, by column and text of the file.
        cells: One object for each group: the text of the file of each column's level (or the label
            of its bin), and the estimate with its interval. Its margin is the distance from the
            estimate to the farther end of the interval. If the intervals cover bins,
            `margin_without_bins` is half of the width that they would have without bins.
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
    def in_bins(self) -> bool:
        """Whether the intervals cover the error of bins."""
        return self.covers.endswith("bins")

    @property
    def numbers(self) -> tuple[str, ...]:
        """Keys of the numbers of a cell; a level has no margin."""
        if self.unit == "level":
            return "estimate", "low", "high"
        return (*NUMBERS, WITHOUT_BINS) if self.in_bins else NUMBERS

    @property
    def frame(self) -> pd.DataFrame:
        """The estimates: one row for each group.

        A column of the file is a categorical of the labels that the synthetic sets have.
        `estimate`, `margin`, `low` and `high` are numbers, NaN where they are not determined. If
        the intervals cover bins, so is `margin_without_bins`. The mean of a date and its interval
        are dates, with margins in days. A column of the file with one of these names is called
        `column NAME`. Quantiles of an ordinal are labels of its levels. The frame is empty if the
        tables do not determine the answer.
        """
        import pandas as pd

        groups = list(zip(*(labels_of(self, cell) for cell in self.cells), strict=True))
        found: dict[str, Any] = {}
        for place, name in enumerate(self.columns):
            labels = groups[place] if groups else ()
            found[cell_key(name)] = pd.Categorical(labels, categories=list(dict.fromkeys(labels)))
        of = type_with_texts(self.unit)
        own = () if of is None else ("estimate", "low", "high")
        for name in self.numbers:
            values = [cell[name] for cell in self.cells]
            if self.unit == "level":
                found[name] = [value and self._level(value) for value in values]
            elif of is not None and name in own:
                found[name] = [value and of.python(int(of.parse(value))) for value in values]
            else:
                found[name] = pd.array(values, dtype="float64")
        return pd.DataFrame(found)

    def page(self, most: int = MOST_SHOWN, whole: str = ".frame") -> Page:
        """Return the table of estimates, what the margins cover, and the notes.

        Args:
            most: Most groups in the table; 60 by default.
            whole: Where all groups are, for a sentence.
        """
        asked = Sentence(f"{self.question}   ({self._unit_words()})")
        if not self.determined:
            return asked, Sentence(self.reason or "", warns=True)
        shown = self.cells[:most]
        least = min((cell["margin"] for cell in shown if cell["margin"]), default=0.0)
        of = type_with_texts(self.unit)
        integers = self.measure == "quantile" and all(
            float(cell[name]).is_integer()
            for cell in shown
            for name in ("estimate", "low", "high")
            if cell["determined"] and self.unit != "level" and of is None
        )
        percent = f"{100 * self.level:.4g} % from"
        # An interval that covers bins comes first: the estimate is one of many possible values.
        order = ("low", "high", "estimate", WITHOUT_BINS) if self.in_bins else self.numbers
        heads = {"low": percent, "high": "to", WITHOUT_BINS: "margin without bins"}
        listing = Listing(
            (*self.columns, *(heads.get(name, name) for name in order)),
            tuple(
                (*labels_of(self, cell), *self._texts(cell, least, order, integers))
                for cell in shown
            ),
            texts=len(self.columns),
        )
        left = len(self.cells) - len(shown)
        more = (Sentence(f"... and {left:,} more; {whole} has all."),) if left else ()
        notes = (Fact("Note", text, warns=True) for text in self.notes)
        margin = Fact(self._width_word.capitalize(), self._margin_words())
        return asked, listing, *more, *self._plot(), margin, *notes

    def _texts(
        self, cell: Mapping[str, Any], least: float, order: Sequence[str], integers: bool
    ) -> tuple[str, ...]:
        """Return the numbers of a cell as texts; see the function of this name."""
        if self.unit == "level" and cell["determined"]:
            return tuple(self._level(cell[name]) for name in order)
        return _texts(cell, self.unit, least, order, integers=integers)

    def number_text(self, cell: Mapping[str, Any], name: str) -> Any:
        """Return a number of a cell, or the label of a level, safe in a spreadsheet."""
        value = cell[name]
        if self.unit != "level" or value is None:
            return value
        return spreadsheet_text(self._level(value))

    def _level(self, text: str) -> str:
        """Return the label of a level of `levels_of`."""
        return self.labels[str(self.levels_of)].get(text, text)

    def _plot(self) -> tuple[Bars, ...]:
        """Return the estimates as bars with their intervals; of a few groups only."""
        known = [cell for cell in self.cells if cell["determined"]]
        if not 1 < len(known) <= MOST_BARS or self.unit == "level" or type_with_texts(self.unit):
            return ()
        return (
            Bars(
                self.question,
                tuple(
                    (", ".join(labels_of(self, each)), float(each["estimate"])) for each in known
                ),
                tuple((float(each["low"]), float(each["high"])) for each in known),
                percent=self.unit == "share",
            ),
        )

    def _unit_words(self) -> str:
        points = re.match(r"\s*(change|difference)\b", self.question, re.IGNORECASE)
        shares = "percentage points" if points else "percent"
        words = {"share": shares, "ratio": "ratio"}
        words |= {unit: unit for unit in ("records", "households", "persons", "level")}
        words |= {of.word: of.word for of in types_with_texts()}
        differences = {of.difference for of in types_with_texts()}
        own = f"{self.measure}, in {self.unit if self.unit in differences else 'its own unit'}"
        return words.get(self.unit, own)

    @property
    def _width_word(self) -> str:
        return "interval" if self.in_bins or self.unit == "level" else "margin"

    def _margin_words(self) -> str:
        percent, what = f"{100 * self.level:.4g} %", self._width_word
        bins = "any position of the values within their bins"
        if self.answered_from == "declared":
            more = "" if self.measure == "quantile" else " and a bias allowance for clipped values"
            return (
                f"{percent} for the value in the confidential file: the margin covers the privacy"
                f" noise{more}. It does not cover the error of the file as a sample."
            )
        if "sampling" not in self.covers:
            also = f"the privacy noise and {bins}" if self.in_bins else "the privacy noise only"
            told = f"{percent} for the value in the confidential file: the {what} covers {also}."
            if self.counted == "persons":  # for them, --sampling is refused
                return told
            return f"{told} --sampling adds the error of the file as a sample."
        return (
            f"{percent} for the population: the {what} covers the privacy noise"
            f"{f', {bins},' if self.in_bins else ''} and the error of the file as a simple random"
            " sample of a large population."
        )


@dataclass(frozen=True, slots=True)
class QueryFile(Answer):
    """An answer as CSV text, with the labels that the synthetic sets have.

    An apostrophe stands before a label that a spreadsheet would run as a formula.
    """

    answer: QueryAnswer

    @property
    def exit_code(self) -> int:
        """As of the answer."""
        return self.answer.exit_code

    def text(self) -> str:
        """Return a header and one line for each group."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = self.answer.numbers
        writer.writerow([*map(spreadsheet_text, self.answer.columns), *names])
        for cell in self.answer.cells:
            labels = map(spreadsheet_text, labels_of(self.answer, cell))
            numbers = [self.answer.number_text(cell, name) for name in names]
            writer.writerow([*labels, *("" if n is None else n for n in numbers)])
        return out.getvalue()


def answer_query(
    bundle: Bundle, sources: Sources, text: str, *, level: float = 0.95, sampling: bool = False
) -> QueryAnswer:
    """Return the answer to a question about the file of a release.

    Args:
        bundle: The release.
        sources: Its pooled tables, as `sources_of(bundle)` returns them.
        text: The question (`dp_core.analysis.query.question_grammar`).
        level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
        sampling: Whether they also contain the sampling error of the file; False by default.

    Raises:
        BadInput: if the text is not a question about this release.
    """
    schema = sources.schema
    result = ask(sources, text, level=level, sampling=sampling)
    why, unit = result.undetermined, unit_of(result.question, schema, result.counted)
    columns = [schema.column(name) for name in result.columns]

    def stated(value: float | None) -> float | str | None:
        if unit != "level" or value is None:
            return stated_value(value, unit)
        return text_of(schema.column(str(result.question.number)), round(value))

    return QueryAnswer(
        folder=bundle.place,
        release=bundle.claims.name,
        question=result.question.in_words,
        measure=result.question.measure,
        unit=unit,
        level=level,
        covers=_COVERS[sampling, result.in_bins],
        determined=why is None,
        columns=result.columns,
        labels=_labels(result, columns, schema),
        levels_of=result.question.number if unit == "level" else None,
        cells=tuple(
            {
                **{
                    cell_key(column.name): text_of(column, code)
                    for column, code in zip(columns, cell.codes, strict=True)
                },
                "estimate": stated(cell.estimate),
                "margin": cell.margin if unit != "level" else None,
                "low": stated(cell.low),
                "high": stated(cell.high),
                **({WITHOUT_BINS: cell.margin_without_bins} if result.in_bins else {}),
                "determined": cell.determined,
            }
            for cell in result.cells
        ),
        notes=result.notes,
        reason=why.sentence if why else None,
        missing=why.missing if why else None,
        needed=why.needed if why else None,
        counted=None if schema.linked is None else result.counted,
        answered_from="declared" if result.answered_from == "declared" else None,
    )


def cell_key(name: str) -> str:
    """Return the key of a column in a cell: its name, unless that is a key of every cell."""
    return f"column {name}" if name in OWN else name


def labels_of(answer: QueryAnswer, cell: Mapping[str, Any]) -> list[str]:
    """Return the labels of a cell's group, for people."""
    texts = [(name, cell[cell_key(name)]) for name in answer.columns]
    return [answer.labels[name].get(text, text) for name, text in texts]


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
        return "not determined", *["–"] * (len(order) - 1)
    if of := type_with_texts(unit):
        return tuple(
            f"{float(cell[name]):,.0f} {of.difference}" if name.startswith("margin") else cell[name]
            for name in order
        )
    scale, sign = (100.0, " %") if unit == "share" else (1.0, "")
    exact = least <= 0 and unit != "share"
    whole = integers or (exact and all(float(cell[name]).is_integer() for name in order))
    digits = dict.fromkeys(order, 0 if whole else decimals(scale * least))
    if WITHOUT_BINS in digits and float(cell[WITHOUT_BINS]) > 0:
        # A margin of 0, or of a rounding error only, does not add decimals.
        digits[WITHOUT_BINS] = decimals(max(float(cell[WITHOUT_BINS]), scale * least / 1000))
    return tuple(f"{float(cell[name]) * scale:z,.{digits[name]}f}{sign}" for name in order)


def _labels(
    result: QueryResult, columns: list[Column], schema: Schema
) -> dict[str, dict[str, str]]:
    found = {}
    for place, column in enumerate(columns):
        codes = dict.fromkeys(cell.codes[place] for cell in result.cells)
        found[column.name] = _labelled(column, codes)
    if unit_of(result.question, schema, result.counted) == "level":
        own = schema.column(str(result.question.number))
        ends = ((cell.estimate, cell.low, cell.high) for cell in result.cells)
        met = {round(code) for each in ends for code in each if code is not None}
        found[own.name] = {**found.get(own.name, {}), **_labelled(own, sorted(met))}
    return found


def _labelled(column: Column, codes: Iterable[int]) -> dict[str, str]:
    labels = column.code_labels()
    return {text_of(column, code): labels[code] for code in codes}


def text_of(column: Column, code: int) -> str:
    """Return the text of the file of a level, or the label of a bin or of missing."""
    return column.levels[code].text if code < len(column.levels) else column.code_labels()[code]


def unit_of(question: Question, schema: Schema, counted: Counted) -> str:
    """Return the unit of an answer (`QueryAnswer.unit`)."""
    if question.measure in ("share", "ratio"):
        return question.measure
    if question.in_waves is not None:
        found = unit_of(question.in_waves[1], schema, counted)
        return found if (of := type_with_texts(found)) is None else of.difference
    if question.number is None:
        return counted
    if schema.column(question.number).levels:
        return "level"
    scale = schema.column(question.number).scale
    if scale.own_texts:
        return scale.difference if question.between else scale.word
    return question.number


def stated_value(value: float | None, unit: str) -> float | str | None:
    """Return a number; of a date or the like, the text of the nearest value."""
    of = type_with_texts(unit)
    return value if value is None or of is None else of.axis_text(value)
