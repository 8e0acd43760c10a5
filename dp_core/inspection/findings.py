"""What a check of a file found: findings, each with its fix. Confidential."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dp_core.display.answer import OMITTED, Answer
from dp_core.display.number_texts import plural
from dp_core.display.page import Fact, Page, Sentence
from dp_core.display.printed import Printed

Severity: TypeAlias = Literal["refusal", "settled", "hint"]
"""Whether a finding stops a release, is settled by the schema's policy, or is only a hint."""

EXAMPLES = 8
"""Most examples of a finding."""

NOTICE = (
    "Confidential: this check shows values and counts of the file. Show it only to those who may"
    " see the data."
)
PUBLIC_KNOWLEDGE = (
    "If you add a level or bound because you saw it in the file, the published schema discloses it."
    " Take levels and bounds from the questionnaire, or set `out_of_range`."
)
_LABELS: Mapping[Severity, str] = {"refusal": "Refused", "settled": "Settled", "hint": "Hint"}
_SAID: tuple[tuple[Severity, str, str], ...] = (
    ("refusal", "refused", "refused"),
    ("settled", "settled", "settled"),
    ("hint", "hint", "hints"),
)
_OF_BOUNDS = frozenset(("levels", "out-of-range", "missing-codes"))
"""Kinds of findings that a level or bound taken from the file would seem to fix."""


_SINGULAR: Mapping[str, str] = {
    "have": "has",
    "are": "is",
    "break": "breaks",
    "differ": "differs",
}


def some_rows(rows: int, verb: str) -> str:
    """Return the beginning of a sentence about some rows of the file, with its verb.

    >>> some_rows(1, "have"), some_rows(1200, "break")
    ('1 row has', '1,200 rows break')
    """
    return f"1 row {_SINGULAR[verb]}" if rows == 1 else f"{rows:,} rows {verb}"


@dataclass(frozen=True, slots=True)
class Example(Answer):
    """A text, value or row of the file that shows a finding. Confidential.

    Attributes:
        text: What the file has.
        rows: Number of rows that have it; None if it is one row.
    """

    text: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Finding(Answer):
    """A problem of the file, or a remark about it. Confidential.

    Attributes:
        severity: Whether it stops a release.
        kind: Short fixed name of what was found, such as `levels` or `out-of-range`.
        column: Name of the column; empty if it is about the whole file.
        message: What was found, one sentence.
        fix: What to do.
        rows: Number of rows concerned; None if it is not about rows.
        examples: At most `EXAMPLES` examples.
    """

    severity: Severity
    kind: str
    column: str
    message: str
    fix: str
    rows: int | None = None
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class FileCheck(Answer, Printed):
    """The result of checking a file against a schema. Confidential.

    Attributes:
        confidential: Always true.
        fits: Whether a release of the file would pass validation.
        title: Title of the schema.
        files: Names of the files.
        rows: Number of rows that were read; None if they could not be read to the end.
        columns: Number of columns that were checked.
        findings: Refusals first, then what the schema settles, then hints.
        notice: What to keep in mind before the output is passed on or the schema is changed.
        rows_of: Number of rows of the table of households and of that of persons, of linked
            tables; otherwise None.
        persons: Number of persons of a panel; otherwise None.
    """

    confidential: bool = True
    fits: bool
    title: str
    files: tuple[str, ...]
    rows: int | None
    columns: int
    findings: tuple[Finding, ...]
    notice: str = f"{NOTICE} {PUBLIC_KNOWLEDGE}"
    rows_of: tuple[int, ...] | None = field(default=None, metadata=OMITTED)
    persons: int | None = field(default=None, metadata=OMITTED)

    @property
    def exit_code(self) -> int:
        """0 if the file fits, 2 if it does not."""
        return 0 if self.fits else 2

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        return tuple(one for one in self.findings if one.severity == severity)

    def page(self) -> Page:
        """Return the verdict and every finding with its examples and its fix."""
        blocks: list[Sentence | Fact] = [
            Sentence(NOTICE, warns=True),
            Sentence(self._verdict(), warns=not self.fits),
        ]
        plain = [one for one in self.of("settled") if one.kind == "missing"]
        for finding in self.findings:
            if len(plain) < 2 or finding not in plain:
                blocks += _blocks(finding)
            elif finding is plain[0]:
                counts = ", ".join(f"{one.column} ({one.rows:,})" for one in plain)
                told = f"Missing is a level of the release in these columns: {counts}."
                blocks.append(Fact(_LABELS["settled"], told))
        if any(finding.kind in _OF_BOUNDS for finding in self.of("refusal")):
            blocks.append(Fact("Note", PUBLIC_KNOWLEDGE, warns=True))
        return tuple(blocks)

    def _verdict(self) -> str:
        what = ", ".join(self.files) or "The frame"
        size = "" if self.rows is None else f" has {plural(self.rows, 'row')} and"
        if self.rows_of is not None:
            homes, persons = self.rows_of
            size = f" ({plural(homes, 'household')}, {plural(persons, 'person')})"
        elif self.persons is not None and self.rows is not None:
            size = f" ({plural(self.rows, 'row')} of {plural(self.persons, 'person')})"
        counts = [
            f"{len(found)} {one if len(found) == 1 else many}"
            for severity, one, many in _SAID
            if (found := self.of(severity))
        ]
        told = f": {', '.join(counts)}" if counts else ""
        verdict = "fits" if self.fits else "does not fit"
        return f"{what}{size} {verdict} the schema {self.title!r}{told}."


def _blocks(finding: Finding) -> list[Fact]:
    label, warns = _LABELS[finding.severity], finding.severity == "refusal"
    about = f"{finding.column}: " if finding.column else ""
    blocks = [Fact(label, f"{about}{finding.message}", warns=warns)]
    if finding.examples:
        shown = [
            one.text if one.rows is None else f"{one.text} ({one.rows:,})"
            for one in finding.examples
        ]
        blocks.append(Fact("", "; ".join(shown)))
    return [*blocks, Fact("", finding.fix)]


def examples_of(counted: Mapping[str, int]) -> tuple[Example, ...]:
    """Return the most frequent texts as examples; equal counts in the order of the texts.

    >>> examples_of({"b": 1, "a": 1, "c": 5})[:2]
    (Example(text='c', rows=5), Example(text='a', rows=1))
    """
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Example(text, rows) for text, rows in ordered[:EXAMPLES])
