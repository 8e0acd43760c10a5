"""Checks the data files before a row is read. Confidential side.

Only headers, footers and the first record are read. A library's message about a bad file may quote
its rows, so it goes into `internal`, never into a message.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.confidential.sources.common_types import is_readable, stored_type, type_words
from dp_core.errors import BadInput

NAMED = 5
"""Number of columns that a message names."""


def check_parquet(path: Path, columns: Sequence[str], ignore: Collection[str]) -> bool:
    """Check footer, columns and their types; return whether there is a row."""
    try:
        with path.open("rb") as file:
            marked = file.read(4) == b"PAR1"
    except OSError as error:
        damaged(path, error)
    if not marked:
        raise BadInput(
            f"The data file {path.name} is not a Parquet file despite its name; write it again, or"
            " rename it.",
            row="data-damaged",
        )
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        damaged(path, error)
    check_types(f"The data file {path.name}", schema, columns, ignore)
    return bool(footer(path).num_rows)


def check_types(
    what: str, stored: pa.Schema, columns: Sequence[str], ignore: Collection[str]
) -> None:
    """Refuse columns as `check_columns` does, and wanted ones of a type that cannot be read."""
    check_columns(what, stored.names, columns, ignore)
    for field in stored:
        kind = stored_type(field)
        if field.name in columns and not is_readable(kind):
            raise BadInput(
                f"{what} stores column {field.name!r} as {type_words(kind)}, which cannot be read;"
                " store it as text, number, boolean or date."
            )


def check_columns(
    what: str, header: Sequence[str], columns: Sequence[str], ignore: Collection[str]
) -> None:
    """Refuse a header that lacks a wanted column, repeats one, or has an unknown one.

    Args:
        what: What has the header, as the subject of a sentence.
        header: Column names in the data.
        columns: Names of the wanted columns.
        ignore: Names of further columns that are allowed.

    Raises:
        BadInput: naming the columns of the schema, and counting all others.

    Privacy:
        The header may be a record, in a file that was written without a header line. So a message
        names no column that the schema does not name; `internal` does.
    """
    known = {*columns, *ignore}
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        named = [name for name in repeated if name in known]
        raise BadInput(
            f"{what} has more than one {_names(named)}; rename or remove the others."
            if named
            else f"{what} repeats {_number(repeated)} that the schema does not describe; rename or"
            " remove the others, or put a header line with the column names first.",
            internal=f"{what} has more than one {_names(repeated)}.",
            row="columns-differ",
        )
    missing = [name for name in columns if name not in header]
    if missing:
        raise BadInput(
            f"{what} lacks {_names(missing, all_of_them=True)} of the schema; add them to the file,"
            " or remove them from the schema.",
            internal=f"{what} lacks {_names(missing, all_of_them=True)}.",
            row="columns-differ",
        )
    extra = [name for name in header if name not in known]
    if extra:
        raise BadInput(
            f"{what} has {_number(extra)} that the schema does not describe; describe each under"
            " `columns` or name it under `ignore`. The internal folder names them.",
            internal=f"{what} has {_names(extra)}, which the schema does not describe.",
            row="columns-differ",
        )


def _number(names: Sequence[str]) -> str:
    return "a column" if len(names) == 1 else f"{len(names)} columns"


def _names(names: Sequence[str], *, all_of_them: bool = False) -> str:
    shown = names if all_of_them else names[:NAMED]
    text = ", ".join(repr(name) for name in shown)
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"column{'s' if len(names) > 1 else ''} {text}{more}"


def footer(path: Path) -> pq.FileMetaData:
    """Return a Parquet file's footer."""
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        damaged(path, error)


def damaged(path: Path, error: Exception) -> NoReturn:
    """Raise that a file cannot be read; the library's message may quote data and stays internal."""
    if isinstance(error, PermissionError):
        message = f"This user may not read the data file {path.name}; change its permissions."
    else:
        message = f"The data file {path.name} is damaged or truncated; copy it again."
    raise BadInput(message, row="data-damaged", internal=str(error)) from None
