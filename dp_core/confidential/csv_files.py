"""CSV files: checks of the header, and blocks of rows. Confidential side.

A row is a line. A quotation mark that is not closed makes one value of all lines up to the next
one, whose rows belong to other people. So a file is refused if a row goes on in the next line, in
whichever column, read or ignored.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from dp_core.confidential.source_files import check_columns, damaged
from dp_core.errors import BadInput
from dp_core.kernel.coding.raw_rows import UnitNotes, open_text


class _RowOverLines(ValueError):
    """A row goes on in the next line."""


class _CountedLines:
    """A stream that counts the lines it hands out, as the parser tells them apart.

    Attributes:
        lines: Number of lines so far, with an unfinished last one.
    """

    closed = False  # asked for by `pyarrow.PythonFile`

    def __init__(self, stream: pa.NativeFile, *, empty_lines: bool) -> None:
        self._stream = stream
        self._empty_lines = empty_lines
        self._ended = 0
        self._last = ord("\n")

    @property
    def lines(self) -> int:
        return self._ended + (self._last not in b"\r\n")

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`."""
        block: bytes = self._stream.read(size)
        if block:
            here = np.frombuffer(block, np.uint8)
            before = np.concatenate([np.array([self._last], np.uint8), here[:-1]])
            ends = (here == ord("\n")) | (here == ord("\r"))
            if self._empty_lines:
                ends &= ~((here == ord("\n")) & (before == ord("\r")))
            else:
                ends &= (before != ord("\n")) & (before != ord("\r"))
            self._ended += int(np.count_nonzero(ends))
            self._last = block[-1]
        return block

    def readable(self) -> bool:
        """Return that the stream can be read."""
        return True

    def close(self) -> None:
        """Leave the stream open; who opened it closes it."""


def check_csv(path: Path, columns: Sequence[str], ignore: Collection[str]) -> bool:
    """Check the header; return whether a row follows."""
    header, rows = _header_and_rows(path, 1)
    if not header:
        raise BadInput(
            f"The data file {path.name} has no header line; add one with the column names.",
            row="columns-differ",
        )
    # privacy: without a header the first line is a record, so no message quotes the line.
    if columns and not set(columns) & set(header):
        mark = next((m for m in ";\t|" if len(header) == 1 and m in header[0]), None)
        raise BadInput(
            f"The first line of {path.name} names none of the schema's columns;"
            + (
                f" the file seems to be separated by {mark!r}; separate the columns by commas."
                if mark
                else " put a header line with the column names first."
            ),
            row="columns-differ",
        )
    check_columns(f"The data file {path.name}", header, columns, ignore)
    return bool(rows)


def csv_batches(
    path: Path, columns: Sequence[str], notes: UnitNotes
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield columns of a CSV file as text, some rows at a time, and the bytes read so far.

    Args:
        path: The file, compressed if its name ends with `.gz`.
        columns: The wanted columns, in order.
        notes: Where the kernel notes the units of the rows.

    Raises:
        BadInput: after the last row, if a row was longer than its line.
        pyarrow.ArrowException: if the file is damaged, ragged or not UTF-8; see `bad_csv`.
    """
    # In a file of one column an empty line is a record with an empty text.
    empty_lines = len(columns) == 1 and len(_header_and_rows(path, 0)[0]) == 1
    rows = 0
    with pa.OSFile(str(path)) as raw:
        compressed = path.name.lower().endswith(".gz")
        text = pa.CompressedInputStream(raw, "gzip") if compressed else raw
        lines = _CountedLines(text, empty_lines=empty_lines)
        stream = pa.PythonFile(lines, mode="r")
        for block in notes.csv_rows(path, stream, columns, empty_lines=empty_lines):
            rows += block.num_rows
            yield block, min(raw.tell(), raw.size())
    # privacy: each row is a function of its own line.
    if lines.lines != rows + 1:
        bad_csv(path, _RowOverLines(f"Line {_first_long_row(path)} goes on in the next line."))


def count_csv_rows(path: Path, most: int) -> int:
    """Return the number of rows of a CSV file, `most` at the most."""
    return _header_and_rows(path, most)[1]


def bad_csv(path: Path, error: Exception) -> NoReturn:
    """Translate the reader's error; its text quotes the row, so it stays internal."""
    text = str(error)
    if isinstance(error, UnicodeDecodeError) or "UTF8" in text or "UTF-8" in text:
        message = f"The data file {path.name} is not UTF-8 text; save it as UTF-8."
    elif re.search(r"Expected \d+ columns, got \d+", text):
        message = (
            f"The data file {path.name} has a row with more or fewer fields than its header;"
            " correct that row, which the internal folder names."
        )
    elif isinstance(error, _RowOverLines) or re.search("straddling object|field limit", text):
        message = (
            f"The data file {path.name} has a row that does not end with its line; close the"
            " quotation mark in that row, which the internal folder names, or store text with line"
            " breaks as Parquet."
        )
    else:
        damaged(path, error)
    raise BadInput(message, row="data-damaged", internal=text) from None


def _header_and_rows(path: Path, most: int) -> tuple[list[str], int]:
    """Return the header of a CSV file, and the number of rows that follow, `most` at the most."""
    try:
        with open_text(path) as text:
            reader = csv.reader(text)
            header = next(reader, [])
            rows = (record for record in reader if record or len(header) == 1)
            return header, sum(1 for _ in itertools.islice(rows, most))
    except (UnicodeDecodeError, csv.Error) as error:
        bad_csv(path, error)
    except (OSError, EOFError) as error:
        damaged(path, error)


def _first_long_row(path: Path) -> int:
    """Return the number of the first line, from 1, that ends within a row."""
    with open_text(path) as text:
        reader = csv.reader(text)
        line = 0
        with contextlib.suppress(csv.Error):  # a field beyond the limit of the csv module
            while next(reader, None) is not None and reader.line_num == line + 1:
                line += 1
    return line + 1
