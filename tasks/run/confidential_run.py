"""A run with its handles to the confidential data: source, code store, counter and curator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.ledger.ledger_session import LedgerSession
from tasks.ledger.reservations import Charge
from tasks.run.home import home_key
from tasks.run.release_run import Run

if TYPE_CHECKING:
    from dp_core.confidential.code_store import CodeStore
    from dp_core.confidential.source import Source
    from dp_core.schema.definition import Schema
    from dp_core.wall.curator import Curator
    from tasks.counting.dask_counter import DaskCounter


@dataclass(eq=False, repr=False)
class ConfidentialRun(Run):
    """What the stages share that look at the data. Confidential."""

    @cached_property
    def key(self) -> bytes:
        """The confidential key that identifies inputs."""
        return home_key(self.home, self.ledger)

    @cached_property
    def source(self) -> Source:
        """The confidential data, opened and checked: files, or the snapshot of a table."""
        from tasks.inputs.open_input import open_input

        return open_input(self.spec, self.schema, self.folder.confidential, self.progress)

    @property
    def codes(self) -> Path:
        """Where the confidential code store is."""
        return self.folder.confidential / "codes"

    @property
    def stored(self) -> CodeStore:
        """The confidential file as it is stored: before bins and levels are chosen privately."""
        from dp_core.confidential.code_store import CodeStore

        return CodeStore(self.codes, self.schema.stored.domain)

    @cached_property
    def store(self) -> CodeStore:
        """The confidential file as codes of `schema`; not to be asked before the stage `domain`."""
        if not self.schema.private:
            return self.stored
        from dp_core.confidential.code_store import RecodedStore
        from dp_core.spec.chosen_domain import recoding

        return RecodedStore(self.stored, recoding(self.schema))

    @cached_property
    def counter(self) -> DaskCounter:
        """Exact counts of the confidential file; shared so that nothing is counted twice."""
        from tasks.counting.dask_counter import DaskCounter

        return DaskCounter(self.store, self.schema.domain, self.client)

    @cached_property
    def session(self) -> LedgerSession:
        """What pays for everything that is asked of the data."""
        return LedgerSession(
            self.writer,
            self.reservation,
            self.spec.privacy.relation,
            self.folder.noisy,
            self.note_anchor,
            self._tell_committed,
        )

    @cached_property
    def curator(self) -> Curator:
        """The wall."""
        return self._curator(self.counter, self.schema)

    def domain_curator(self) -> Curator:
        """Return the wall for the stage `domain`, which asks about the file as it is stored."""
        from tasks.counting.dask_counter import DaskCounter

        stored = self.schema.stored
        return self._curator(DaskCounter(self.stored, stored.domain, self.client), stored)

    def _curator(self, counter: DaskCounter, schema: Schema) -> Curator:
        from dp_core.wall.curator import Curator

        return Curator(schema.domain, counter, self.session)

    def _tell_committed(self, charges: Sequence[Charge]) -> None:
        self.committed(charges)
