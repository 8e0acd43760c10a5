"""Reads where the data of a release are: one place or one for each of several parts.

The parts are two linked tables, or the waves of a panel.
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.plan.data_location import (
    DatabaseTable,
    DataPlace,
    OnePlace,
    PartPlaces,
    read_object_url,
    read_table,
    store_of,
)
from dp_core.schema.definition import Schema
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown


def read_data(node: Node, schema: Schema | None) -> DataPlace:
    """Return the place of the data.

    Args:
        node: Value of the key `data`.
        schema: Schema of the release, which says for which tables places must be named; None if it
            could not be read: then only the form of the places is checked.

    Raises:
        BadInput: for any mistake, with its place. No message shows a URL.
    """
    stated = node.content if isinstance(node.content, Mapping) else {}
    several = bool(stated) and not {"database", "table"} & {*stated}
    if schema is None and several:
        for each in stated.values():
            _read_place(each)
        return ""
    panel, what, or_else = None if schema is None else schema.panel, "waves", ""
    names: tuple[str, ...] = ()
    if schema is not None and schema.linked is not None:
        names, what = (schema.linked.households, schema.linked.persons), "tables"
    elif panel is not None and panel.wave is None:
        names = panel.waves
        or_else = ", or state the column that holds the wave as `wave` under `panel` in the schema"
    if names:
        return _read_parts(node, names, what, or_else, several=several)
    if several and panel is not None:
        raise node.error(
            f"names several places, but the rows name their wave in {shown(str(panel.wave))}; name"
            " one path or glob, or remove `wave` under `panel` in the schema."
        )
    if several:
        raise node.error(
            "names several tables, but the schema has a single one; name one path or glob, or"
            " state the tables under `tables` in the schema."
        )
    return _read_place(node)


def _read_parts(
    node: Node, names: tuple[str, ...], what: str, or_else: str, *, several: bool
) -> PartPlaces:
    """Return the places of several tables or waves."""
    example = f"{{{', '.join(f'{name}: {name}.csv' for name in names)}}}"
    if not several and {*(node.content if isinstance(node.content, Mapping) else ())} != {*names}:
        raise node.error(
            f"names one place, but the schema has {len(names)} {what}; name a place for each:"
            f" {example}{or_else}."
        )
    keys = node.fields(names, required=names, example=example)
    each = tuple(_read_place(keys[name]) for name in names)
    for name, place in zip(names, each, strict=True):
        if (other := names[each.index(place)]) != name:
            raise keys[name].error(f"names the same place as {other}; name the place of each.")
        if _reached_by(place) != _reached_by(each[0]):
            raise keys[name].error(
                f"is stored in another kind of place than {names[0]}; name files for all {what},"
                " objects in a store for all, or tables of one database, which are read in one"
                " transaction."
            )
    return PartPlaces(each, names)


def _reached_by(place: OnePlace) -> str | None:
    """Return the environment variable of a database, or the scheme of an object store, if any."""
    return place.variable if isinstance(place, DatabaseTable) else store_of(place)


def _read_place(node: Node) -> OnePlace:
    if isinstance(node.content, Mapping):
        return read_table(node)
    if isinstance(node.content, tuple):
        raise node.error("names one path; for several files write a glob, such as data/*.csv.")
    if "://" not in node.name():
        if node.name().lower().endswith((".yaml", ".yml")):
            raise node.error(
                f"{shown(node.name())} is a YAML file; name the CSV or Parquet file with the rows."
            )
        return read_path(node)
    try:
        return read_object_url(node.name())
    except ValueError as error:
        # privacy: the message does not show the URL, which may contain a password.
        raise node.error(str(error)) from None


def read_path(node: Node) -> str:
    """Return the path of a local file.

    Raises:
        BadInput: if it cannot be one.
    """
    text = node.name()
    if text.startswith("~"):
        raise node.error(
            f"{shown(text)} begins with ~, which is not expanded; write the full path or a path"
            " relative to this file."
        )
    if "://" in text:
        # privacy: the message does not show the URL, which may contain a password.
        raise node.error("is a URL; give the path of a local file.")
    return text
