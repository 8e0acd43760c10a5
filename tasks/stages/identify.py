"""The stage `identify`: binds a release to its input, so that no other file can be measured."""

from __future__ import annotations

from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("identify")
def identify(run: ConfidentialRun) -> None:
    """Bind the reservation to the keyed hash of the input, or refuse another input.

    Linked tables are bound together and each by itself: one of them alone, or with another second
    table, belongs to the same account.

    Privacy:
        The keyed hashes are stored in the ledger's sealed table and in the confidential folder
        only.

    Raises:
        BadInput: if the release is bound to another input.
    """
    from dp_core.confidential.linked.linked_source import LinkedSource
    from dp_core.confidential.source import keyed_digest

    source, linked, tables = run.opened, run.schema.linked, {}
    digest = keyed_digest(source, run.key)
    if isinstance(source, LinkedSource) and linked is not None:
        tables[linked.households] = keyed_digest(source.households, run.key)
        tables[linked.persons] = keyed_digest(source.persons, run.key)
    run.writer.bind_input(run.reservation, digest, run.key, tables)
    run.folder.belong_to(digest)
