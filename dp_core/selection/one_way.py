"""One-way tables of all columns; nothing is asked of the data to choose them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_core.domain import Clique, Domain
from dp_core.marginals import Measurement
from dp_core.selection.allocation import Allocation, shares
from dp_core.selection.base import Selection

if TYPE_CHECKING:
    from dp_core.curator import Curator


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """Measure every column by itself.

    Attributes:
        allocation: How the budget is divided: least total error in `rho` or in `epsilon`, or
            `equal`. A division made for the other currency loses under 5 % of accuracy.
    """

    allocation: Allocation = "rho"

    @property
    def adaptive(self) -> bool:
        return False

    def planned(self, domain: Domain) -> Selection:
        return Selection(
            cliques=tuple((column,) for column in domain.columns),
            weights=shares(domain.sizes, self.allocation),
        )

    def needs(self, domain: Domain) -> tuple[Clique, ...]:  # noqa: ARG002
        return ()

    def scores(self, domain: Domain) -> int:  # noqa: ARG002
        return 0

    def select(
        self,
        curator: Curator,  # noqa: ARG002
        known: Sequence[Measurement],  # noqa: ARG002
        *,
        domain: Domain,
        cost: Fraction,  # noqa: ARG002
        measure_cost: Fraction,  # noqa: ARG002
    ) -> Selection:
        return self.planned(domain)


METHOD = OneWay
