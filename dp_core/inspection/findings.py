"""What a check of a file found: findings, each with its fix. Confidential."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from dp_core.text.documents.typed_text import printable
from dp_core.text.pages.answer import OMITTED, Answer
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Fact, Page, Sentence

Severity: TypeAlias = Literal["refusal", "settled", "hint"]
"""Whether a finding stops a release, is settled by the schema's policy, or is only a hint."""

EXAMPLES = 8
"""Most examples that are shown of a finding."""

NOTICE = (
    "Confidential: this check shows values and counts of the file. Show it only to those who may"
    " see the data."
)
PUBLIC_KNOWLEDGE = (
    "If you add a level or bound because you saw it in the file, the published schema discloses it."
    " Take levels and bounds from the questionnaire, or set `out_of_range`."
)
_LABELS: Mapping[Severity, str] = {"refusal": "Refused", "settled": "Settled", "hint": "Hint"}
_OF_BOUNDS = frozenset(("levels", "out-of-range", "missing-codes"))
"""Kinds of findings that a level or bound taken from the file would seem to fix."""


_SINGULAR: Mapping[str, str] = {
    "have": "has",
    "are": "is",
    "break": "breaks",
    "repeat": "repeats",
    "differ": "differs",
}


def some_rows(rows: int, verb: str, of: str = "row") -> str:
    """Return the beginning of a sentence about some rows of the file, or others, with its verb.

    >>> some_rows(1, "have"), some_rows(1200, "break", "person")
    ('1 row has', '1,200 persons break')
    """
    return f"1 {of} {_SINGULAR[verb]}" if rows == 1 else f"{rows:,} {of}s {verb}"


@dataclass(frozen=True, slots=True)
class Example:
    """A text, value or row of the file that shows a finding. Confidential.

    Attributes:
        text: What the file has.
        rows: Number of rows that have it; None if it is one row.
    """

    text: str
    rows: int | None = None

    def __str__(self) -> str:
        return self.text if self.rows is None else f"{self.text} ({self.rows:,})"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of the file, or a remark about it. Confidential.

    Attributes:
        severity: Whether it stops a release.
        kind: Short fixed name of what was found, such as `levels` or `out-of-range`.
        column: Name of the column; empty if it is about the whole file.
        message: What was found, one sentence.
        fix: What to do.
        rows: Number of rows concerned; None if it is not about rows.
        examples: Examples, at most `EXAMPLES` of them; of levels that never occur, all of them.
        changes: Alternative changes of the column's definition that the fix names, as keys with
            their new values.
        each: The findings of the single columns, if this one is about several; otherwise None.
    """

    severity: Severity
    kind: str
    column: str
    message: str
    fix: str
    rows: int | None = None
    examples: tuple[Example, ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()
    each: tuple[Finding, ...] | None = field(default=None, metadata=OMITTED)

    def about(self, name: str) -> Finding:
        """Return the finding with the name of its file in front; itself if the name is empty."""
        return replace(self, message=f"{name}: {self.message}") if name else self


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class FileCheck(Answer):
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
        for finding in self.findings:
            blocks += _blocks(finding)
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
            f"{number} {label.lower()}{'s' * (severity == 'hint' and number > 1)}"
            for severity, label in _LABELS.items()
            if (number := len(self.of(severity)))
        ]
        told = f": {', '.join(counts)}" if counts else ""
        verdict = "fits" if self.fits else "does not fit"
        return f"{what}{size} {verdict} the schema {self.title!r}{told}."


def _blocks(finding: Finding) -> list[Fact]:
    """Return the lines about a finding; the file's control characters are escaped."""
    label, warns = _LABELS[finding.severity], finding.severity == "refusal"
    about = f"{finding.column}: " if finding.column else ""
    blocks = [Fact(label, printable(f"{about}{finding.message}"), warns=warns)]
    if finding.examples:
        shown = list(map(str, finding.examples[:EXAMPLES]))
        if len(finding.examples) > EXAMPLES:
            shown.append(f"{len(finding.examples) - EXAMPLES:,} more (`--json` lists all)")
        blocks.append(Fact("", printable("; ".join(shown))))
    return [*blocks, Fact("", printable(finding.fix))]


def examples_of(counted: Mapping[str, int]) -> tuple[Example, ...]:
    """Return the most frequent texts as examples; equal counts in the order of the texts.

    >>> examples_of({"b": 1, "a": 1, "c": 5})[:2]
    (Example(text='c', rows=5), Example(text='a', rows=1))
    """
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Example(text, rows) for text, rows in ordered[:EXAMPLES])


LEVEL_TRAITS: Mapping[str, tuple[str, str, str]] = {
    "labels": ("is a label", "are labels", "; the schema expects other texts in the file"),
    "spaces": ("differs", "differ", " from a level only in spaces"),
    "composition": ("differs", "differ", " from a level only in characters that look alike"),
    "case": ("differs", "differ", " from a level only in capital letters"),
    "comma": (
        "is not a level, but part",
        "are not levels, but parts",
        " of one level of the schema",
    ),
    "missing-codes": (
        "is not a level and looks like a code for missing",
        "are not levels and look like codes for missing",
        "",
    ),
    "levels": ("is not a level", "are not levels", ""),
}
"""What texts that are no levels are like, by kind: one, several, and how the sentence goes on."""
NUMBER_TRAITS: Mapping[str, tuple[str, str]] = {
    "missing-codes": ("looks like a code for missing", "look like codes for missing"),
    "thousands": ("has thousands separators", "have thousands separators"),
    "decimal-comma": ("has a decimal comma", "have a decimal comma"),
    "ratio": ("is written as a ratio", "are written as ratios"),
    "fractions": ("has decimals", "have decimals"),
    "characters": (
        "has signs that look like those of a number",
        "have signs that look like those of numbers",
    ),
    "control": ("has control characters", "have control characters"),
    "quotes": ("has quotation marks", "have quotation marks"),
    "brackets": (
        "has brackets, or its minus behind it",
        "have brackets, or their minus behind them",
    ),
    "open-ended": ("is a range or limit", "are ranges or limits"),
    "unit": ("has a unit or a currency", "have a unit or a currency"),
}
"""What texts that are no numbers are like, by kind: one, and several."""
_OF_SEVERAL: Mapping[str, str] = {
    **{
        kind: f"In {{}} columns, texts {many}{rest}."
        for kind, (_, many, rest) in LEVEL_TRAITS.items()
    },
    **{kind: f"In {{}} columns, numbers {many}." for kind, (_, many) in NUMBER_TRAITS.items()},
    "open-ended": "In {} columns, texts are ranges or limits.",
    "missing": "In {} columns, rows have no value.",
    "fractions": "In {} columns of whole numbers, values have decimals.",
    "dates": "In {} columns, texts are not dates in the column's format.",
    "unused-levels": "In {} columns, levels never occur.",
    "constant": "{} columns have only one value.",
    "identifier": "{} columns look like identifiers.",
    "category": "{} columns of numbers have few distinct values: are they categories?",
    "one-bin": "In {} columns, one bin contains nearly all values.",
    "column-missing": "The schema has {} columns that the file does not have.",
    "column-name": "The file calls {} columns of the schema by other names.",
}
"""Message about several columns with the same mistake."""
_OF_SAME_TEXTS: Mapping[str, str] = {
    "missing-codes": "In {} columns, values look like codes for missing.",
    "out-of-range": "In {} columns, values are out of range.",
    "levels": "In {} columns, texts are not levels.",
    "unreadable": "In {} columns, texts are not of the column's type.",
}
"""The same for mistakes that count as the same only if the columns have the same texts."""


def joined_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with those of the same mistake in several columns joined into one.

    Args:
        findings: Findings in their order; one that is already about several columns is divided
            first.
    """
    groups: dict[object, list[Finding]] = {}
    for finding in (one for each in findings for one in each.each or (each,)):
        texts = frozenset(example.text for example in finding.examples)
        key: object = (finding.severity, finding.kind)
        if finding.kind in _OF_SAME_TEXTS:
            key = (finding.severity, finding.kind, texts)
        elif finding.kind not in _OF_SEVERAL or not finding.column:
            key = len(groups)
        groups.setdefault(key, []).append(finding)
    return tuple(_of_all(group) for group in groups.values())


def _with_example(finding: Finding) -> str:
    """Return the column of a finding, its first example and dots for the other examples."""
    if not finding.examples:
        return finding.column
    others = ", ..." if len(finding.examples) > 1 else ""
    return f"{finding.column}: {finding.examples[0].text}{others}"


def _of_all(group: list[Finding]) -> Finding:
    """Return one finding for the same mistake in several columns."""
    first = group[0]
    if len({one.column for one in group}) < 2:
        return first
    same = first.kind in _OF_SAME_TEXTS
    message = (_OF_SAME_TEXTS if same else _OF_SEVERAL)[first.kind]
    if first.kind == "unused-levels":
        examples = [
            Example(f"{one.column} {example.text}", 0) for one in group for example in one.examples
        ]
    elif same or first.kind == "missing":
        examples = [Example(one.column, one.rows) for one in group]
    else:
        examples = [Example(_with_example(one), one.rows) for one in group]
    fixes: dict[str, list[str]] = {}
    for one in group:
        fixes.setdefault(one.fix, []).append(one.column)
    fix = next(iter(fixes))
    if same:
        fix = f"The texts are {'; '.join(one.text for one in first.examples)}. {fix}"
    if len(fixes) > 1:
        fix = (
            f"For {', '.join(fixes[first.fix][:EXAMPLES])}: {fix} `--json` lists the fixes for the"
            " other columns."
        )
    rows = None if first.rows is None else sum(one.rows or 0 for one in group)
    return Finding(
        first.severity,
        first.kind,
        "",
        message.format(len(group)),
        fix,
        rows,
        tuple(examples),
        each=tuple(group),
    )
