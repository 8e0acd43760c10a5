"""Whether the header of a data file has the schema's columns, in a form that can be read."""

from __future__ import annotations

import contextlib
import csv
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.confidential.data_files import Kind
from dp_core.confidential.source_files import damaged
from dp_core.confidential.sources.common_types import is_readable, stored_type, type_words
from dp_core.errors import BadInput, SchemaViolation, appearance, looks_alike, similar
from dp_core.inspection.advice import how_to_encode
from dp_core.inspection.file_content import header_elsewhere, header_finding, start_of
from dp_core.inspection.findings import EXAMPLES, Example, Finding, joined_findings, some_rows
from dp_core.schema.definition import Schema
from dp_core.text.documents.typed_text import quote
from dp_core.text.pages.number_texts import plural


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of a file has.

    Attributes:
        names: Name in the file of each column of the schema that the file has; no row can be read
            if there is none.
        findings: What is wrong with the header.
    """

    names: Mapping[str, str]
    findings: tuple[Finding, ...]


def check_header(path: Path, kind: Kind, schema: Schema) -> Header:
    """Return what the header of a file has, compared with the schema.

    Args:
        path: The file.
        kind: Its kind by name.
        schema: The schema.

    Raises:
        BadInput: if the file cannot be opened.
    """
    text = start_of(path, kind, (*schema.reads, *schema.ignore))
    if kind == "parquet" and not text:
        try:
            return typed_header(pq.read_schema(path), schema)
        except (pa.ArrowException, OSError) as error:
            damaged(path, error)
    if isinstance(text, Finding):
        return Header({}, (text,))
    if (elsewhere := header_elsewhere(text, schema.reads)) is not None:
        return Header({}, (elsewhere,))
    try:
        header = next(csv.reader(text.splitlines(keepends=True), strict=True), [])
    except csv.Error:
        message = "The first line is not a CSV header: a quotation mark is not closed."
        return Header({}, (header_finding(message, "Put the column names there."),))
    if not any(name.strip() for name in header):
        fix = "Put a header line with the column names first."
        return Header({}, (header_finding("The first line is blank.", fix),))
    return compare_names(header, schema)


def compare_names(header: Sequence[str], schema: Schema) -> Header:
    """Return which columns of the schema a file has, and what differs.

    A column that is the same but for spaces, capital letters or punctuation is taken for the
    schema's, so that its values are checked too.
    """
    reads, known = schema.reads, {*schema.reads, *schema.ignore}
    folded_known = {_folded_name(name) for name in known}
    if not any(_folded_name(name) in folded_known for name in header) and (
        len(header) != 1 or not similar(header[0], known)
    ):
        message = "The header names none of the schema's columns."
        fix = "Put a header line with the column names first, or name the schema of this file."
        examples = (Example(quote(name)) for name in header[:EXAMPLES])
        return Header({}, (header_finding(message, fix, *examples),))
    findings: list[Finding] = []

    def refuse(kind: str, column: str, message: str, fix: str, *examples: Example) -> None:
        findings.append(Finding("refusal", kind, column, message, fix, None, examples))

    for name in dict.fromkeys(name for name in header if header.count(name) > 1):
        message = f"The file has {header.count(name)} columns of this name."
        refuse("repeated-column", name, message, "Rename or remove all but one of them.")
    names = {name: name for name in reads if name in header and header.count(name) == 1}
    nameless = [place for place, name in enumerate(header, start=1) if not name.strip()]
    if nameless and "" not in known:
        refuse(
            "column-unnamed",
            "",
            f"Column {nameless[0]} of the file has no name.",
            "Remove it, or name it and list it under `ignore`. It may be an index that a program"
            " wrote, or a comma at the end of each line.",
        )
    extra = [name for name in dict.fromkeys(header) if name not in known and name.strip()]
    folded = {_folded_name(name): name for name in reversed(extra)}
    for name in reads:
        if name in header:
            continue
        near = folded.get(_folded_name(name))
        if near is None:
            message = "The schema has this column, and the file does not."
            fix = f"Add it to the file, or remove it from the schema.{similar(name, extra)}"
            refuse("column-missing", name, message, fix)
            continue
        extra.remove(near)
        del folded[_folded_name(name)]
        names[name] = near
        message = f"The file calls this column {quote(near)}{_difference(name, near)}."
        fix = f"Write {quote(near)} in the schema (in quotes), or rename it in the file."
        if looks_alike(name, near):
            fix = how_to_encode(name, near)
        refuse("column-name", name, message, fix)
    if extra:
        many = len(extra) > 1
        refuse(
            "column-unknown",
            "" if many else extra[0],
            f"{f'{len(extra)} columns are' if many else 'This column is'} in the file but not in"
            " the schema.",
            f"Describe {'each' if many else 'it'} under `columns`, or list it under `ignore`.",
            *(Example(quote(name)) for name in extra if many),
        )
    ordered = {name: names[name] for name in reads if name in names}
    return Header(ordered, joined_findings(findings))


def ragged_finding(path: Path) -> Finding | None:
    """Return the finding about all rows of a CSV file with more or fewer fields than its header.

    Args:
        path: The file.

    Returns:
        The finding, with the first rows; None if no row is found.
    """
    opener: Callable[..., Any] = gzip.open if path.name.lower().endswith(".gz") else open
    rows, number, longer, examples = 0, 0, 0, list[Example]()
    with (
        contextlib.suppress(OSError, EOFError, csv.Error),
        opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines,
    ):
        reader = csv.reader(lines)
        fields, line = len(next(reader, [])), reader.line_num + 1
        for cells in reader:
            rows += bool(cells) or fields == 1  # a reader of several columns skips empty lines
            if cells and len(cells) != fields:
                number += 1
                longer += len(cells) == fields + 1
                if number <= EXAMPLES:
                    where = f"row {rows:,} (line {line:,}), {plural(len(cells), 'field')}"
                    examples.append(Example(f"{where}: {','.join(cells)[:80]}"))
            line = reader.line_num + 1
    if not number:
        return None
    message = "more or fewer fields than the header, which has"
    fix = "Correct these rows; a text with a comma needs quotation marks."
    if longer == rows:
        message = "one field more than the header, which has"
        fix = (
            "Row names have no column name in the header: omit them (R: `row.names = FALSE`),"
            " or name their column. A comma at the end of each line has the same effect."
        )
    message = f"{some_rows(number, 'have')} {message} {fields:,}."
    return Finding("refusal", "damaged", "", message, fix, number, tuple(examples))


def typed_header(stored: pa.Schema, schema: Schema) -> Header:
    """Return what an Arrow schema has, compared with the schema of the file."""
    header = compare_names(stored.names, schema)
    names, findings = dict(header.names), list(header.findings)
    for name, own in header.names.items():
        kind = stored_type(stored.field(own))
        if not is_readable(kind):
            del names[name]
            message = f"The column is stored as {type_words(kind)}, which cannot be read."
            fix = (
                "Store it as text, whole number, decimal, float of 32 or 64 bits, boolean or date."
            )
            findings.append(Finding("refusal", "stored-type", name, message, fix))
    return Header(names, tuple(findings))


def _folded_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", appearance(name)).casefold() or name


def _difference(name: str, near: str) -> str:
    if near.startswith("\ufeff"):
        return ", with a byte order mark in front"
    if looks_alike(name, near):
        return f" ({near!a}), in characters that look alike"
    if near.strip() == name:
        return ", with a space"
    if near.strip().casefold() == name.casefold():
        return ", with other capital letters"
    return ""


def readable_or_refused(error: BadInput) -> Finding:
    """Return the finding about a file whose rows cannot be read to the end."""
    message, _, fix = error.message.partition("; ")
    detail = (error.internal or "").strip()
    examples = (Example(detail),) if detail else ()
    fix = fix.replace(", which the internal folder names", "")
    kind = "stored-type" if isinstance(error, SchemaViolation) else "damaged"
    fix = f"{fix[:1].upper()}{fix[1:]}"
    return Finding("refusal", kind, "", f"{message}.", fix, None, examples)
