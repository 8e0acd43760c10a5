"""A run as Prefect's process has it: public values, and a client of the confidential process."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_core.client.curator import Curator
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.requests import FileFacts, Request
from dp_core.policies.stage_grant import StageGrant
from dp_core.schema.grid import Coarsening
from tasks.confidential.client import Client
from tasks.confidential.messages import Codes
from tasks.ledger.release_writer import ReleaseWriter
from tasks.run.release_run import Run


@dataclass(eq=False, repr=False)
class PublicRun(Run):
    """A run of Prefect's process. Public values only.

    Attributes:
        writer: Writes how the release begins and ends, and nothing about its data.
        confidential: Client of the process that may see the data.
    """

    writer: ReleaseWriter
    confidential: Client = field(kw_only=True)

    def curator(self, grant: StageGrant, codes: Codes = "final") -> Curator:
        """Return the curator, which asks the confidential process.

        Args:
            grant: The ledger's grant for the stage that asks.
            codes: The codes that the questions are about.
        """
        return Curator(KernelClient(self, grant.stage, codes))


@dataclass(frozen=True, slots=True)
class KernelClient:
    """The kernel, as a stage of Prefect's process asks it."""

    run: PublicRun
    stage: str
    codes: Codes

    @property
    def facts(self) -> FileFacts:
        schema, privacy = self.run.schema, self.run.spec.privacy
        domain = schema.stored.domain if self.codes == "stored" else schema.domain
        if self.codes == "coarse" and schema.coarse is not None:
            domain = Coarsening(schema).domain
        return FileFacts(domain, privacy.relation, self.run.reservation.currency)

    def answer(self, request: Request) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        return self.run.confidential.ask(self.run, self.stage, self.codes, request)

    def public_rows(self) -> int | None:
        return self.run.confidential.rows(self.run, self.stage, self.codes)
