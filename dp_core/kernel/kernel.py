"""The kernel of one release: only it runs the draws that make noisy values of exact counts.

It holds the counter of the confidential file and the release's session with the ledger. Every
result is charged, drawn once, stored and committed before it is returned.

Where households are the units, the counter counts in shares (`HouseholdCounter`): events are
calibrated, charged and drawn in shares, and the ledger stores whole numbers of shares.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.counting.stored_rows import CheckedCounter, StoredRows
from dp_core.kernel.ledger.session import Session
from dp_core.kernel.mechanisms.grant import Grant
from dp_core.kernel.questions.calibration import require_calibrated
from dp_core.kernel.requests import FileFacts, Request, rebuilt_request
from dp_core.kernel.step_names import require_file_name


class Kernel:
    """Answers requests about the confidential file, each against a grant."""

    def __init__(
        self, domain: Domain, counter: Counter, session: Session, stored: StoredRows | None = None
    ) -> None:
        """Create the kernel of one release.

        Args:
            domain: All columns of the file and their numbers of codes.
            counter: Exact counts of the confidential file.
            session: The release's open reservation, which pays for every answer.
            stored: The code store that is counted, after its units were weighed; None (the default)
                for rows in memory, which are public.

        Raises:
            ValueError: if the counter counts in other units than the session charges for, or the
                units were not weighed although the session records what it charges.
        """
        # privacy: only rows that are public are asked about without their units being weighed.
        if stored is None and not session.forgets:
            raise ValueError("A file is asked only after the units in its code store were weighed.")
        # privacy: a unit changes counts in shares by S; with the sensitivity of records the noise
        # would be S times too small.
        if getattr(counter, "shares", 1) != session.relation.shares:
            raise ValueError(
                f"The counter counts in 1/{getattr(counter, 'shares', 1)} of a record, and the"
                f" session charges for counts in 1/{session.relation.shares}."
            )
        self._domain = domain
        found = () if stored is None else (stored.total, stored.margins)
        self._counter = CheckedCounter(counter, domain, *found)
        self._session = session

    @property
    def facts(self) -> FileFacts:
        """What is public about the confidential file."""
        return FileFacts(self._domain, self._session.relation, self._session.currency)

    def answer(self, request: Request) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Return what was drawn for each step of a request, and the grant that paid for it.

        Values are in shares where households are the units.

        Args:
            request: What is asked, and at what cost.

        Raises:
            BudgetRefused: if a stage's or the release's budget does not allow it; nothing was
                touched.
            ValueError: as `Request.prepare`, if a step's name cannot be part of a file's name, or
                if an event is not calibrated to its question.
            BadInput: as `Request.prepare`.
        """
        facts = self.facts
        asked = rebuilt_request(request).prepare(facts)
        require_file_name(asked.batch)
        for step in asked.steps:
            require_calibrated(step, facts.relation, facts.domain)
        draw = partial(asked.draw, self._counter)
        return self._session.perform(asked.batch, asked.steps, draw)

    def public_rows(self) -> int | None:
        """Return the number of rows if it is public, otherwise None.

        Where households are the units, it is the number of households.
        """
        relation = self._session.relation
        # privacy: under replace-one a person can be replaced by one with fewer rows, so the number
        # of rows is public only if a unit is one row. A household is one record of S shares,
        # whatever its members are.
        if not relation.rows_public:
            return None
        total = int(self._counter.count([()])[()].counts)
        # With another remainder than 0 a household would have lost pair rows.
        assert total % relation.shares == 0
        return total // relation.shares
