"""One run of one release: its spec, its folder, its reservation, and what stages share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dp_core.errors import StageFailed
from dp_core.plan import Plan
from dp_core.spec import ReleaseSpec
from tasks.heads import note_head
from tasks.places import home_key, ledger_url
from tasks.stores.artifacts import RunFolder
from tasks.stores.hold import Hold
from tasks.stores.ledger import Ledger
from tasks.stores.reservations import Charge, Reservation
from tasks.stores.session import LedgerSession

if TYPE_CHECKING:
    from distributed import Client

    from dp_core.code_store import CodeStore
    from dp_core.curator import Curator
    from dp_core.source import Source
    from tasks.dask_counter import DaskCounter

Progress = Callable[[str, float], None]
"""Called with a stage's name and the part of it that is done, 0 to 1. Public values only."""

CONFIDENTIAL_STAGES = ("validate", "discretize", "count", "basics", "select", "measure", "check")
"""Stages that look at the data; the others could run on another machine."""


def silent(_stage: str, _done: float) -> None:
    """Show no progress."""


@dataclass(eq=False, repr=False)
class Run:
    """What the stages of one release share within one process.

    Attributes:
        plan: What is to be done and what it costs.
        spec_path: Where the spec was read from.
        out: Where the bundle goes.
        home: Folder of the ledger and of all runs.
        ledger: The central ledger.
        hold: What alone may write to it for this release.
        reservation: What this release may spend.
        keep_confidential: Whether codes and counts stay when the release is done.
        progress: Told how far a stage is.
        committed: Told of charges whose results are stored. Public values only.
        client: Of a running Dask cluster; None counts on threads of this process.
    """

    plan: Plan
    spec_path: Path
    out: Path
    home: Path
    ledger: Ledger
    hold: Hold
    reservation: Reservation
    keep_confidential: bool = False
    progress: Progress = field(default=silent)
    committed: Callable[[Sequence[Charge]], None] = field(default=lambda _charges: None)
    client: Client | None = None

    @property
    def spec(self) -> ReleaseSpec:
        """What was asked for."""
        return self.plan.spec

    @cached_property
    def folder(self) -> RunFolder:
        """Where the run keeps its files."""
        return RunFolder(self.home, self.spec.release, self.reservation.link)

    @cached_property
    def key(self) -> bytes:
        """The confidential key that identifies inputs."""
        return home_key(self.home, self.ledger)

    @cached_property
    def source(self) -> Source:
        """The confidential data, opened and checked: files, or the snapshot of a table."""
        from tasks.inputs import open_input

        return open_input(self.spec, self.spec.schema, self.folder.confidential, self.progress)

    @property
    def codes(self) -> Path:
        """Where the confidential code store is."""
        return self.folder.confidential / "codes"

    @cached_property
    def store(self) -> CodeStore:
        """The confidential file as codes."""
        from dp_core.code_store import CodeStore

        return CodeStore(self.codes, self.spec.schema.domain)

    @cached_property
    def counter(self) -> DaskCounter:
        """Exact counts of the confidential file; shared so that nothing is counted twice."""
        from tasks.dask_counter import DaskCounter

        return DaskCounter(self.store, self.spec.schema.domain, self.client)

    @cached_property
    def curator(self) -> Curator:
        """The wall."""
        from dp_core.curator import Curator

        session = LedgerSession(
            self.hold,
            self.reservation,
            self.spec.privacy.relation,
            self.folder.noisy,
            self.note_head,
            self._tell_committed,
        )
        return Curator(self.spec.schema.domain, self.counter, session)

    def _tell_committed(self, charges: Sequence[Charge]) -> None:
        self.committed(charges)

    def note_head(self) -> None:
        """Note in the home how far the ledger went."""
        note_head(self.home, self.ledger, ledger_url(self.home))

    def fact(self, stage: str, name: str) -> object:
        """Return a public fact that a finished stage left.

        Raises:
            StageFailed: if the stage is not finished.
        """
        left = self.folder.done(stage)
        if left is None or name not in left:
            raise StageFailed(
                f"Stage {stage!r} of release {self.spec.release!r} has not left its result;"
                f" `dp-release resume {self.spec.release}` does it again."
            )
        return left[name]
