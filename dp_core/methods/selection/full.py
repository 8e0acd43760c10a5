"""The joint table of all columns, for domains small enough to hold it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.selector import PlannedSelector, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(PlannedSelector):
    """Measure the full-dimensional table, of at most 4,194,304 cells."""

    # 32 MB of exact counts.
    max_cells: ClassVar[int] = 2**22

    def fixed_selection(self, domain: Domain) -> Selection:
        if domain.size() > self.max_cells:
            raise BadInput(
                f"The joint table of all columns has {domain.size():.3g} cells, more than the"
                f" {self.max_cells} that `select: full` attempts; use `method: privsyn`, or fewer"
                " and coarser columns."
            )
        return Selection(cliques=(domain.columns,), weights=(Fraction(1),))


METHOD = Full
