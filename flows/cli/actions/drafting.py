"""Drafting a schema for a file or a table; reads none of its rows."""

from __future__ import annotations

from pathlib import Path

from dp_core.errors import BadInput


def draft(name: str, database: str | None) -> str:
    """Return the text of a draft.

    Args:
        name: Path of a file, URL of an object, or name of a table.
        database: Environment variable with the URL of the table's database, None for a file.

    Raises:
        BadInput: if there is no such thing, or it cannot be described.
    """
    from dp_core.schema.draft import draft_schema, draft_table

    if database is None and "://" in name:
        from tasks.inputs.object_source import beginning_of
        from tasks.run.home import home

        with beginning_of(name, home() / "draft") as copy:
            return draft_schema(copy)
    if database is None:
        return draft_schema(Path(name))
    from dp_core.spec.data_location import parse_table
    from tasks.inputs.database_source import table_types

    try:
        place = parse_table(database, name)
    except ValueError as error:
        raise BadInput(str(error)) from None
    return draft_table(place.written, table_types(place))
