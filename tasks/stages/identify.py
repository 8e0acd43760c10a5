"""The stage `identify`: binds a release to its input, so that no other file can be measured."""

from __future__ import annotations

from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("identify")
def identify(run: ConfidentialRun) -> None:
    """Bind the reservation to the keyed hash of the input, or refuse another input.

    Privacy:
        The keyed hash is stored in the ledger's sealed table and in the confidential folder only.

    Raises:
        BadInput: if the release is bound to another input.
    """
    from dp_core.confidential.source import keyed_digest

    digest = keyed_digest(run.opened, run.key)
    run.writer.bind_input(run.reservation, digest, run.key)
    run.folder.belong_to(digest)
