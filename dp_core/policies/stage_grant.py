"""Grants of stages: what the ledger allows one stage to charge before it looks at the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dp_core.kernel.errors import BudgetRefused
from dp_core.kernel.mechanisms.grant import Step
from dp_core.kernel.privacy import Stage

PAYS: Mapping[str, tuple[Stage, ...]] = {
    "domain": ("domain",),
    "count": (),
    "basics": ("total", "one_way"),
    # A selection in rounds measures tables between its choices.
    "select": ("select", "measure"),
    "measure": ("measure",),
    "analyses": ("analyses",),
    "check": ("checks",),
}
"""Stages of the pipeline that need a grant, and the shares of the budget that each may charge.

`count` charges nothing, but it looks at the data.
"""


@dataclass(frozen=True)
class StageGrant:
    """Permission of the ledger for one stage of one release to look at the data. Public.

    The ledger makes a grant after it has checked the lease, the reservation, the plan and what is
    left. A grant reserves nothing: each charge is checked again when it is recorded.

    Attributes:
        stage: Stage of the pipeline that it is for.
        release: Name of the release.
        reservation: Link of the reservation that pays.
        plan: Hash of the plan that was reserved.
        fence: Fence of the lease under which it was given.
        left: What the stage may still charge of each share, in the release's currency; a share that
            is not in it may not be charged.
    """

    stage: str
    release: str
    reservation: str
    plan: str
    fence: int
    left: Mapping[Stage, Fraction]

    def require_shares(self, steps: Sequence[Step]) -> None:
        """Check that the stage may charge the shares that pay for steps, whatever is left of them.

        Args:
            steps: Steps that are about to be drawn.

        Raises:
            BudgetRefused: if a step belongs to another share.
        """
        for step in steps:
            if step.stage not in self.left:
                raise BudgetRefused(
                    f"The grant of stage {self.stage!r} of release {self.release!r} does not cover"
                    f" a charge of {step.stage!r}; nothing was charged."
                )

    def require(self, steps: Sequence[Step]) -> None:
        """Check that new charges lie within the grant.

        Args:
            steps: Steps that are about to be charged for the first time.

        Raises:
            BudgetRefused: if a step belongs to another share, or the steps cost more than is left.
        """
        self.require_shares(steps)
        asked: dict[Stage, Fraction] = {}
        for step in steps:
            asked[step.stage] = asked.get(step.stage, Fraction(0)) + step.cost
        for share, cost in asked.items():
            if cost > self.left[share]:
                raise BudgetRefused(
                    f"The grant of stage {self.stage!r} of release {self.release!r} has"
                    f" {float(self.left[share]):.6g} of {share!r} left, and a step needs"
                    f" {float(cost):.6g}; nothing was charged."
                )
