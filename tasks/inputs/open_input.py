"""Opens the data that a spec names: local files in place, objects and tables as local copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.panel.panel_source import PanelSource
from dp_core.confidential.panel.row_columns import row_columns
from dp_core.confidential.person_rows import identifying
from dp_core.confidential.source import Source, open_source
from dp_core.confidential.values.stored_texts import no_identifier
from dp_core.errors import BadInput
from dp_core.plan.data_location import (
    DatabaseTable,
    OnePlace,
    TablePlaces,
    WavePlaces,
    store_of,
)
from dp_core.plan.release_spec import ReleaseSpec
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables

if TYPE_CHECKING:
    from tasks.inputs.snapshot import SnapshotSource


def open_input(
    spec: ReleaseSpec,
    schema: Schema,
    folder: Path,
    progress: Callable[[str, float], None] | None = None,
) -> Source | LinkedSource:
    """Open the data of a release; copy objects and tables first if that was not done yet.

    Args:
        spec: Spec that names the data.
        schema: Schema that names the columns to read and to ignore.
        folder: Confidential folder of the run, for copies and snapshots.
        progress: Called with `copy` or `snapshot` and 0 or 1 at start and end; None (the default)
            for no progress.

    Returns:
        The data: a source, which of a panel has its records, or those of two linked tables.

    Raises:
        BadInput: if the data cannot be opened (`open_source`, `object_source`, `table_source`), or
            a column that identifies persons or households holds decimal numbers.
        StageFailed: if the store or the database does not answer.
    """
    if isinstance(spec.data, TablePlaces):
        assert schema.linked is not None
        return _open_linked(spec, spec.data, schema.linked, folder, progress)
    if isinstance(spec.data, WavePlaces):
        return _open_waves(spec, spec.data, schema, folder, progress)
    if schema.panel is not None:
        columns = row_columns(schema)
        rows = _open_one(spec, spec.data, schema, columns, folder, progress)
        return PanelSource(schema, (None,), (rows,), folder)
    return _open_one(spec, spec.data, schema, (schema.reads, schema.ignore), folder, progress)


def _open_one(
    spec: ReleaseSpec,
    place: OnePlace,
    schema: Schema,
    columns: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    progress: Callable[[str, float], None] | None,
) -> Source:
    """Open the data of one place; `columns` are those to read, and those to ignore."""
    if store_of(place) is not None:
        from tasks.inputs.object_source import object_source

        if progress is not None:
            progress("copy", 0.0)
        copies = object_source(str(place), *columns, folder)
        if progress is not None:
            progress("copy", 1.0)
        return copies
    if not isinstance(place, DatabaseTable):
        return open_source(place, spec.folder, *columns)
    from tasks.inputs.database_source import table_source
    from tasks.inputs.snapshot import forget_snapshots

    if progress is not None:
        progress("snapshot", 0.0)
    source = table_source(place, *columns, folder)
    if progress is not None:
        progress("snapshot", 1.0)
    if schema.unit.column in source.decimals:
        # privacy: the texts of 7.5 and 7.50 differ although the database takes them as equal. One
        # person would count as two, each with as many rows as the limit allows.
        forget_snapshots(folder)
        raise BadInput(
            no_identifier(identifying(schema.unit.column), "decimal numbers")
            + " A view can cast it to a whole number."
        )
    return source


def _open_waves(
    spec: ReleaseSpec,
    places: WavePlaces,
    schema: Schema,
    folder: Path,
    progress: Callable[[str, float], None] | None,
) -> PanelSource:
    """Open the waves of a panel; copies of each are in a folder of its own."""
    told = progress or (lambda _stage, _done: None)
    panel = schema.panel
    assert panel is not None
    columns = [row_columns(schema, wave) for wave in places.waves]
    folders = [folder / f"wave-{number}" for number, _ in enumerate(places.waves, start=1)]
    tables = [place for place in places.each if isinstance(place, DatabaseTable)]
    rows: list[Source] = []
    if tables:
        from tasks.inputs.database_source import table_sources

        told("snapshot", 0.0)
        asked = [
            (place, *each, copies)
            for place, each, copies in zip(tables, columns, folders, strict=True)
        ]
        sources = table_sources(asked)
        told("snapshot", 1.0)
        for source, copies in zip(sources, folders, strict=True):
            _refuse_decimals(source, (panel.person,), copies)
        rows += sources
    for place, each, copies in zip(places.each, columns, folders, strict=True):
        if not isinstance(place, DatabaseTable):
            rows.append(_opened_wave(spec, place, each, copies, told))
    return PanelSource(schema, places.waves, rows, folder)


def _opened_wave(
    spec: ReleaseSpec,
    place: str,
    columns: tuple[Sequence[str], Sequence[str]],
    copies: Path,
    told: Callable[[str, float], None],
) -> Source:
    if store_of(place) is None:
        return open_source(place, spec.folder, *columns)
    from tasks.inputs.object_source import object_source

    told("copy", 0.0)
    copies.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = object_source(place, *columns, copies)
    told("copy", 1.0)
    return source


def _open_linked(
    spec: ReleaseSpec,
    places: TablePlaces,
    linked: LinkedTables,
    folder: Path,
    progress: Callable[[str, float], None] | None,
) -> LinkedSource:
    """Open the two linked tables; copies of each are in a folder of its own."""
    told = progress or (lambda _stage, _done: None)
    homes, persons = folder / linked.households, folder / linked.persons
    read = (linked.household_reads, linked.person_reads)
    ignored = (linked.household_ignore, linked.person_ignore)
    wanted = tuple(zip(places.each, read, ignored, strict=True))
    if isinstance(places.households, DatabaseTable):
        from tasks.inputs.database_source import table_sources

        told("snapshot", 0.0)
        asked = [
            (place, columns, ignore, each)
            for (place, columns, ignore), each in zip(wanted, (homes, persons), strict=True)
            if isinstance(place, DatabaseTable)
        ]
        sources = table_sources(asked)
        told("snapshot", 1.0)
        for source, keys, each in zip(
            sources,
            ((linked.key,), (linked.link, linked.person_key)),
            (homes, persons),
            strict=True,
        ):
            _refuse_decimals(source, keys, each)
        return LinkedSource(*sources)

    def opened(place: OnePlace, columns: tuple[str, ...], ignore: tuple[str, ...]) -> Source:
        assert isinstance(place, str)
        if store_of(place) is None:
            return open_source(place, spec.folder, columns, ignore)
        from tasks.inputs.object_source import object_source

        copies = homes if place == places.households else persons
        return object_source(place, columns, ignore, copies)

    copied = isinstance(places.households, str) and store_of(places.households) is not None
    if copied:
        told("copy", 0.0)
    try:
        both = [opened(*each) for each in wanted]
    except BadInput as error:
        if copied:
            raise
        try:
            for place, columns, ignore in zip(places.each, read[::-1], ignored[::-1], strict=True):
                opened(place, columns, ignore)
        except BadInput:
            raise error from None
        raise BadInput(
            f"The places of the tables {linked.households} and {linked.persons} seem to be swapped;"
            " exchange them under `data` in the spec.",
            row="columns-differ",
        ) from None
    if copied:
        told("copy", 1.0)
    return LinkedSource(*both)


def _refuse_decimals(source: SnapshotSource, keys: Sequence[str], folder: Path) -> None:
    """Refuse keys that the database stores as decimal numbers.

    Privacy:
        The texts of 7 and 7.0 differ although the database takes them as equal.
    """
    from tasks.inputs.snapshot import forget_snapshots

    for key in keys:
        if key in source.decimals:
            forget_snapshots(folder)
            raise BadInput(
                f"Column {key!r} is a key and holds decimal numbers; store whole numbers or text,"
                " so that equal keys are equal texts. A view can cast it to a whole number."
            )
