"""Ties a release to its input, so that nothing later can be measured on another file."""

from __future__ import annotations

from tasks.run.confidential_run import ConfidentialRun
from tasks.stages.stage_task import stage


@stage("identify")
def identify(run: ConfidentialRun) -> None:
    """Bind the reservation to the keyed hash of the input, or refuse another input.

    Privacy:
        The hash is keyed; it goes to the ledger's sealed table and to the confidential folder.
    """
    from dp_core.confidential.source import keyed_digest

    digest = keyed_digest(run.source, run.key)
    run.writer.bind_input(run.reservation, digest, run.key)
    # A ledger that is restored from a copy of before would bind another input.
    run.note_anchor()
    run.folder.belong_to(digest)
