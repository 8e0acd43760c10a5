"""Codebooks that are tables in CSV: a row for each variable, or a row for each level.

Headings are recognised in the spellings of common tools, such as REDCap's data dictionary.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import (
    Codebook,
    Role,
    Variable,
    date_format,
    days_of,
    description_of,
    levels_of,
    nonempty,
    numbers_of,
    range_of,
)
from dp_core.schema.definition import Kind

_HEADINGS: Mapping[str, tuple[str, ...]] = {
    "name": ("variable", "name", "column", "field", "variable name", "column name", "field name",
             "variable / field name", "var", "item", "variable_id"),
    "label": ("label", "variable label", "description", "question", "field label", "title",
              "question text", "meaning", "text"),
    "type": ("type", "field type", "data type", "datatype", "variable type", "format type",
             "measurement level", "class"),
    "values": ("values", "levels", "codes", "choices", "value labels", "categories", "coding",
               "choices, calculations, or slider labels", "response options", "allowed values",
               "options", "code list", "permitted values", "range", "valid values", "valid range"),
    "value": ("value", "code", "level", "category", "category value", "answer code"),
    "value_label": ("value label", "value_label", "code label", "level label", "category label",
                    "answer", "value description", "value meaning"),
    "min": ("min", "minimum", "lower", "low", "text validation min", "from", "min value"),
    "max": ("max", "maximum", "upper", "high", "text validation max", "to", "max value"),
    "missing": ("missing", "missing values", "missing codes", "missing value", "na values",
                "missing_values"),
    "unit": ("unit", "units", "unit of measurement"),
    "format": ("format", "date format"),
    "decimals": ("decimals", "decimal places", "precision"),
    "role": ("role",),
    "required": ("required", "required field?", "mandatory", "nullable"),
}  # fmt: skip
_TYPES: Mapping[str, Kind] = {
    **dict.fromkeys(("integer", "int", "count", "whole number", "whole", "long"), "integer"),
    **dict.fromkeys(("number", "numeric", "float", "double", "real", "decimal", "continuous",
                     "scale", "ratio", "interval"), "number"),
    **dict.fromkeys(("date", "datetime", "timestamp"), "date"),
    **dict.fromkeys(("category", "categorical", "nominal", "factor", "radio", "dropdown",
                     "select", "enum", "code", "coded", "boolean", "bool", "yesno", "logical",
                     "binary"), "category"),
    **dict.fromkeys(("ordinal", "ordered", "ordered factor", "likert"), "ordinal"),
}  # fmt: skip
_TEXTS = ("text", "string", "character", "notes", "free text", "char", "str", "varchar")
_YES = ("yes", "y", "true", "1", "required")


def read_codebook_table(text: str, name: str) -> Codebook:
    """Return the codebook of a table.

    Args:
        text: The table as CSV, separated by commas, semicolons or tabs.
        name: Name of its file.

    Raises:
        BadInput: if no column of the table has the names of the variables, or it has no row.
    """
    rows = _rows(text, name)
    heading = _headings(rows[0], name)
    records = [
        {key: row[place].strip() if place < len(row) else "" for key, place in heading.items()}
        for row in rows[1:]
        if any(cell.strip() for cell in row)
    ]
    groups: dict[str, list[dict[str, str]]] = {}
    current = ""
    for record in records:
        # One row per level often names the variable in its first row only.
        current = record["name"] or current
        if current:
            groups.setdefault(current, []).append(record)
    if not groups:
        raise BadInput(f"{name} has headings but no rows. Give a codebook that lists variables.")
    by_level = "value" in heading and "values" not in heading
    return Codebook(
        name=name,
        form="table with a row per level" if by_level else "table with a row per variable",
        variables=tuple(_variable(one, found) for one, found in groups.items()),
    )


def _rows(text: str, name: str) -> list[list[str]]:
    first = text.partition("\n")[0]
    mark = max(",;\t|", key=first.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=mark, strict=True))
    except csv.Error as error:
        raise BadInput(f"{name} is not a CSV table ({error}). Check its quotation marks.") from None
    if not rows or not any(map(str.strip, rows[0])):
        raise BadInput(f"{name} has no heading line. Put one first, such as variable,label,values.")
    return rows


def _headings(first: Sequence[str], name: str) -> Mapping[str, int]:
    """Return the place of each known heading; of several spellings of one, the first listed."""
    cells = [re.sub(r"[\s_]+", " ", cell.strip().lower()) for cell in first]
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


def _variable(name: str, records: Sequence[Mapping[str, str]]) -> Variable:
    def cell(key: str) -> str:
        return next((record[key] for record in records if record.get(key)), "")

    own_label = "value_label" in records[0] or "value" not in records[0]
    pairs = [
        (record["value"], record.get("value_label", "" if own_label else record.get("label", "")))
        for record in records
        if record.get("value")
    ]
    if not own_label and "value" in records[0] and len(records) == 1 and not pairs:
        own_label = True
    low, high = cell("min") or None, cell("max") or None
    values = cell("values")
    ends = range_of(values) if values else None
    if ends is None and len(pairs) == 1:
        ends = range_of(pairs[0][0])
        pairs = [] if ends else pairs
    if ends:
        low, high = low or ends[0], high or ends[1]
    elif values:
        pairs += split_levels(values)
    absent = list(nonempty(re.split(r"[;,|]", cell("missing"))))
    absent = [] if [one.lower() for one in absent] in (["yes"], ["no"]) else absent
    absent = [one.partition("=")[0].strip() for one in absent]
    return variable_of(
        name,
        {
            "type": cell("type"),
            "min": low or "",
            "max": high or "",
            "format": cell("format"),
            "decimals": cell("decimals"),
            "role": cell("role"),
            "required": cell("required"),
            "unit": cell("unit"),
            "label": cell("label") if own_label else "",
        },
        pairs,
        absent,
        in_range=ends is not None,
    )


def variable_of(
    name: str,
    cells: Mapping[str, str],
    pairs: Sequence[tuple[str, str]],
    absent: Sequence[str],
    *,
    in_range: bool = False,
) -> Variable:
    """Return a variable from what a codebook has in its cells.

    Args:
        name: Name of the column.
        cells: Texts under `type`, `min`, `max`, `format`, `decimals`, `role`, `required`, `unit`
            and `label`; empty for what it does not say.
        pairs: Levels with their labels.
        absent: Texts that mean missing.
        in_range: Whether the bounds were stated as a range of codes; False by default.
    """
    low, high = cells["min"] or None, cells["max"] or None
    stated = cells["type"].lower()
    kind = _TYPES.get(stated)
    if in_range and low and high and kind in ("category", "ordinal"):
        pairs = [(str(code), "") for code in _codes(low, high)]
    levels = levels_of(pairs, absent)
    if levels and kind not in ("category", "ordinal"):
        kind = "category"
    if kind is None and not levels:
        kind = _kind_of(low, high)
    form = date_format(cells["format"])
    if kind is None and form:
        kind = "date"
    decimals, required, unit = cells["decimals"], cells["required"].lower(), cells["unit"]
    role: Role = "id" if cells["role"].lower() in ("id", "identifier", "key") else ""
    if cells["role"].lower() in ("weight", "survey weight"):
        role = "weight"
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
        text=kind is None and stated in _TEXTS,
    )


def _codes(low: str, high: str) -> range:
    """Return the codes of a short range of whole numbers; none of any other."""
    whole = all(re.fullmatch("-?[0-9]{1,4}", end) for end in (low, high))
    return range(int(low), min(int(high), int(low) + 99) + 1) if whole else range(0)


def _kind_of(low: str | None, high: str | None) -> Kind | None:
    if days_of(low, high):
        return "date"
    if not numbers_of(low, high):
        return None
    return "number" if "." in f"{low}{high}" else "integer"


def split_levels(cell: str) -> list[tuple[str, str]]:
    """Return the levels that one cell lists, each with its label.

    >>> split_levels("1=male; 2=female"), split_levels("1, Yes | 0, No")
    ([('1', 'male'), ('2', 'female')], [('1', 'Yes'), ('0', 'No')])
    >>> split_levels("north, south"), split_levels("1: low, 2: high")
    ([('north', ''), ('south', '')], [('1', 'low'), ('2', 'high')])
    """
    marks = [mark for mark in ("|", "\n", ";") if mark in cell]
    parts = list(nonempty(cell.split(marks[0]))) if marks else None
    if parts is None:
        parts = list(nonempty(re.split(r",\s*(?=[^,=:]*[=:])", cell)))
        if not any(re.search(r"[=:]", part) for part in parts):
            parts = list(nonempty(cell.split(",")))
    found = []
    for part in parts:
        pair = re.match(r"\s*(\"?)([^=:]*?)\1\s*(?:=|:|–|\s-\s)\s*(.+)", part)
        if pair is None and marks and marks[0] == "|":
            pair = re.match(r"\s*(\"?)([^,]*?)\1\s*,\s*(.+)", part)
        found.append((pair[2].strip(), pair[3].strip()) if pair else (part.strip('"'), ""))
    return found
