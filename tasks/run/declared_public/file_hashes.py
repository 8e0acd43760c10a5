"""The keyed hashes of files that no release has opened yet."""

from __future__ import annotations

from pathlib import Path

from dp_core.plan.data_location import DataPlace, store_of
from tasks.ledger.ledger import Ledger
from tasks.run.home import recognising_key


def file_hashes(place: DataPlace, folder: Path, ledger: Ledger) -> tuple[str, ...]:
    """Return the keyed hashes by which a ledger would recognise files, and each of them.

    The bytes are read, and no value. A table of a database and objects of a store have no hash
    before a release has copied them, so the result is empty for them.

    Args:
        place: Where the data are, as a spec states it.
        folder: Folder that the paths are relative to.
        ledger: The ledger of this home.

    Raises:
        BadInput: if no file matches, or files are of unknown or different kinds.
        StageFailed: if the ledger's inputs are sealed with another key than this home's.
    """
    from dp_core.confidential.data_files import find_data_files
    from dp_core.confidential.source import Source, keyed_digests

    if not isinstance(place, str) or store_of(place) is not None:
        return ()
    found = keyed_digests(Source(*find_data_files(place, folder), ()), recognising_key(ledger))
    return (found.whole, *found.parts.values())
