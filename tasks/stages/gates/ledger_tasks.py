"""The ledger's tasks of a release: `reserve`, `grant` and `settle`."""

from __future__ import annotations

from typing import Protocol

from tasks.confidential.public_run import PublicRun
from tasks.ledger.stored_result import require_as_committed
from tasks.stages.gates.gate_task import gate
from tasks.stages.gates.publication_approval import require_approval, require_unchanged
from tasks.stages.stage_task import StageResult
from tasks.support.run_folder import RunFolder


class Opening(Protocol):
    """A release that is about to be opened."""

    @property
    def folder(self) -> RunFolder:
        """The release's folder, which may not exist yet."""

    def open(self) -> None:
        """Take the lease, reserve the cost, and open the run."""


@gate("reserve")
def reserve(opening: Opening) -> StageResult:
    """Reserve the whole cost of the release, or find the reservation of an earlier run."""
    opening.open()
    return StageResult("reserve", {})


@gate("grant", "grant {stage}")
def grant(run: PublicRun, stage: str, *after: object) -> StageResult:  # noqa: ARG001 (edges of the graph)
    """Check the lease, the reservation, the plan and what is left for a stage; see `StageGrant`."""
    given = run.confidential.grant(run, stage)
    run.granted(given)
    return StageResult(f"grant {stage}", {}, given)


@gate("settle")
def settle(run: PublicRun, *after: object) -> StageResult:  # noqa: ARG001 (edges of the graph)
    """Settle the release if it may be published; what was reserved and not charged is returned.

    A release that is settled already stays as it is.

    Raises:
        LedgerCorrupt: if a stored result is not the one that was committed.
        StageFailed: if files that awaited approval were changed.
    """
    if run.folder.facts_of("publish") is not None:
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
