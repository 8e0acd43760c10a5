"""Reads where the data of a release are: one place or one for each of several parts.

The parts are two linked tables, or the waves of a panel.
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_core.plan.data_location import (
    DatabaseTable,
    DataPlace,
    OnePlace,
    TablePlaces,
    WavePlaces,
    read_object_url,
    read_table,
    store_of,
)
from dp_core.schema.definition import Schema
from dp_core.schema.panel.panel_waves import Panel
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
    linked = None if schema is None else schema.linked
    stated = node.content if isinstance(node.content, Mapping) else {}
    several = bool(stated) and not {"database", "table"} & {*stated}
    if schema is not None and schema.panel is not None:
        return _read_waves(node, schema.panel, several=several)
    if linked is None:
        if not several:
            return _read_place(node)
        if schema is not None:
            raise node.error(
                "names several tables, but the schema has a single one; name one path or glob, or"
                " state the tables under `tables` in the schema."
            )
        for each in stated.values():
            _read_place(each)
        return ""
    names = (linked.households, linked.persons)
    example = f"{{{names[0]}: {names[0]}.csv, {names[1]}: {names[1]}.csv}}"
    if not several and set(stated) != {*names}:
        raise node.error(
            f"names one place, but the schema has two tables; name a place for each: {example}."
        )
    keys = node.fields(names, required=names, example=example)
    homes, persons = (_read_place(keys[name]) for name in names)
    if homes == persons:
        raise node.error(f"names the same place for both tables; write for example {example}.")
    if _reached_by(homes) != _reached_by(persons):
        raise node.error(
            "names tables that are reached in different ways; name files for both, objects in a"
            " store for both, or two tables of one database, which are then read in one"
            " transaction."
        )
    return TablePlaces(homes, persons, names)


def _read_waves(node: Node, panel: Panel, *, several: bool) -> DataPlace:
    """Return the place of a panel: one if the rows name their wave, otherwise one for each wave."""
    if panel.wave is not None:
        if several:
            raise node.error(
                f"names several places, but the rows name their wave in {shown(panel.wave)}; name"
                " one path or glob, or remove `wave` under `panel` in the schema."
            )
        return _read_place(node)
    files = ", ".join(f"{wave}: wave-{wave}.csv" for wave in panel.waves)
    example = f"{{{files}}}"
    if not several:
        raise node.error(
            f"names one place, but each wave has its own; name a place for each: {example}, or"
            " state the column that holds the wave as `wave` under `panel` in the schema."
        )
    keys = node.fields(panel.waves, required=panel.waves, example=example)
    each = tuple(_read_place(keys[wave]) for wave in panel.waves)
    for number, place in enumerate(each):
        if place in each[:number]:
            raise keys[panel.waves[number]].error(
                f"names the same place as wave {panel.waves[each.index(place)]}; name the place of"
                " each wave."
            )
        if _reached_by(place) != _reached_by(each[0]):
            raise keys[panel.waves[number]].error(
                "is stored in another kind of place than the first wave; name files for all waves,"
                " objects in a store for all, or tables of one database."
            )
    return WavePlaces(each, panel.waves)


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
