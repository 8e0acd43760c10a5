"""Why values of a column do not fit the schema, and how to fix each. Confidential."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from itertools import pairwise
from typing import Any

from dp_core.errors import MOST_KNOWN, appearance, similar
from dp_core.inspection.advice import Advice, how_to_encode
from dp_core.inspection.column_tally import MOST_TEXTS, NULL, Tally
from dp_core.inspection.findings import (
    LEVEL_TRAITS,
    NUMBER_TRAITS,
    Example,
    Finding,
    Severity,
    examples_of,
    some_rows,
)
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.coding.raw_values import REWRITTEN
from dp_core.kernel.coding.stored_texts import is_text
from dp_core.schema.bin_values import legal_range
from dp_core.schema.codebooks.codebook_draft import scalar
from dp_core.schema.definition import Column
from dp_core.text.documents.typed_text import is_number, quote

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

EXAMPLE_DAY = datetime.date(2024, 2, 15)
"""The day that shows how dates are written."""
_SHORT_YEAR = re.compile(r"[0-9]{1,2}([./ -])[0-9]{1,2}\1[0-9]{2}", re.ASCII)
_QUOTES = ("'", '"')
_YEAR = re.compile(r"(1[89]|20|21)[0-9]{2}", re.ASCII)
EXCEL_DAYS = range(20_000, 80_000)
"""Numbers by which Excel stores the days from 1954 to 2118."""
MOST_CODES = 20
"""Most codes for missing of one kind that an advice lists."""
FEWEST_ROWS = 20
"""Fewest rows of a file whose counts suggest anything."""

_MISSING_WORDS = frozenset(
    "na,n/a,#n/a,nan,null,#null!,none,missing,unknown,refused,dk,.,-,--,?,*".split(",")  # noqa: SIM905
)
_MISSING_NUMBERS = re.compile(r"-?(9+|8+|7{2,}|9+[78])|-1", re.ASCII)
_NO_DAY = re.compile(
    r"((0000|9999)([./-])[0-9]{1,2}\3[0-9]{1,2}|[0-9]{1,2}([./-])[0-9]{1,2}\4(0000|9999))([T ].*)?"
)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}([., '][0-9]{3})+([.,][0-9]+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+", re.ASCII)
_NUMBER = r"[0-9][0-9.,' ]*"
_IN_BRACKETS = re.compile(rf"\(\s*{_NUMBER}\s*\)|{_NUMBER}\s*-", re.ASCII)
_OPEN_ENDED = re.compile(
    rf"[<>=\u2264\u2265~]+\s*{_NUMBER}|{_NUMBER}\s*(\+|(or|and) ).*|{_NUMBER}\s*-\s*{_NUMBER}",
    re.ASCII,
)
_WITH_UNIT = re.compile(
    rf"\D{{0,4}}\s*[+-]?{_NUMBER}\s*[^0-9\s][^0-9]{{0,9}}|-?[^\w\s+-]\s*{_NUMBER}.*"
)


def value_findings(tally: Tally) -> Iterator[Finding]:
    """Yield the findings about single values of a column."""
    column, problems = tally.column, tally.problems
    if tally.rewritten:
        yield Finding(
            "refusal",
            "stored-type",
            column.name,
            f"The column {REWRITTEN}.",
            "Correct these texts, or let the program that made the file store its own texts; levels"
            " have the same form.",
            tally.rewritten.total(),
            _quoted_examples(tally.rewritten),
        )
    if problems[Problem.MISSING]:
        yield _missing(tally)
    if problems[Problem.LEVEL] or problems[Problem.TYPE]:
        yield from _strangers(tally)
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

    >>> [looks_missing(text) for text in ("N/A", "-9", "999", "9.5", "9999-12-31", "00.00.0000")]
    [True, True, True, False, True, True]
    """
    stripped = text.strip()
    return (
        not stripped
        or stripped.lower() in _MISSING_WORDS
        or bool(_MISSING_NUMBERS.fullmatch(stripped) or _NO_DAY.fullmatch(stripped))
    )


def fitting_formats(texts: Collection[str]) -> tuple[str, ...]:
    """Return the date formats in which all texts are days.

    A column whose format begins with the year also has ISO dates.

    >>> fitting_formats(["31.12.2020", "01.02.2021"]), fitting_formats(["31.12.2020", "2021-02-01"])
    (('%d.%m.%Y',), ())
    """
    others = [text for text in texts if not _is_day(text, "%Y-%m-%d")]
    return tuple(
        form
        for form in DATE_FORMATS
        if texts
        and all(_is_day(text, form) for text in (others if form[:2] == "%Y" and others else texts))
    )


def _is_day(text: str, form: str) -> bool:
    day = re.sub(r"[T ][0-9]{2}:.*$", "", text.strip())
    try:
        datetime.datetime.strptime(day, form)
    except ValueError:
        return False
    return True


def far_codes(tally: Tally) -> dict[str, int]:
    """Return rows by text, of legal values that may mean missing; none for a file of few rows."""
    if tally.rows < FEWEST_ROWS:
        return {}
    return {text: rows for text, rows in tally.suspects.items() if rows > 1 and tally.is_far(text)}


def offer_codes(sentence: str, advice: Advice, texts: Iterable[str]) -> str:
    """Return the advice to list texts as `missing_values`, without a full stop; or nothing.

    The list has such texts of all findings of the column, so that the advice of one finding keeps
    what the advice of another one lists.

    Args:
        sentence: The advice, with `{}` for the change.
        advice: Of the finding about the texts.
        texts: The texts of the finding.
    """
    tally, own = advice.tally, list(texts)
    codes = own[:MOST_CODES]
    if not tally.column.levels:
        causes = ("missing-codes", "unreadable")
        codes = [text for text in tally.strangers if _type_cause(tally.column, text) in causes]
        codes.sort(key=lambda text: not looks_missing(text))
        codes = [*codes[:MOST_CODES], *_codes_outside(tally), *far_codes(tally)]
    listed = tuple(dict.fromkeys((*tally.column.missing_values, *codes)))
    others = set(codes) - {*own, NULL}
    said = advice.offer(sentence, missing="level", missing_values=listed)
    return f"{said}, which lists the column's other such values too" if said and others else said


def _codes_outside(tally: Tally) -> list[str]:
    """Return values out of range that look like codes for missing."""
    days = tally.column.type.own_texts
    found = [text for text in tally.outside if looks_missing(text) and (days or tally.is_far(text))]
    return found[:MOST_CODES]


def _severity(column: Column, problem: Problem) -> Severity:
    return "refusal" if problem in column.refuses else "settled"


def _settled_words(column: Column, problem: Problem) -> str:
    """Return what a release does with a problem that the schema settles."""
    if problem is Problem.RANGE and column.out_of_range == "clip":
        return "A release moves them to the nearest bound (`out_of_range: clip`)."
    return "A release treats them as missing (`out_of_range: missing`)."


def _missing(tally: Tally) -> Finding:
    rows, column = tally.problems[Problem.MISSING], tally.column
    severity, advice = _severity(column, Problem.MISSING), Advice(tally)
    message = f"{rows:,} of {tally.rows:,} rows {'has' if rows == 1 else 'have'} no value"
    if severity == "refusal":
        message += "; the schema refuses missing values (`missing: reject`, the default)."
        fix = f"{advice.offer('Write {}, or', missing='level')} complete the file.".strip()
        fix = fix[:1].upper() + fix[1:]
    else:
        message += "."
        fix = "Missing is a level of the release (`missing: level`)."
    examples = _quoted_examples(tally.missing)
    return Finding(severity, "missing", column.name, message, fix, rows, examples, advice.changes)


def _quoted_examples(
    counted: Mapping[str, int], *, unseen: Collection[str] = ()
) -> tuple[Example, ...]:
    """Return the most frequent texts in quotes, and those of `unseen` with the codes of letters."""
    return tuple(
        Example(
            one.text if one.text == NULL else (ascii if one.text in unseen else quote)(one.text),
            one.rows,
        )
        for one in examples_of(counted)
    )


def _strangers(tally: Tally) -> Iterator[Finding]:
    """Yield a finding for each cause that texts are no levels, or are not of the column's type."""
    column = tally.column
    problem = Problem.LEVEL if column.levels else Problem.TYPE
    severity, rest = _severity(column, problem), "levels" if column.levels else "unreadable"
    level_cause = _level_causes(tally)
    groups: dict[str, dict[str, int]] = {}
    fixes: dict[str, str] = {}
    for text, rows in sorted(tally.strangers.items(), key=lambda item: (-item[1], item[0])):
        cause, fix = level_cause(text) if column.levels else (_type_cause(column, text), "")
        groups.setdefault(cause, {})[text] = rows
        fixes.setdefault(cause, fix)
    beyond = tally.problems[problem] - tally.strangers.total()  # those beyond `MOST_TEXTS`
    for cause, group in groups.items():
        rows = sum(group.values()) + (beyond if cause == rest else 0)
        advice = Advice(tally, group)
        fix = _settled_words(column, problem)
        if severity == "refusal":
            fix = fixes[cause] if column.levels else _type_fix(tally, advice, cause, group)
            fix += _as_missing(advice, cause, group)
        examples = _quoted_examples(
            group, unseen=group if cause in ("composition", "spaces", "characters") else ()
        )
        message = _message(column, cause, rows)
        yield Finding(severity, cause, column.name, message, fix, rows, examples, advice.changes)


def _message(column: Column, cause: str, rows: int) -> str:
    """Return the sentence about the texts of some rows that are no levels, or not of a type."""
    subject = "The text of 1 row" if rows == 1 else f"The texts of {rows:,} rows"
    if column.levels:
        one, many, more = LEVEL_TRAITS[cause]
        return f"{subject} {one if rows == 1 else many}{more}."
    one, many = NUMBER_TRAITS.get(cause, ("", ""))
    scale = column.scale
    are = f"is not {scale.a_value}" if rows == 1 else f"are not {scale.values}"
    also = f": {f'it {one}' if rows == 1 else f'they {many}'}" if many else ""
    return f"{subject} {are}{also}."


def _as_missing(advice: Advice, cause: str, group: Mapping[str, int]) -> str:
    """Return how to make texts missing, for causes in which they may mean missing."""
    if cause in ("missing-codes", "unreadable"):
        said = offer_codes("If they mean missing, write {}", advice, group)
        rest = "" if cause == "unreadable" else "Correct the file, or complete it."
        return f"{said.lstrip() if rest else said}." if said else rest
    if cause == "levels":
        return advice.offer(
            "To treat such texts as missing, write {}.", missing="level", out_of_range="missing"
        )
    return ""


def _level_causes(tally: Tally) -> Callable[[str], tuple[str, str]]:
    """Return a function from a text to the cause that it is no level, and its fix."""
    column, strangers = tally.column, tally.strangers
    levels = column.texts()
    used = {text for text, code in levels.items() if tally.codes[code]}
    labels = {level.label: level.text for level in column.levels}
    folded_labels = {label.casefold(): text for label, text in labels.items()}
    folded = {text.casefold(): text for text in levels}
    others = {text.strip() for text in strangers}
    joined = {part: level for level in levels for part in _parts_of_level(level, others)}
    seen = {appearance(text): text for text in levels}

    def cause_of(text: str) -> tuple[str, str]:
        stripped = text.strip()
        own = labels.get(stripped, folded_labels.get(stripped.casefold(), ""))
        if own and stripped not in levels and stripped.casefold() not in folded:
            listed = ", ".join(map(scalar, list(labels)[:3]))
            holds = f" If the file holds labels, list them: `levels: [{listed}"
            holds += f"{', ...' if len(labels) > 3 else ''}]`."
            mixed = f" Write {quote(own)} in these rows too."
            return "labels", (
                f"According to the schema, the file writes {quote(own)} for the label"
                f" {quote(stripped)}.{mixed if used & set(labels.values()) else holds}"
            )
        if stripped in levels:
            schema = "" if stripped in used else f", or write the level with them, as {quote(text)}"
            return "spaces", f"Remove the spaces in the file{schema}."
        if (alike := seen.get(appearance(text))) is not None:
            same_letters = " ".join(text.split()) == " ".join(alike.split())
            return "spaces" if same_letters else "composition", how_to_encode(alike, text)
        if stripped.casefold() in folded:
            own = folded[stripped.casefold()]
            schema = "" if own in used else f", or {quote(stripped)} in the schema"
            return "case", f"Write {quote(own)} in the file{schema}."
        if stripped in joined:
            own = joined[stripped]
            parts = ", ".join(_parts_of_level(own, others))
            return "comma", (
                f"Is a comma missing? The schema has {quote(own)} as one level; write `{parts}` if"
                " these are several."
            )
        if looks_missing(text):
            return "missing-codes", ""
        near = similar(stripped, levels) if len(levels) <= MOST_KNOWN else ""
        return "levels", (f"Correct the file.{near} Add a level only from public knowledge.")

    return cause_of


def _parts_of_level(level: str, texts: Set[str]) -> tuple[str, ...]:
    """Return the texts of the file that a level with spaces seems to join; none if it joins none.

    >>> _parts_of_level("female male", {"male", "female"})
    ('female', 'male')
    >>> _parts_of_level("not married", {"married"})
    ()
    """
    words = level.split()
    cuts = [(" ".join(words[:k]), " ".join(words[k:])) for k in range(1, len(words))]
    for parts in (tuple(words), *cuts):
        if len(parts) > 1 and all(part in texts for part in parts):
            return parts
    return ()


def _is_short_day(text: str) -> bool:
    digits = re.fullmatch("[0-9]{6}", text)
    return bool(digits) and any(_is_day(text, form) for form in ("%d%m%y", "%m%d%y", "%y%m%d"))


def _is_of_unit(char: str) -> bool:
    return char.isalpha() or char in "%\u2030" or unicodedata.category(char) == "Sc"


_NUMBER_CAUSES: Mapping[str, tuple[Callable[[str], object], str]] = {
    "missing-codes": (looks_missing, ""),
    "thousands": (_THOUSANDS.fullmatch, "Save the file without thousands separators."),
    "decimal-comma": (_DECIMAL_COMMA.fullmatch, "Save the file with decimal points."),
    "ratio": (
        lambda text: "/" in text and is_number(text),
        "Write the values as decimal numbers, as in 0.5 for 1/2.",
    ),
    "fractions": (is_number, ""),
    "characters": (
        is_number,  # and the text as the file has it is none
        "Write digits, minus and decimal point in ASCII, and no other spaces.",
    ),
    "control": (
        lambda text: any(unicodedata.category(char) == "Cc" for char in text),
        "Remove the control characters from the file, or export it again.",
    ),
    "quotes": (
        lambda text: text[:1] in _QUOTES or text[-1:] in _QUOTES,
        "Remove the quotation marks from the values.",
    ),
    "brackets": (
        _IN_BRACKETS.fullmatch,
        "If these are negative numbers, as in accounting, write them as in -12.",
    ),
    "open-ended": (
        _OPEN_ENDED.fullmatch,
        "If the questionnaire has such groups, describe the column as `type: ordinal` with"
        " `levels`. Otherwise correct the file.",
    ),
    "unit": (
        lambda text: _WITH_UNIT.fullmatch(text) and any(map(_is_of_unit, text)),
        "Convert the values to one unit and write them without it, as in 100000 for 100k; the"
        " schema's `description` can state the unit.",
    ),
}
"""Why texts are no numbers, by kind: which texts (in plain characters), and the fix, empty if it
depends on the column. The first that fits counts."""

_DATE_CAUSES: Mapping[str, tuple[Callable[[str], object], str]] = {
    "years": (
        _YEAR.fullmatch,
        "They are years alone. If the file has no days, describe the column as `type: integer`.",
    ),
    "day-numbers": (
        lambda text: re.fullmatch("[0-9]{5}([.]0*)?", text) and int(text[:5]) in EXCEL_DAYS,
        "They seem to be day numbers of Excel. Format the cells as dates before you save the file.",
    ),
    "short-years": (
        lambda text: _SHORT_YEAR.fullmatch(text) or _is_short_day(text),
        "Years of two digits leave the century open.",
    ),
}
"""Why texts are no dates, as `_NUMBER_CAUSES`: which texts, and what the fix says of them."""


def _type_cause(column: Column, text: str) -> str:
    """Return the kind of the finding about a text that is not of a column's type."""
    if column.type.own_texts and not looks_missing(text):
        dated = "format" in column.type.keys and re.search("[0-9]", text)
        return "dates" if dated else "unreadable"
    plain = appearance(text)
    if plain != text.strip() and is_number(plain):
        return "characters"
    fitting = (kind for kind, cause in _NUMBER_CAUSES.items() if cause[0](plain))
    return next(fitting, "unreadable")


def _type_fix(tally: Tally, advice: Advice, cause: str, group: Mapping[str, int]) -> str:
    """Return the fix of texts that are not of a column's type; empty if they are to be missing."""
    if cause == "dates":
        return _date_fix(tally, advice, group)
    if cause == "fractions":
        rest = "or round the values in the file."
        return f"{advice.offer('Write {}, ', **_as_number(tally.column))}{rest}".strip()
    if cause in _NUMBER_CAUSES:
        return _NUMBER_CAUSES[cause][1]
    scale = tally.column.scale
    if scale.own_texts:
        said = f" {scale.values.capitalize()} are written as {tally.column.format or scale.form}."
    else:
        said = "" if tally.column.role else " If these are codes, write `type: category`."
    return f"Correct the file.{said}"


def _as_number(column: Column) -> dict[str, Any]:
    """Return the keys that change a column's type from integer to number."""
    least, most = legal_range(column)
    if least == most or not column.type.whole:
        return {}
    widths = {int(high - low) for low, high in pairwise(column.edges)}
    if column.choice is not None:
        return {"type": "number"}
    if max(widths) - min(widths) <= 1:
        bins = column.bins if max(widths) > 1 else min(10, int(most - least))
        return {"type": "number", "bins": str(bins)}
    edges = [edge for edge in column.edges[:-1] if edge < most] + [most]
    return {"type": "number", "edges": tuple(str(int(edge)) for edge in edges)}


def _date_fix(tally: Tally, advice: Advice, group: Mapping[str, int]) -> str:
    """Return the format to state, or how to write the dates if no format fits all of them."""
    own = tally.column.format or "%Y-%m-%d"
    example = EXAMPLE_DAY.strftime(own)
    formats = [form for form in fitting_formats((*group, *tally.days)) if form != own]
    offers = [offer for form in formats if (offer := advice.offer("{}", format=form))]
    if len(offers) == 1:
        return f"Write{offers[0]}."
    if offers:
        said = [offer.strip() for offer in offers]
        fit = (
            f"Both {said[0]} and {said[1]} fit"
            if len(said) == 2
            else f"Each of {', '.join(said)} fits"
        )
        return f"{fit} every text; write the one that the questionnaire states."
    if any(re.fullmatch(_digits(own), text.strip()) for text in group) and not any(
        fitting_formats([text]) for text in group
    ):
        return f"No such days exist if dates are written as {example}; correct the file."
    if not tally.days:
        counts = {
            form: sum(rows for text, rows in group.items() if _is_day(text, form))
            for form in DATE_FORMATS
            if form != own
        }
        form = max(counts, key=lambda one: counts[one])
        if counts[form] and (offer := advice.offer("{}", format=form)):
            return (
                f"Write{offer}, which fits most of them, and all dates of the file in this format."
            )
        if counts[form] and not is_text(tally.stored):
            return "Store the dates of the file as dates, or as texts in the column's format."
    causes = (
        said for fits, said in _DATE_CAUSES.values() if any(map(fits, map(appearance, group)))
    )
    cause = next(causes, "")
    if not cause and not any(fitting_formats([text]) for text in (*group, *tally.days)):
        return f"Write dates as in {example}, or describe a column without dates by another type."
    fix = f"A column has one date format; write all dates of the file as in {example}."
    return f"{cause} {fix}".strip()


def _digits(form: str) -> str:
    """Return a regular expression for texts that have the parts of a date format."""
    pattern = re.escape(form).replace("%Y", "[0-9]{4}")
    return re.sub("%[dm]", "[0-9]{1,2}", pattern)


def _outside(tally: Tally) -> Finding:
    column, rows = tally.column, tally.problems[Problem.RANGE]
    severity = _severity(column, Problem.RANGE)
    low, high = (tally.text(end) for end in legal_range(column))
    assert tally.ends is not None
    message = (
        f"{some_rows(rows, 'are')} out of range: the schema allows {low} to {high}; values in the"
        f" file run from {tally.ends[0][-1]} to {tally.ends[1][-1]}."
    )
    codes = _codes_outside(tally)
    advice = Advice(tally, tally.outside)
    if severity == "settled":
        fix = _settled_words(column, Problem.RANGE)
    else:
        fix = advice.offer(
            "To move such values to the nearest bound, write {}.", out_of_range="clip"
        )
        fix += advice.offer(
            "To make them missing, write {}.", missing="level", out_of_range="missing"
        )
        fix += " Widen the bounds only if public knowledge supports it."
    if codes:
        mean = "means" if len(codes) == 1 else "mean"
        said = offer_codes(f"If {', '.join(codes)} {mean} missing, write {{}}", advice, codes)
        fix += f"{said}." if said else ""
    examples, fix = examples_of(tally.outside), fix.strip()
    return Finding(
        severity, "out-of-range", column.name, message, fix, rows, examples, advice.changes
    )
