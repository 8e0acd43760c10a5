"""Where the data of a release are: local files, objects in a store, or a database table.

Of linked tables, each has a place of its own; the waves of a panel may have one each.

A spec never contains the URL of a database, which may contain a password. It names an environment
variable and a table; neither text is executed as SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from dp_core.errors import BadInput
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import shown

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


def read_table(node: Node) -> DatabaseTable:
    """Return the table that a spec names under `data`.

    Raises:
        BadInput: for any mistake, with its place.
    """
    keys = node.fields(("database", "table"), required=("database", "table"), example=EXAMPLE)
    try:
        return parse_table(keys["database"].name().strip(), keys["table"].name())
    except ValueError as error:
        raise node.error(f"{str(error)[0].lower()}{str(error)[1:]}") from None


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
            f"{what} reads files, but the data are the database table {shown(place.written)};"
            " name a file with these data."
        )
    return (place,)


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _quote_identifier(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if set(part) & set('."') else part
