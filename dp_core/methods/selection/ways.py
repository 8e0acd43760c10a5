"""All tables of one or several orders, for example all pairs of columns."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.selection.budget.workload import Allocation, shares
from dp_core.methods.selection.selector import PlannedSelector, Selection

_MOST_TABLES = 20_000  # with more, each would get so little budget that only noise is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways(PlannedSelector):
    """Measure every table of the stated numbers of columns.

    With k tables at equal shares and m independent measurements, each cell has Laplace noise of
    scale `sensitivity * m * k / epsilon`: the noise depends on the number of tables, not of cells
    (Eugenio and Liu, CIPHER, Algorithm 1, whose printed `Lap(0, epsilon / (m |Q|))` has the
    fraction inverted).

    Attributes:
        orders: Numbers of columns of the tables; a number above that of all columns means all.
        allocation: Rule that divides the budget: `rho` or `epsilon` minimises the total error for
            that currency, `equal` gives every table the same part.
    """

    orders: tuple[int, ...] = (2,)
    allocation: Allocation = "rho"
    # Of a table: 32 MB of exact counts.
    max_cells: ClassVar[int] = 2**22

    def fixed_selection(self, domain: Domain) -> Selection:
        if not self.orders or min(self.orders) < 1 or len(set(self.orders)) != len(self.orders):
            raise BadInput(
                f"`select.orders` is {list(self.orders)}; list different numbers of columns, each"
                " at least 1, such as [2] or [1, 3]."
            )
        orders = sorted({min(order, len(domain)) for order in self.orders})
        tables = sum(math.comb(len(domain), order) for order in orders)
        if tables > _MOST_TABLES:
            raise BadInput(
                f"`select: ways` with the orders {orders} means {tables} tables of"
                f" {len(domain)} columns, more than the {_MOST_TABLES} that it attempts; use"
                " `method: privsyn`, which chooses among pairs, or a lower order."
            )
        cliques: list[Clique] = []
        for order in orders:
            cliques += itertools.combinations(domain.columns, order)
        largest = max(cliques, key=domain.size)
        if domain.size(largest) > self.max_cells:
            raise BadInput(
                f"The table {list(largest)} has {domain.size(largest):.3g} cells, more than the"
                f" {self.max_cells} that `select: ways` attempts; use `method: privsyn`, or coarser"
                " columns."
            )
        return Selection(
            cliques=tuple(cliques),
            weights=shares([domain.size(clique) for clique in cliques], self.allocation),
        )


METHOD = Ways
