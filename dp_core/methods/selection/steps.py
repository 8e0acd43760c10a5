"""STEPS: nested tables that divide the records by one column after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dp_core.errors import BadInput, nearest
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.indif import InDif
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.workload import shares
from dp_core.methods.selection.candidates.pairs import ask_dependences, dependences, pairs_up_to
from dp_core.methods.selection.selector import Dependences, Selection, Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Selector):
    """Measure the table of the first column, of the first two, and so on (STEPS).

    Bowen, Liu & Su (2021) divide the records by the columns in the order of their practical or
    statistical importance. Each step has its own part of the budget, so the tables of the important
    columns have the least noise. An order that is computed from the file without noise is an exact
    answer about the file: if one record differs, the order may differ. Here the order is stated, or
    computed from the noisy dependences of all pairs (InDif). The further the pairs of a column with
    all others depart from independence, the more important the column is.

    The tables are nested, and the reconstruction makes them agree. Columns that are in no nested
    table are measured with the first column, or alone if that table is too large.

    Attributes:
        order: Columns from the most important one; public. Columns that are left out follow in
            the schema's order. If empty (the default), the order is computed under noise.
    """

    order: tuple[str, ...] = ()
    # Columns of a nested table, as in the paper.
    depth: ClassVar[int] = 4
    # Of a nested table: with more, cells of most files hold less than a record.
    max_cells: ClassVar[int] = 20_000
    extensions: ClassVar[tuple[str, ...]] = ("indif",)

    @property
    def adaptive(self) -> bool:
        return not self.order

    def check(self, domain: Domain) -> None:
        """Raise BadInput if `order` names a column that does not exist, or one twice."""
        for column in self.order:
            if column not in domain:
                raise BadInput(
                    f"`select.order` names the column {column!r}, which the schema does not have."
                    f"{nearest(column, domain.columns)}"
                )
        if len(set(self.order)) != len(self.order):
            raise BadInput("`select.order` names a column twice; remove one.")

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return pairs_up_to(domain) if self.adaptive else ()

    def statistic(self, domain: Domain) -> InDif | None:
        return dependences(self.needs(domain))

    def fixed_selection(self, domain: Domain) -> Selection | None:
        if self.adaptive:
            return None
        self.check(domain)
        rest = [column for column in domain.columns if column not in self.order]
        return self._selection(domain, [*self.order, *rest], None)

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        if (planned := self.fixed_selection(domain)) is not None:
            return planned
        importance: dict[str, float] = dict.fromkeys(domain.columns, 0.0)
        asked: Dependences | None = None
        if statistic := self.statistic(domain):
            asked = ask_dependences(curator, statistic, inputs.select_cost)
            for pair, value in zip(asked.pairs, asked.values, strict=True):
                for column in pair:
                    importance[column] += value / asked.unit
        # The sort is stable, so columns of equal importance stay in the schema's order.
        order = sorted(domain.columns, key=lambda column: -importance[column])
        return self._selection(domain, order, asked)

    def _selection(
        self,
        domain: Domain,
        order: Sequence[str],
        asked: Dependences | None,
    ) -> Selection:
        """Return the nested tables of an order, and those of the columns that none holds."""
        held = [order[0]]
        found: list[Clique] = [(order[0],)]
        left: list[str] = []
        for column in order[1:]:
            deeper = (*held, column)
            if len(deeper) <= self.depth and domain.size(deeper) <= self.max_cells:
                held.append(column)
                found.append(deeper)
            else:
                left.append(column)
        for column in left:
            with_first = (order[0], column)
            small = len(with_first) <= self.depth and domain.size(with_first) <= self.max_cells
            found.append(with_first if small else (column,))
        cliques = tuple(tuple(sorted(each, key=domain.columns.index)) for each in found)
        return Selection(
            cliques=cliques,
            weights=shares([domain.size(clique) for clique in cliques], "equal"),
            dependences=asked,
        )


METHOD = Steps
