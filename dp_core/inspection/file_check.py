"""Checks a file against a schema in one pass: everything that does not fit, at once. Confidential.

It reads, encodes and judges values by the functions of a release, so its verdict is that of
validation. It writes nothing, and needs no ledger.

Privacy:
    Nothing leaves the process but what the caller prints for a person who may see the data. So a
    check is not an attempt on the data, and the ledger does not count it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_core.confidential.encoding import Encoder
from dp_core.errors import BadInput, SchemaViolation
from dp_core.inspection.advice import definition_of
from dp_core.inspection.column_tally import Tally
from dp_core.inspection.findings import FileCheck, Finding, joined_findings
from dp_core.inspection.given_data import Data
from dp_core.inspection.header_check import readable_or_refused
from dp_core.inspection.hints import hints
from dp_core.inspection.row_findings import (
    PersonCheck,
    RepeatedHeaders,
    RowChecks,
    SharedMissingness,
)
from dp_core.inspection.value_findings import value_findings
from dp_core.kernel.coding.encoder import Encoded
from dp_core.schema.definition import Column, Schema
from dp_core.schema.panel.panel_waves import ABSENT, TAKES_PART

_ORDER = ("refusal", "settled", "hint")

More = Callable[[Iterable[Iterable[pa.RecordBatch]]], Iterable[Finding]]
"""Returns further findings in rows, given as partitions of a few batches each."""


def check_table(
    data: Data, schema: Schema, more: More | None = None, *, whole: Schema | None = None
) -> FileCheck:
    """Return everything in one table that does not fit a schema. Confidential.

    Args:
        data: The rows.
        schema: The schema.
        more: Returns further findings, if the data have all columns; None (the default) for none.
        whole: The schema of linked tables, if `schema` is of one of them; None by default.
    """
    parts: Sequence[Data] = data.each()
    headers = [part.header(schema) for part in parts]
    found = [
        one.about(part.name if len(parts) > 1 else "")
        for part, header in zip(parts, headers, strict=True)
        for one in header.findings
    ]
    names = tuple(part.name for part in parts if part.name)
    # A column is checked if every part has it.
    common = [name for name in schema.reads if all(name in header.names for header in headers)]
    if not common:
        return result(schema, names, found)
    columns = len(common)
    while True:
        check = _Check(schema, common, whole or schema)
        try:
            for part, header in zip(parts, headers, strict=True):
                mine = {name: header.names[name] for name in common}
                batches = part.source(list(mine.values())).batches()
                records = (batch.records.select(list(mine.values())) for batch in batches)
                check.add((each.rename_columns(list(mine)) for each in records), mine)
            break
        except _RefusedColumn as refused:
            found.append(refused.finding)
            common.remove(refused.name)  # the other columns are checked from the beginning
            if not common:
                return result(schema, names, found, columns=columns)
        except BadInput as error:
            found += [data.unread(error), *check.findings(whole=False)]
            return result(schema, names, found, columns=columns)
    found += check.findings()
    exact = {name: name for name in schema.reads}
    if more is not None and check.rows and all(header.names == exact for header in headers):
        pieces = data.source(schema.reads).batches()
        partitions = groupby(pieces, attrgetter("partition"))
        found += more((each.records for each in part) for _, part in partitions)
    return result(schema, names, found, columns=columns, rows=check.rows)


class _RefusedColumn(Exception):
    """The values of a column cannot be told apart, whatever the other columns have."""

    def __init__(self, name: str, error: SchemaViolation) -> None:
        super().__init__(name)
        finding = readable_or_refused(error)
        message = finding.message.replace(f"Column {name!r} ", "The column ", 1)
        self.name, self.finding = name, replace(finding, column=name, message=message)


def result(
    schema: Schema,
    files: Sequence[str],
    found: Iterable[Finding],
    *,
    rows: int | None = None,
    columns: int = 0,
) -> FileCheck:
    """Return the check with some findings: refusals first, then what is settled, then hints."""
    findings = tuple(sorted(found, key=lambda one: _ORDER.index(one.severity)))
    fits = not any(one.severity == "refusal" for one in findings)
    return FileCheck(
        fits=fits,
        title=schema.title,
        files=tuple(files),
        rows=rows,
        columns=columns,
        findings=findings,
    )


class _Check:
    """One pass over the rows, with the columns that the file has."""

    def __init__(self, schema: Schema, present: Sequence[str], whole: Schema) -> None:
        stored = schema.stored
        self._written, self._whole, self._schema, self.rows = schema, whole, stored, 0
        checked = {column.name for column in stored.checked}
        self._absences: dict[str, _Absence] = {}
        self._tallies = {}
        for column in stored.released:
            name = column.name
            if name in present and name in checked:
                absence = _Absence.of(stored, column)
                if absence is not None:
                    self._absences[name] = absence
                written = column if absence is None else absence.written
                self._tallies[name] = Tally(written, definition_of(schema.document, name))
        self._rows, self._headers = RowChecks(stored, present), RepeatedHeaders(self._tallies)
        self._together = SharedMissingness(stored, [*self._tallies])
        person = stored.unit.column
        self._persons = PersonCheck(stored) if person in present and person is not None else None

    def add(self, batches: Iterable[pa.RecordBatch], names: Mapping[str, str]) -> None:
        """Count batches of rows, under the schema's names, of a file with names of its own."""
        for records in batches:
            headers = self._headers.add(records, names, self.rows)
            encoded = {}
            for name, tally in self._tallies.items():
                try:
                    absence = self._absences.get(name)
                    encoded[name] = (
                        tally.add(records.column(name))
                        if absence is None
                        else absence.add(tally, records)
                    )
                except SchemaViolation as error:
                    raise _RefusedColumn(name, error) from None
            self._rows.add(records, encoded)
            self._together.add(encoded, records.num_rows)
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
        yield from self._together.findings()


@dataclass(frozen=True, slots=True)
class _Absence:
    """A column of a panel's records that is missing for persons who are absent in its wave.

    A file has no row for them, so the column is judged as the schema defines it, in the others.

    Attributes:
        written: The column as the schema defines it.
        takes_part: Column of the records that says who takes part.
        encoder: Encoder of the column of the records.
    """

    written: Column
    takes_part: str
    encoder: Encoder

    @classmethod
    def of(cls, schema: Schema, column: Column) -> _Absence | None:
        """Return how a column is judged; None if no row of it is missing for absence."""
        panel, name = schema.panel, column.name
        place = None if panel is None else panel.place(name)
        if panel is None or place is None or ABSENT in column.texts():
            return None
        part = panel.takes_part.get(place[1])
        if part is None or name == part or column.missing != "level":
            return None
        written = column
        if name in panel.required:
            policy = "reject" if column.out_of_range == "missing" else column.out_of_range
            written = replace(column, missing="reject", out_of_range=policy)
        return cls(written, part, Encoder(column))

    def add(self, tally: Tally, records: pa.RecordBatch) -> Encoded:
        """Count the values of those who take part; return the codes of all, with what is refused.

        A value that the definition refuses is refused here, and breaks no rule about absence.
        """
        values = records.column(tally.column.name)
        here = pc.equal(records.column(self.takes_part), TAKES_PART[0])
        counted = tally.add(values.filter(here))
        encoded = self.encoder.encode(values)
        if counted.bad is None:
            return encoded
        bad = np.zeros(len(values), np.bool_) if encoded.bad is None else encoded.bad.copy()
        bad[here.to_numpy(zero_copy_only=False)] = counted.bad
        return replace(encoded, bad=bad)
