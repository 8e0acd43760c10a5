"""The tables that the spec lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dp_core.errors import BadInput, nearest
from dp_core.methods.selection.budget.allocation import Allocation, shares
from dp_core.methods.selection.selector import PlannedSelector, Selection
from dp_core.tables.domain import Clique, Domain


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(PlannedSelector):
    """Measure the tables that the spec lists, and every column that none of them contains.

    Attributes:
        cliques: The tables, each a list of columns; their order does not matter.
        allocation: Rule that divides the budget: `rho` or `epsilon` minimises the total error for
            that currency, `equal` gives every table the same part.
    """

    cliques: tuple[tuple[str, ...], ...] = ()
    allocation: Allocation = "rho"

    def planned(self, domain: Domain) -> Selection:
        if not self.cliques:
            raise BadInput(
                "`select: fixed` needs `cliques`, a list of tables such as [[age, sex], [sex]]."
            )
        chosen = [_ordered(clique, domain) for clique in self.cliques]
        if len(set(chosen)) != len(chosen):
            twice = next(clique for clique in chosen if chosen.count(clique) > 1)
            raise BadInput(f"`select.cliques` lists the table {list(twice)} twice; remove one.")
        covered = {column for clique in chosen for column in clique}
        # A plan states every table's noise before anything is measured. So an uncovered column is
        # measured even if the one-way stage measured it; one more one-way table costs little.
        chosen += [(column,) for column in domain.columns if column not in covered]
        return Selection(
            cliques=tuple(chosen),
            weights=shares([domain.size(clique) for clique in chosen], self.allocation),
        )


def _ordered(clique: Sequence[str], domain: Domain) -> Clique:
    """Return a clique's columns in the domain's order; refuse an unknown or repeated column."""
    for column in clique:
        if column not in domain:
            raise BadInput(
                f"`select.cliques` names the column {column!r}, which the schema does not have."
                f"{nearest(column, domain.columns)}"
            )
    if not clique:
        raise BadInput("`select.cliques` holds an empty table; name at least one column in each.")
    if len(set(clique)) != len(clique):
        raise BadInput(f"`select.cliques` names a column twice in {list(clique)}.")
    return tuple(column for column in domain.columns if column in clique)


METHOD = Fixed
