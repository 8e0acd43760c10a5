"""The joint table of all columns, for domains small enough to hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dp_core.domain import Clique, Domain
from dp_core.errors import BadInput
from dp_core.marginals import Measurement
from dp_core.selection.base import Selection

if TYPE_CHECKING:
    from dp_core.curator import Curator


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """Measure the full-dimensional table.

    Attributes:
        max_cells: Largest joint table that is attempted.
    """

    max_cells: int = 2**22

    @property
    def adaptive(self) -> bool:
        return False

    def planned(self, domain: Domain) -> Selection:
        if domain.size() > self.max_cells:
            raise BadInput(
                f"The joint table of all columns has {domain.size():.3g} cells, more than the"
                f" {self.max_cells} that `select: full` attempts; use `method: privsyn`, or fewer"
                " and coarser columns."
            )
        return Selection(cliques=(domain.columns,), weights=(Fraction(1),))

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


METHOD = Full
