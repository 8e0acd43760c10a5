"""The ledger's task `settle`: ends the reservation, or lets the release wait for a person."""

from __future__ import annotations

from tasks.ledger.stored_result import require_as_committed
from tasks.run.release_run import Run
from tasks.stages.gates.gate_task import gate
from tasks.stages.gates.publication_approval import require_approval, require_unchanged
from tasks.stages.stage_task import StageResult


@gate("settle")
def settle(run: Run, *after: object) -> StageResult:  # noqa: ARG001 (edges of the graph)
    """Settle the release if it may be published; what was reserved and not charged is returned.

    A release that is settled already stays as it is.

    Raises:
        LedgerCorrupt: if a stored result is not the one that was committed.
        StageFailed: if files that awaited approval were changed.
    """
    if run.folder.done("publish") is not None:
        return StageResult("settle", {})
    if run.writer.gate(run.reservation).held is None:
        require_approval(run)
    else:
        # privacy: a person may have looked at the sets, so they are published unchanged or not at
        # all. They are not checked after publication, because then they are being deleted.
        require_unchanged(run)
    settled = run.ledger.reservation(run.spec.release)
    assert settled is not None
    charges = run.ledger.charges(settled)
    require_as_committed(run.folder.noisy, settled, charges)
    if settled.outcome is None:
        run.writer.settle(settled, "finished")
    run.settled(charges)
    return StageResult("settle", {})
