"""Whether data may be compared on: not where this home's ledger knows them from an account."""

from __future__ import annotations

from collections.abc import Iterator

from dp_core.confidential.source import Source, keyed_digest
from dp_core.errors import BadInput, StageFailed
from tasks.ledger.input_seals import is_sealed
from tasks.run.home import assert_not_lost, home, home_key, ledger_exists, open_ledger


def require_unknown(source: Source) -> None:
    """Refuse data that belong to an account of this home's ledger; nothing is written or charged.

    Known is what a release was bound to: the same bytes. Each file is looked up by itself as well
    as all of them together, but a copy with another byte is another input.

    Args:
        source: The data files.

    Raises:
        BadInput: if the data are known from an account.
        StageFailed: if the ledger's inputs are sealed under another key than this home's, so that
            none would be recognised.
        LedgerCorrupt: if the home lost its ledger or its key.

    Privacy:
        What belongs to an account is confidential, whoever declares it public.
    """
    assert_not_lost()
    if not ledger_exists():
        return  # looking makes none
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
                f" {receipt.account!r} (release {receipt.release!r}), so they are confidential and"
                " are not compared on; make a release instead, or compare on a public file like it."
            )


def _parts(source: Source) -> Iterator[Source]:
    yield source
    if len(source.files) > 1:
        for path in source.files:
            yield Source((path,), source.kind, source.columns)
