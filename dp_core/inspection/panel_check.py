"""Checks the rows of a panel, and the records that a release would make of them. Confidential."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from dp_core.confidential.panel.misfits import Misfits
from dp_core.confidential.panel.panel_source import add_rows
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.confidential.panel.row_columns import row_columns, rows_schema
from dp_core.confidential.source import Source
from dp_core.errors import BadInput
from dp_core.inspection.file_check import check_batches, data_files, with_findings
from dp_core.inspection.findings import Example, FileCheck, Finding, joined_findings
from dp_core.inspection.header_check import check_header
from dp_core.schema.definition import Schema
from dp_core.schema.panel.panel_waves import ABSENT, Panel

More = Callable[[Iterable[Iterable[pa.RecordBatch]]], Iterable[Finding]]
"""Returns further findings in records, given as partitions of a few batches each."""


def check_panel(patterns: Sequence[str], schema: Schema, more: More | None = None) -> FileCheck:
    """Return everything in the files of a panel that does not fit its schema. Confidential.

    Rows that belong to no record are reported. The records of all other rows are checked like any
    file. No file is written: the rows are kept in memory, compressed.

    Args:
        patterns: Paths or globs of the files: together the rows of all waves, or one for each wave
            in their order if the rows do not name their wave.
        schema: The schema of records.
        more: Returns further findings, if the rows fit; None (the default) for none.

    Raises:
        BadInput: if no file matches, files are of an unknown or of different kinds, or there is not
            one for each wave.
    """
    panel = schema.panel
    assert panel is not None
    if panel.wave is None and len(patterns) != len(panel.waves):
        raise BadInput(
            f"Each wave has a file of its own; name {len(panel.waves)} files, of the waves"
            f" {', '.join(panel.waves)} in this order, or state `wave` under `panel`."
        )
    waves: Sequence[str | None] = (None,) if panel.wave is not None else panel.waves
    parts = [patterns] if panel.wave is not None else [[one] for one in patterns]
    found: list[Finding] = []
    sources: list[Source] = []
    names: list[str] = []
    for wave, part in zip(waves, parts, strict=True):
        files, kind = data_files(part, Path())
        reads, _ = row_columns(schema, wave)
        of_rows = rows_schema(schema, wave)
        for path in files:
            names.append(path.name)
            header = check_header(path, kind, of_rows)
            about = f"{path.name}: " if len(files) > 1 or len(parts) > 1 else ""
            found += [replace(one, message=f"{about}{one.message}") for one in header.findings]
        sources.append(Source(files, kind, reads))
    if any(one.severity == "refusal" for one in found):
        return _result(schema, names, len(schema.reads), found)
    with PersonRecords(schema, None, keep_going=True) as records:
        try:
            rows = add_rows(waves, sources, records)
            batches = (batch for table in records.tables() for batch in table.to_batches())
            checked = check_batches(records.types, batches, schema)
        except BadInput as error:
            message, _, fix = error.message.partition("; ")
            fix = f"{fix[:1].upper()}{fix[1:]}" or "Correct the files."
            found.append(Finding("refusal", "unreadable", "", f"{message}.", fix))
            return _result(schema, names, len(schema.reads), found)
        found += _misfits(records.misfits, panel)
        persons = records.persons
        if not persons:
            none = Finding("refusal", "empty", "", "No row belongs to a record.", "Correct them.")
            return _result(schema, names, len(schema.reads), [*found, none], rows=rows)
        if more is not None and checked.fits:
            found += more(table.to_batches() for table in records.tables())
    single = (one for found_one in checked.findings for one in found_one.each or (found_one,))
    shown = joined_findings(one for one in single if not _of_absence(one, panel))
    checked = replace(checked, files=tuple(names), rows=rows, persons=persons, findings=shown)
    return with_findings(checked, found)


def _of_absence(finding: Finding, panel: Panel) -> bool:
    """Return whether a hint is only about the columns and levels that the program adds."""
    if finding.severity != "hint":
        return False
    added = finding.column in panel.takes_part.values()
    return added or {one.text for one in finding.examples} == {repr(ABSENT)}


def _misfits(misfits: Misfits, panel: Panel) -> Iterator[Finding]:
    """Yield what does not fit in the rows of a panel."""
    if misfits.without:
        yield Finding(
            "refusal",
            "identifier",
            panel.person,
            f"{_count(misfits.without, 'row has', 'rows have')} no identifier, so no person.",
            "Fill the column, or remove these rows from the file.",
            misfits.without,
        )
    if misfits.unknown:
        rows = sum(misfits.unknown.values())
        yield Finding(
            "refusal",
            "wave",
            str(panel.wave),
            f"{_count(rows, 'row is', 'rows are')} of a wave that the schema does not name.",
            "Correct the column, or add the wave to `waves` or to `ignore_waves`.",
            rows,
            tuple(Example(repr(wave), n) for wave, n in misfits.unknown.items())[:8],
        )
    said = (
        (
            "repeated",
            misfits.repeated,
            "person has several rows in wave {}",
            "persons have several rows in wave {}",
            "Correct the rows, or state `repeated: keep_one` under `panel`.",
        ),
        (
            "absent",
            misfits.absent,
            "person has no row in wave {}",
            "persons have no row in wave {}",
            "Add the rows, or remove `everyone: true` from `panel`.",
        ),
        (
            "disagreeing",
            misfits.disagreeing,
            "person's {} differs between waves, although it is constant",
            "persons' {} differs between waves, although it is constant",
            "Correct the rows, or state `disagreeing: first` under `panel`.",
        ),
    )
    for kind, counts, one, several, fix in said:
        for where, persons in counts.items():
            yield Finding(
                "refusal",
                kind,
                where if kind == "disagreeing" else "",
                f"{_count(persons, one.format(where), several.format(where))}.",
                fix,
                persons,
                tuple(Example(f"person {who}") for who in misfits.examples[kind, where]),
            )


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"


def _result(
    schema: Schema,
    files: Sequence[str],
    columns: int,
    found: Sequence[Finding],
    rows: int | None = None,
) -> FileCheck:
    check = FileCheck(
        fits=True,
        title=schema.title,
        files=tuple(files),
        rows=rows,
        columns=columns,
        findings=(),
    )
    return with_findings(check, found)
