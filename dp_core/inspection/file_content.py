"""What a file contains that is not CSV despite its name, by its first bytes."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from dp_core.inspection.findings import Finding

_EXPORT = "Open it with its own program and save it as CSV, or name the right file."
_KINDS = (
    (b"PK\x03\x04", "an Excel workbook or another zip archive", _EXPORT),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook", _EXPORT),
    (b"\x1f\x8b", "compressed with gzip", "Rename it, so that its name ends in .csv.gz."),
    (b"PAR1", "a Parquet file", "Rename it, so that its name ends in .parquet."),
    (b"%PDF", "a PDF document", _EXPORT),
    (b"$FL2", "an SPSS file", _EXPORT),
    (b"<!doctype html", "a web page", "Download the file itself, perhaps after logging in."),
    (b"<html", "a web page", "Download the file itself, perhaps after logging in."),
    (b'[{"', "a JSON file", "Convert it to CSV or Parquet."),
    (b"{", "a JSON file", "Convert it to CSV or Parquet."),
)
LONGEST_PREAMBLE = 10
"""Largest number of lines above the header that is noticed."""


def other_content(path: Path) -> Finding | None:
    """Return the finding about a file that is not CSV despite its name; None for any other.

    Args:
        path: A file whose name ends in `.csv` or `.csv.gz`.
    """
    with path.open("rb") as file:
        start = file.read(64)
    if path.name.lower().endswith(".gz"):
        if start.startswith(b"\x1f\x8b"):
            return None
        return _finding("The file is not compressed, despite its name.", "Rename it to .csv.")
    folded = start.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for begin, what, fix in _KINDS:
        if start.startswith(begin) or folded.startswith(begin):
            return _finding(f"The file is {what}, despite its name.", fix)
    return None


def lines_above_header(text: str, names: Collection[str]) -> Finding | None:
    """Return the finding about a file with lines above its header; None for any other.

    Args:
        text: The start of the file.
        names: Names of the schema's columns.
    """
    for number, line in enumerate(text.splitlines()[: LONGEST_PREAMBLE + 1], start=1):
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            return None
        if 2 * len({cell.strip() for cell in cells} & set(names)) > len(names):
            if number == 1:
                return None
            return _finding(
                f"The column names are on line {number}, not on the first.",
                "Remove the lines above them.",
            )
    return None


def _finding(message: str, fix: str) -> Finding:
    return Finding("refusal", "header", "", message, fix)
