"""Checks the data of any schema: one table, a panel, or two linked tables. Confidential."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dp_core.confidential.linked.linked_rows import RulesBroken
from dp_core.confidential.linked.linked_source import LinkedSource, read_households
from dp_core.confidential.sources.input_parts import input_parts
from dp_core.errors import BadInput
from dp_core.inspection.file_check import More, check_table, result
from dp_core.inspection.findings import Example, FileCheck, Finding
from dp_core.inspection.given_data import Data
from dp_core.inspection.panel_check import check_panel
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.text.pages.number_texts import plural


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
    return check_panel(data, schema, more) if schema.panel else check_table(data[0], schema, more)


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
                f"{plural(each.rows, each.whose)} break{'s' * (each.rows == 1)} the rule"
                f" `{each.text}`.",
                "Correct the files or the rule.",
                each.rows,
                tuple(Example(f"household {key}") for key in each.keys),
            )
    except BadInput as error:
        message, _, fix = error.message.partition("; ")
        where = f" ({error.internal})" if error.internal else ""
        yield Finding("refusal", "links", "", f"{message}{where}.", fix[:1].upper() + fix[1:])
