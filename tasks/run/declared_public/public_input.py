"""Check that data declared public, such as a `prior`, belong to no account of the ledger.

A published release is public. A file is public only if a person says so, and the ledger refuses a
file that belongs to an account. The declaration is recorded before the file is looked up, as for a
comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dp_core.confidential.linked.linked_source import LinkedSource
from dp_core.confidential.source import Source, keyed_digests
from dp_core.errors import BadInput
from dp_core.methods.prior import PublicPrior
from dp_core.plan.data_location import DataPlace, store_of
from dp_core.plan.reading.prior_reader import PriorSource
from dp_core.schema.definition import Schema
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


def planned_prior(source: PriorSource, schema: Schema) -> PublicPrior:
    """Return the public records of a source for a plan: nothing is recorded or looked up.

    Args:
        source: A bundle, or a file that a person declares public.
        schema: Schema of the release that would use them.

    Raises:
        BadInput: if the statement or a listed file of the bundle was changed, the file is not
            there, or fewer than two columns match the schema.

    Privacy:
        An unrecorded look-up would tell whether a file is a confidential one. So a plan asks the
        ledger nothing, and whoever reads the plan has the file. A run asks (`find_prior`).
    """
    return _prior(source, schema, look_up=False)


def find_prior(source: PriorSource, schema: Schema) -> PublicPrior:
    """Return the public records of a source in the codes of a schema.

    Args:
        source: A bundle, or a file that a person declares public.
        schema: Schema of the release that uses them.

    Raises:
        BadInput: if the statement or a listed file of the bundle was changed, the file belongs to
            an account of this home's ledger, or fewer than two columns match the schema.
        BudgetRefused: if refused attempts have stopped an account.

    Privacy:
        A release is post-processing of its own noisy answers and of public records. Records that
        are not public would be released without noise, so a file is looked up in the ledger first.
    """
    return _prior(source, schema, look_up=True)


def _prior(source: PriorSource, schema: Schema, *, look_up: bool) -> PublicPrior:
    # Here, because `plan` without a prior reads no file.
    from dp_core.confidential.data_files import kind_of
    from dp_core.confidential.source import Source
    from dp_core.priors.prior_records import prior_of_file, prior_of_release

    if source.by is None or source.reason is None:
        return prior_of_release(source.path, schema)
    if not source.path.is_file():
        raise BadInput(f"there is no file {source.path}; name a CSV or Parquet file.")
    # privacy: before a row is parsed, so that nothing depends on the content of a known file.
    file = Source((source.path,), kind_of(source.path), ())
    if look_up:
        require_unknown([file], by=source.by, reason=source.reason)
    return prior_of_file(source.path, schema, by=source.by, reason=source.reason)
