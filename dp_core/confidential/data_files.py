"""Finds the data files by their names, without opening one. Confidential side.

It imports no library that reads data, so that a wrong path is reported at once.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Literal, TypeAlias

from dp_core.errors import BadInput
from dp_core.text.documents.other_formats import conversion
from dp_core.text.documents.similar_paths import similar_path

Kind: TypeAlias = Literal["csv", "parquet"]

SUFFIXES: dict[str, Kind] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def find_data_files(pattern: str, folder: Path) -> tuple[list[Path], Kind]:
    """Return the files of a path or glob, and their kind by name.

    Args:
        pattern: Path or glob, relative to `folder` unless absolute.
        folder: Folder of the spec file.

    Returns:
        The files, sorted by path, at least one, and the kind that all of them have.

    Raises:
        BadInput: if no file matches, a folder matches, the folder may not be searched, or the files
            are of unknown or of different kinds.

    Privacy:
        No file is opened, and no size is looked at. The answer depends on names only, which the
        release manager chose; so a release that it stops has not tried to use the data.
    """
    files = matching_files(pattern, folder)
    kinds = {kind_of(path) for path in files}
    if len(kinds) > 1:
        raise BadInput(
            f"The data pattern {pattern!r} matches CSV and Parquet files;"
            " name files of one kind only."
        )
    return files, kinds.pop()


def matching_files(
    pattern: str, folder: Path, relative_to: str = "the folder of the spec"
) -> list[Path]:
    """Return the files of a path or glob, sorted.

    Args:
        pattern: Path or glob, relative to `folder` unless absolute.
        folder: Folder of the spec file.
        relative_to: What `folder` is, for the message; by default the folder of the spec.

    Raises:
        BadInput: if no file matches, a folder matches, the folder may not be searched, or a name is
            not UTF-8.
    """
    exact = folder / pattern  # an absolute pattern replaces the folder
    try:
        if exact.exists():
            files = [exact]
        else:
            files = [Path(name) for name in sorted(glob.glob(str(exact), recursive=True))]
        folders = [path for path in files if path.is_dir()]
    except PermissionError:
        raise BadInput(
            f"This user may not search a folder of the data path {pattern!r}; change its"
            " permissions.",
            row="data-damaged",
        ) from None
    if not files:
        raise BadInput(
            f"No data file matches {pattern!r}; check the path, which is relative to"
            f" {relative_to}.{similar_path(exact)}",
            row="data-not-found",
        )
    for path in files:
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise BadInput(
                f"The name of the data file {path.name!a} is not UTF-8; rename the file."
            ) from None
    if folders:
        name = folders[0].name or str(folders[0])
        raise BadInput(
            f"The data path {name!r} is a folder; name a file, or a glob"
            f" such as {name + '/*.parquet'!r}."
        )
    return files


def kind_of(path: Path) -> Kind:
    """Return the kind of a file by its name; its content is checked when it is opened.

    Raises:
        BadInput: if the name ends in none of `SUFFIXES`.
    """
    for suffix, kind in SUFFIXES.items():
        if path.name.lower().endswith(suffix):
            return kind
    if advice := conversion(path.name):
        raise BadInput(f"The data file {path.name} {advice}")
    raise BadInput(
        f"The data file {path.name} is not of a known kind; its name must end in"
        f" {', '.join(SUFFIXES)}. Rename a text file with commas to .csv."
    )
