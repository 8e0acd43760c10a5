"""Where the data of a release are: files, or a table of a database that is named and not located.

A spec never holds the address of a database, which may hold a password. It names an environment
variable, and the table by its name; neither is ever run as SQL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from dp_core.documents.node import Node
from dp_core.documents.typed_text import shown
from dp_core.errors import BadInput

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
        schema: Of the table, None for where the database looks by itself.
        name: Of the table, letter for letter.
    """

    variable: str
    schema: str | None
    name: str

    @property
    def written(self) -> str:
        """The table's name as people write it."""
        return ".".join(_quoted(part) for part in (self.schema, self.name) if part is not None)

    def document(self) -> dict[str, str]:
        """Return what a spec says of it."""
        return {"database": self.variable, "table": self.written}


DataPlace: TypeAlias = str | DatabaseTable
"""A path, glob or URL of files, or a table."""


def parse_table(variable: str, table: str) -> DatabaseTable:
    """Return a table by the names that a person wrote.

    Args:
        variable: Name of an environment variable.
        table: `table` or `schema.table`, letter for letter; a part that holds a dot is put in
            quotation marks.

    Raises:
        ValueError: with a sentence, if either is no name. What may be a URL is not shown.

    >>> parse_table("SURVEY_DB", "survey.persons")
    DatabaseTable(variable='SURVEY_DB', schema='survey', name='persons')
    >>> parse_table("SURVEY_DB", '"persons.2026"').name
    'persons.2026'
    """
    if not _VARIABLE.fullmatch(variable):
        # privacy: whoever writes a URL here may have written a password.
        raise ValueError(
            "The database is named by an environment variable that holds its URL, such as"
            " SURVEY_DB: letters, digits and underscores; the URL itself stands in no file."
        )
    found = _NAME.fullmatch(table)
    if found is None or not table.isprintable() or "://" in table:
        raise ValueError(
            "The table is named as `table` or `schema.table`; put a part that holds a dot in"
            " double quotation marks."
        )
    schema, name = (None if part is None else _plain(part) for part in found.group(1, 2))
    assert name is not None
    for part in (schema, name):
        if part is not None and (not part.strip() or len(part) > MAX_NAME):
            raise ValueError(
                f"A table's name, and its schema's, has 1 to {MAX_NAME} letters and is not blank."
            )
    return DatabaseTable(variable, schema, name)


def read_table(node: Node) -> DatabaseTable:
    """Return the table that a spec names under `data`.

    Raises:
        BadInput: if it does not.
    """
    keys = node.fields(("database", "table"), required=("database", "table"), example=EXAMPLE)
    try:
        return parse_table(keys["database"].name().strip(), keys["table"].name())
    except ValueError as error:
        raise node.error(f"{str(error)[0].lower()}{str(error)[1:]}") from None


def store_of(place: DataPlace) -> str | None:
    """Return the object store that a place is in, None where it is files or a table.

    >>> store_of("s3://survey/waves/*.parquet"), store_of("waves/*.parquet")
    ('s3', None)
    """
    scheme, found, _ = place.partition("://") if isinstance(place, str) else ("", "", "")
    return scheme if found and scheme in STORES else None


def read_object_url(text: str) -> str:
    """Return a URL of objects in a store, as a spec may hold it: without any secret.

    Raises:
        ValueError: with a sentence that does not show it, if it is in no known store, names no
            object, or may hold a secret.
    """
    if store_of(text) is None:
        known = ", ".join(f"{scheme}://" for scheme in STORES)
        raise ValueError(
            f"is a URL; name a local file or a glob of local files, objects of a store ({known}),"
            f" or a table of a database, as in {EXAMPLE}, where the URL is in the environment"
            " variable."
        )
    bucket, _, key = text.partition("://")[2].partition("/")
    # privacy: a password stands before an @, a signature after a question mark.
    if ":" in bucket or set(text) & set("?#") or "::" in text:
        raise ValueError(
            "is a URL that may hold a secret (a colon, ? or # in it); name bucket and objects only,"
            " and leave credentials to the environment."
        )
    if not bucket or not key or key.endswith("/"):
        raise ValueError(
            "is a URL without an object; name a file or a glob, as in s3://bucket/waves/*.parquet."
        )
    return text


def require_files(place: DataPlace, what: str) -> str:
    """Return the pattern of the files.

    Raises:
        BadInput: if the data are a table, or in an object store.
    """
    if store_of(place) is not None:
        raise BadInput(f"{what} reads local files, and the data are in an object store; copy them.")
    if isinstance(place, DatabaseTable):
        raise BadInput(
            f"{what} reads files, and the data are the table {shown(place.written)} of a database;"
            " name a file with these data."
        )
    return place


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if set(part) & set('."') else part
