"""Drafts a schema for a person to complete: column names, and types if the file has them.

Levels and bounds read off the confidential data would disclose them. So only the header of a CSV
file is read, and only the schema in the footer of a Parquet file. `load_schema` refuses every value
that is still to be filled in, so that a draft cannot be used by mistake.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook import Codebook, Variable
from dp_core.schema.codebooks.codebook_draft import (
    LINKED_UNIT_LINES,
    RULE_LINES,
    draft_from_codebook,
    drafted_columns,
    head_lines,
    scalar,
)
from dp_core.schema.column_types.registry import column_type, words
from dp_core.schema.definition import Level
from dp_core.text.documents.other_formats import conversion
from dp_core.text.documents.strict_yaml import file_start
from dp_core.text.documents.typed_text import is_number, printable
from dp_core.text.names import is_name

if TYPE_CHECKING:
    import pyarrow as pa

_OTHER_SEPARATORS = ";|\t"
MAX_HEADER_BYTES = 2**20
_PARQUET_MAGIC = b"PAR1"
_PARQUET_SUFFIXES = (".parquet", ".pq")

_HEAD = """\
# Draft of a schema for {file}. {todo}
# Use public knowledge only, such as the questionnaire or the documentation. Do not read levels or
# bounds off the data: they would disclose the data.
#
# The types of columns (a column of codes is a category, also if the file stores numbers):
{types}\
# Add `missing: level` to a column whose values may be missing in the file and in the release.
"""
_TYPED = "Column names and types only; fill in the rest."
_UNTYPED = "Column names only; fill in each type."


def draft_schema(path: Path, codebook: Codebook | None = None) -> str:
    """Return the draft of a schema for one CSV or Parquet file.

    Args:
        path: The data file, of which no row is read.
        codebook: What a codebook says about its columns; None (the default) without one.

    Raises:
        BadInput: if there is no such file, or it is empty, damaged or seems to have no header. No
            message quotes the file.
    """
    columns = _columns_of(path)
    if codebook is not None:
        return draft_from_codebook(codebook, [column.name for column in columns], path.name)
    return _text(path.name, columns)


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
    books = [Codebook(name=path.name, form="", variables=_columns_of(path)) for path in files]
    own = [[column.name for column in book.variables] for book in books]
    both = [name for name in own[0] if name in own[1]]
    keys = (
        "    key:                 # the column that identifies a household; remove it below\n",
        "    key:                 # the column that tells the persons of a household apart\n"
        f"    parent: {names[0]}\n"
        "    link:                # the column that holds the key of the person's household\n",
    )
    text = "tables:\n"
    for name, keyed, book in zip(names, keys, books, strict=True):
        drafted = indent(drafted_columns(book)[0], "    ")
        text += f"  {name}:\n{keyed}    columns:\n{drafted}"
    if both:
        listed = ", ".join(map(scalar, both))
        text += f"# In both files (a key, or release it from one table only): {listed}\n"
    unit = LINKED_UNIT_LINES.format(table=names[0])
    file = " and ".join(printable(path.name) for path in files)
    columns = [column for book in books for column in book.variables]
    return (
        f"{_head(file, columns, ' Name the keys.')}{head_lines(books[0], unit)}{text}{RULE_LINES}"
    )


def file_columns(path: Path) -> tuple[str, ...]:
    """Return the column names of one CSV or Parquet file that can be read.

    Raises:
        BadInput: if there is no such file, or it is empty, damaged or seems to have no header.
    """
    return tuple(column.name for column in _columns_of(path) if not column.text)


def _columns_of(path: Path) -> tuple[Variable, ...]:
    """Return the columns with the types that the file states."""
    start = file_start(path, len(_PARQUET_MAGIC), "one CSV or Parquet file")
    if path.suffix.lower() in (".yaml", ".yml"):
        raise BadInput(
            f"{path.name}: is a YAML file; name the CSV or Parquet file that it describes."
        )
    if advice := conversion(path.name):
        raise BadInput(f"The data file {path.name} {advice}")
    if not start:
        raise BadInput(f"{path.name}: is empty; name a CSV or Parquet file that has columns.")
    if start == _PARQUET_MAGIC:
        return _parquet_columns(path)
    if path.name.lower().endswith(_PARQUET_SUFFIXES):
        raise BadInput(
            f"{path.name}: is not a Parquet file despite its name; write it again, or rename it."
        )
    return tuple(Variable(name=name) for name in _csv_header(path))


def draft_table(name: str, columns: Sequence[tuple[str, pa.DataType | None]]) -> str:
    """Return the draft of a schema for a table of a database.

    Args:
        name: The table's name.
        columns: Name and Arrow type of each column; None for a type that is not read.

    Raises:
        BadInput: if there is no column, or a name is not printable or not unique.
    """
    return _text(name, _typed_columns(name, columns))


def _text(name: str, columns: tuple[Variable, ...]) -> str:
    if not columns:
        raise BadInput(f"{name}: has no columns; name a file or a table that has some.")
    book = Codebook(name=name, form="", variables=columns)
    drafted, _ = drafted_columns(book)
    head = _head(printable(name), columns)
    return f"{head}{head_lines(book)}columns:\n{drafted}{RULE_LINES}"


def _head(file: str, columns: Sequence[Variable], also: str = "") -> str:
    """Return the comments at the head of a draft, with an example of each type."""
    typed = all(column.kind or column.text for column in columns)
    examples = (column_type(word).example for word in words())
    types = (f"#   {column:<50} {remark}".rstrip() + "\n" for column, remark in examples)
    todo = f"{_TYPED if typed else _UNTYPED}{also}"
    return _HEAD.format(file=file, todo=todo, types="".join(types))


def _csv_header(path: Path) -> list[str]:
    compressed = path.name.lower().endswith(".gz")
    try:
        with path.open("rb") as raw:
            unpacked: Any = gzip.GzipFile(fileobj=raw) if compressed else raw
            # No byte after the first line is read.
            line = unpacked.readline(MAX_HEADER_BYTES).decode("utf-8-sig")
        if len(line) >= MAX_HEADER_BYTES:
            raise csv.Error("too long")
        # Strict: a quote that is never closed is an error, not a column name.
        try:
            header = next(csv.reader([line], strict=True), [])
        except csv.Error:
            if not any(f'"{mark}"' in line for mark in _OTHER_SEPARATORS):
                raise
            header = [line]  # quotation marks seem unclosed under another separator
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
    if 2 * sum(map(is_number, header)) >= len(header):
        raise BadInput(
            f"{name}: its first line has numbers and looks like data; put a header line with the"
            " column names first."
        )


def _parquet_columns(path: Path) -> tuple[Variable, ...]:
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
) -> tuple[Variable, ...]:
    columns: dict[str, Variable] = {}
    for number, (name, stored) in enumerate(found, start=1):
        if not name.strip() or not name.isprintable():
            raise BadInput(f"{of}: column {number} has no printable name; rename it.")
        if name in columns:
            raise BadInput(f"{of}: has more than one column {name!r}; rename one.")
        columns[name] = _variable(name, stored)
    return tuple(columns.values())


def _variable(name: str, stored: pa.DataType | None) -> Variable:
    """Return a column with the type that fits its Arrow type, if one does."""
    import pyarrow.types as types

    if stored is not None and types.is_dictionary(stored):
        stored = stored.value_type
    if stored is not None and types.is_boolean(stored):
        levels = (Level("false", "false"), Level("true", "true"))
        return Variable(name=name, kind="category", levels=levels)
    for word in words() if stored is not None else ():
        if column_type(word).suits(stored):
            return Variable(name=name, kind=word)
    return Variable(name=name, text=True, remarks=("a value of this type is not a single value",))
