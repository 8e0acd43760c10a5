"""Drafts a schema for a person to complete: column names, and types if the file has them.

Levels and bounds read off the confidential data would disclose them. So only the header of a CSV
file is read, and only the schema in the footer of a Parquet file. `load_schema` refuses every value
that is still to be filled in, so that a draft cannot be used by mistake.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, BinaryIO

from dp_core.errors import BadInput
from dp_core.schema.codebooks.draft_lines import LINKED_UNIT_LINES, RULE_LINES, UNIT_LINES
from dp_core.schema.column_types.registry import column_type, typed_words, words
from dp_core.text.documents.other_formats import conversion
from dp_core.text.documents.similar_paths import similar_path
from dp_core.text.documents.typed_text import parse_fraction, printable
from dp_core.text.names import is_name

if TYPE_CHECKING:
    import pyarrow as pa

    from dp_core.schema.codebooks.codebook import Codebook

_OTHER_SEPARATORS = ";|\t"
MAX_HEADER_BYTES = 2**20
_PARQUET_MAGIC = b"PAR1"
_PARQUET_SUFFIXES = (".parquet", ".pq")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)

_HEAD = """\
# Draft of a schema for {file}. {todo}
# Use public knowledge only, such as the questionnaire or the documentation. Do not read levels or
# bounds off the data: they would disclose the data.
#
# The types of columns:
{types}\
# Add `missing: level` to a column whose values may be missing in the file and in the release.
version: 1
title:                   # what the file is, in one line
{unit}\
missing_values: [""]     # texts that mean missing in the file
out_of_range: reject     # or clip (to min and max), or missing; also per column
"""
_TYPED = "Column names and types only; fill in the rest."
_UNTYPED = "Column names only; fill in each type."
_TYPE_TODO = f"    type:      # {typed_words()}; then its other keys\n"
_BOOLEAN = "    type: category\n    levels: [false, true]\n"


def type_lines() -> str:
    """Return an example of each type of column, as comments of a draft."""
    examples = (column_type(word).example for word in words())
    return "".join(f"#   {column:<50} {remark}".rstrip() + "\n" for column, remark in examples)


def draft_schema(path: Path, codebook: Codebook | None = None) -> str:
    """Return the draft of a schema for one CSV or Parquet file.

    Args:
        path: The data file, of which no row is read.
        codebook: What a codebook says about its columns; None (the default) without one.

    Raises:
        BadInput: if there is no such file, or it is empty, damaged or seems to have no header. No
            message quotes the file.
    """
    columns, ignored = _columns_of(path)
    if codebook is not None:
        from dp_core.schema.codebooks.codebook_draft import draft_from_codebook

        names = [*(name for name, _ in columns), *ignored]
        return draft_from_codebook(codebook, names, path.name)
    return _text(path.name, columns, ignored)


def draft_linked(households: Path, persons: Path) -> str:
    """Return the draft of a schema for two linked tables.

    They are named after their files; if the names of the files cannot be names of tables, they are
    named `households` and `persons`.

    Args:
        households: The file with a row for each household, of which no row is read.
        persons: The file with a row for each person, of which no row is read.

    Raises:
        BadInput: if `draft_schema` refuses a file.
    """
    files = (households, persons)
    names = [path.name.partition(".")[0] for path in files]
    if len({*names}) < 2 or not all(map(is_name, names)):
        names = ["households", "persons"]
    found = [_columns_of(path) for path in files]
    own = [[*(name for name, _ in columns), *ignored] for columns, ignored in found]
    both = [name for name in own[0] if name in own[1]]
    keys = (
        "    key:                 # the column that identifies a household; remove it below\n",
        "    key:                 # the column that tells the persons of a household apart\n"
        f"    parent: {names[0]}\n"
        "    link:                # the column that holds the key of the person's household\n",
    )
    text = "tables:\n"
    for name, key, (columns, ignored) in zip(names, keys, found, strict=True):
        text += f"  {name}:\n{key}    columns:\n"
        for column, body in columns:
            text += indent(f"  {_key(column)}:\n{body}", "    ")
        listed = ", ".join(map(_key, ignored))
        text += f"    ignore: [{listed}]       # columns of the file that are not released\n"
    if both:
        listed = ", ".join(map(_key, both))
        text += f"# In both files (a key, or release it from one table only): {listed}\n"
    typed = all(body is not _TYPE_TODO for columns, _ in found for _, body in columns)
    todo = f"{_TYPED if typed else _UNTYPED} Name the keys."
    unit = LINKED_UNIT_LINES.format(table=names[0])
    shown = " and ".join(printable(path.name) for path in files)
    return f"{_HEAD.format(types=type_lines(), file=shown, todo=todo, unit=unit)}{text}{RULE_LINES}"


def file_columns(path: Path) -> tuple[str, ...]:
    """Return the column names of one CSV or Parquet file that can be read.

    Raises:
        BadInput: if there is no such file, or it is empty, damaged or seems to have no header.
    """
    return tuple(name for name, _ in _columns_of(path)[0])


def _columns_of(path: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the drafted columns, and the names of columns whose type is not read."""
    try:
        if path.is_dir():
            raise BadInput(f"{path.name or path}: is a folder; name one CSV or Parquet file in it.")
        if not path.exists():
            raise BadInput(
                f"{path.name}: there is no such file; check the path."
                f"{similar_path(path, Path.is_file)}"
            )
        if not path.is_file():
            raise BadInput(f"{path.name}: is not a regular file; name a CSV or Parquet file.")
        if path.suffix.lower() in (".yaml", ".yml"):
            raise BadInput(
                f"{path.name}: is a YAML file; name the CSV or Parquet file that it describes."
            )
        if advice := conversion(path.name):
            raise BadInput(f"The data file {path.name} {advice}")
        with path.open("rb") as raw:
            start = raw.read(4)
    except OSError as error:
        raise BadInput(f"{path.name}: cannot be read ({error.strerror}).") from None
    if not start:
        raise BadInput(f"{path.name}: is empty; name a CSV or Parquet file that has columns.")
    if start == _PARQUET_MAGIC:
        return _parquet_columns(path)
    if path.name.lower().endswith(_PARQUET_SUFFIXES):
        raise BadInput(
            f"{path.name}: is not a Parquet file despite its name; write it again, or rename it."
        )
    return [(name, _TYPE_TODO) for name in _csv_header(path)], []


def draft_table(name: str, columns: Sequence[tuple[str, pa.DataType | None]]) -> str:
    """Return the draft of a schema for a table of a database.

    Args:
        name: The table's name.
        columns: Name and Arrow type of each column; None for a type that is not read.

    Raises:
        BadInput: if there is no column, or a name is not printable or not unique.
    """
    return _text(name, *_typed_columns(name, columns))


def _text(name: str, columns: Sequence[tuple[str, str]], ignored: Sequence[str]) -> str:
    if not columns and not ignored:
        raise BadInput(f"{name}: has no columns; name a file or a table that has some.")
    body = "".join(f"  {_key(column)}:\n{text}" for column, text in columns)
    tail = "ignore: []               # columns of the file that are not released\n"
    if ignored:
        tail = (
            "ignore:                  # not read: a value of these types is not a single value\n"
            + "".join(f"  - {_key(column)}\n" for column in ignored)
        )
    typed = all(text is not _TYPE_TODO for _, text in columns)
    todo = _TYPED if typed else _UNTYPED
    head = _HEAD.format(types=type_lines(), file=printable(name), todo=todo, unit=UNIT_LINES)
    return f"{head}columns:\n{body}{tail}{RULE_LINES}"


def _csv_header(path: Path) -> list[str]:
    compressed = path.name.lower().endswith(".gz")
    try:
        with path.open("rb") as raw:
            unpacked: Any = gzip.GzipFile(fileobj=raw) if compressed else raw
            header = _first_record(unpacked)
    except UnicodeDecodeError:
        raise BadInput(
            f"{path.name}: its first line is not UTF-8 text; name a CSV or Parquet file.",
            row="data-damaged",
        ) from None
    except (EOFError, OSError):
        raise BadInput(f"{path.name}: is damaged or cannot be read; copy it again.") from None
    except csv.Error:
        raise BadInput(
            f"{path.name}: its first line is not a CSV header; put the column names there."
        ) from None
    _check_header(path, header)
    return header


def _first_record(raw: BinaryIO) -> list[str]:
    """Return the first CSV record; no byte after it is read."""

    def lines() -> Any:
        left = MAX_HEADER_BYTES
        while left > 0:
            line = raw.readline(left)
            left -= len(line)
            if not line:
                return
            seen.append(line.decode("utf-8-sig"))
            yield seen[-1]
        raise csv.Error("too long")

    seen: list[str] = []

    # Strict: a quote that is never closed is an error, not a column name of many lines.
    try:
        return next(csv.reader(lines(), strict=True), [])
    except csv.Error:
        if any(f'"{mark}"' in seen[0] for mark in _OTHER_SEPARATORS):
            return seen[:1]  # quotation marks seem unclosed under another separator
        raise


def _check_header(path: Path, header: Sequence[str]) -> None:
    # privacy: without a header the first line is a person's record, so no name is quoted.
    name = path.name
    if not any(column.strip() for column in header):
        raise BadInput(
            f"{name}: its first line is blank; put a header line with the column names there."
        )
    if len(header) == 1 and (mark := next((m for m in _OTHER_SEPARATORS if m in header[0]), None)):
        raise BadInput(
            f"{name}: seems to be separated by {mark!r}; separate the columns by commas."
        )
    if any(not column.isprintable() for column in header):
        raise BadInput(
            f"{name}: its first line has control characters; name a CSV file with a header."
        )
    for number, column in enumerate(header, start=1):
        if not column.strip():
            raise BadInput(
                f"{name}: column {number} has no name in the header; add one to the first line."
            )
        if column in header[: number - 1]:
            first = header.index(column) + 1
            raise BadInput(f"{name}: columns {first} and {number} have the same name; rename one.")
    if 2 * sum(map(_is_number, header)) >= len(header):
        raise BadInput(
            f"{name}: its first line has numbers and looks like data; put a header line with the"
            " column names first."
        )


def _is_number(text: str) -> bool:
    try:
        parse_fraction(text)
    except ValueError:
        return False
    return True


def _parquet_columns(path: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the drafted columns, and the names of columns whose type is not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        raise BadInput(
            f"{path.name}: is a damaged or truncated Parquet file; copy it again."
        ) from None
    return _typed_columns(path.name, [(field.name, field.type) for field in schema])


def _typed_columns(
    of: str, found: Sequence[tuple[str, pa.DataType | None]]
) -> tuple[list[tuple[str, str]], list[str]]:
    columns: list[tuple[str, str]] = []
    ignored: list[str] = []
    for number, (name, stored) in enumerate(found, start=1):
        if not name.strip() or not name.isprintable():
            raise BadInput(f"{of}: column {number} has no printable name; rename it.")
        if name in (before for before, _ in found[: number - 1]):
            raise BadInput(f"{of}: has more than one column {name!r}; rename one.")
        text = None if stored is None else _suggested(stored)
        if text is None:
            ignored.append(name)
        else:
            columns.append((name, text))
    return columns, ignored


def _suggested(kind: pa.DataType) -> str | None:
    """Return the drafted keys of a column that is stored as an Arrow type; None if none fits."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return _BOOLEAN
    suited = (column_type(word) for word in words())
    return next((each.draft for each in suited if each.suits(kind)), None)


def _key(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
