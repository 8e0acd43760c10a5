"""The answer of `dp-release query`: estimates from the noisy tables, with margins of error."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dp_core.analysis.query.answering import QueryResult, query
from dp_core.bundle.reading import read_bundle
from dp_core.documents.spreadsheet_text import spreadsheet_text
from dp_core.schema.definition import Column, Schema
from flows.answers.answer import OMITTED, Answer

NUMBERS = ("estimate", "margin", "low", "high")
OWN = (*NUMBERS, "determined")
"""Keys of a cell besides its columns."""


@dataclass(frozen=True, slots=True)
class QueryAnswer(Answer):
    """An answer from the noisy tables of a release.

    Attributes:
        question: The question as it was understood.
        measure: `count`, `share`, `mean`, `total` or `ratio`; of a difference, that of its groups.
        unit: Unit of the numbers: `records`, `share` (1 is all), `ratio`, `date` (with margins in
            days), `days` or the name of a column, whose unit it is.
        covers: What the intervals cover: `noise`, or `noise and sampling`.
        determined: Whether the published tables determine the answer.
        labels: Label of each level that occurs in the cells, by column and text of the file.
        cells: One object for each group: the text of the file of each column's level (or the label
            of its bin), and the estimate with its margin and interval.
        reason: Why there is no answer.
        missing: Groups of columns that no published table has together.
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

    @property
    def exit_code(self) -> int:
        """2 if the published tables do not determine the answer, otherwise 0."""
        return 0 if self.determined else 2


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
        writer.writerow([*map(spreadsheet_text, self.answer.columns), *NUMBERS])
        for cell in self.answer.cells:
            labels = map(spreadsheet_text, labels_of(self.answer, cell))
            numbers = [cell[name] for name in NUMBERS]
            writer.writerow([*labels, *("" if n is None else n for n in numbers)])
        return out.getvalue()


def answer_query(folder: Path, text: str, *, level: float, sampling: bool) -> QueryAnswer:
    """Return the answer of `dp-release query`.

    Args:
        folder: The bundle.
        text: The question.
        level: Confidence level of the intervals, 0 to 1.
        sampling: Whether they also contain the sampling error of the file.

    Raises:
        BadInput: if the bundle was changed, or the text is no question about it.
    """
    bundle = read_bundle(folder)
    schema = bundle.claims.schema.coarse or bundle.claims.schema
    result = query(bundle, text, level=level, sampling=sampling)
    why, unit = result.undetermined, _unit(result, schema)
    columns = [schema.column(name) for name in result.columns]
    return QueryAnswer(
        folder=str(folder),
        release=bundle.claims.name,
        question=result.question.in_words,
        measure=result.question.measure,
        unit=unit,
        level=level,
        covers="noise and sampling" if sampling else "noise",
        determined=why is None,
        columns=result.columns,
        labels=_labels(result, columns),
        cells=tuple(
            {
                **{
                    cell_key(column.name): _text(column, code)
                    for column, code in zip(columns, cell.codes, strict=True)
                },
                "estimate": _value(cell.estimate, unit),
                "margin": cell.margin,
                "low": _value(cell.low, unit),
                "high": _value(cell.high, unit),
                "determined": cell.determined,
            }
            for cell in result.cells
        ),
        notes=result.notes,
        reason=why.sentence if why else None,
        missing=why.missing if why else None,
        needed=why.needed if why else None,
    )


def cell_key(name: str) -> str:
    """Return the key of a column in a cell: its name, unless that is a key of every cell."""
    return f"column {name}" if name in OWN else name


def labels_of(answer: QueryAnswer, cell: Mapping[str, Any]) -> list[str]:
    """Return the labels of a cell's group, for people."""
    texts = [(name, cell[cell_key(name)]) for name in answer.columns]
    return [answer.labels[name].get(text, text) for name, text in texts]


def _labels(result: QueryResult, columns: list[Column]) -> dict[str, dict[str, str]]:
    found = {}
    for place, column in enumerate(columns):
        labels = column.code_labels()
        codes = dict.fromkeys(cell.codes[place] for cell in result.cells)
        found[column.name] = {_text(column, code): labels[code] for code in codes}
    return found


def _text(column: Column, code: int) -> str:
    """Return the text of the file of a level, or the label of a bin or of missing."""
    return column.levels[code].text if code < len(column.levels) else column.code_labels()[code]


def _unit(result: QueryResult, schema: Schema) -> str:
    question = result.question
    if question.measure in ("share", "ratio"):
        return question.measure
    if question.number is None:
        return "records"
    if schema.column(question.number).kind == "date":
        return "days" if question.between else "date"
    return question.number


def _value(value: float | None, unit: str) -> float | str | None:
    """Return a number; of the mean of a date, the nearest day."""
    if value is None or unit != "date":
        return value
    first, last = datetime.date.min.toordinal(), datetime.date.max.toordinal()
    return datetime.date.fromordinal(min(max(round(value), first), last)).isoformat()
