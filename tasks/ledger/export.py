"""Export of a ledger to a file that an auditor can check without the database.

The file has one JSON object per line. The first line states the format, the number of entries and
the link of the last one, so that a truncated file is detected. The file is for staff and auditors:
it holds times of day, repeated draws, attempts on the data and the keyed hashes of inputs, which
must not be published.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dp_core.accounts.ledger_version import not_known, version_of
from dp_core.accounts.plain_entries import plain_entry, read_entry
from dp_core.errors import BadInput, LedgerCorrupt
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.entries import Entry

FORMAT_NAME = "dp-release ledger"
_LONGEST_LINE = 1 << 26


def write_export(path: Path, entries: Iterable[Entry], *, count: int, head: str) -> None:
    """Write entries to a new file, mode 0600.

    Args:
        path: File to write; it must not exist.
        entries: All entries, in order; any after the first `count` are left out.
        count: Number of entries to write.
        head: Link of the last one of these.

    Raises:
        BadInput: if the file exists or cannot be written.
        LedgerCorrupt: if the first entry is missing or is not that of a ledger.
    """
    try:
        with path.open("xb") as file:
            try:
                path.chmod(0o600)
                rest = iter(entries)
                first, version = _first(rest)
                header = {
                    "format": FORMAT_NAME,
                    "version": version,
                    "entries": count,
                    "head": head,
                }
                file.write(canonical_json(header) + b"\n")
                for entry in itertools.chain([first], rest):
                    if entry.position > count:
                        break
                    file.write(canonical_json(plain_entry(entry)) + b"\n")
                file.flush()
            except BaseException:
                path.unlink()  # a partial export would look like a ledger with missing entries
                raise
    except FileExistsError:
        raise BadInput(f"The file {path} exists already; choose a new name.") from None
    except OSError as error:
        raise BadInput(f"The export {path} could not be written ({error.strerror}).") from None


def _first(entries: Iterator[Entry]) -> tuple[Entry, int]:
    """Return the first entry and the ledger's format version."""
    try:
        first = next(entries)
        return first, version_of(first.receipt)
    except (StopIteration, ValueError):
        raise LedgerCorrupt("Entry 1 of the ledger is missing or was changed.") from None


def read_export(path: Path) -> Iterator[tuple[Entry, None]]:
    """Yield the entries of an export in order, in the form that `audit` takes.

    Raises:
        BadInput: if the file cannot be read, is not an export, or has an unknown format version.
        LedgerCorrupt: if a line is not an entry, or lines are missing or added; it names the first.
    """
    try:
        with path.open("rb") as file:
            header = _header(path, file.readline(_LONGEST_LINE))
            position, link = 0, ""
            for position, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
                entry = _entry(position, line)
                if position == 1 and entry.body.get("version") != header["version"]:
                    raise LedgerCorrupt("The first line of the export was changed.")
                link = entry.link
                yield entry, None
    except OSError as error:
        raise BadInput(f"The export {path} cannot be read ({error.strerror}).") from None
    if position < header["entries"]:
        raise LedgerCorrupt(f"Entry {position + 1} of the export is missing.")
    if position > header["entries"]:
        raise LedgerCorrupt(
            f"The export has an entry {header['entries'] + 1}, but its first line states"
            f" {header['entries']} entries."
        )
    if link != header["head"]:
        raise LedgerCorrupt(
            f"Entry {position}, the last one of the export, differs from the one in its first line."
        )


def _header(path: Path, line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
        if header["format"] != FORMAT_NAME:
            raise ValueError
        version = header["version"]
        if not isinstance(version, int) or isinstance(version, bool):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadInput(
            f"{path} is not an export of a ledger; `dp-release ledger export FILE` makes one."
        ) from None
    unknown = not_known(version)
    if unknown is not None:
        raise BadInput(f"The export {path} {unknown}.", row="newer-ledger")
    whole = {"format": str, "version": int, "entries": int, "head": str}
    if {name: type(value) for name, value in header.items()} != whole or (
        canonical_json(header) + b"\n" != line
    ):
        raise LedgerCorrupt("The first line of the export was changed.")
    return dict(header)


def _entry(position: int, line: bytes) -> Entry:
    try:
        values = json.loads(line)
        entry = read_entry(values)
        if canonical_json(plain_entry(entry)) + b"\n" != line:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise LedgerCorrupt(f"Entry {position} of the export was changed.") from None
    return entry
