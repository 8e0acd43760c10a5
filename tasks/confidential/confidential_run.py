"""A run with its handles to the confidential data: source, code store, counter and kernel."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dp_core.errors import StageFailed
from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.counting.stored_rows import unusable
from dp_core.kernel.document import check_document, document_hash
from dp_core.kernel.privacy import Relation, relation_of
from dp_core.plan.compiled_plan import compiled_document
from dp_core.schema.grid import Coarsening
from tasks.confidential.messages import Codes
from tasks.ledger.charging.charging_writer import ChargingWriter
from tasks.ledger.charging.ledger_session import LedgerSession
from tasks.run.home import home_key
from tasks.run.release_run import Run
from tasks.support.run_folder import write_atomically

if TYPE_CHECKING:
    from distributed import Client

    from dp_core.confidential.code_store import CodeStore
    from dp_core.confidential.linked.linked_source import LinkedSource
    from dp_core.confidential.source import Source
    from dp_core.kernel.counting.marginal import Counter
    from dp_core.kernel.counting.stored_rows import StoredRows
    from dp_core.kernel.kernel import Kernel
    from dp_core.policies.stage_grant import StageGrant
    from dp_core.schema.rules.file_rules import FileRules
    from tasks.counting.dask_counter import DaskCounter

_SEAL = "seal"


@dataclass(eq=False, repr=False)
class ConfidentialRun(Run):
    """A run with the handles that the stages on the confidential side share. Confidential.

    Attributes:
        writer: Writes what the release does with its data.
        client: Client of the Dask cluster that counts; None (the default) uses threads.
    """

    writer: ChargingWriter
    client: Client | None = None

    @cached_property
    def key(self) -> bytes:
        """The confidential key that identifies inputs."""
        return home_key(self.home, self.ledger)

    @cached_property
    def relation(self) -> Relation:
        """The relation of every sensitivity, by the kernel's document."""
        return relation_of(self.document["neighbours"], self.rules.unit)

    @cached_property
    def rules(self) -> FileRules:
        """The rules by which the file is coded and units are limited, by the kernel's document."""
        from dp_core.schema.rules.file_rules import FileRules

        return FileRules(self.document)

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The kernel's document, which is the one that the ledger reserved.

        Whatever reads the data, or counts them, takes its rules from here.

        Raises:
            BadInput: if the document contradicts itself.
            StageFailed: if schema and plan do not give the document that was reserved, or it
                protects another unit than the spec.
        """
        document = compiled_document(self.plan)
        unit = check_document(document)
        reserved = document_hash(document) == self.reservation.document
        if not reserved or unit != self.spec.privacy.protects:
            raise StageFailed(
                "Schema and plan give the kernel another document than the ledger reserved; resume"
                " with the version of dp-release that began the release, or abandon it and choose"
                " a new name.",
                row="plan-changed",
            )
        return document

    @property
    def source(self) -> Source:
        """The confidential data of a single table; see `opened`."""
        assert self.rules.linked is None
        return cast("Source", self.opened)

    @cached_property
    def opened(self) -> Source | LinkedSource:
        """The confidential data, opened and checked: files or snapshots, of one table or of two.

        Privacy:
            Whether the data can be opened is an answer about them, so the attempt is recorded, and
            the ledger's head noted, before: an older copy of the ledger would not count it.
        """
        from tasks.inputs.open_input import open_input

        rules = self.rules
        self.writer.examine(self.reservation)
        found = open_input(self.spec, self.schema, self.folder.confidential, self.progress, rules)
        # privacy: a record of a panel is made of the rows of one person, as the document says.
        if getattr(found, "document", rules.hash) != rules.hash:
            raise StageFailed(
                "The records of the panel were made by other rules than the ledger reserved;"
                " resume with the version of dp-release that began the release.",
                row="plan-changed",
            )
        return found

    @property
    def codes(self) -> Path:
        """Folder of the confidential code store."""
        return self.folder.confidential / "codes"

    @property
    def stored(self) -> CodeStore:
        """The code store as written, by the rules of the reserved document."""
        from dp_core.confidential.code_store import CodeStore

        return CodeStore(self.codes, self.rules.domain, self.rules.hash)

    @cached_property
    def stored_rows(self) -> StoredRows:
        """The rows of the code store, after the kernel has weighed every unit in them.

        Raises:
            StageFailed: if the store is unusable, or a unit has another weight than the document
                states.
        """
        from dp_core.kernel.counting.stored_rows import checked_rows

        self.require_own_codes()
        return checked_rows(self.stored.folder, self.document)

    def seal_codes(self) -> None:
        """Note of which input, and by which rules, the code store was made."""
        write_atomically(self.codes / _SEAL, self._seal())

    def require_own_codes(self) -> None:
        """Raise StageFailed unless the code store was made of this input by these rules.

        Privacy:
            Without this, codes that were copied from another run's folder, or restored with a part
            of a backup, would be counted on this account.
        """
        try:
            mine = hmac.compare_digest((self.codes / _SEAL).read_bytes(), self._seal())
        except OSError:
            mine = False
        if not mine:
            raise unusable("was not made of this release's input")

    def _seal(self) -> bytes:
        bound = (self.folder.confidential / "input").read_text()
        made_of = canonical_json([self.reservation.link, bound, self.rules.hash])
        return hmac.digest(self.key, made_of, "sha256")

    @cached_property
    def store(self) -> CodeStore:
        """The file as codes of `schema`; with private bins or levels only after stage `domain`."""
        if not self.schema.recoded:
            return self.stored
        from dp_core.confidential.code_store import RecodedStore
        from dp_core.plan.chosen_domain import recoding

        return RecodedStore(self.stored, recoding(self.schema))

    @cached_property
    def row_counter(self) -> DaskCounter:
        """Counter of the stored rows: of records, or of the pair rows of linked tables."""
        from tasks.counting.dask_counter import DaskCounter

        return DaskCounter(self.store, self.schema.domain, self.client)

    @cached_property
    def counter(self) -> Counter:
        """Counter of the confidential file; all stages share it, so no table is counted twice.

        Privacy:
            That of linked tables counts in shares, of which every household has equally many.
        """
        if self.rules.linked is None:
            return self.row_counter
        from dp_core.kernel.counting.household_counter import HouseholdCounter

        return HouseholdCounter(self.row_counter, self.rules.linked)

    def kernel(self, grant: StageGrant, codes: Codes) -> Kernel:
        """Return the kernel about one kind of codes; it charges under a stage's grant.

        Args:
            grant: The ledger's grant for the stage that asks.
            codes: The codes that the questions are about; without a grid `coarse` are `final`.
        """
        from dp_core.kernel.kernel import Kernel
        from dp_core.tables.coarse_counter import CoarseCounter
        from tasks.counting.dask_counter import DaskCounter

        counter: Counter
        recoded = self.schema.recoded
        if codes == "stored":
            recoded = False
            domain = self.rules.domain
            counter = DaskCounter(self.stored, domain, self.client)
        elif codes == "coarse" and self.schema.coarse is not None:
            recoded = True
            # Each row is in one cell of each table of the schema's bins, too.
            recoding = Coarsening(self.schema)
            domain, counter = recoding.domain, CoarseCounter(self.counter, recoding)
        else:
            domain, counter = self.store.domain, self.counter
        session = LedgerSession(
            self.writer,
            self.reservation,
            self.relation,
            self.folder.noisy,
            grant,
            self.committed,
        )
        # privacy: no question is asked before the units of the store are weighed.
        stored = self.stored_rows
        if recoded:  # other codes have other margins
            stored = replace(stored, margins={})
        return Kernel(domain, counter, session, stored)
