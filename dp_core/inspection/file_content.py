"""What a file contains, by the first bytes of its unpacked content and not by its name."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from dp_core.confidential.data_files import Kind
from dp_core.confidential.source_files import damaged
from dp_core.inspection.findings import Example, Finding

START_BYTES = 1 << 20
"""Number of unpacked bytes by which a file is judged."""
LONGEST_PREAMBLE = 10
"""Largest number of lines above the header that is noticed."""
SAMPLE = 4096
"""Number of bytes by which an encoding is recognised."""
MOST_LAYERS = 3
"""Largest number of times that a file is unpacked."""
HALF, NEARLY_ALL = 0.5, 0.95
"""Shares of ordinary ASCII characters from which an encoding is taken for that of the file."""

_GZIP = b"\x1f\x8b"
_EXPORT = "Open it with its own program and save it as CSV, or name the right file."
_UNPACK = "Unpack it, or compress it with gzip as .csv.gz."
_DOWNLOAD = "Download the file itself, perhaps after logging in."
_R = "Save it in R as CSV: `write.csv(DATA, 'NEW.csv', row.names = FALSE)`."
_KINDS = (
    (0, b"PK\x03\x04", "an Excel workbook or another zip archive", _EXPORT),
    (0, b"\xd0\xcf\x11\xe0", "an old Excel workbook", _EXPORT),
    (0, b"PAR1", "a Parquet file", "Unpack it if it is packed, and let its name end in .parquet."),
    (0, b"ARROW1", "a Feather or Arrow file", "Convert it to CSV or Parquet."),
    (0, b"\xff\xff\xff\xff", "an Arrow stream", "Convert it to CSV or Parquet."),
    (4, b"1AY&SY", "compressed with bzip2", _UNPACK),
    (0, b"\xfd7zXZ\x00", "compressed with xz", _UNPACK),
    (0, b"(\xb5/\xfd", "compressed with zstd", _UNPACK),
    (0, b"\x04\x22M\x18", "compressed with lz4", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (0, b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"%PDF", "a PDF document", _EXPORT),
    (0, b"$FL2", "an SPSS file", _EXPORT),
    (0, b"$FL3", "an SPSS file", _EXPORT),
    (0, b"<stata_dta>", "a Stata file", _EXPORT),
    (12, b"\xc2\xea\x81\x60\xb3\x14\x11\xcf", "a SAS file", _EXPORT),
    (0, b"HEADER RECORD*******", "a SAS transport file", _EXPORT),
    (0, b"SQLite format 3\x00", "a SQLite database", _EXPORT),
    (0, b"\x89HDF", "an HDF5 file", _EXPORT),
    (0, b"RDX", "an R file", _R),
    (0, b"X\n\x00\x00\x00", "an R file", _R),
    (0, b"\x80\x02", "a Python pickle", _EXPORT),
    (0, b"\x80\x03", "a Python pickle", _EXPORT),
    (0, b"\x80\x04\x95", "a Python pickle", _EXPORT),
    (0, b"\x80\x05\x95", "a Python pickle", _EXPORT),
    (0, b"-----begin pgp", "encrypted or signed with PGP", "Decrypt it with `gpg`."),
    (0, b"age-encryption.org/", "encrypted with age", "Decrypt it with `age`."),
    (0, b"version https://git-lfs", "a pointer of Git LFS", "Get the file: `git lfs pull`."),
    (0, b"<!doctype html", "a web page", _DOWNLOAD),
    (0, b"<html", "a web page", _DOWNLOAD),
    (0, b"<?xml", "an XML file", _EXPORT),
    (0, b'[{"', "a JSON file", "Convert it to CSV or Parquet."),
    (0, b"{", "a JSON file", "Convert it to CSV or Parquet."),
)
"""Kinds of files: place of their first bytes, these bytes (of texts in
small letters), the words, the fix."""
_MARKS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"),
          (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))  # fmt: skip
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
"""Encodings without a mark that are tried on a text with bytes of value 0."""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
"""Characters that no text has. U+0085 ends a line in EBCDIC."""
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}


def start_of(path: Path, kind: Kind, names: Collection[str]) -> Finding | str:
    """Return the start of a CSV file as text, or the finding that a file is not of its kind.

    Later lines are read batch by batch, which names the first line that is not UTF-8.

    Args:
        path: The file.
        kind: Its kind by name.
        names: Names of the columns that the schema knows.

    Returns:
        The finding or the text; of a Parquet file an empty text.

    Raises:
        BadInput: if the file cannot be opened or unpacked.
    """
    start, layers = _unpacked_start(path)
    wanted = int(path.name.lower().endswith(".gz"))
    if not start:
        return Finding("refusal", "empty", "", "The file is empty.", "Name a file with rows.")
    if kind == "parquet" and not layers and start.startswith(b"PAR1"):
        return ""
    first, text = start.splitlines(keepends=True)[0], start.decode("utf-8-sig", errors="ignore")
    header = next(iter(text.splitlines()), "")
    named = not _CONTROL.search(header) and _cells(header, names)
    folded = start[:SAMPLE].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for place, begin, what, fix in () if named else _KINDS:
        if start.startswith(begin, place) or folded.startswith(begin, place):
            packed = ", compressed with gzip" if layers else ""
            return header_finding(f"The file is {what}{packed}, despite its name.", fix)
    if kind == "parquet":
        message = "The file is not a Parquet file despite its name."
        return header_finding(message, "Write it again, or rename it.")
    wide = start.startswith(tuple(mark for mark, _ in _MARKS)) or b"\x00" in first
    if encoding := wrong_encoding(start if wide else first):
        return encoding_finding(encoding)
    if _CONTROL.search(header) or (not named and _CONTROL.search(text)):
        message = "The file is not text, despite its name: it has control characters."
        return Finding("refusal", "encoding", "", message, _EXPORT)
    if encoding is not None:
        return encoding_finding(encoding)
    if layers > wanted:
        fix = "Unpack it once." if wanted else "Rename it, so that its name ends in .csv.gz."
        more = " more than once" if layers > 1 else ""
        return header_finding(f"The file is compressed with gzip{more}, despite its name.", fix)
    if layers < wanted:
        return header_finding("The file is not compressed, despite its name.", "Rename it to .csv.")
    return text


def _unpacked_start(path: Path) -> tuple[bytes, int]:
    """Return the start of a file's content, and how often the file is compressed with gzip."""
    layers = 0
    try:
        with path.open("rb") as file:
            stream: Any = file
            start = file.read(START_BYTES)
            while start.startswith(_GZIP) and layers < MOST_LAYERS:
                stream.seek(0)
                stream, layers = gzip.GzipFile(fileobj=stream, mode="rb"), layers + 1
                start = bytes(stream.read(START_BYTES))
    except (OSError, EOFError, zlib.error) as error:
        damaged(path, error)
    return start, layers


def wrong_encoding(raw: bytes) -> str | None:
    """Return the likely encoding of bytes that are not UTF-8; empty if unknown, None if they are.

    >>> wrong_encoding("Zürich".encode("cp1252")), wrong_encoding("Zürich".encode())
    ('windows-1252', None)
    >>> wrong_encoding("id,sex".encode("cp037")), wrong_encoding("a,b".encode("utf-16-be"))
    ('ibm037', 'utf-16be')
    """
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            return encoding
    for encoding in _WIDE if b"\x00" in raw else ():
        if _plain_share(raw, encoding) > HALF:
            return "".join(encoding.rsplit("-", 1))
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start >= len(raw) - 3 and error.reason == "unexpected end of data":
            return None  # the bytes were cut within a character
    else:
        return None
    if _plain_share(raw, "cp037") > NEARLY_ALL:
        return "ibm037"
    try:
        return "" if _CONTROL.search(raw.decode("cp1252")) else "windows-1252"
    except UnicodeDecodeError:
        return ""


def _plain_share(raw: bytes, encoding: str) -> float:
    """Return the share of ASCII characters that texts have; 0 if the bytes cannot be decoded."""
    try:
        text = raw[: min(len(raw), SAMPLE) // 4 * 4].decode(encoding)
    except UnicodeDecodeError:
        return 0.0
    plain = sum(char.isascii() and (char.isalnum() or char in " ,;.-_\"'\t\r\n") for char in text)
    return plain / len(text) if text else 0.0


def encoding_finding(encoding: str, *, line: int | None = None, text: str = "") -> Finding:
    """Return the finding about a file that is not UTF-8.

    Args:
        encoding: Its likely encoding, in the name that `iconv` has for it; empty if unknown.
        line: Line of the first bytes that are not UTF-8; None if unknown.
        text: That line, as the encoding reads it.
    """
    where = "" if line is None else f", first in line {line:,}"
    seems = f"it seems to be {encoding}" if encoding else "its encoding is unknown"
    fix = f": `iconv -f {encoding} -t utf-8 FILE > NEW.csv`" if encoding else ""
    return Finding(
        "refusal",
        "encoding",
        "",
        f"The file is not UTF-8 text{where}; {seems}.",
        f"Save it as UTF-8{fix}.",
        None,
        (Example(text),) if text else (),
    )


def header_elsewhere(text: str, names: Collection[str]) -> Finding | None:
    """Return the finding that the column names stand in another line, or under another separator.

    It is judged before quotation marks are: in a line with another separator these seem unclosed.

    Args:
        text: The start of the file.
        names: Names of the schema's columns.
    """
    lines = text.splitlines()[: LONGEST_PREAMBLE + 1]
    found = {(",", 1): 0}
    for mark in _SEPARATORS:
        for number, line in enumerate(lines, start=1):
            named = len(_cells(line, names, mark))
            if 2 * named > len(names) or (number == 1 and named > (mark == " ")):
                found[mark, number] = named
    mark, number = max(found, key=lambda one: found[one])  # the first of several
    words = _SEPARATORS[mark]
    above = f"The column names are on line {number}, not on the first."
    if mark == ",":
        return header_finding(above, "Remove the lines above them.") if number > 1 else None
    message, fix = f"The columns are separated by {words}, not by commas.", "Save the file with"
    fix += " commas, and numbers with decimal points."
    if number > 1:
        message, fix = f"{message} {above}", f"{fix} Remove the lines above the column names."
    return Finding("refusal", "separator", "", message, fix)


def _cells(line: str, names: Collection[str], mark: str = ",") -> set[str]:
    """Return the names of columns that a separator divides; a comma may be absent."""
    try:
        cells = next(csv.reader([line], delimiter=mark), [])
    except csv.Error:
        return set()
    return {cell.strip() for cell in cells} & {*names} if mark == "," or len(cells) > 1 else set()


def header_finding(message: str, fix: str, *examples: Example) -> Finding:
    """Return the finding that a file has no header by which its columns can be read."""
    return Finding("refusal", "header", "", message, fix, None, examples)
