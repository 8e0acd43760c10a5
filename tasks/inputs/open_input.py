"""Opens the data that a spec names: local files in place, objects and tables as local copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from dp_core.confidential.data_files import find_data_files
from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source, open_source
from dp_core.confidential.sources.input_parts import InputPart, input_parts, joined_source
from dp_core.errors import BadInput
from dp_core.kernel.coding.stored_texts import no_identifier
from dp_core.plan.data_location import DatabaseTable, OnePlace, places_of, store_of
from dp_core.plan.release_spec import ReleaseSpec
from dp_core.schema.definition import Schema
from dp_core.schema.rules.file_rules import FileRules

Wanted: TypeAlias = tuple[OnePlace, InputPart, Path]
"""The place of a part of the data, what is read there, and the folder of its copies."""


def open_input(
    spec: ReleaseSpec,
    schema: Schema,
    folder: Path,
    progress: Callable[[str, float], None] | None = None,
    rules: FileRules | None = None,
) -> Source | LinkedSource:
    """Open the data of a release; copy objects and tables first if that was not done yet.

    Args:
        spec: Spec that names the data.
        schema: Schema that names the columns to ignore.
        folder: Confidential folder of the run, for copies and snapshots.
        progress: Called with `copy` or `snapshot` and 0 or 1 at start and end; None (the default)
            for no progress.
        rules: Rules that name the columns to read, and make the records of a panel; None (the
            default) for those of the schema.

    Returns:
        The data: a source, which of a panel has its records, or those of two linked tables.

    Raises:
        BadInput: if the data cannot be opened (`open_source`, `object_source`, `table_sources`), or
            a column that identifies persons or households holds decimal numbers.
        StageFailed: if the store or the database does not answer.
    """
    told = progress or (lambda _stage, _done: None)
    by = rules or schema
    wanted = _wanted(spec, schema, folder, by)
    (first, first_part, _), *others = wanted
    copied = None if store_of(first) is None else "copy"
    copied = "snapshot" if isinstance(first, DatabaseTable) else copied
    if copied is not None:
        told(copied, 0.0)
    try:
        sources = _tables(wanted) if copied == "snapshot" else [_open(spec, *o) for o in wanted]
    except BadInput:
        if by.linked and copied is None and _are_swapped(spec, wanted):
            raise BadInput(
                f"The places of the tables {first_part.name} and {others[0][1].name} seem to be"
                " swapped; exchange them under `data` in the spec.",
                row="columns-differ",
            ) from None
        raise
    if copied is not None:
        told(copied, 1.0)
    return joined_source(by, sources, folder)


def find_input(spec: ReleaseSpec, schema: Schema, folder: Path, rules: FileRules) -> None:
    """Find the data of a release, unless they were copied: files, objects and tables by name.

    Args:
        spec: Spec that names the data.
        schema: Schema that names the columns to ignore.
        folder: Confidential folder of the run.
        rules: Rules that name the columns to read.

    Raises:
        BadInput: if there are none, or a driver, a right or a variable of the environment is
            missing.
        StageFailed: if the store or the database does not answer.

    Privacy:
        Nothing is opened: the answer depends on names and addresses only, so it is no attempt.
    """
    for place, _, own in _wanted(spec, schema, folder, rules):
        if isinstance(place, DatabaseTable):
            from tasks.inputs.database_source import find_table
            from tasks.inputs.snapshot import has_snapshot

            if not has_snapshot(own):
                find_table(place)
        elif store_of(place) is None:
            find_data_files(place, spec.folder)
        else:
            from tasks.inputs.object_source import find_objects

            find_objects(place, own)


def _wanted(
    spec: ReleaseSpec, schema: Schema, folder: Path, by: FileRules | Schema
) -> list[Wanted]:
    """Return what is to be read: each part of the data, its place and the folder of its copies."""
    parts, places = input_parts(schema, by), places_of(spec.data)
    named = [each.name if by.linked else f"wave-{n}" for n, each in enumerate(parts, start=1)]
    folders = [folder / each for each in named] if len(parts) > 1 else [folder]
    return list(zip(places, parts, folders, strict=True))


def _open(spec: ReleaseSpec, place: OnePlace, part: InputPart, folder: Path) -> Source:
    """Open files in place, or the copies of objects."""
    assert isinstance(place, str)
    if store_of(place) is None:
        return open_source(place, spec.folder, part.reads, part.ignore)
    from tasks.inputs.object_source import object_source

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return object_source(place, part.reads, part.ignore, folder)


def _tables(wanted: Sequence[Wanted]) -> Sequence[Source]:
    """Open the snapshots of tables of one database.

    Privacy:
        Keys that the database stores as decimal numbers are refused: the texts of 7.5 and 7.50
        differ although the database takes them as equal. One person would count as two, each with
        as many rows as the limit allows.
    """
    from tasks.inputs.database_source import table_sources
    from tasks.inputs.snapshot import forget_snapshots

    sources = table_sources(
        [
            (place, part.reads, part.ignore, folder)
            for place, part, folder in wanted
            if isinstance(place, DatabaseTable)
        ]
    )
    for source, (_, part, folder) in zip(sources, wanted, strict=True):
        for key in part.keys:
            if key in source.untyped:
                forget_snapshots(folder)
                raise BadInput(
                    no_identifier(f"Column {key!r} is a key and", "decimal numbers or times")
                    + " A view can cast it to a whole number."
                )
    return sources


def _are_swapped(spec: ReleaseSpec, wanted: Sequence[Wanted]) -> bool:
    """Return whether the files of two linked tables are named in the wrong order."""
    (home, first, _), (person, second, folder) = wanted
    try:
        _open(spec, home, second, folder)
        _open(spec, person, first, folder)
    except BadInput:
        return False
    return True
