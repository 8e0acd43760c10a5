"""Reads the public records that a spec names under `prior`.

A published release is public. A file is public only if a person says so, and the ledger refuses a
file that belongs to an account. The declaration is recorded before the file is looked up, as for a
comparison. `public_input` is imported only then: `plan` needs no database packages.
"""

from __future__ import annotations

from dp_core.errors import BadInput
from dp_core.methods.prior import PublicPrior
from dp_core.plan.reading.prior_reader import PriorSource
from dp_core.schema.definition import Schema


def find_prior(source: PriorSource, schema: Schema, *, look_up: bool) -> PublicPrior:
    """Return the public records of a source in the codes of a schema.

    Args:
        source: A bundle, or a file that a person declares public.
        schema: Schema of the release that uses them.
        look_up: Whether the declaration is recorded and the file looked up in the ledger: True for
            a run, False for a plan.

    Raises:
        BadInput: if the statement or a listed file of the bundle was changed, the file is not
            there or belongs to an account of this home's ledger, or fewer than two columns match
            the schema.
        BudgetRefused: if refused attempts have stopped an account.

    Privacy:
        A release is post-processing of its own noisy answers and of public records. Records that
        are not public would be released without noise, so a run looks the file up first. An
        unrecorded look-up would tell whether a file is a confidential one, so a plan asks the
        ledger nothing; whoever reads the plan has the file.
    """
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
        from tasks.run.declared_public.public_input import require_unknown

        require_unknown([file], by=source.by, reason=source.reason)
    return prior_of_file(source.path, schema, by=source.by, reason=source.reason)
