"""Where the data of a release are: local files, objects in a store, or a database table.

Of linked tables, each has a place of its own; the waves of a panel may have one each.

A spec never contains the URL of a database, which may contain a password. It names an environment
variable and a table; neither text is executed as SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dp_core.errors import BadInput
from dp_core.schema.definition import Schema
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

MAX_NAME = 128
EXAMPLE = "{database: SURVEY_DB, table: survey.persons}"

STORES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
"""Object stores by the beginning of their URLs, and the package that reaches each."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PART = r'(?:"(?:[^"]|"")+"|[^".]+)'
_NAME = re.compile(rf"(?:(?P<schema>{_PART})\.)?(?P<name>{_PART})")


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table, or a view, of a database.

    Attributes:
        variable: Environment variable with the database's SQLAlchemy URL.
        schema: Database schema of the table, or None for the default.
        name: Exact name of the table.
    """

    variable: str
    schema: str | None
    name: str

    @property
    def written(self) -> str:
        """The name as written in SQL, with the schema."""
        return ".".join(
            _quote_identifier(part) for part in (self.schema, self.name) if part is not None
        )

    def document(self) -> dict[str, str]:
        """Return the table as a spec states it."""
        return {"database": self.variable, "table": self.written}


OnePlace: TypeAlias = str | DatabaseTable
"""A path, glob or URL of files, or a table."""


@dataclass(frozen=True, slots=True)
class PartPlaces:
    """Where two linked tables are, or the waves of a panel that each have a place of their own.

    Attributes:
        each: The place of each table or wave.
        names: The tables or waves in the schema, in this order.
    """

    each: tuple[OnePlace, ...]
    names: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """Return the places as a spec states them."""
        return {
            name: place.document() if isinstance(place, DatabaseTable) else place
            for name, place in zip(self.names, self.each, strict=True)
        }


DataPlace: TypeAlias = OnePlace | PartPlaces
"""The place of a single table, or those of two linked ones or of the waves of a panel."""


def places_of(data: DataPlace) -> tuple[OnePlace, ...]:
    """Return every place of the data: one, or that of each linked table or wave."""
    return data.each if isinstance(data, PartPlaces) else (data,)


def parse_table(variable: str, table: str) -> DatabaseTable:
    """Return a database table.

    Args:
        variable: Name of the environment variable with the database's URL.
        table: `table` or `schema.table`, exactly as in the database; a part that contains a dot is
            in double quotation marks.

    Raises:
        ValueError: if either is not a name. The message does not show a possible URL.

    >>> parse_table("SURVEY_DB", "survey.persons")
    DatabaseTable(variable='SURVEY_DB', schema='survey', name='persons')
    >>> parse_table("SURVEY_DB", '"persons.2026"').name
    'persons.2026'
    """
    if not _VARIABLE.fullmatch(variable):
        # privacy: the message does not show the text, which may be a URL with a password.
        raise ValueError(
            "The database must be named by an environment variable that contains its URL, such as"
            " SURVEY_DB (letters, digits and underscores); never write the URL in a file."
        )
    found = _NAME.fullmatch(table)
    if found is None or not table.isprintable() or "://" in table:
        raise ValueError(
            "The table must be named as `table` or `schema.table`; put a part that contains a dot"
            " in double quotation marks."
        )
    schema, name = (None if part is None else _plain(part) for part in found.group(1, 2))
    assert name is not None
    for part in (schema, name):
        if part is not None and (not part.strip() or len(part) > MAX_NAME):
            raise ValueError(
                f"The names of the table and its schema must have 1 to {MAX_NAME} characters and"
                " not be blank."
            )
    return DatabaseTable(variable, schema, name)


def store_of(place: DataPlace) -> str | None:
    """Return the scheme of the object store, or None for local files and tables.

    >>> store_of("s3://survey/waves/*.parquet"), store_of("waves/*.parquet")
    ('s3', None)
    """
    scheme, found, _ = place.partition("://") if isinstance(place, str) else ("", "", "")
    return scheme if found and scheme in STORES else None


def read_object_url(text: str) -> str:
    """Return a URL of objects in a store if it contains no secret.

    Raises:
        ValueError: if the store is unknown, no object is named, or the URL may contain a secret.
            The message does not show the URL.
    """
    if store_of(text) is None:
        known = ", ".join(f"{scheme}://" for scheme in STORES)
        raise ValueError(
            f"is a URL; give local files, objects in a store ({known}), or a database table, for"
            f" example {EXAMPLE}, where the environment variable contains the URL."
        )
    bucket, _, key = text.partition("://")[2].partition("/")
    # privacy: a password comes before an @, a signature after a question mark.
    if ":" in bucket or set(text) & set("?#") or "::" in text:
        raise ValueError(
            "is a URL that may contain a secret (it has a colon, ? or #); give only the bucket and"
            " the objects, and set credentials in the environment."
        )
    if not bucket or not key or key.endswith("/"):
        raise ValueError(
            "is a URL without an object; name a file or a glob, for example"
            " s3://bucket/waves/*.parquet."
        )
    return text


def require_files(place: DataPlace, what: str) -> tuple[str, ...]:
    """Return the pattern of the files; the pattern of each part if each has its own place.

    Raises:
        BadInput: if the data are a table of a database, or in an object store.
    """
    if isinstance(place, PartPlaces):
        return tuple(pattern for each in place.each for pattern in require_files(each, what))
    if store_of(place) is not None:
        raise BadInput(
            f"{what} reads local files, but the data are in an object store; copy them first."
        )
    if isinstance(place, DatabaseTable):
        raise BadInput(
            f"{what} reads files, but the data are the database table {quote(place.written)};"
            " name a file with these data."
        )
    return (place,)


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _quote_identifier(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if set(part) & set('."') else part


# -- the key `data` of a spec


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
            f"names several places, but the rows name their wave in {quote(str(panel.wave))}; name"
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
        keys = node.fields(("database", "table"), required=("database", "table"), example=EXAMPLE)
        try:
            return parse_table(keys["database"].name().strip(), keys["table"].name())
        except ValueError as error:
            raise node.error(f"{str(error)[0].lower()}{str(error)[1:]}") from None
    if isinstance(node.content, tuple):
        raise node.error("names one path; for several files write a glob, such as data/*.csv.")
    if "://" not in node.name():
        if node.name().lower().endswith((".yaml", ".yml")):
            raise node.error(
                f"{quote(node.name())} is a YAML file; name the CSV or Parquet file with the rows."
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
            f"{quote(text)} begins with ~, which is not expanded; write the full path or a path"
            " relative to this file."
        )
    if "://" in text:
        # privacy: the message does not show the URL, which may contain a password.
        raise node.error("is a URL; give the path of a local file.")
    return text
