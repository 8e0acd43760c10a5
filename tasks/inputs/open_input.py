"""Opens the data that a spec names: local files in place, objects and tables as local copies."""

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
    """Open the data of a release; copy objects and tables first if that was not done yet.

    Args:
        spec: Spec that names the data.
        schema: Schema that names the columns to read and to ignore.
        folder: Confidential folder of the run, for copies and snapshots.
        progress: Called with `copy` or `snapshot` and 0 or 1 at start and end; None (the default)
            for no progress.

    Raises:
        BadInput: if the data cannot be opened (`open_source`, `object_source`, `table_source`), or
            the column that identifies persons holds decimal numbers.
        StageFailed: if the store or the database does not answer.
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
        # privacy: the texts of 7 and 7.0 differ although the database takes them as equal. One
        # person would count as two, each with as many rows as the limit allows.
        forget_snapshots(folder)
        raise BadInput(
            no_identifier(schema.unit.column, "decimal numbers")
            + " A view can cast it to a whole number."
        )
    return source
