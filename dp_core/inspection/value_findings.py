"""Why values of a column do not fit the schema, and how to mend each. Confidential."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set

from dp_core.documents.typed_text import parse_fraction, shown
from dp_core.errors import MOST_KNOWN, similar
from dp_core.inspection.column_tally import MOST_TEXTS, NULL, Tally
from dp_core.inspection.findings import Example, Finding, Weight, examples_of, some_rows
from dp_core.schema.decoding import legal_range
from dp_core.schema.definition import Column
from dp_core.schema.problems import Problem, refused

DATE_FORMATS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y.%m.%d",
    "%Y%m%d",
    "%d%m%Y",
)
"""Formats of dates that are tried, those that more files use first."""

_MISSING_WORDS = frozenset(
    "na,n/a,#n/a,nan,null,#null!,none,missing,unknown,refused,dk,.,-,--,?,*".split(",")  # noqa: SIM905
)
_MISSING_NUMBERS = re.compile(r"-?(9+|8+|7{2,}|9+[78])|-1", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}([., ' ’][0-9]{3})+([.,][0-9]+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+", re.ASCII)
_WITH_UNIT = re.compile(r"[^0-9+-]{0,4}\s*[+-]?[0-9][0-9.,]*\s*[^0-9\s][^0-9]{0,9}|[$£€]\s*[0-9].*")


def value_findings(tally: Tally) -> Iterator[Finding]:
    """Yield the findings about single values of a column."""
    column, problems = tally.column, tally.problems
    if problems[Problem.MISSING]:
        yield _missing(tally)
    if problems[Problem.LEVEL]:
        yield from _levels(tally)
    if problems[Problem.TYPE]:
        yield from _unreadable(tally)
    if problems[Problem.RANGE]:
        yield _outside(tally)
    distinct = len(tally.strangers)
    if problems[Problem.LEVEL] and tally.rows >= 100 and distinct > tally.rows / 2:
        yield Finding(
            "hint",
            "identifier",
            column.name,
            f"{'At least ' * (distinct >= MOST_TEXTS)}{distinct:,} distinct texts in {tally.rows:,}"
            " rows: this looks like an identifier or free text, not like a category.",
            "Give it `role: id`, or name it under `ignore`.",
        )


def looks_missing(text: str) -> bool:
    """Return whether a text often means a missing answer.

    >>> looks_missing("N/A"), looks_missing("-9"), looks_missing("999"), looks_missing("9.5")
    (True, True, True, False)
    """
    stripped = text.strip()
    return (
        not stripped
        or stripped.lower() in _MISSING_WORDS
        or bool(_MISSING_NUMBERS.fullmatch(stripped))
    )


def fitting_formats(texts: Counter[str] | Mapping[str, int]) -> tuple[str, ...]:
    """Return the date formats in which all texts are days.

    >>> fitting_formats({"31.12.2020": 1, "01.02.2021": 3})
    ('%d.%m.%Y',)
    """
    found = []
    for form in DATE_FORMATS:
        if texts and all(_is_day(text, form) for text in texts):
            found.append(form)
    return tuple(found)


def _is_day(text: str, form: str) -> bool:
    day = re.sub(r"[T ][0-9]{2}:.*$", "", text.strip())
    try:
        datetime.datetime.strptime(day, form)
    except ValueError:
        return False
    return True


def _weight(column: Column, problem: Problem) -> Weight:
    return "refusal" if problem in refused(column) else "settled"


def _settled(column: Column, problem: Problem) -> str:
    """Return what a release does with a problem that the schema settles."""
    if problem is Problem.RANGE and column.out_of_range == "clip":
        return "A release moves them to the nearest bound (`out_of_range: clip`)."
    return "A release treats them as missing (`out_of_range: missing`)."


def _missing(tally: Tally) -> Finding:
    rows, column = tally.problems[Problem.MISSING], tally.column
    weight = _weight(column, Problem.MISSING)
    says = f"{rows:,} of {tally.rows:,} rows have no value"
    if weight == "refusal":
        says += ", and the schema says `missing: reject` (the default)."
        mend = "Write `missing: level`, or complete the file."
    else:
        says += "."
        mend = "Missing is a level of the release (`missing: level`)."
    return Finding(weight, "missing", column.name, says, mend, rows, _quoted(tally.missing))


def _quoted(counted: Mapping[str, int]) -> tuple[Example, ...]:
    return tuple(
        Example(one.text if one.text == NULL else shown(one.text), one.rows)
        for one in examples_of(counted)
    )


def _levels(tally: Tally) -> Iterator[Finding]:
    column = tally.column
    weight = _weight(column, Problem.LEVEL)
    cause_of = _level_causes(column, tally.strangers)
    groups: dict[str, dict[str, int]] = {}
    mends: dict[str, str] = {}
    for text, rows in sorted(tally.strangers.items(), key=lambda item: (-item[1], item[0])):
        cause, mend = cause_of(text)
        groups.setdefault(cause, {})[text] = rows
        mends.setdefault(cause, mend)
    known = sum(map(sum, (group.values() for group in groups.values())))
    for cause, group in groups.items():
        rows = sum(group.values())
        if cause == "levels":
            rows += tally.problems[Problem.LEVEL] - known  # those beyond `MOST_TEXTS`
        says = f"{some_rows(rows, 'have')} texts that {_CAUSES[cause]}."
        mend = mends[cause] if weight == "refusal" else _settled(column, Problem.LEVEL)
        yield Finding(weight, cause, column.name, says, mend, rows, _quoted(group))


_CAUSES = {
    "labels": "are labels in the schema, which states other texts for the file",
    "spaces": "are levels but for spaces",
    "case": "are levels but for capital letters",
    "numbers": "are levels written as another number",
    "comma": "are not levels, but parts of one level of the schema",
    "missing-codes": "are not levels and look like codes for missing",
    "levels": "are not levels",
}


def _level_causes(column: Column, strangers: Mapping[str, int]) -> Callable[[str], tuple[str, str]]:
    """Return a function from a text to the cause that it is no level, and its mend."""
    levels = column.texts()
    labels = {level.label: level.text for level in column.levels}
    folded = {text.casefold(): text for text in levels}
    others = {text.strip() for text in strangers}
    joined = {part: level for level in levels for part in _joined(level, others)}
    numbers = {value: text for text in levels if (value := _number_of(text)) is not None}
    add = "Correct the file; or, if it is public knowledge, add the level"
    to_missing = "; or write `missing: level` and `out_of_range: missing`."

    def cause(text: str) -> tuple[str, str]:
        stripped = text.strip()
        if stripped in labels and stripped not in levels:
            own = labels[stripped]
            return "labels", (
                f"The schema says that the file writes {shown(own)} for the label"
                f" {shown(stripped)}. If the file holds labels, list them: `levels:"
                f" [{', '.join(list(labels)[:3])}{', ...' if len(labels) > 3 else ''}]`."
            )
        if stripped in levels:
            return "spaces", (
                f"Remove the spaces in the file, or write the level with them, as {shown(text)}."
            )
        if stripped.casefold() in folded:
            own = folded[stripped.casefold()]
            return "case", f"Write {shown(own)} in the file, or {shown(stripped)} in the schema."
        value = _number_of(stripped)
        if value is not None and value in numbers:
            return "numbers", (
                f"Write {shown(numbers[value])} in the file, or {shown(stripped)} in the schema:"
                " levels are exact texts."
            )
        if stripped in joined:
            own = joined[stripped]
            parts = ", ".join(_joined(own, others))
            return "comma", (
                f"Is a comma missing? The schema has {shown(own)} as one level; write `{parts}` if"
                " these are several."
            )
        if looks_missing(text):
            return "missing-codes", (
                "If it means missing, write for this column `missing: level, missing_values:"
                f" {_listed(column, text)}`."
            )
        near = similar(stripped, levels) if len(levels) <= MOST_KNOWN else ""
        return "levels", f"{add}{to_missing}{near}"

    return cause


def _joined(level: str, texts: Set[str]) -> tuple[str, ...]:
    """Return the texts of the file that a level with spaces seems to join; none if it joins none.

    >>> _joined("female male", {"male", "female"}), _joined("not married", {"married"})
    (('female', 'male'), ())
    """
    words = level.split()
    cuts = [(" ".join(words[:k]), " ".join(words[k:])) for k in range(1, len(words))]
    for parts in (tuple(words), *cuts):
        if len(parts) > 1 and all(part in texts for part in parts):
            return parts
    return ()


def _number_of(text: str) -> object:
    try:
        return parse_fraction(text)
    except ValueError:
        return None


def _listed(column: Column, *texts: str) -> str:
    """Return the column's texts for missing with some more, as a schema lists them."""
    listed = dict.fromkeys((*column.missing_values, *texts))
    return f"[{', '.join(_yaml(text) for text in listed)}]"


def _yaml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unreadable(tally: Tally) -> Iterator[Finding]:
    column = tally.column
    weight = _weight(column, Problem.TYPE)
    groups: dict[str, dict[str, int]] = {}
    for text, rows in tally.strangers.items():
        groups.setdefault(_type_cause(column, text), {})[text] = rows
    words = {"integer": "whole numbers", "number": "numbers", "date": "dates"}[column.kind]
    for cause, group in groups.items():
        rows = sum(group.values())
        says = f"{some_rows(rows, 'have')} texts that are not {words}"
        says += f": {_TYPE_CAUSES[cause]}." if cause in _TYPE_CAUSES else "."
        mend = _type_mend(column, cause, group)
        if weight == "settled":
            mend = _settled(column, Problem.TYPE)
        yield Finding(weight, cause, column.name, says, mend, rows, _quoted(group))


_TYPE_CAUSES = {
    "decimal-comma": "they have a decimal comma",
    "thousands": "they have thousands separators",
    "fractions": "they have decimals",
    "unit": "they have a unit or a currency",
    "missing-codes": "they look like codes for missing",
}


def _type_cause(column: Column, text: str) -> str:
    stripped = text.strip()
    if column.kind == "date":
        return "missing-codes" if looks_missing(text) else "dates"
    if looks_missing(text):
        return "missing-codes"
    if _DECIMAL_COMMA.fullmatch(stripped) and not _THOUSANDS.fullmatch(stripped):
        return "decimal-comma"
    if _THOUSANDS.fullmatch(stripped):
        return "thousands"
    if _number_of(stripped) is not None:
        return "fractions"
    return "unit" if _WITH_UNIT.fullmatch(stripped) else "unreadable"


def _type_mend(column: Column, cause: str, group: Mapping[str, int]) -> str:
    if cause == "missing-codes":
        texts = list(group)[:5]
        return (
            "If they mean missing, write for this column `missing: level, missing_values:"
            f" {_listed(column, *texts)}`."
        )
    if cause == "dates":
        formats = fitting_formats(group)
        if len(formats) == 1:
            return f'Write `format: "{formats[0]}"` for this column.'
        if formats:
            said = " or ".join(f'`format: "{form}"`' for form in formats)
            return f"Write {said}, whichever the questionnaire says: both fit every text."
        return (
            "Write the dates as YYYY-MM-DD, or state their `format` with %d, %m and %Y; no single"
            " format fits all of them."
        )
    if cause == "decimal-comma":
        return "Save the file with decimal points."
    if cause == "thousands":
        return "Save the file without thousands separators."
    if cause == "fractions":
        return "Write `type: number` with `bins`, or round the values in the file."
    if cause == "unit":
        return "Remove the unit from the values; the schema's `description` can state it."
    return (
        "Correct the file; or write `missing: level` and `out_of_range: missing`; or use"
        " `type: category` if these are codes."
    )


def _outside(tally: Tally) -> Finding:
    column, rows = tally.column, tally.problems[Problem.RANGE]
    weight = _weight(column, Problem.RANGE)
    low, high = (tally.text(float(end)) for end in legal_range(column))
    assert tally.low is not None
    assert tally.high is not None
    says = (
        f"{some_rows(rows, 'are')} outside {low} to {high}; the file has"
        f" {tally.text(tally.low)} to {tally.text(tally.high)}."
    )
    codes = [text for text in tally.outside if looks_missing(text) and tally.is_far(text)]
    if weight == "settled":
        mend = _settled(column, Problem.RANGE)
    else:
        clip = "`out_of_range: clip`, or `missing: level` with `out_of_range: missing`"
        mend = f"Write {clip}; or state wider bounds if they are public knowledge."
    if codes:
        mend += (
            f" If {', '.join(codes[:3])} means missing, write `missing: level, missing_values:"
            f" {_listed(column, *codes[:5])}`."
        )
    return Finding(
        weight, "out-of-range", column.name, says, mend, rows, examples_of(tally.outside)
    )
