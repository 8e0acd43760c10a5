"""Checks a file against a schema in one pass: everything that does not fit, at once. Confidential.

It reads, encodes and judges values by the functions of a release, so its verdict is that of
validation. It writes nothing, and needs no ledger.

Privacy:
    Nothing leaves the process but what the caller prints for a person who may see the data. So a
    check is not an attempt on the data, and the ledger does not count it.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_core.confidential.data_files import Kind, kind_of, matching_files
from dp_core.confidential.source import BATCH_ROWS, Source
from dp_core.confidential.values.common_types import common_type, in_common_type
from dp_core.confidential.values.stored_texts import cell_text
from dp_core.errors import BadInput
from dp_core.inspection.advice import definition_of
from dp_core.inspection.column_tally import Tally
from dp_core.inspection.findings import FileCheck, Finding, joined_findings
from dp_core.inspection.header_check import (
    check_header,
    encoding_finding,
    ragged_finding,
    readable_or_refused,
    typed_header,
    wrong_encoding,
)
from dp_core.inspection.hints import hints
from dp_core.inspection.repeated_headers import RepeatedHeaders
from dp_core.inspection.row_findings import PersonCheck, RowChecks
from dp_core.inspection.value_findings import value_findings
from dp_core.schema.definition import Schema

if TYPE_CHECKING:
    import pandas as pd

_ORDER = ("refusal", "settled", "hint")

Records = Iterable[pa.RecordBatch]


def check_files(
    patterns: Sequence[str],
    schema: Schema,
    folder: Path | None = None,
    *,
    whole: Schema | None = None,
) -> FileCheck:
    """Return everything in data files that does not fit a schema. Confidential.

    Args:
        patterns: Paths or globs of CSV or Parquet files, all of one kind; together they are the
            file of a release.
        schema: The schema, from `dp_core.schema.reading.schema_file.load_schema`.
        folder: Folder of relative paths; the working folder by default.
        whole: The schema of linked tables, if `schema` is of one of them; None by default.

    Raises:
        BadInput: if no file matches, or the files are of an unknown or of different kinds.
    """
    files, kind = data_files(patterns, folder or Path())
    headers = [check_header(path, kind, schema) for path in files]
    found = [
        _about(path, files, one)
        for path, header in zip(files, headers, strict=True)
        for one in header.findings
    ]
    names = tuple(path.name for path in files)
    readable = all(header.readable for header in headers)
    # A column is checked if every file has it.
    common = [name for name in schema.reads if all(name in header.names for header in headers)]
    if not readable or not common:
        return _result(schema, names, None, 0, found)
    check = _Check(schema, common, whole or schema)
    try:
        for path, header in zip(files, headers, strict=True):
            mine = {name: header.names[name] for name in common}
            batches = _source(path, kind, mine).batches()
            check.add((_renamed(batch.records, mine) for batch in batches), mine)
    except BadInput as error:
        found.append(_unread(files, kind, error))
        return _result(schema, names, None, len(common), [*found, *check.findings(whole=False)])
    return _result(schema, names, check.rows, len(common), [*found, *check.findings()])


def check_frame(frame: pd.DataFrame | pa.Table | Mapping[str, Any], schema: Schema) -> FileCheck:
    """Return everything in a frame that does not fit a schema. Confidential.

    Args:
        frame: The rows, under the column names of the schema: a pandas frame, an Arrow table, or a
            dictionary of columns.
        schema: The schema.

    Raises:
        TypeError: if it is not a frame, such as a dictionary of several frames.
        ValueError: if the columns of a dictionary are not lists of one length.
    """
    table = table_of(frame)
    return check_batches(table.schema, table.to_batches(max_chunksize=BATCH_ROWS), schema)


def check_batches(types: pa.Schema, batches: Records, schema: Schema) -> FileCheck:
    """Return everything in batches of rows that does not fit a schema. Confidential.

    Args:
        types: Columns and types of the batches.
        batches: The rows, under the column names of the schema.
        schema: The schema.
    """
    header = typed_header(types, schema)
    found = list(header.findings)
    if not header.readable:
        return _result(schema, (), None, 0, found)
    check = _Check(schema, tuple(header.names), schema)
    try:
        check.add((_renamed(batch, header.names) for batch in batches), header.names)
    except BadInput as error:
        found += [readable_or_refused(error), *check.findings(whole=False)]
        return _result(schema, (), None, len(header.names), found)
    return _result(schema, (), check.rows, len(header.names), [*found, *check.findings()])


def with_findings(check: FileCheck, more: Iterable[Finding]) -> FileCheck:
    """Return a check with more findings, in their places."""
    found = _ordered([*check.findings, *more])
    fits = not any(one.severity == "refusal" for one in found)
    return replace(check, findings=found, fits=fits)


def data_files(patterns: Sequence[str], folder: Path) -> tuple[list[Path], Kind]:
    """Return the files of several paths or globs, and the kind that all of them have.

    Raises:
        BadInput: if a pattern matches no file, or files are of unknown or of different kinds.
    """
    here = "this folder"
    found = (matching_files(one, folder, here) for one in patterns)
    files = list(dict.fromkeys(path for each in found for path in each))
    kinds = {kind_of(path) for path in files}
    if len(kinds) > 1:
        raise BadInput("The files are of different kinds; name CSV files or Parquet files only.")
    return files, kinds.pop()


def table_of(frame: Any) -> pa.Table:
    """Return a frame as a table in common types; mixed columns become texts.

    Args:
        frame: A pandas frame, an Arrow table, any other frame that offers `__arrow_c_stream__`, or
            a dictionary of columns.

    Raises:
        TypeError: if it is none of these, such as a dictionary of frames.
        ValueError: if the columns of a dictionary are not lists of one length.
    """
    table = _table_as_given(frame)
    columns = [
        pa.chunked_array(map(in_common_type, column.chunks), common_type(column.type))
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _table_as_given(frame: Any) -> pa.Table:
    import pandas as pd

    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, Mapping) and not any(hasattr(one, "columns") for one in frame.values()):
        try:
            frame = pd.DataFrame(frame)
        except ValueError:
            raise ValueError(
                "A dictionary of columns needs lists of one length; give each column as many values"
                " as there are rows."
            ) from None
    if not isinstance(frame, pd.DataFrame):
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
        several = isinstance(frame, Mapping)
        raise TypeError(
            f"A frame was expected, not {'several frames' if several else type(frame).__name__};"
            " give one pandas frame, Arrow table or dictionary of columns."
        )
    arrays = []
    for place in range(frame.shape[1]):
        cells = frame.iloc[:, place]
        try:
            arrays.append(pa.array(cells, from_pandas=True))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            arrays.append(pa.array([_cell(cell) for cell in cells], pa.string()))
    return pa.table(arrays, names=[str(name) for name in frame.columns])


def _cell(value: object) -> str | None:
    try:
        return cell_text(value)
    except TypeError:
        return str(value)


class _Check:
    """One pass over the rows, with the columns that the file has."""

    def __init__(self, schema: Schema, present: Sequence[str], whole: Schema) -> None:
        stored = schema.stored
        self._written, self._whole, self._schema, self.rows = schema, whole, stored, 0
        checked = {column.name for column in stored.checked}
        self._tallies = {
            column.name: Tally(column, definition_of(schema.document, column.name))
            for column in stored.released
            if column.name in present and column.name in checked
        }
        self._rows, self._headers = RowChecks(stored, present), RepeatedHeaders(self._tallies)
        person = stored.unit.column
        self._persons = PersonCheck(stored) if person in present and person is not None else None

    def add(self, batches: Records, names: Mapping[str, str]) -> None:
        """Count batches of rows, under the schema's names, of a file with names of its own."""
        for records in batches:
            headers = self._headers.add(records, names, self.rows)
            encoded = {
                name: tally.add(records.column(name)) for name, tally in self._tallies.items()
            }
            self._rows.add(records, encoded)
            if self._persons is not None:
                rows = np.delete(np.arange(records.num_rows), headers)
                persons = records.column(str(self._schema.unit.column))
                self._persons.add(persons.take(pa.array(rows)) if len(headers) else persons)
            self.rows += records.num_rows

    def findings(self, *, whole: bool = True) -> tuple[Finding, ...]:
        """Return what was found so far; the same mistake in several columns is one finding.

        Args:
            whole: Whether the rows were read to the end, True by default.
        """
        return joined_findings(self._findings(whole))

    def _findings(self, whole: bool) -> Iterator[Finding]:
        if whole and not self.rows:
            message = "The file has a header but no row."
            yield Finding("refusal", "empty", "", message, "Name a file with rows.")
        yield from self._headers.findings()
        for tally in self._tallies.values():
            yield from value_findings(tally)
        yield from self._rows.findings()
        if self._persons is not None:
            yield from self._persons.findings()
        for tally in self._tallies.values():
            yield from hints(tally, self._written, self._whole)


def _source(path: Path, kind: Kind, names: Mapping[str, str]) -> Source:
    return Source((path,), kind, list(names.values()))


def _renamed(records: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    """Return the columns of a batch, by their names in the file, under those of the schema."""
    columns = [records.column(own) for own in names.values()]
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _about(path: Path, files: Sequence[Path], finding: Finding) -> Finding:
    """Return a finding that names its file, if there are several."""
    if len(files) == 1:
        return finding
    return replace(finding, message=f"{path.name}: {finding.message}")


def _unread(files: Sequence[Path], kind: Kind, error: BadInput) -> Finding:
    """Return the finding about rows that cannot be read; it names the rows if they are known."""
    if kind == "csv" and "UTF-8" in error.message:
        for path in files:
            opener: Callable[..., Any] = gzip.open if path.name.lower().endswith(".gz") else open
            with opener(path, "rb") as lines:
                for number, line in enumerate(lines, start=1):
                    if (encoding := wrong_encoding(line)) is not None:
                        text = line.decode("cp1252", errors="replace").strip()
                        return encoding_finding(encoding, line=number, text=text[:80])
    if kind == "csv" and "more or fewer fields" in error.message:
        for path in files:
            if (ragged := ragged_finding(path)) is not None:
                return _about(path, files, ragged)
    return readable_or_refused(error)


def _ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.severity)))


def _result(
    schema: Schema,
    files: Sequence[str],
    rows: int | None,
    columns: int,
    found: Iterable[Finding],
) -> FileCheck:
    findings = _ordered(found)
    fits = not any(one.severity == "refusal" for one in findings)
    return FileCheck(
        fits=fits,
        title=schema.title,
        files=tuple(files),
        rows=rows,
        columns=columns,
        findings=findings,
    )
