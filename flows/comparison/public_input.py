"""Check that the data of a comparison do not belong to an account of this home's ledger."""

from __future__ import annotations

from collections.abc import Iterator

from dp_core.confidential.source import Source, keyed_digest
from dp_core.errors import BadInput, StageFailed
from tasks.ledger.input_seals import is_sealed
from tasks.run.home import assert_not_lost, home, home_key, ledger_exists, open_ledger


def require_unknown(source: Source) -> None:
    """Refuse data that belong to an account of this home's ledger; nothing is written or charged.

    Data are recognised by their bytes. Each file is looked up separately and all files together,
    but a copy that differs in one byte is not recognised.

    Args:
        source: The data files.

    Raises:
        BadInput: if the data belong to an account.
        StageFailed: if the ledger's inputs were sealed with another key than this home's, so that
            none would be recognised.
        LedgerCorrupt: if the home lost its ledger or its key.

    Privacy:
        Data that belong to an account are confidential, even if somebody declares them public.
    """
    assert_not_lost()
    if not ledger_exists():
        return  # do not create one
    ledger = open_ledger()
    if not ledger.knows_inputs():
        return
    key = home_key(home(), ledger)
    sealed = ledger.entries(kinds=("input",))
    if not is_sealed(sealed[-1], key):
        # privacy: under another key the same data have another hash.
        raise StageFailed(
            "The inputs in this ledger were sealed with another key than this home's, so data it"
            " has seen would not be recognised; set DP_RELEASE_HOME to the home that made the"
            " ledger, or copy that home's input.key to this one.",
            row="input-key-other",
        )
    known = {entry.about: entry.receipt for entry in sealed}
    for part in _parts(source):
        receipt = known.get(keyed_digest(part, key))
        if receipt is not None:
            raise BadInput(
                f"The data of {', '.join(path.name for path in part.files)} belong to account"
                f" {receipt.account!r} (release {receipt.release!r}), so they are confidential"
                " and cannot be compared on. Make a release instead, or use a similar public file."
            )


def _parts(source: Source) -> Iterator[Source]:
    yield source
    if len(source.files) > 1:
        for path in source.files:
            yield Source((path,), source.kind, source.columns)
