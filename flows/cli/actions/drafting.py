"""Drafting a schema for a file or a table; reads rows of a file only if it was declared public."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BadInput

if TYPE_CHECKING:
    from dp_core.schema.codebooks.codebook import Codebook


def draft(
    name: str | None,
    database: str | None = None,
    *,
    codebook: Path | None = None,
    public: tuple[str, str] | None = None,
) -> str:
    """Return the text of a draft.

    Args:
        name: Path of a data file or of a codebook, URL of an object, or name of a table; None if
            only a codebook is given.
        database: Environment variable with the URL of the table's database; defaults to None (a
            file).
        codebook: Path of a codebook, or with `public` of a public data file of the same form;
            defaults to None (column names only).
        public: Who declares the data public and why; levels and bounds are then taken from
            `codebook` if it is given, else from `name`. Defaults to None (no row is read).

    Raises:
        BadInput: if the file or table does not exist or cannot be read, or if data that were
            declared public belong to an account.
    """
    from dp_core.schema.codebooks.codebook_draft import draft_from_codebook
    from dp_core.schema.codebooks.codebook_file import looks_like_codebook, read_codebook
    from dp_core.schema.draft import draft_schema

    if database is not None:
        if public or codebook is not None or name is None:
            raise BadInput(
                "--database reads a table: give the table's name, and leave out --codebook and"
                " --public-data."
            )
        return _of_table(name, database)
    if name is None:
        if codebook is None:
            raise BadInput(
                "Give a data file, a codebook or both: dp-release schema draft FILE --codebook"
                " CODEBOOK."
            )
        found = _codebook(codebook, codebook if public is None else None, public)
        assert found is not None
        return draft_from_codebook(found)
    if "://" not in name and codebook is None and looks_like_codebook(Path(name)):
        if public:
            raise BadInput(
                f"{Path(name).name} is a codebook, but --public-data is for data files. Leave out"
                " --public-data."
            )
        return draft_from_codebook(read_codebook(Path(name)))
    with _local(name) as path:
        found = _codebook(path, codebook, public)
        try:
            return draft_schema(path, found)
        except BadInput as error:
            raise _other_kind(path) or error from None


def _other_kind(path: Path) -> BadInput | None:
    """Return the error that a file is of another kind than its name says; None if it is not."""
    from dp_core.confidential.data_files import kind_of
    from dp_core.inspection.file_content import start_of

    try:
        found = start_of(path, kind_of(path), ())
    except (BadInput, OSError):
        return None
    if isinstance(found, str) or found.kind == "empty":
        return None
    return BadInput(f"{path.name}: {found.message} {found.fix}", row="data-damaged")


def _codebook(path: Path, codebook: Path | None, public: tuple[str, str] | None) -> Codebook | None:
    from dp_core.schema.codebooks.codebook_file import looks_like_codebook, read_codebook

    if codebook is not None and public is None:
        if codebook.name.lower().endswith((".parquet", ".pq")):
            raise BadInput(
                f"{codebook.name} is a Parquet file, not a codebook. If it contains public data of"
                " the same form, add --public-data."
            )
        return read_codebook(codebook, "" if codebook == path else path.name)
    if public is None:
        return None
    from dp_core.inspection.given_data import file_data
    from dp_core.inspection.public_profile import public_codebook
    from dp_core.schema.draft import file_columns
    from tasks.run.declared_public.public_input import require_unknown

    other = path if codebook is None else codebook
    if looks_like_codebook(other):
        raise BadInput(
            f"{other.name} is a codebook, but --public-data is for data files. Leave out"
            " --public-data."
        )
    source = file_data([str(other)]).source(file_columns(other))
    require_unknown([source], by=public[0], reason=public[1])
    return public_codebook(source, other.name)


@contextmanager
def _local(name: str) -> Iterator[Path]:
    """Give the path of a file, or of a copy of the beginning of an object."""
    if "://" not in name:
        yield Path(name)
        return
    from tasks.inputs.object_source import beginning_of
    from tasks.run.home import home

    with beginning_of(name, home() / "draft") as copy:
        yield copy


def _of_table(name: str, database: str) -> str:
    from dp_core.plan.data_location import parse_table
    from dp_core.schema.draft import draft_table
    from tasks.inputs.database_source import table_types

    try:
        place = parse_table(database, name)
    except ValueError as error:
        raise BadInput(str(error)) from None
    return draft_table(place.written, table_types(place))
