"""Rows of a file, every column taken by its name in the file's own header. Confidential side.

What finds files, makes records of them and writes codes stands outside the kernel. A fault there
could take another column for the one that identifies units. So the kernel picks the columns itself,
and while a batch is read it notes the hash of each row's unit on disk, under a random key that is
never stored. `counting.stored_rows` holds the finished code store against these notes.

Privacy:
    The notes are made of the raw column that the document names, whatever becomes of the rows.

    *What is not found.* Codes of other columns or rows, beyond the first rows of a file. A stream
    with another file's bytes. A wrong snapshot of a database, which is made outside the kernel.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_core.kernel.canonical import digest
from dp_core.kernel.codes import Codes
from dp_core.kernel.coding.coding_rule import CodingRule
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.coding.stored_texts import plain
from dp_core.kernel.coding.unit_hashes import Identifiers, identifiers
from dp_core.kernel.document import ProtectedUnit
from dp_core.kernel.errors import StageFailed

BATCH_ROWS = 1 << 18
"""Most rows of a batch; with 20 text columns it takes some tens of megabytes."""
BLOCK_BYTES = 2 << 20
"""Bytes of a block of a CSV file, in which a row must fit; a few blocks are in memory at a time."""
_TRIED = 512
"""Rows of each file whose codes are compared."""
Role: TypeAlias = Literal["identified_by", "link"]
"""What a column is to the unit: its identifier, or the persons' link to their household."""


class UnitNotes:
    """Reads a table, notes the unit of every row, and checks the codes of some rows.

    Args:
        unit: Who is protected, as the document says.
        columns: The rules of the columns that are coded, as the document has them.
        folder: Folder of the notes until they are finished; None to keep none.
        what: Beginning of a message about the column that names the unit.
        role: What that column is to the unit; `identified_by` by default.
        key: Key of the hashes; None (the default) for a new one.
    """

    def __init__(
        self,
        unit: ProtectedUnit,
        columns: Sequence[CodingRule],
        folder: Path | None,
        what: str,
        role: Role = "identified_by",
        key: bytes | None = None,
    ) -> None:
        self._column, self._missing = getattr(unit, role), unit.missing_values
        self._what, self.key = what, secrets.token_bytes(32) if key is None else key
        self._name, self._read = notes_file(unit, role), set[Path]()
        self._last: tuple[Any, Any] = (None, None)
        self._encoders = list(map(RuleEncoder, columns))
        self._of_rows, self._tried, self._skipped = not unit.waves, True, False
        self._uncoded: pa.RecordBatch | None = None
        self._unwritten: list[bytes] = []
        self._file = None if folder is None else folder / f"{self._name}.tmp"
        if self._file is not None:
            self._file.touch(0o600, exist_ok=False)

    def csv_rows(
        self,
        path: Path,
        stream: Any,
        names: Sequence[str],
        *,
        empty_lines: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of a CSV file as texts, some rows at a time.

        Args:
            path: The file, compressed if its name ends with `.gz`.
            stream: The stream of its bytes, decompressed.
            names: The columns, in the order of the batches.
            empty_lines: Whether an empty line is a row; False by default.

        Raises:
            StageFailed: if the header lacks or repeats a name.
            pyarrow.ArrowException: if the file is damaged, ragged or not UTF-8.
        """
        import pyarrow.csv as pv

        with open_text(path) as text:
            header = next(lines := csv.reader(text), [])
        self._begin(path, header, names)
        with pv.open_csv(
            stream,
            # privacy: names are those of the file, whatever the stream says.
            read_options=pv.ReadOptions(
                block_size=BLOCK_BYTES, column_names=header, skip_rows=lines.line_num
            ),
            # Rows over several lines are parsed, and then refused: without `newlines_in_values` it
            # depends on the blocks what becomes of them.
            parse_options=pv.ParseOptions(
                newlines_in_values=True, ignore_empty_lines=not empty_lines
            ),
            convert_options=pv.ConvertOptions(
                # Declared for every column, so that the reader infers nothing from the first block.
                column_types=dict.fromkeys(names, pa.dictionary(pa.int32(), pa.string())),
                include_columns=list(names),
                null_values=[],
                strings_can_be_null=False,
            ),
        ) as reader:
            for block in reader:
                for start in range(0, block.num_rows, BATCH_ROWS):
                    yield self._noted(block.slice(start, BATCH_ROWS))

    def parquet_rows(
        self,
        path: Path,
        names: Sequence[str],
        in_common_type: Callable[[pa.Array], pa.Array],
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield columns of a Parquet file, some rows at a time, with the number of their row group.

        Args:
            path: The file.
            names: The columns, in the order of the batches.
            in_common_type: Returns the values of a column in a type that can be read.

        Raises:
            StageFailed: if the file lacks or repeats a name.
            pyarrow.ArrowException: if the file is damaged.
        """
        import pyarrow.parquet as pq

        schema = pq.read_schema(path)
        self._begin(path, schema.names, names)
        texts = [each.name for each in schema if each.type in (pa.string(), pa.large_string())]
        # A stream of pages, not whole column chunks: memory stays flat however large a group is.
        # Text columns come dictionary-encoded, as they are in the file.
        with pq.ParquetFile(
            path,
            read_dictionary=[name for name in texts if name in names],
            buffer_size=1 << 18,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",  # nanoseconds wrap around in 2262
        ) as file:
            for group in range(file.metadata.num_row_groups):
                for found in file.iter_batches(BATCH_ROWS, [group], list(names)):
                    columns = [in_common_type(found.column(name)) for name in names]
                    rows = pa.RecordBatch.from_arrays(columns, names=list(names))
                    yield group, self._noted(rows)

    def require_coded(self, rows: pa.RecordBatch, codes: Sequence[Codes]) -> None:
        """Raise StageFailed unless a batch is the one that was read, and its columns were coded.

        Of each file, the first rows of its first batch are coded again. A record of a panel is no
        row that was read.

        Args:
            rows: The batch.
            codes: Codes of each column before rules between columns settle them.
        """
        if self._file is None:
            return
        right = not self._of_rows or rows is self._uncoded
        if not self._tried:
            some = rows.slice(0, _TRIED)
            own = [each.encode(plain(some.column(each.rule.name))) for each in self._encoders]
            pairs = zip(own, codes, strict=True)
            right &= all(np.array_equal(one.codes, found[:_TRIED]) for one, found in pairs)
        # privacy: what is counted under a name is the column of that name.
        if not right:
            raise StageFailed("Rows were coded from other columns than those that were read.")
        self._tried, self._uncoded = True, None
        self._write()

    def of(self, rows: pa.RecordBatch) -> tuple[Identifiers, NDArray[np.uint64]]:
        """Return the identifiers of the rows' units, and the hash of each, shape (rows,).

        Raises:
            SchemaViolation: as `identifiers`.
        """
        self._write()
        return self._hashed(rows)

    def finish(self, folder: Path) -> None:
        """Keep the notes in the folder of the finished code store; its rows were all coded."""
        if self._file is not None:
            self._write()
            if self._of_rows and (self._skipped or self._uncoded is not None):
                raise StageFailed("Some rows that were read were not coded.")
            self._file.replace(folder / self._name)

    def _begin(self, path: Path, header: Sequence[str], names: Sequence[str]) -> None:
        """Begin a file; raise StageFailed if it lacks or repeats a name, or was begun before."""
        if any(list(header).count(name) != 1 for name in names):
            raise StageFailed("A column is missing or repeated in the header of its file.")
        # privacy: a row that is read twice counts twice, if it is a unit by itself.
        if path in self._read:
            raise StageFailed("A data file was read twice in one pass, so nothing is made of it.")
        self._read.add(path)
        self._tried = False

    def _noted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows that were read, once their units' hashes, or their number, are noted."""
        if self._file is not None:
            found = self._hashed(rows)[1] if self._column else np.array([rows.num_rows], np.uint64)
            self._unwritten.append(found.tobytes())
            self._skipped |= self._of_rows and self._uncoded is not None
            self._uncoded = rows
        return rows

    def _hashed(self, rows: pa.RecordBatch) -> tuple[Identifiers, NDArray[np.uint64]]:
        if self._last[0] is not rows:
            whose = identifiers(self._what, rows.column(self._column), self._missing)
            self._last = rows, (whose, whose.hashes(1, self.key)[:, 0])
        found: tuple[Identifiers, NDArray[np.uint64]] = self._last[1]
        return found

    def _write(self) -> None:
        """Write what was noted: not while a file is read, whose errors are others."""
        if self._file is not None and self._unwritten:
            with self._file.open("r+b") as file:
                file.seek(0, 2)
                file.write(b"".join(self._unwritten))
            self._unwritten = []


def notes_file(unit: ProtectedUnit, role: Role) -> str:
    """Return the name of a file of notes, which no other unit or column has."""
    return f"{digest([dataclasses.asdict(unit), role])}.units"


def open_text(path: Path) -> TextIO:
    """Open a CSV file, compressed or not, for the csv module."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    # `utf-8-sig` drops the byte order mark that spreadsheets write.
    return cast(TextIO, opener(path, "rt", encoding="utf-8-sig", newline=""))
