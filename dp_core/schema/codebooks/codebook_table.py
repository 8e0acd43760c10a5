"""Codebooks that are tables in CSV, with a row for each variable or level, or lists in plain JSON.

Headings are recognised in the spellings of common tools, such as REDCap's data dictionary. In JSON,
columns are a list or a mapping by name, with the same keys; levels are a list, or a mapping of
codes to labels.
A cell of a table may list levels, such as `1=male; 2=female`.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from dp_core.errors import BadInput, similar
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Role,
    Variable,
    date_format,
    days_of,
    description_of,
    levels_of,
    mapping,
    mappings,
    nonempty,
    numbers_of,
    range_of,
    word,
)
from dp_core.schema.column_types.registry import Kind
from dp_core.schema.definition import Level
from dp_core.text.documents.typed_text import quote

_HEADINGS: Mapping[str, tuple[str, ...]] = {
    "name": ("variable", "name", "column", "field", "variable name", "column name", "field name",
             "variable / field name", "var", "item", "variable id"),
    "label": ("label", "variable label", "description", "question", "field label", "title",
              "question text", "meaning", "text"),
    "type": ("type", "field type", "data type", "datatype", "variable type", "format type",
             "measurement level", "class", "kind"),
    "values": ("levels", "values", "codes", "choices", "value labels", "categories", "coding",
               "choices, calculations, or slider labels", "response options", "allowed values",
               "options", "code list", "permitted values", "range", "valid values", "valid range",
             "enum"),
    "value": ("value", "code", "level", "category", "category value", "answer code"),
    "value_label": ("value label", "code label", "level label", "category label",
                    "answer", "value description", "value meaning"),
    "min": ("min", "minimum", "lower", "low", "text validation min", "from", "min value"),
    "max": ("max", "maximum", "upper", "high", "text validation max", "to", "max value"),
    "missing": ("missing", "missing values", "missing codes", "missing value", "na values"),
    "unit": ("unit", "units", "unit of measurement"),
    "format": ("format", "date format"),
    "decimals": ("decimals", "decimal places", "precision"),
    "role": ("role",),
    "required": ("required", "required field?", "mandatory"),
    "nullable": ("nullable",),
}  # fmt: skip
_OF_VARIABLES = {
    key: spellings for key, spellings in _HEADINGS.items() if key not in ("value", "value_label")
}
"""Headings that say something of a whole variable, as keys of JSON do."""
_BETWEEN = "\x1f"
"""Before and between texts of a list, which may contain any sign."""
_TYPES: Mapping[str, Kind] = {
    **dict.fromkeys(("integer", "int", "count", "whole number", "whole", "long", "year"),
                    "integer"),
    **dict.fromkeys(("number", "numeric", "float", "double", "real", "decimal", "continuous",
                     "scale", "ratio", "interval", "weight", "survey weight",
                     "calc", "slider"), "number"),
    **dict.fromkeys(("date", "datetime", "timestamp"), "date"),
    **dict.fromkeys(("category", "categorical", "nominal", "factor", "radio", "dropdown",
                     "select", "enum", "code", "coded", "boolean", "bool", "yesno", "logical",
                     "binary"), "category"),
    **dict.fromkeys(("ordinal", "ordered", "ordered factor", "likert"), "ordinal"),
}  # fmt: skip
_TEXTS = ("text", "string", "character", "notes", "free text", "char", "str", "varchar", "time",
          "time of day")  # fmt: skip
_COMPUTED = ("calc", "slider")
"""Types of REDCap whose values are numbers, and whose choices are a formula or marks of a scale."""
_IDS = ("id", "identifier", "key", "primary key")
_WEIGHTS = ("weight", "survey weight")
_YES = ("yes", "y", "true", "1", "required")
_ABSENT = re.compile(
    r"refus|unknown|missing|don.?t know|not known|no answer|not answer|not stated|not applicable"
    r"|\bn/?a\b|\bdk\b|no response|skipped",
    re.IGNORECASE,
)
MOST_CODES = 1000
"""Most codes of a range of whole numbers that are listed as levels."""


_LISTS = ("columns", "variables", "attributes")
"""Keys of a JSON document that may list the columns."""


def read_codebook_table(text: str, name: str) -> Codebook:
    """Return the codebook of a table.

    Args:
        text: The table as CSV, separated by commas, semicolons or tabs.
        name: Name of its file.

    Raises:
        BadInput: if no column of the table has the names of the variables, it has no row, a row
            has more fields than the headings, or a variable is described twice.
    """
    rows = _rows(text, name)
    first = rows[0][1]
    heading = _headings(first, name)
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
    current = ""
    for line, row in rows[1:]:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) > len(first):
            raise BadInput(
                f"Line {line} of {name} has {len(row)} fields, but the header has {len(first)}."
                " Write a list of levels, or any other cell with a separator in it, in quotation"
                " marks."
            )
        cells = [cell.strip() for cell in row] + [""] * len(first)
        record = {key: cells[place] for key, place in heading.items()}
        # One row per level often names the variable in its first row only.
        current = record["name"] or current
        if current:
            groups.setdefault(current, []).append((line, record))
    if not groups:
        raise BadInput(f"{name} has headings but no rows. Give a codebook that lists variables.")
    by_level = "value" in heading and "values" not in heading
    if "value" not in heading:
        for variable, described in groups.items():
            _check_same(variable, described, name)
    return Codebook(
        name=name,
        form="table with a row per level" if by_level else "table with a row per variable",
        variables=tuple(
            _variable(variable, [record for _, record in described])
            for variable, described in groups.items()
        ),
        unread=tuple(
            cell.strip()
            for place, cell in enumerate(first)
            if cell.strip() and place not in heading.values()
        ),
    )


def _check_same(
    variable: str, described: Sequence[tuple[int, Mapping[str, str]]], name: str
) -> None:
    """Refuse rows of one variable that differ in more than their lists of levels."""
    line, first = described[0]
    ranged = any(range_of(record.get("values", "")) for _, record in described)
    for other, record in described[1:]:
        for key, cell in record.items():
            levels = key == "values" and not ranged
            if key != "name" and cell and cell != first[key] and not levels:
                raise BadInput(
                    f"{name}, line {other}: describes {quote(variable)} again, with another {key}"
                    f" than line {line}; keep one of them."
                )


def _rows(text: str, name: str) -> list[tuple[int, list[str]]]:
    """Return the rows of a table, each with the line where it begins."""
    first = text.partition("\n")[0]
    mark = max(",;\t|", key=first.count)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
        rows, line = [], 1
        for row in reader:
            rows.append((line, row))
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(f"{name} is not a CSV table ({error}). Check its quotation marks.") from None
    if not rows or not any(map(str.strip, rows[0][1])):
        raise BadInput(f"{name} has no heading line. Put one first, such as variable,label,values.")
    return rows


def _headings(first: Sequence[str], name: str) -> Mapping[str, int]:
    """Return the place of each known heading; of several spellings of one, the first listed."""
    cells = list(map(_folded, first))
    found: dict[str, int] = {}
    for key, spellings in _HEADINGS.items():
        for spelling in spellings:
            if spelling in cells and cells.index(spelling) not in found.values():
                found[key] = cells.index(spelling)
                break
    if "name" not in found:
        raise BadInput(
            f"{name}: none of the headings marks the column of variable names. Give that column the"
            " heading `variable`. Other headings that are read: label, type, values, value,"
            " value_label, min, max, missing, unit, format, decimals, role, required."
        )
    if "value_label" not in found and "value" in found and cells.count("label") > 1:
        found["value_label"] = len(cells) - 1 - cells[::-1].index("label")
    return found


def _folded(heading: str) -> str:
    return re.sub(r"[\s_]+", " ", heading.strip().lower())


def _variable(name: str, records: Sequence[Mapping[str, str]]) -> Variable:
    def cell(key: str) -> str:
        return next((record[key] for record in records if record.get(key)), "")

    cells = {key: cell(key) for key in _HEADINGS}
    # Without labels of levels, the label beside a level is its own.
    of_level = "value_label" if "value_label" in records[0] else "label"
    pairs = [
        (record["value"], record.get(of_level, "")) for record in records if record.get("value")
    ]
    if pairs and of_level == "label":
        cells["label"] = ""
    low, high = cells["min"] or None, cells["max"] or None
    computed = cells["type"].lower() in _COMPUTED
    values = "" if computed else cells["values"]
    ends = range_of(values) if values else None
    if ends is None and len(pairs) == 1:
        ends = range_of(pairs[0][0])
        pairs = [] if ends else pairs
    if ends:
        low, high = low or ends[0], high or ends[1]
    doubts = []
    if not ends and not computed:
        for listed in dict.fromkeys(nonempty(record.get("values", "") for record in records)):
            found = split_levels(listed)
            doubts.append(doubt_of(listed, found) if len(records) == 1 else "")
            pairs += found
    ranges = [pair for pair in pairs if not pair[1] and range_of(pair[0])]
    if (
        len(ranges) == 1
        and not (low or high)
        and _TYPES.get(_type_name(cells["type"])) in ("integer", "number")
    ):
        pairs.remove(ranges[0])  # 12-18; 97=refused
        low, high = range_of(ranges[0][0]) or (None, None)
    if not cells["required"] and cells["nullable"]:
        cells["required"] = "no" if cells["nullable"].lower() in _YES else "yes"
    absent = list(nonempty(cells["missing"].split(_BETWEEN)))
    if _BETWEEN not in cells["missing"]:
        absent = list(nonempty(re.split(r"[;,|]", cells["missing"])))
        absent = [one.partition("=")[0].strip() for one in absent]
    if [one.lower() for one in absent] in (["yes"], ["no"], ["true"], ["false"]):
        absent = []
    return variable_of(
        name,
        cells | {"min": low or "", "max": high or ""},
        pairs,
        absent,
        in_range=ends is not None,
        remarks=list(nonempty(doubts)),
    )


def variable_of(
    name: str,
    cells: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    absent: Sequence[str],
    *,
    in_range: bool = False,
    remarks: Sequence[str] = (),
) -> Variable:
    """Return a variable from what a codebook has in its cells.

    Args:
        name: Name of the column.
        cells: Texts under `type`, `min`, `max`, `format`, `decimals`, `role`, `required`, `unit`
            and `label`; empty or absent for what it does not say.
        pairs: Levels with their labels.
        absent: Texts that mean missing.
        in_range: Whether the bounds were stated as a range of codes; False by default.
        remarks: What a person should know of the levels; nothing by default.
    """
    cells = defaultdict(str, cells)
    low, high = cells["min"] or None, cells["max"] or None
    notes = list(remarks)
    stated = _type_name(cells["type"])
    kind = _TYPES.get(stated)
    known = {*_TYPES, *_TEXTS, *_IDS}
    if stated and stated not in known:
        notes.append(
            f"the codebook's type {quote(cells['type'])} is unknown.{similar(stated, known)}"
        )
    coded = kind in ("category", "ordinal")
    if coded and (in_range or not pairs):
        pairs = [(str(code), "") for code in _codes(low, high)]
    levels = levels_of(pairs, absent)
    labels: dict[str, dict[str, None]] = defaultdict(dict)
    for text, label in pairs:
        labels[text.strip()][label.strip()] = None
    notes += [
        f"the codebook gives {quote(text)} several labels: {', '.join(map(quote, several))}"
        for text, several in labels.items()
        if len(several) > 1
    ]
    listed = {*absent, *(level.text for level in levels)}
    if coded and (bare := [str(one) for one in _codes(low, high) if str(one) not in listed]):
        named = f"{', '.join(bare[:9])}{', ...' * (len(bare) > 9)}"
        notes.append(f"min and max allow {named}, which the codebook's list of levels lacks")
    if levels and kind not in ("category", "ordinal"):
        kept, note = _numeric_with_codes(kind, levels, low, high)
        notes += [note] if note else []
        kind, levels = (kind, ()) if kept else ("category", levels)
    if kind is None and not levels:
        kind = _kind_of(low, high)
    form = date_format(cells["format"])
    if kind is None and form:
        kind = "date"
    if kind == "date":  # without a time of day
        low, high = (end and end[:10] for end in (low, high))
    decimals, required, unit = cells["decimals"], cells["required"].lower(), cells["unit"]
    if cells["format"] and kind == "date" and not form:
        notes.append(
            f"the codebook's format {quote(cells['format'])} cannot be read; state `format`"
        )
    if decimals and not decimals.isdigit():
        notes.append(f"the codebook's decimals {quote(decimals)} are not a whole number")
    own = cells["role"].lower()
    role: Role = "id" if own in _IDS or (stated in _IDS and not levels) else ""
    if own in _WEIGHTS or (stated in _WEIGHTS and not role):
        role = "weight"
    elif own and not role and (near := similar(own, (*_IDS, *_WEIGHTS))):
        notes.append(f"the codebook's role {quote(cells['role'])} is unknown.{near}")
    return Variable(
        name=name,
        kind=kind,
        levels=levels if kind in ("category", "ordinal") else (),
        minimum=low,
        maximum=high,
        decimals=int(decimals) if decimals.isdigit() and kind == "number" else None,
        format="" if form == "%Y-%m-%d" else form,
        missing_values=tuple(dict.fromkeys(("", *absent))) if absent else None,
        missing=True if absent else (None if not required else required not in _YES),
        role=role,
        description=description_of(cells["label"], f"Unit: {unit}" if unit else ""),
        text=kind is None and stated in _TEXTS and not role and not (low or high),
        remarks=tuple(notes),
    )


def _type_name(cell: str) -> str:
    """Return a type in small letters without its length, as in `varchar(20)`."""
    return re.sub(r"\s*\([0-9., ]*\)$", "", cell.strip().lower())


def _numeric_with_codes(
    kind: Kind | None, levels: Sequence[Level], low: str | None, high: str | None
) -> tuple[bool, str]:
    """Return whether a column of a stated type keeps it although codes are listed, and a remark.

    A column is a category if its codes are all whole numbers between the bounds, or if it has no
    bounds and a label that does not mean missing.
    """
    asks = [level for level in levels if _ABSENT.search(level.label)]
    if kind is None or not (low or high or len(asks) == len(levels)):
        return False, ""
    texts = {level.text for level in levels}
    inside = {str(code) for code in _codes(low, high)}
    if kind == "integer" and inside and inside <= texts:
        asks = [level for level in levels if level.text not in inside]
        kept = False
    else:
        asks = list(levels)
        kept = True
    if not asks:
        return kept, ""
    named = ", ".join(
        level.text if level.text == level.label else f"{level.text} ({level.label})"
        for level in asks[:9]
    )
    listed = ", ".join(f'"{level.text}"' for level in asks[:9])
    what = "do" if len(asks) > 1 else "does"
    return kept, (
        f"{what} {named} mean missing? If so, write `missing: level,"
        f' missing_values: ["", {listed}]`'
    )


def _codes(low: str | None, high: str | None) -> range:
    """Return the codes of a range of at most `MOST_CODES` whole numbers; none of any other."""
    whole = all(end and re.fullmatch("-?[0-9]{1,9}", end) for end in (low, high))
    codes = range(int(low or 0), int(high or 0) + 1) if whole else range(0)
    return codes if len(codes) <= MOST_CODES else range(0)


def _kind_of(low: str | None, high: str | None) -> Kind | None:
    if days_of(low, high):
        return "date"
    if not numbers_of(low, high):
        return None
    return "number" if "." in f"{low}{high}" else "integer"


def read_plain_json(document: Any, name: str) -> Codebook | None:
    """Return the codebook of a JSON document that lists columns; None if it lists none.

    Args:
        document: The JSON document.
        name: Name of its file.
    """
    root, columns = mapping(document), _columns(document)
    known = {each for spellings in _OF_VARIABLES.values() for each in spellings}
    keys = dict.fromkeys(each for one in columns for each in one if _folded(each) not in known)
    if not columns:
        return None
    return Codebook(
        name=name,
        form="JSON list of columns",
        title=word(root.get("title")),
        description=word(root.get("description")),
        variables=tuple(_variable(word(one["name"]), _rows_of_json(one)) for one in columns),
        unread=tuple(keys),
    )


def _columns(document: Any) -> list[Mapping[str, Any]]:
    """Return the columns of a document, each with its name; none if it lists no columns."""
    if isinstance(document, list):
        return [one for one in mappings(document) if word(one.get("name"))]
    for key in _LISTS:
        listed = mapping(document).get(key)
        if isinstance(listed, Mapping):
            return [{**mapping(one), "name": name} for name, one in listed.items()]
        if found := [one for one in mappings(listed) if word(one.get("name"))]:
            return found
    return []


def _rows_of_json(column: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a column as the rows of a table: one for each level, or a single one."""
    stated = {_folded(key): value for key, value in column.items()}
    lists = [one for key in _HEADINGS["values"] if isinstance(one := stated.get(key), dict | list)]
    listed: Any = next(filter(None, lists), [])
    if isinstance(listed, list):
        pairs = [(mapping(one).get("value", one), mapping(one).get("label")) for one in listed]
    else:
        pairs = list(listed.items())
    for key in _HEADINGS["missing"]:
        if isinstance(absent := stated.get(key), list):
            stated[key] = _BETWEEN + _BETWEEN.join(map(word, absent))
    cells = {
        heading: next((text for one in spellings if (text := word(stated.get(one)))), "")
        for heading, spellings in _OF_VARIABLES.items()
    }
    if not pairs:
        return [cells]
    levels = (
        {"values": "", "value": word(one), "value_label": word(label)} for one, label in pairs
    )
    return [cells | level for level in levels]


_QUOTED = re.compile(r"""(?:(?<=[|\n;,=:/])|^)(\s*)(["'])(.+?)\2(?=\s*(?:[|\n;,=:/–—]|-\s|$))""")
_SIGN = re.compile(
    r"\s+(?:=>|->|→)\s+"  # 1 => male
    r"|(?<![<>!=])=(?!=)"  # 1=male, but neither <=5 nor >=8
    r"|(?<![0-9]):|:(?![0-9]{2})"  # 1: male, but not 08:00
    r"|\s[-–—]\s(?!\s*[0-9])"  # 1 - male, but not 0 - 9
    r"|(?<![\s0-9])[–—]|[–—](?![\s0-9])"
)
_COMMA = re.compile(",")
_MARKS = ("|", "\n", ";")
_SLASH = r"\s/\s"

Part = tuple[str, str]
"""A piece of a cell, and the same with the quoted texts hidden."""


def split_levels(cell: str) -> list[tuple[str, str]]:
    """Return the levels that one cell lists, each with its label; without one, the empty text.

    Levels are separated by `|`, line ends, semicolons or commas, or by ` / ` if each has a label.
    `=` separates a code from its label, but not at the start nor right after `<`, `>` or `!`. A
    text in quotes is taken as it is.

    >>> split_levels("1=male; 2=female"), split_levels("1, Yes | 0, No")
    ([('1', 'male'), ('2', 'female')], [('1', 'Yes'), ('0', 'No')])
    >>> split_levels("north, south"), split_levels("1: low, 2: high")
    ([('north', ''), ('south', '')], [('1', 'low'), ('2', 'high')])
    >>> split_levels("<=50K=up to 50K; >50K"), split_levels('"a=b"=both; c')
    ([('<=50K', 'up to 50K'), ('>50K', '')], [('a=b', 'both'), ('c', '')])
    """
    whole: Part = (cell, _QUOTED.sub(lambda found: found[1] + "q" * (len(found[3]) + 2), cell))
    listed = [(mark, _split(whole, re.escape(mark))) for mark in _MARKS if mark in whole[1]]
    listed.sort(key=lambda item: not _all_pairs(item[1], item[0]))  # stable: pairs go first
    if listed:
        mark, parts = listed[0]
        return [_level(part, mark) for part in parts]
    slashed = _split(whole, _SLASH)
    if len(slashed) > 1 and _all_pairs(slashed, "/"):
        return [_level(part, "/") for part in slashed]
    return [_level(part, ",") for part in _split_at_commas(whole)]


def doubt_of(cell: str, levels: Sequence[tuple[str, str]]) -> str:
    """Return what a person should know of the levels read from a cell; empty without a doubt.

    >>> doubt_of("m/f", [("m/f", "")])
    "the codebook's values were read as one level; separate levels by semicolons: 'm/f'"
    """
    text = " ".join(cell.split())
    text = repr(text if len(text) <= 60 else f"{text[:57]}...")
    if len(levels) == 1 and not levels[0][1] and re.search(r"\W", cell.strip()):
        return (
            f"the codebook's values were read as one level; separate levels by semicolons: {text}"
        )
    if any(re.search(r"\s\S{1,6}=[^=]", label) for _, label in levels):
        return f"a label has another `=`; separate levels by semicolons: {text}"
    if any(not label and re.match(r"\S+\s[-–—]\s", code) for code, label in levels):
        return f"texts with a dash were read as levels without labels; write code=label: {text}"
    return ""


def _split(whole: Part, mark: str) -> list[Part]:
    """Return the pieces between marks outside quotes that are not blank."""
    text, hidden = whole
    parts, start = [], 0
    for found in [*re.finditer(mark, hidden), None]:
        end = len(text) if found is None else found.start()
        if text[start:end].strip():
            parts.append((text[start:end], hidden[start:end]))
        start = len(text) if found is None else found.end()
    return parts


def _split_at_commas(whole: Part) -> list[Part]:
    """Return the pieces between commas; a piece without a code continues the label before it."""
    parts: list[Part] = []
    for part in _split(whole, ","):
        if parts and _sign(part, ",") is None and _sign(parts[-1], ",") is not None:
            before = parts.pop()
            part = (f"{before[0]},{part[0]}", f"{before[1]},{part[1]}")
        parts.append(part)
    return parts


def _sign(part: Part, mark: str) -> re.Match[str] | None:
    """Return what separates the code of a piece from its label, None if it has no label."""
    hidden = part[1]
    lead = len(hidden) - len(hidden.lstrip())
    signs = (_SIGN, _COMMA) if mark == "|" else (_SIGN,)
    found = [one for sign in signs for one in sign.finditer(hidden) if one.start() > lead]
    return min(found, key=lambda one: one.start(), default=None)


def _all_pairs(parts: Sequence[Part], mark: str) -> bool:
    """Return whether each piece is a code without other marks, and a label."""
    signs = [_sign(part, mark) for part in parts]
    return len(parts) > 1 and all(
        sign is not None and not re.search(r"[;|\n]", part[1][: sign.start()])
        for sign, part in zip(signs, parts, strict=True)
    )


def _level(part: Part, mark: str) -> tuple[str, str]:
    text = part[0]
    sign = _sign(part, mark)
    if sign is None:
        return _bare(text), ""
    return _bare(text[: sign.start()]), _bare(text[sign.end() :])


def _bare(text: str) -> str:
    """Return a text without the spaces and the quotes around it."""
    stripped = text.strip()
    quoted = len(stripped) > 2 and stripped[0] == stripped[-1] and stripped[0] in "\"'"
    return stripped[1:-1] if quoted else stripped
