"""One run of one release: its spec, its folder, its reservation, and what stages share.

A `Run` has no handle to the confidential data. The stages that look at the data take a
`ConfidentialRun` (`tasks.run.confidential_run`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import StageFailed
from dp_core.spec.plan import Plan
from dp_core.spec.release_spec import ReleaseSpec
from tasks.ledger.ledger import Ledger
from tasks.ledger.ledger_anchor import note_anchor
from tasks.ledger.release_writer import ReleaseWriter
from tasks.ledger.reservations import Charge, Reservation
from tasks.run.home import ledger_url
from tasks.support.run_folder import RunFolder

if TYPE_CHECKING:
    from distributed import Client

    from dp_core.schema.definition import Schema

Progress = Callable[[str, float], None]
"""Called with a stage's name and the part of it that is done, 0 to 1. Public values only."""

CONFIDENTIAL_STAGES = (
    *("validate", "discretize", "domain", "count", "basics", "select", "measure", "check"),
)
"""Stages that look at the data; the others could run on another machine."""


def silent(_stage: str, _done: float) -> None:
    """Show no progress."""


@dataclass(eq=False, repr=False)
class Run:
    """What all stages of one release share within one process. Public values only.

    Attributes:
        planned: What is to be done and what it costs.
        spec_path: Where the spec was read from.
        out: Where the bundle goes.
        home: Folder of the ledger and of all runs.
        ledger: The central ledger.
        writer: Writes to the ledger for this release, under its lease.
        reservation: What this release may spend.
        keep_confidential: Whether codes and counts stay when the release is done.
        progress: Told how far a stage is.
        committed: Told of charges whose results are stored. Public values only.
        client: Of a running Dask cluster; None counts on threads of this process.
    """

    planned: Plan
    spec_path: Path
    out: Path
    home: Path
    ledger: Ledger
    writer: ReleaseWriter
    reservation: Reservation
    keep_confidential: bool = False
    progress: Progress = field(default=silent)
    committed: Callable[[Sequence[Charge]], None] = field(default=lambda _charges: None)
    client: Client | None = None

    _resolved: Plan | None = field(default=None, init=False)

    @property
    def plan(self) -> Plan:
        """What is to be done, from the stage `domain` on with the bins and levels it chose."""
        if not self.planned.spec.schema.private:
            return self.planned
        if self._resolved is None:
            from dp_core.spec.chosen_domain import read_statement, resolved_plan

            left = self.folder.done("domain")
            if left is None:
                return self.planned
            self._resolved = resolved_plan(self.planned, read_statement(left["choices"]))
        return self._resolved

    @property
    def spec(self) -> ReleaseSpec:
        """What was asked for; its schema is the one to use, as of `plan`."""
        return self.plan.spec

    @property
    def schema(self) -> Schema:
        """The schema by whose codes, bins and labels everything after the stage `domain` is."""
        return self.spec.schema

    @cached_property
    def folder(self) -> RunFolder:
        """Where the run keeps its files."""
        return RunFolder(self.home, self.planned.spec.release, self.reservation.link)

    def has(self, stage: str) -> bool:
        """Return whether the release has a stage of that name: `domain` is for private choices."""
        return stage != "domain" or bool(self.planned.spec.schema.private)

    def note_anchor(self) -> None:
        """Note in the home how far the ledger went."""
        note_anchor(self.home, self.ledger, ledger_url(self.home))

    def fact(self, stage: str, name: str) -> object:
        """Return a public fact that a finished stage left.

        Raises:
            StageFailed: if the stage is not finished.
        """
        left = self.folder.done(stage)
        if left is None or name not in left:
            raise StageFailed(
                f"Stage {stage!r} of release {self.spec.release!r} has not left its result;"
                f" `dp-release resume {self.spec.release}` does it again.",
                row="result-of-stage-gone",
            )
        return left[name]
