"""The kernel's interface to a ledger: paid permission to draw noise, and storage of the results.

`tasks.ledger.charging.ledger_session` implements it with the ledger's database, and
`dp_core.accounts.memory_session` in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.privacy import Relation

Draw: TypeAlias = Callable[[Sequence[Grant]], Sequence[NDArray[np.int64]]]
"""Reads the data and returns the noisy result of each grant, with the shape of its step."""


class Session(Protocol):
    """A release's open reservation: charges steps, and stores their noisy results."""

    @property
    def currency(self) -> Currency:
        """Currency of the release, with its total."""

    @property
    def relation(self) -> Relation:
        """The neighbouring relation that every event was calibrated to."""

    @property
    def forgets(self) -> bool:
        """Whether it records nothing, so that it serves public rows only."""

    def perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        """Charge, draw, store, commit: the whole protocol for steps that are drawn together.

        A batch that was committed before is read back and not drawn again. The caller sees
        results only after they are stored and committed.

        Args:
            batch: Name of the result, unique in the release.
            steps: In one transaction: all are charged, or none.
            draw: Called at most once, after the charge; whoever calls does not see its result
                before it is on disk.

        Raises:
            BudgetRefused: if a stage's or the release's budget does not allow it; nothing was
                touched.
        """
