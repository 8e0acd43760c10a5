"""A session in memory, for public data, notebooks, benchmarks and tests; and checks of steps.

The checks are those of the ledger's rules, made before an entry is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.errors import BudgetRefused
from dp_core.kernel.ledger.session import Draw
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.privacy import Neighbours, Relation


@dataclass
class MemorySession:
    """A session that forgets: the same rules, nothing on disk.

    Attributes:
        currency: What it pays in, and the total.
        neighbours: The neighbouring relation.
        max_rows: Most rows of one unit of privacy.
        shares: Shares of one unit of privacy: exact counts are in units of 1/`shares` of a record.
        charges: Every grant made.
    """

    currency: Currency
    neighbours: Neighbours
    max_rows: int = field(default=1, kw_only=True)
    shares: int = field(default=1, kw_only=True)
    charges: list[Grant] = field(default_factory=list)
    _results: dict[str, tuple[tuple[Grant, NDArray[np.int64]], ...]] = field(default_factory=dict)
    _summed: tuple[int, Fraction, Fraction] = (0, Fraction(0), Fraction(0))

    @property
    def relation(self) -> Relation:
        """The neighbouring relation that every event was calibrated to."""
        return Relation(self.neighbours, self.max_rows, self.shares)

    @property
    def forgets(self) -> bool:
        """True: it serves public rows only."""
        return True

    def spent(self) -> Fraction:
        """Return the sum of all charges, in the currency's unit."""
        return self._sums()[0]

    def _sums(self) -> tuple[Fraction, Fraction]:
        """Return the sums of all costs and of all own deltas, updated with the new charges."""
        number, cost, own_delta = self._summed
        for grant in self.charges[number:]:
            cost += grant.step.cost
            own_delta += grant.step.event.own_delta()
        self._summed = len(self.charges), cost, own_delta
        return cost, own_delta

    def perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, NDArray[np.int64]], ...]:
        if batch in self._results:
            if [grant.step for grant, _ in self._results[batch]] != list(steps):
                raise ValueError(
                    f"{batch!r} was drawn before for other steps. Each round needs its own step"
                    " names, and a repeated run must ask the same questions."
                )
            return self._results[batch]
        check_steps(self.currency, steps)
        spent, own_delta = self._sums()
        if sum((step.event.own_delta() for step in steps), own_delta) > self.currency.own_delta:
            raise BudgetRefused(
                f"{batch!r} needs a delta of its own, and not enough of the delta that the release"
                " set aside is left."
            )
        left = self.currency.limit - spent
        asked = sum((step.cost for step in steps), Fraction(0))
        if asked > left:
            raise BudgetRefused(
                f"{batch!r} needs {float(asked):.6g} of {self.currency.kind} budget"
                f" but {float(left):.6g} of {float(self.currency.limit):.6g} is left."
            )
        check_left(self.currency, left, steps)
        first = len(self.charges) + 1
        grants = tuple(Grant(first + index, step) for index, step in enumerate(steps))
        self.charges.extend(grants)
        values = draw(grants)
        self._results[batch] = tuple(zip(grants, values, strict=True))
        return self._results[batch]


def check_left(currency: Currency, left: Fraction, steps: Sequence[Step]) -> None:
    """Raise BudgetRefused unless every step leaves what its event needs (`Currency.allows`).

    Args:
        currency: What the release pays in.
        left: What is left of its total before the steps.
        steps: In the order in which they are charged.
    """
    for step in steps:
        left -= step.cost
        if not currency.allows(step.event, left):
            raise BudgetRefused(
                f"Step {step.name!r} would leave {float(left):.6g} of the {currency.kind} budget,"
                " too little for a choice on the Gaussian curve; lower `select.share`."
            )


def check_steps(currency: Currency, steps: Sequence[Step]) -> None:
    """Check that every step has a positive budget and that its event costs at most this budget.

    Raises:
        ValueError: if a step fails the check, its event has no cost in the currency, or its event's
            own delta is larger than the delta that the release set aside.

    Privacy:
        This function compares each own delta separately. The session compares their sum.
    """
    for step in steps:
        if step.cost <= 0:
            raise ValueError(f"Step {step.name!r} has no budget.")
        if currency.cost(step.event) > step.cost:
            raise ValueError(f"The event of step {step.name!r} costs more than its budget.")
        if step.event.own_delta() > currency.own_delta:
            raise ValueError(
                f"The event of step {step.name!r} has a delta of its own that is larger than the"
                " delta that the plan set aside."
            )
