"""Why values of a column do not fit the schema, and how to fix each. Confidential."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set

from dp_core.documents.typed_text import parse_fraction, shown
from dp_core.errors import MOST_KNOWN, similar
from dp_core.inspection.column_tally import MOST_TEXTS, NULL, Tally
from dp_core.inspection.findings import Example, Finding, Severity, examples_of, some_rows
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


def _severity(column: Column, problem: Problem) -> Severity:
    return "refusal" if problem in refused(column) else "settled"


def _settled(column: Column, problem: Problem) -> str:
    """Return what a release does with a problem that the schema settles."""
    if problem is Problem.RANGE and column.out_of_range == "clip":
        return "A release moves them to the nearest bound (`out_of_range: clip`)."
    return "A release treats them as missing (`out_of_range: missing`)."


def _missing(tally: Tally) -> Finding:
    rows, column = tally.problems[Problem.MISSING], tally.column
    severity = _severity(column, Problem.MISSING)
    message = f"{rows:,} of {tally.rows:,} rows {'has' if rows == 1 else 'have'} no value"
    if severity == "refusal":
        message += "; the schema refuses missing values (`missing: reject`, the default)."
        fix = "Write `missing: level`, or complete the file."
    else:
        message += "."
        fix = "Missing is a level of the release (`missing: level`)."
    return Finding(severity, "missing", column.name, message, fix, rows, _quoted(tally.missing))


def _quoted(counted: Mapping[str, int]) -> tuple[Example, ...]:
    return tuple(
        Example(one.text if one.text == NULL else shown(one.text), one.rows)
        for one in examples_of(counted)
    )


def _levels(tally: Tally) -> Iterator[Finding]:
    column = tally.column
    severity = _severity(column, Problem.LEVEL)
    cause_of = _level_causes(column, tally.strangers)
    groups: dict[str, dict[str, int]] = {}
    fixes: dict[str, str] = {}
    for text, rows in sorted(tally.strangers.items(), key=lambda item: (-item[1], item[0])):
        cause, fix = cause_of(text)
        groups.setdefault(cause, {})[text] = rows
        fixes.setdefault(cause, fix)
    known = sum(map(sum, (group.values() for group in groups.values())))
    for cause, group in groups.items():
        rows = sum(group.values())
        if cause == "levels":
            rows += tally.problems[Problem.LEVEL] - known  # those beyond `MOST_TEXTS`
        message = f"{_texts(rows, _CAUSES[cause])}."
        fix = fixes[cause] if severity == "refusal" else _settled(column, Problem.LEVEL)
        yield Finding(severity, cause, column.name, message, fix, rows, _quoted(group))


_CAUSES = {
    "labels": ("is a label", "are labels", "; the schema expects other texts in the file"),
    "spaces": ("differs", "differ", " from a level only in spaces"),
    "case": ("differs", "differ", " from a level only in capital letters"),
    "numbers": ("writes", "write", " a level's number differently, such as `01` for `1`"),
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


def _texts(rows: int, cause: tuple[str, str, str]) -> str:
    """Return a clause about the texts of some rows, from a verb for one, for many and the rest."""
    one, many, rest = cause
    said = f"The text of 1 row {one}" if rows == 1 else f"The texts of {rows:,} rows {many}"
    return f"{said}{rest}"


def _level_causes(column: Column, strangers: Mapping[str, int]) -> Callable[[str], tuple[str, str]]:
    """Return a function from a text to the cause that it is no level, and its fix."""
    levels = column.texts()
    labels = {level.label: level.text for level in column.levels}
    folded = {text.casefold(): text for text in levels}
    others = {text.strip() for text in strangers}
    joined = {part: level for level in levels for part in _joined(level, others)}
    numbers = {value: text for text in levels if (value := _number_of(text)) is not None}
    add = (
        "Correct the file. If public knowledge includes this level, add it. To treat such texts as"
        " missing, write `missing: level` and `out_of_range: missing`."
    )

    def cause(text: str) -> tuple[str, str]:
        stripped = text.strip()
        if stripped in labels and stripped not in levels:
            own = labels[stripped]
            return "labels", (
                f"According to the schema, the file writes {shown(own)} for the label"
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
        return "levels", f"{add}{near}"

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
    severity = _severity(column, Problem.TYPE)
    groups: dict[str, dict[str, int]] = {}
    for text, rows in tally.strangers.items():
        groups.setdefault(_type_cause(column, text), {})[text] = rows
    one, many = _WORDS[column.kind]
    are = (f"is not {one}", f"are not {many}", "")
    for cause, group in groups.items():
        rows = sum(group.values())
        message = _texts(rows, are)
        if cause in _TYPE_CAUSES:
            single, several = _TYPE_CAUSES[cause]
            message += f": {single if rows == 1 else several}"
        message += "."
        fix = _type_fix(column, cause, group)
        if severity == "settled":
            fix = _settled(column, Problem.TYPE)
        yield Finding(severity, cause, column.name, message, fix, rows, _quoted(group))


_WORDS = {
    "integer": ("a whole number", "whole numbers"),
    "number": ("a number", "numbers"),
    "date": ("a date", "dates"),
}
_TYPE_CAUSES = {
    "decimal-comma": ("it has a decimal comma", "they have a decimal comma"),
    "thousands": ("it has thousands separators", "they have thousands separators"),
    "fractions": ("it has decimals", "they have decimals"),
    "unit": ("it has a unit or a currency", "they have a unit or a currency"),
    "missing-codes": ("it looks like a code for missing", "they look like codes for missing"),
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


def _type_fix(column: Column, cause: str, group: Mapping[str, int]) -> str:
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
            said = [f'`format: "{form}"`' for form in formats]
            fit = (
                f"Both {said[0]} and {said[1]} fit"
                if len(said) == 2
                else f"Each of {', '.join(said)} fits"
            )
            return f"{fit} every text; write the one that the questionnaire states."
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
        "Correct the file. If these are codes, write `type: category`. To treat such texts as"
        " missing, write `missing: level` and `out_of_range: missing`."
    )


def _outside(tally: Tally) -> Finding:
    column, rows = tally.column, tally.problems[Problem.RANGE]
    severity = _severity(column, Problem.RANGE)
    low, high = (tally.text(float(end)) for end in legal_range(column))
    assert tally.low is not None
    assert tally.high is not None
    message = (
        f"{some_rows(rows, 'are')} out of range: the schema allows {low} to {high}; values in the"
        f" file run from {tally.text(tally.low)} to {tally.text(tally.high)}."
    )
    codes = [text for text in tally.outside if looks_missing(text) and tally.is_far(text)]
    if severity == "settled":
        fix = _settled(column, Problem.RANGE)
    else:
        fix = (
            "To move such values to the nearest bound, write `out_of_range: clip`. To make them"
            " missing, write `missing: level` and `out_of_range: missing`. Widen the bounds only if"
            " public knowledge supports it."
        )
    if codes:
        fix += (
            f" If {', '.join(codes[:3])} means missing, write `missing: level, missing_values:"
            f" {_listed(column, *codes[:5])}`."
        )
    return Finding(
        severity, "out-of-range", column.name, message, fix, rows, examples_of(tally.outside)
    )
