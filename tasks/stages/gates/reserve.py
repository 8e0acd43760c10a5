"""The ledger's task `reserve`: opens a run under its lease, and reserves its whole cost."""

from __future__ import annotations

from typing import Protocol

from tasks.stages.gates.gate_task import gate
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
