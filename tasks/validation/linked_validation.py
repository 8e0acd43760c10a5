"""Checks whether two confidential linked tables fit the schema, before anything is charged.

Great Expectations judges each table by the schema of that table alone, as it judges a single one.
Then the keys and links are checked, and the rules over columns of both tables
(`dp_core.confidential.linked.linked_rows`), and the codes of the pair rows are written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dp_core.confidential.coding import write_codes
from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source
from dp_core.errors import SchemaViolation
from dp_core.schema.definition import Schema
from tasks.validation.expectations import TABLES, validate

_JUDGED = 0.7
"""Part of the work, roughly, after the values of both tables are judged."""


def validate_linked(
    source: LinkedSource,
    schema: Schema,
    internal: Path,
    progress: Callable[[float], None],
    codes: Path,
) -> None:
    """Check both tables, their keys and their links, and write the codes of the pair rows.

    Args:
        source: The confidential tables.
        schema: Schema of linked tables.
        internal: Internal folder; what `validate` writes is in `tables/NAME` of each table.
        progress: Called with the part that is done, 0 to 1.
        codes: Confidential folder of the new code store.

    Raises:
        SchemaViolation: if values are not in the schema, rows break a rule, or keys, links or sizes
            are not as the schema says. The message names tables, columns and rules, no value and no
            count.
    """
    linked = schema.linked
    assert linked is not None
    faults: list[SchemaViolation] = []

    def judge(name: str, each: Source, flat: Schema, start: float, end: float) -> None:
        # The rules over this table's columns are judged on its codes, which nothing else needs.
        alone = codes.with_name(f"{codes.name}-{name}")
        try:
            validate(
                each,
                replace(flat, title=f"{schema.title}, {name}"),
                internal / TABLES / name,
                lambda done: progress(start + (end - start) * done),
                alone if flat.rules or flat.zeros.rules or flat.nestings else None,
            )
        except SchemaViolation as error:
            faults.append(error)
        finally:
            shutil.rmtree(alone, ignore_errors=True)

    judge(linked.households, source.households, schema.household_schema, 0.0, 0.3 * _JUDGED)
    judge(linked.persons, source.persons, schema.person_schema, 0.3 * _JUDGED, _JUDGED)
    if faults:
        raise SchemaViolation(
            " ".join(error.message for error in faults),
            internal="\n".join(error.internal or "" for error in faults),
        )
    write_codes(source, schema, codes, lambda done: progress(_JUDGED + (1 - _JUDGED) * done))
