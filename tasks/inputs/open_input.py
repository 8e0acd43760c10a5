"""The data that a spec names, opened: files where they are, objects and tables as copied here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dp_core.confidential.person_rows import no_identifier
from dp_core.confidential.source import Source, open_source
from dp_core.errors import BadInput
from dp_core.schema.definition import Schema
from dp_core.spec.data_location import DatabaseTable, store_of
from dp_core.spec.release_spec import ReleaseSpec


def open_input(
    spec: ReleaseSpec,
    schema: Schema,
    folder: Path,
    progress: Callable[[str, float], None] | None = None,
) -> Source:
    """Open the data of a release; objects and tables that are not here yet are copied first.

    Args:
        spec: Says where they are.
        schema: Names the columns to read, and those that may be there besides.
        folder: Where the copy or snapshot is, confidential.
        progress: Told that objects or a table are being read.

    Raises:
        BadInput: as of `open_source`, `object_source` and `table_source`; or if persons are told
            apart by decimal numbers.
        StageFailed: if the store or the database stopped answering.
    """
    if store_of(spec.data) is not None:
        from tasks.inputs.object_source import object_source

        if progress is not None:
            progress("copy", 0.0)
        copies = object_source(str(spec.data), schema.reads, schema.ignore, folder)
        if progress is not None:
            progress("copy", 1.0)
        return copies
    if not isinstance(spec.data, DatabaseTable):
        return open_source(spec.data, spec.folder, schema.reads, schema.ignore)
    from tasks.inputs.database_source import table_source
    from tasks.inputs.snapshot import forget_snapshots

    if progress is not None:
        progress("snapshot", 0.0)
    source = table_source(spec.data, schema.reads, schema.ignore, folder)
    if progress is not None:
        progress("snapshot", 1.0)
    if schema.unit.column in source.decimals:
        # privacy: 7 and 7.0 are one number of the database and two texts, so one person would be
        # two, each with rows up to the limit.
        forget_snapshots(folder)
        raise BadInput(
            no_identifier(schema.unit.column, "decimal numbers")
            + " A view can cast it to a whole number."
        )
    return source
