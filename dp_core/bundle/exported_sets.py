"""The sets of a release as CSV, Stata or SPSS files, made from its bundle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.bundle.best_set import BEST, set_in_words
from dp_core.bundle.files.codebook import set_paths
from dp_core.bundle.files.labelled_file import pyreadstat, write_labelled
from dp_core.bundle.reading import Bundle
from dp_core.bundle.writer import check_destination, hidden_folder
from dp_core.errors import BadInput, nearest
from dp_core.inference.combining_rules import NO_SETS
from dp_core.schema.definition import Column

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = {"csv": ".csv", "stata": ".dta", "spss": ".sav"}
"""Ending of the files of each format."""


def export_sets(bundle: Bundle, folder: Path, form: str) -> tuple[Path, ...]:
    """Write every set of a release to a new folder, and return the paths of the files.

    They are named as in the bundle, such as `set-1.dta`; of linked tables, a set is a folder with
    a file for each table.

    Args:
        bundle: The release.
        folder: A new or empty folder.
        form: Format of the files, `csv`, `stata` or `spss`.

    Raises:
        BadInput: if there is no such format, the release has no sets, the folder contains files or
            is in the release, or the package pyreadstat is needed and not installed.
        StageFailed: if a file cannot be written; nothing is left behind.
    """
    if form not in ENDINGS:
        raise BadInput(f"There is no format {form!r}.{nearest(form, ENDINGS)}")
    if not bundle.claims.sets:
        raise BadInput(NO_SETS)
    if form != "csv":
        pyreadstat()
    folder = folder.absolute()
    if bundle.folder and folder.resolve().is_relative_to(bundle.folder.resolve()):
        raise BadInput(
            f"{folder} is in the release, which would not verify; name a folder outside."
        )
    check_destination(folder)
    written = []
    with hidden_folder(folder) as partial:
        for name, about, table, columns in _tables(bundle):
            path = (partial / name).with_suffix(ENDINGS[form])
            path.parent.mkdir(exist_ok=True)
            if form == "csv":
                _write_csv(path, table)
            else:
                write_labelled(path, table, columns, about)
            written.append(folder / path.relative_to(partial))
    return tuple(written)


def _tables(bundle: Bundle) -> Iterator[tuple[Path, str, pa.Table, Mapping[str, Column]]]:
    """Yield each table of each set: its path, what it is, its rows, and its columns by name."""
    schema, release = bundle.claims.schema, bundle.claims.name
    columns = {column.name: column for column in schema.released}
    first = 1 if bundle.claims.best is None else BEST
    for number in range(first, bundle.claims.sets + 1):
        if schema.linked is None:
            tables = [bundle.read_set(number, schema.names)]
        else:
            found = bundle.read_tables(number)
            tables = [found.households, found.persons]
        about = f"Synthetic data, {set_in_words(number)}; release {release}"
        for path, table in zip(set_paths(schema, number), tables, strict=True):
            yield Path(path).relative_to("synthetic"), about, table, columns


def _write_csv(path: Path, table: pa.Table) -> None:
    import pyarrow as pa
    import pyarrow.csv

    texts = [
        each.with_type(pa.string()) if pa.types.is_dictionary(each.type) else each
        for each in table.schema
    ]
    pyarrow.csv.write_csv(table.cast(pa.schema(texts)), path)
