"""Which columns the files of a panel have, for opening them. Public."""

from __future__ import annotations

from dp_core.schema.definition import Schema


def row_columns(schema: Schema, wave: str | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns to read from a file of a panel, and those to ignore.

    Args:
        schema: The schema of records.
        wave: The wave of the file; None (the default) for a file whose rows name their wave.

    Returns:
        First the columns to read: those from which records are made, the wave, and the person. Then
        the others that the file may have.
    """
    panel = schema.panel
    assert panel is not None
    columns = panel.sources(schema.reads[:-1], wave)
    key = (panel.person,) if panel.wave is None else (panel.wave, panel.person)
    others = (name for name in panel.columns if name not in columns)
    return (*columns, *key), (*schema.ignore, *others)
