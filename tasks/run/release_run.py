"""One run of one release: its plan, its folder, its reservation, and what its stages share.

A `Run` has no handle to the confidential data. Stages that ask the process which has them take a
`PublicRun`; that process has a run of its own, `ConfidentialRun` (`tasks.confidential`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import BadInput, StageFailed
from dp_core.plan.plan import Plan
from dp_core.plan.release_spec import ReleaseSpec
from tasks.ledger.ledger import Ledger
from tasks.ledger.release_writer import LeasedWriter
from tasks.ledger.reservations import Charge, Reservation
from tasks.run.stage_table import stages_of
from tasks.support.run_folder import RunFolder

if TYPE_CHECKING:
    from dp_core.policies.stage_grant import StageGrant
    from dp_core.schema.definition import Schema

Progress = Callable[[str, float], None]
"""Called with a stage's name and the part of it that is done, 0 to 1. Public values only."""


_MOST_TOLD = 0.99  # progress of a stage that has not ended


def silent(_stage: str, _done: float) -> None:
    """Show no progress."""


@dataclass(eq=False, repr=False)
class Run:
    """What all stages of one release share within one process. Public values only.

    Attributes:
        planned: Plan of the spec, before private bins and levels are chosen.
        spec_path: Path of the spec.
        out: Folder of the bundle.
        home: Folder of the ledger and of all runs.
        ledger: Ledger of the home.
        writer: Writes this process's entries of the release in the ledger, under its lease.
        reservation: Reservation of the release.
        keep_confidential: Whether the confidential folder (codes, and rows copied from a database
            or panel) is kept when the release is finished; False by default.
        progress: Called with a stage's name and the part of it that is done; does nothing by
            default.
        committed: Called with charges whose results are stored; does nothing by default.
        granted: Called with each grant of the ledger; does nothing by default.
        settled: Called with all charges when the release is settled; does nothing by default.
    """

    planned: Plan
    spec_path: Path
    out: Path
    home: Path
    ledger: Ledger
    writer: LeasedWriter
    reservation: Reservation
    keep_confidential: bool = False
    progress: Progress = field(default=silent)
    committed: Callable[[Sequence[Charge]], None] = field(default=lambda _charges: None)
    granted: Callable[[StageGrant], None] = field(default=lambda _grant: None)
    settled: Callable[[Sequence[Charge]], None] = field(default=lambda _charges: None)

    _selecting: int = field(default=0, init=False)
    _resolved: Plan | None = field(default=None, init=False)
    _fitted: Plan | None = field(default=None, init=False)

    @property
    def plan(self) -> Plan:
        """The plan; after `domain` it has the chosen bins and levels, after `measure` densities."""
        if self._fitted is None:
            chosen = self._chosen_plan
            if self.folder.facts_of(self.measured_in("measure")) is None:
                return chosen
            from dp_core.bundle.files.codebook import MARGINALS
            from dp_core.bundle.files.marginals_file import read_marginals
            from dp_core.plan.chosen_domain import with_fitted_densities

            # Computed from the noisy tables, so it needs no trust in another file.
            try:
                measured = read_marginals(self.folder.public / MARGINALS)
            except (OSError, BadInput):
                # A lost file is written again by its stage; what needs it reports the loss.
                return chosen
            self._fitted = with_fitted_densities(chosen, measured)
        return self._fitted

    @property
    def _chosen_plan(self) -> Plan:
        """The plan; after the stage `domain` it has the chosen bins and levels."""
        if not self.planned.spec.schema.private:
            return self.planned
        if self._resolved is None:
            from dp_core.plan.chosen_domain import read_statement, resolved_plan

            left = self.folder.facts_of(self.measured_in("domain"))
            if left is None:
                return self.planned
            self._resolved = resolved_plan(self.planned, read_statement(left["choices"]))
        return self._resolved

    @property
    def spec(self) -> ReleaseSpec:
        """The spec in `plan`, whose schema has the bins, levels and densities of that moment."""
        return self.plan.spec

    @property
    def schema(self) -> Schema:
        """The schema in `spec`; codes are final after `domain`, densities after `measure`."""
        return self.spec.schema

    @cached_property
    def folder(self) -> RunFolder:
        """The folder of the run's files."""
        return RunFolder(self.home, self.planned.spec.release, self.reservation.link)

    def tell_committed(self, charges: Sequence[Charge]) -> None:
        """Report charges whose results are stored; the number of charges is public."""
        self.committed(charges)
        selecting = sum(charge.stage == "select" for charge in charges)
        expected = self.spec.selector.choices(self.schema.domain)
        if selecting and expected:
            self._selecting += selecting
            self.progress("select", min(self._selecting / expected, _MOST_TOLD))

    @property
    def reuses(self) -> bool:
        """Whether the release uses the tables of an earlier one, and so opens no data."""
        return self.planned.spec.measurements is not None

    def measured_in(self, stage: str) -> str:
        """Return the stage that stores the facts of a measuring stage: itself, or `reuse`."""
        return "reuse" if self.reuses else stage

    def has(self, stage: str) -> bool:
        """Return whether the release has a stage (`tasks.run.stage_table`)."""
        return stage in stages_of(self.planned.costs, self.planned.spec.sets, reuses=self.reuses)

    def fact(self, stage: str, name: str) -> object:
        """Return a public fact that a finished stage stored.

        Args:
            stage: Name of the stage.
            name: Name of the fact.

        Raises:
            StageFailed: if the stage is not done, or did not store the fact.
        """
        left = self.folder.facts_of(stage)
        if left is None or name not in left:
            raise StageFailed(
                f"The result of stage {stage!r} of release {self.spec.release!r} is missing;"
                f" `dp-release resume {self.spec.release}` runs the stage again.",
                row="result-of-stage-gone",
            )
        return left[name]
