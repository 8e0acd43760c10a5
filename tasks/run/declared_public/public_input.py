"""Checks that data declared public belong to no account of this home's ledger.

Files are recognised by their keyed hashes, also files that no release has opened yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source, keyed_digests
from dp_core.plan.data_location import DataPlace, store_of
from tasks.ledger.ledger import Ledger
from tasks.run.home import assert_not_lost, ledger_exists, open_ledger, recognising_key


def require_unknown(sources: Sequence[Source | LinkedSource], *, by: str, reason: str) -> None:
    """Record the declaration that data are public; refuse data that belong to an account.

    Without a ledger in this home nothing is recorded. The ledger recognises data by their bytes: a
    copy that differs in one byte is not recognised. Each file is looked up separately, and all
    files together. Linked tables are looked up together and each alone, and so are the waves of a
    panel.

    Args:
        sources: All data that are declared public.
        by: Person who declares them public.
        reason: Reason for the declaration.

    Raises:
        BadInput: if the data belong to an account; the ledger counts a refused attempt.
        BudgetRefused: if refused attempts have stopped an account; no data are compared.
        StageFailed: if an account takes no attempt until open ones are over, or if the ledger's
            inputs were sealed with another key than this home's, so that none would be recognised.
        LedgerCorrupt: if the home lost its ledger or its key.

    Privacy:
        Data that belong to an account are confidential, even if somebody declares them public. The
        answer is exact, so the declaration is recorded before the data are looked up.
    """
    assert_not_lost()
    if not ledger_exists():
        return  # do not create one
    ledger = open_ledger()
    key = recognising_key(ledger) if ledger.knows_inputs() else None
    ledger.declare_public(sum(len(source.files) for source in sources), by=by, reason=reason)
    if key is None:
        return
    # The files are read here, so that a large one does not hold the ledger's write lock.
    found = [keyed_digests(source, key) for source in sources]
    hashes = [each for data in found for each in (data.whole, *data.parts.values(), *data.small)]
    ledger.refuse_known(hashes, by=by, reason=reason)


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
