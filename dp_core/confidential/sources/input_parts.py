"""The parts of the data of a schema: one table, two linked tables, or the waves of a panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.panel.panel_source import PanelSource
from dp_core.confidential.panel.row_columns import row_columns
from dp_core.confidential.source import Source
from dp_core.schema.definition import Schema
from dp_core.schema.rules.file_rules import Rules


@dataclass(frozen=True, slots=True)
class InputPart:
    """One part of the data. Public.

    Attributes:
        name: Name of the linked table or of the wave; empty if the data are one part.
        reads: Columns to read.
        ignore: Further columns that it may have.
        keys: Columns that identify persons or households.
    """

    name: str
    reads: tuple[str, ...]
    ignore: tuple[str, ...]
    keys: tuple[str, ...]


def input_parts(schema: Schema, rules: Rules | None = None) -> tuple[InputPart, ...]:
    """Return the parts of the data, in their order.

    Args:
        schema: Schema that names further columns that the data may have.
        rules: Rules that say what is read; None (the default) for those of the schema.
    """
    by = rules or schema
    linked, panel, person = by.linked, by.panel, by.unit.column
    if linked is not None:
        homes, persons, of = (linked.key,), (linked.link, linked.person_key), schema.linked
        more = ((), ()) if of is None else (of.household_ignore, of.person_ignore)
        return (
            InputPart(linked.households, linked.household_reads, more[0], homes),
            InputPart(linked.persons, linked.person_reads, more[1], persons),
        )
    if panel is None:
        return (InputPart("", by.reads, schema.ignore, (person,) if person else ()),)
    return tuple(
        InputPart(wave or "", *row_columns(schema, wave, by), (panel.person,))
        for wave in panel.parts
    )


def joined_source(
    schema: Rules, parts: Sequence[Source], folder: Path | None
) -> Source | LinkedSource:
    """Return the data of a schema.

    Args:
        schema: Rules of the data: those of the release's document, or a schema.
        parts: The source of each of its `input_parts`.
        folder: Confidential folder for the records of a panel; None to keep them in memory.
    """
    if schema.linked is not None:
        return LinkedSource(*parts)
    if schema.panel is None:
        return parts[0]
    return PanelSource(schema, schema.panel.parts, parts, folder)
