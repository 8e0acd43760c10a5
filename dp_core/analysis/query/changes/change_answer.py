"""The answer of `dp-release query --since`: changes, and whether noise alone could explain them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_core.analysis.query.answer_notes import notes_of
from dp_core.analysis.query.answering import prepared, terms_of
from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.changes.change_intervals import Changes, Side, changes_of, side_of
from dp_core.analysis.query.changes.comparable import (
    check_questions,
    check_releases,
    matched,
)
from dp_core.analysis.query.declared.declared_sums import unused_declaration
from dp_core.analysis.query.query_answer import stated_value, text_of, unit_of
from dp_core.analysis.query.sources import Sources
from dp_core.bundle.reading import Bundle
from dp_core.errors import BadInput
from dp_core.schema.column_types.registry import type_with_texts, types_with_texts
from dp_core.text.documents.spreadsheet_text import spreadsheet_text
from dp_core.text.pages.answer import OMITTED, Answer
from dp_core.text.pages.number_texts import decimals
from dp_core.text.pages.page import Bars, Fact, Listing, Page, Sentence
from dp_core.text.pages.printed import Printed

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = ("earlier", "later", "change", "margin", "low", "high", "noise_explains")
"""Keys of the numbers of a cell."""
OWN = (*NUMBERS, "explained_by", "determined")
"""Keys of a cell besides its columns."""
MOST_SHOWN = 60
"""Most groups that an answer prints."""
MOST_BARS = 40
"""Most groups that an answer draws as bars."""
_MANY = 10
"""Number of groups from which a note says how many changes exceed their margin by chance."""


@dataclass(frozen=True, slots=True, repr=False)
class ChangeAnswer(Printed, Answer):
    """Changes between two releases, later minus earlier.

    Attributes:
        folder, release: Folder and name of the later release.
        since, earlier_release: Folder and name of the earlier one.
        question: The question as the later release understands it.
        measure: As in `QueryAnswer`.
        unit: Unit of the earlier and later answer, as in `QueryAnswer`. The unit of changes is the
            same; of dates, it is days.
        level: Confidence level of the intervals.
        covers: What the intervals cover, besides the noise of both releases: `noise`, `noise and
            sampling`, `noise and bins` or `noise, sampling and bins`.
        determined: Whether the tables of both releases determine the answer.
        labels: Label of each level that occurs in the cells, by column and text of the file.
        cells: One object for each group that both releases have: the text of each column's level in
            the later file (or the label of its bin); the answers `earlier` and `later`; `change`
            with the ends of its interval and its margin, the distance to the farther end;
            `noise_explains`, the largest change in this direction that noise alone could explain;
            and `explained_by`: `noise` if it explains the change, otherwise what `covers` names if
            that does, otherwise null.
        reason: Why there is no answer.
        missing, needed: As in `QueryAnswer`.
        counted: For linked tables, what was counted: `households` or `persons`; otherwise None.
    """

    folder: str
    release: str
    since: str
    earlier_release: str
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

    @property
    def exit_code(self) -> int:
        """2 if the published tables do not determine the answer, otherwise 0."""
        return 0 if self.determined else 2

    @property
    def frame(self) -> pd.DataFrame:
        """The changes: one row for each group.

        A column of the file is a categorical of labels. The numbers are NaN where they are not
        determined. `explained` says in words whether the change is within the noise. A column of
        the file with one of these names is called `column NAME`. The frame is empty if the tables
        do not determine the answer.
        """
        import pandas as pd

        groups = list(zip(*(self._labels(cell) for cell in self.cells), strict=True))
        found: dict[str, Any] = {}
        for place, name in enumerate(self.columns):
            labels = groups[place] if groups else ()
            found[_key(name)] = pd.Categorical(labels, categories=list(dict.fromkeys(labels)))
        for name in NUMBERS:
            values = [cell[name] for cell in self.cells]
            date = type_with_texts(self.unit) is not None and name in ("earlier", "later")
            found[name] = values if date else pd.array(values, dtype="float64")
        found["explained"] = [self.in_words(cell) for cell in self.cells]
        return pd.DataFrame(found)

    def page(self, most: int = MOST_SHOWN, whole: str = ".frame") -> Page:
        """Return the table of changes, what the margins cover, and the notes.

        Args:
            most: Most groups in the table; 60 by default.
            whole: Where all groups are, for a sentence.
        """
        asked = Sentence(f"change in {self.question}   ({self._unit_words()})")
        if not self.determined:
            return asked, Sentence(self.reason or "", warns=True)
        shown = self.cells[:most]
        order = ("earlier", "later", "change", "margin", "noise_explains")
        listing = Listing(
            (*self.columns, *(name.replace("_", " ") for name in order), "the change is"),
            tuple((*self._labels(cell), *self._texts(shown, order, cell)) for cell in shown),
            texts=len(self.columns),
        )
        left = len(self.cells) - len(shown)
        more = (Sentence(f"... and {left:,} more; {whole} has all."),) if left else ()
        notes = (Fact("Note", text, warns=True) for text in self.notes)
        releases = (
            Fact("Earlier", f"{self.earlier_release} ({self.since})"),
            Fact("Later", f"{self.release} ({self.folder})"),
        )
        margin = Fact("Margin", self._margin_words())
        return asked, listing, *more, *self._plot(), *releases, margin, *notes

    def in_words(self, cell: Mapping[str, Any]) -> str:
        """Return whether the noise explains the change of a group."""
        if not cell["determined"]:
            return "not determined"
        if cell["explained_by"] is None:
            return f"more than {self.covers}"
        named = cell["explained_by"]
        return "within the noise" if named == "noise" else f"within {named}"

    def csv(self) -> str:
        """Return a header and one line for each group, with labels."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*map(spreadsheet_text, self.columns), *NUMBERS, "explained"])
        for cell in self.cells:
            numbers = ["" if cell[name] is None else cell[name] for name in NUMBERS]
            labels = map(spreadsheet_text, self._labels(cell))
            writer.writerow([*labels, *numbers, self.in_words(cell)])
        return out.getvalue()

    def _labels(self, cell: Mapping[str, Any]) -> list[str]:
        texts = [(name, cell[_key(name)]) for name in self.columns]
        return [self.labels[name].get(text, text) for name, text in texts]

    def _texts(
        self, shown: Sequence[Mapping[str, Any]], order: Sequence[str], cell: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Return the numbers of a cell as texts, and whether the noise explains the change."""
        if not cell["determined"]:
            return ("not determined", *["–"] * (len(order) - 1), "")
        scale = 100.0 if self.unit == "share" else 1.0
        known = [each for each in shown if each["determined"]]
        widths = [each[name] for each in known for name in ("margin", "noise_explains")]
        least = min(filter(None, widths), default=0.0)
        whole = self.unit != "share" and all(
            float(each[name]).is_integer()
            for each in known
            for name in order
            if not isinstance(each[name], str)
        )
        digits = 0 if whole or type_with_texts(self.unit) else decimals(scale * least)
        texts = []
        for name in order:
            value = cell[name]
            if isinstance(value, str):
                texts.append(value)
            else:
                number = scale * float(value)
                shown_zero = not round(number, digits)
                sign = "+" if name == "change" and not shown_zero else ""
                percent = " %" if self.unit == "share" and name in ("earlier", "later") else ""
                number = 0.0 if shown_zero else number
                texts.append(f"{number:{sign},.{digits}f}{percent}")
        return (*texts, self.in_words(cell))

    def _plot(self) -> tuple[Bars, ...]:
        """Return the changes as bars with their intervals; of a few groups only."""
        known = [cell for cell in self.cells if cell["determined"]]
        if not 1 < len(known) <= MOST_BARS:
            return ()
        return (
            Bars(
                f"change in {self.question}",
                tuple((", ".join(self._labels(each)), float(each["change"])) for each in known),
                tuple((float(each["low"]), float(each["high"])) for each in known),
                percent=self.unit == "share",
            ),
        )

    def _unit_words(self) -> str:
        words = {
            "share": "percent; changes in percentage points",
            "ratio": "ratio",
        }
        words |= {of.word: f"{of.word}; changes in {of.difference}" for of in types_with_texts()}
        words |= {unit: unit for unit in ("records", "households", "persons")}
        differences = {of.difference for of in types_with_texts()}
        own = f"{self.measure}, in {self.unit if self.unit in differences else 'its own unit'}"
        return words.get(self.unit, own)

    def _margin_words(self) -> str:
        percent = f"{100 * self.level:.4g} %"
        if "sampling" in self.covers:
            bins = ", any position of the values within their bins," if self._in_bins else ""
            return (
                f"{percent} for the change in the population: the margin covers the noise of both"
                f" releases{bins} and the error of both files as simple random samples of large"
                " populations."
            )
        bins = " and any position of the values within their bins" if self._in_bins else " only"
        told = (
            f"{percent} for the change between the two confidential files: the margin covers the"
            f" noise of both releases{bins}."
        )
        if self.counted == "persons":  # for them, --sampling is refused
            return told
        return f"{told} --sampling adds the errors of the files as samples."

    @property
    def _in_bins(self) -> bool:
        return self.covers.endswith("bins")


@dataclass(frozen=True, slots=True)
class ChangeFile(Answer):
    """Changes as CSV text, with labels."""

    answer: ChangeAnswer

    @property
    def exit_code(self) -> int:
        """As of the answer."""
        return self.answer.exit_code

    def text(self) -> str:
        """Return a header and one line for each group."""
        return self.answer.csv()


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """A release that a change is asked of: its bundle, and its pooled tables."""

    bundle: Bundle
    sources: Sources


def answer_change(
    later: Release, earlier: Release, text: str, *, level: float = 0.95, sampling: bool = False
) -> ChangeAnswer:
    """Return the change of an answer between two releases.

    Args:
        later: The later release.
        earlier: The earlier release.
        text: The question (`dp_core.analysis.query.question_grammar`).
        level: Confidence level of the intervals, between 0 and 1; 0.95 by default.
        sampling: Whether they also contain the sampling errors of both files, as of independent
            samples; False by default.

    Raises:
        BadInput: if the text is not a question about both releases, it does not mean the same in
            both, or the releases have the same noise.
    """
    notes = check_releases(later.bundle, earlier.bundle)
    both = (later, earlier)
    places = (later.bundle.place, earlier.bundle.place)
    asked, absent = [], None
    for release in reversed(both):
        try:
            question, own, work = prepared(release.sources, text, level, sampling)
        except BadInput as error:
            raise BadInput(f"In {release.bundle.place}: {error.message}") from error
        if question.waves:
            raise BadInput(
                "The question is a change between waves, and so is the answer with an earlier"
                " release: ask for one of the two."
            )
        asked.append(own)
        why = work.absent(terms_of(own), own.counted)
        absent = absent or (why and (release, why))
    its, mine = asked
    check_questions(mine, its, places)
    unit = unit_of(mine.question, mine.schema, mine.counted)
    if unit == "level":
        raise BadInput(
            f"The quantile of {mine.question.number!r} is a level, which has no change: ask for"
            f" `share of {mine.question.number}`."
        )
    in_bins = mine.in_bins or its.in_bins
    cells: tuple[Mapping[str, Any], ...] = ()
    labels: dict[str, dict[str, str]] = {}
    if absent is None:
        found = matched(mine, its)
        sides = [
            side_of(release.sources, own, level=level, sampling=sampling).at(where)
            for release, own, where in zip(
                both, (mine, its), (found.later, found.earlier), strict=True
            )
        ]
        changes = changes_of(*sides, level=level)
        cells, labels = _cells(mine, found.later, sides, changes, unit, _covers(sampling, in_bins))
        notes += (*found.notes, *_notes(both, (mine, its), sides, cells, level, sampling, in_bins))
        declared = (*later.sources.declared, *earlier.sources.declared)
        notes += unused_declaration(declared, mine.question, sampling=sampling, change=True)
    release, why = absent or (later, None)
    return ChangeAnswer(
        folder=later.bundle.place,
        release=later.bundle.claims.name,
        since=earlier.bundle.place,
        earlier_release=earlier.bundle.claims.name,
        question=mine.question.in_words,
        measure=mine.question.measure,
        unit=unit,
        level=level,
        covers=_covers(sampling, in_bins),
        determined=why is None,
        columns=mine.question.groups,
        labels=labels,
        cells=cells,
        notes=notes,
        reason=f"In {release.bundle.place}: {why.sentence}" if why else None,
        missing=why.missing if why else None,
        needed=why.needed if why else None,
        counted=None if mine.schema.linked is None else mine.counted,
    )


def _cells(
    asked: Asked,
    places: Sequence[int],
    sides: Sequence[Side],
    changes: Changes,
    unit: str,
    covers: str,
) -> tuple[tuple[Mapping[str, Any], ...], dict[str, dict[str, str]]]:
    """Return the cells of the answer, and the labels of their levels."""
    columns = [asked.schema.column(name) for name in asked.question.groups]
    every = asked.labels()
    known = np.isfinite(changes.lows) & np.isfinite(changes.highs) & np.isfinite(changes.values)
    cells, labels = [], dict[str, dict[str, str]]((column.name, {}) for column in columns)
    for row, place in enumerate(places):
        cell: dict[str, Any] = {}
        for column, code in zip(columns, every[place], strict=True):
            text = text_of(column, code)
            labels[column.name][text] = column.code_labels()[code]
            cell[_key(column.name)] = text
        cell |= dict.fromkeys(NUMBERS)
        cell |= {"explained_by": None, "determined": bool(known[row])}
        if known[row]:
            value, low, high, least, most = (
                float(each[row])
                for each in (
                    *(changes.values, changes.lows, changes.highs),
                    *(changes.noise_lows, changes.noise_highs),
                )
            )
            cell |= {
                "earlier": stated_value(float(sides[1].values[row]), unit),
                "later": stated_value(float(sides[0].values[row]), unit),
                "change": value,
                "margin": max(high - value, value - low),
                "low": low,
                "high": high,
                "noise_explains": value - least if value >= 0 else most - value,
            }
            if least <= 0 <= most:
                cell["explained_by"] = "noise"
            elif low <= 0 <= high:
                cell["explained_by"] = covers
        cells.append(cell)
    return tuple(cells), labels


def _covers(sampling: bool, in_bins: bool) -> str:
    named = ["noise", *(["sampling"] if sampling else []), *(["bins"] if in_bins else [])]
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def _notes(
    releases: Sequence[Release],
    asked: Sequence[Asked],
    sides: Sequence[Side],
    cells: Sequence[Mapping[str, Any]],
    level: float,
    sampling: bool,
    in_bins: bool,
) -> tuple[str, ...]:
    """Return what the reader must know; a note that both releases have, only once."""
    each = [
        notes_of(
            *(release.sources, own),
            unbounded=False,
            beyond=side.possible.outside(side.answer),
            uninformed=0,
            exact=False,
            sampling=sampling,
        )
        for release, own, side in zip(releases, asked, sides, strict=True)
    ]
    found = []
    if in_bins:
        found.append(
            "The tables do not show where in its bin a value is. The margin covers this in both"
            " releases. `noise explains` does not: it is valid only if values are distributed"
            " within bins as the estimates assume."
        )
    if sampling:
        found.append(
            "The margins assume independent samples. If the same persons are in both files (a"
            " panel) and their answers are positively correlated, the margins are usually too wide."
        )
    if not all(cell["determined"] for cell in cells):
        found.append(
            "Groups without a margin are not determined at this noise: in one of the releases,"
            " their number of records cannot be distinguished from 0."
        )
    shown = sum(cell["determined"] for cell in cells)
    if shown >= _MANY:
        chance = f"{100 * (1 - level):.3g}"
        found.append(
            f"{shown:,} changes are shown. Of the changes that are 0 in the files, up to {chance} %"
            " are expected to exceed their margin by chance."
        )
    found += each[0] if each[0] == each[1] else ()
    if each[0] != each[1]:
        found += [note for note in each[0] if note in each[1]]
        for words, own, other in (
            ("Earlier release", each[1], each[0]),
            ("Later release", each[0], each[1]),
        ):
            found += [f"{words}: {note}" for note in own if note not in other]
    return tuple(dict.fromkeys(found))


def _key(name: str) -> str:
    """Return the key of a column in a cell: its name, unless that is a key of every cell."""
    return f"column {name}" if name in OWN else name
