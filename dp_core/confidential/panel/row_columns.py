"""Which columns the files of a panel have, for opening and checking them. Public."""

from __future__ import annotations

from dataclasses import replace

from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.rules.file_rules import Rules
from dp_core.schema.structure.structural_zeros import StructuralZeros


def row_columns(
    schema: Schema, wave: str | None = None, rules: Rules | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns to read from a file of a panel, and those to ignore.

    Args:
        schema: The schema of records.
        wave: The wave of the file; None (the default) for a file whose rows name their wave.
        rules: Rules that say what is read; None (the default) for those of the schema.

    Returns:
        First the columns to read: those from which records are made, the wave, and the person. Then
        the others that the file may have.
    """
    by = rules or schema
    panel = by.panel
    assert panel is not None
    columns = panel.sources(by.reads[:-1], wave)
    key = (panel.person,) if panel.wave is None else (panel.wave, panel.person)
    others = (name for name in panel.columns if name not in columns)
    return (*columns, *key), (*schema.ignore, *others)


def rows_schema(schema: Schema, wave: str | None = None) -> Schema:
    """Return a schema with the columns of a file of a panel, without rules between them.

    Args:
        schema: The schema of records.
        wave: The wave of the file; None (the default) for a file whose rows name their wave.
    """
    panel = schema.panel
    assert panel is not None
    reads, ignore = row_columns(schema, wave)
    columns: list[Column] = []
    for name in reads[:-1]:
        if name == panel.wave:
            levels = tuple(Level(one, one) for one in (*panel.waves, *panel.ignore_waves))
            columns.append(Column(name=name, kind="category", levels=levels))
            continue
        made = panel.columns.get(name, {}).values()
        known = next((one for one in made if one in schema.names), name)
        columns.append(replace(schema.column(known), name=name))
    return replace(
        schema,
        columns=tuple(columns),
        dependents=(),
        order=(),
        ignore=ignore,
        zeros=StructuralZeros(),
        stored_zeros=None,
        rules=(),
        expectations=(),
        calibration=(),
        totals=(),
        coarse=None,
        nested=None,
        panel=None,
    )
