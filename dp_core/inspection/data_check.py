"""Checks the data of any schema: one table, a panel, or two linked tables. Confidential."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from dp_core.confidential.linked.linked_rows import RulesBroken
from dp_core.confidential.linked.linked_source import LinkedSource, read_households
from dp_core.confidential.panel.misfits import Misfits
from dp_core.confidential.panel.panel_source import add_rows
from dp_core.confidential.panel.person_records import PersonRecords
from dp_core.confidential.panel.row_columns import row_columns, rows_schema
from dp_core.confidential.sources.input_parts import input_parts
from dp_core.errors import BadInput
from dp_core.inspection.file_check import More, check_table, result
from dp_core.inspection.findings import Example, FileCheck, Finding, joined_findings, some_rows
from dp_core.inspection.given_data import Data, FrameData
from dp_core.inspection.header_check import readable_or_refused
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.panel.panel_waves import ABSENT, Panel

_OF_COLUMNS = frozenset(("constant", "identifier", "category"))
"""Hints that advise another definition of a whole column."""


def check_data(data: Sequence[Data], schema: Schema, more: More | None = None) -> FileCheck:
    """Return everything in data that does not fit a schema. Confidential.

    Args:
        data: The data; of linked tables those of households and those of persons, of a panel whose
            rows do not name their wave those of each wave, in order.
        schema: The schema.
        more: Returns further findings in rows; not called for linked tables. None (the default) for
            none.
    """
    if schema.linked is not None:
        return _check_linked(data, schema, schema.linked)
    return _check_panel(data, schema, more) if schema.panel else check_table(data[0], schema, more)


def _check_linked(data: Sequence[Data], schema: Schema, linked: LinkedTables) -> FileCheck:
    """Check each of two linked tables by itself and, if both fit, their keys and links."""
    own = (schema.household_schema, schema.person_schema)
    checks = [check_table(each, flat, whole=schema) for each, flat in zip(data, own, strict=True)]
    found = [
        replace(one, message=f"{one.message.removesuffix('.')} (table {name}).")
        for name, check in zip((linked.households, linked.persons), checks, strict=True)
        for one in check.findings
    ]
    if all(check.fits for check in checks):
        parts = zip(data, input_parts(schema), strict=True)
        tables = (each.source(part.reads) for each, part in parts)
        found += _links(schema, LinkedSource(*tables))
    rows = tuple(check.rows for check in checks if check.rows is not None)
    both = result(
        schema,
        [name for check in checks for name in check.files],
        found,
        rows=sum(rows) if len(rows) == 2 else None,
        columns=sum(check.columns for check in checks),
    )
    return replace(both, rows_of=rows if len(rows) == 2 else None)


def _links(schema: Schema, source: LinkedSource) -> Iterator[Finding]:
    """Yield what does not fit in the keys and links of two tables, and in rules over both."""
    try:
        read_households(schema, source)
    except RulesBroken as error:
        for each in error.broken:
            yield Finding(
                "refusal",
                "rules",
                "",
                f"{some_rows(each.rows, 'break', each.whose)} the rule `{each.text}`.",
                "Correct the files or the rule.",
                each.rows,
                tuple(Example(f"household {key}") for key in each.keys),
            )
    except BadInput as error:
        message, _, fix = error.message.partition("; ")
        where = f" ({error.internal})" if error.internal else ""
        yield Finding("refusal", "links", "", f"{message}{where}.", fix[:1].upper() + fix[1:])


def _check_panel(data: Sequence[Data], schema: Schema, more: More | None) -> FileCheck:
    """Check the rows of a panel, and the records that a release would make of them.

    Rows that belong to no record are reported. The records of all other rows are checked like any
    file. No file is written: the rows are kept in memory, compressed.
    """
    panel = schema.panel
    assert panel is not None
    waves = panel.parts
    parts = [(wave, part) for wave, each in zip(waves, data, strict=True) for part in each.each()]
    names = [part.name for _, part in parts if part.name]
    found = [
        one.about(part.name if len(parts) > 1 else "")
        for wave, part in parts
        for one in part.header(rows_schema(schema, wave)).findings
    ]
    read = len(schema.reads)
    if any(one.severity == "refusal" for one in found):
        return result(schema, names, found, columns=read)
    wanted = [row_columns(schema, wave)[0] for wave in waves]
    sources = [each.source(columns) for each, columns in zip(data, wanted, strict=True)]
    with PersonRecords(schema, None, keep_going=True) as records:

        def batches() -> Iterator[pa.RecordBatch]:
            return (batch for table in records.tables() for batch in table.to_batches())

        try:
            rows = add_rows(waves, sources, records)
            checked = check_table(FrameData(records.types, batches), schema)
        except BadInput as error:
            found.append(readable_or_refused(error))
            return result(schema, names, found, columns=read)
        found += _misfits(records.misfits, panel)
        persons = records.persons
        if not persons:
            none = Finding("refusal", "empty", "", "No row belongs to a record.", "Correct them.")
            return result(schema, names, [*found, none], columns=read, rows=rows)
        if more is not None and checked.fits:
            found += more(table.to_batches() for table in records.tables())
    single = [one for found_one in checked.findings for one in found_one.each or (found_one,)]
    of_rows = [one for one in single if not _of_absence(one, panel)]
    found += joined_findings(_of_file(of_rows, panel))
    whole = result(schema, names, found, columns=checked.columns, rows=rows)
    return replace(whole, persons=persons)


def _of_absence(finding: Finding, panel: Panel) -> bool:
    """Return whether a hint is only about the columns and levels that the program adds."""
    if finding.severity != "hint":
        return False
    added = finding.column in panel.takes_part.values()
    return added or {one.text for one in finding.examples} == {repr(ABSENT)}


def _of_file(findings: Sequence[Finding], panel: Panel) -> Iterator[Finding]:
    """Yield findings; a hint whose advice is about a whole column has the file's name of it.

    Such a hint counts if it is true in every wave that has the column, and of one value in all.
    """
    found: dict[object, list[Finding]] = {}
    for one in findings:
        place = panel.place(one.column) if one.severity == "hint" else None
        if one.kind not in _OF_COLUMNS or place is None:
            yield one
            continue
        value = (one.message, *(each.text for each in one.examples))
        key = (one.kind, place[0], *(value if one.kind == "constant" else ()))
        alike = found.setdefault(key, [])
        alike.append(one)
        if len(alike) == len(panel.columns[place[0]]):
            message = f"In each wave: {one.message[:1].lower()}{one.message[1:]}"
            yield replace(alike[0], column=place[0], message=message)


def _misfits(misfits: Misfits, panel: Panel) -> Iterator[Finding]:
    """Yield what does not fit in the rows of a panel."""
    if misfits.without:
        yield Finding(
            "refusal",
            "identifier",
            panel.person,
            f"{some_rows(misfits.without, 'have')} no identifier, so no person.",
            "Fill the column, or remove these rows from the file.",
            misfits.without,
        )
    if misfits.unknown:
        rows = sum(misfits.unknown.values())
        yield Finding(
            "refusal",
            "wave",
            str(panel.wave),
            f"{some_rows(rows, 'are')} of a wave that the schema does not name.",
            "Correct the column, or add the wave to `waves` or to `ignore_waves`.",
            rows,
            tuple(Example(repr(wave), n) for wave, n in misfits.unknown.items())[:8],
        )
    of_rows = "Correct the rows, or state `repeated: keep_one` under `panel`."
    of_waves = "Add the rows, or remove `everyone: true` from `panel`."
    of_values = "Correct the rows, or state `disagreeing: first` under `panel`."
    for kind, counts, what, place, fix in (
        ("repeated", misfits.repeated, "several rows", "wave", of_rows),
        ("absent", misfits.absent, "no row", "wave", of_waves),
        ("disagreeing", misfits.disagreeing, "different values", "constant column", of_values),
    ):
        found = [
            Finding(
                "refusal",
                kind,
                where if kind == "disagreeing" else "",
                f"{some_rows(persons, 'have', 'person')} {what} in {place} {where}.",
                fix,
                persons,
                tuple(Example(f"person {who}") for who in misfits.examples[kind, where]),
            )
            for where, persons in counts.items()
        ]
        if len(found) > 1:
            parts = tuple(
                Example(one.column or f"wave {where}", one.rows)
                for where, one in zip(counts, found, strict=True)
            )
            message = f"In {len(found)} {place}s, persons have {what}."
            rows = sum(counts.values())
            found = [Finding("refusal", kind, "", message, fix, rows, parts, each=tuple(found))]
        yield from found
