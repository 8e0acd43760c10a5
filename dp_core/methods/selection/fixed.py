"""The tables that the spec lists, or those that its workload needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dp_core.client.released import ReleasedKind
from dp_core.errors import BadInput, nearest
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.selection.budget.wanted_shares import Basis, for_tables
from dp_core.methods.selection.budget.workload import Allocation, WantedTable, shares
from dp_core.methods.selection.selector import Certain, PlannedSelector, Selection, Terms

_OTHERS = Fraction(1, 10)
"""Part of the budget for columns of no wanted table that nothing else measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(PlannedSelector):
    """Measure the tables that the spec lists, and every column that none of them contains.

    With a workload (the spec's `tables`), the budget is divided so that its weighted expected error
    is least. The measurements are the tables of `cliques`, or, without them, whatever serves the
    workload best: interactions and tables of subsets of its columns.

    Attributes:
        cliques: The tables, each a list of columns; their order does not matter.
        allocation: Rule that divides the budget without a workload: `rho` or `epsilon` minimises
            the total error for that currency, `equal` gives every table the same part.
        basis: For a workload without `cliques`: `interactions` measures parts of tables alone where
            that costs less, `tables` measures whole tables only.
        workload: The spec's `tables`; empty by default.
        columns: Whether columns of no wanted table are measured, as synthetic sets require.
    """

    cliques: tuple[tuple[str, ...], ...] = ()
    allocation: Allocation = "rho"
    basis: Literal["interactions", "tables"] = "interactions"
    workload: tuple[WantedTable, ...] = field(default=(), metadata=NO_OPTION)
    columns: bool = field(default=True, metadata=NO_OPTION)

    @property
    def gives(self) -> frozenset[ReleasedKind]:
        return frozenset({"tables", "interactions"} if self._alone else {"tables"})

    @property
    def informs_all_pairs(self) -> bool:
        stated = (*self.cliques, *(table.of for table in self.workload))
        return any(len(clique) > 1 for clique in stated)

    @property
    def _alone(self) -> bool:
        return bool(self.workload) and not self.cliques and self.basis == "interactions"

    def check(self, domain: Domain) -> None:
        """Raise BadInput if a listed table is wrong, or a wanted one is in none of them."""
        if self.cliques or not self.workload:
            chosen = self._listed_tables(domain)
            for table in self.workload:
                if not any(set(table.of) <= set(clique) for clique in chosen):
                    raise BadInput(
                        f"`tables` asks for {' x '.join(table.of)}, which none of `select.cliques`"
                        " contains; add it there, or remove `cliques` so that the program chooses."
                    )

    def fixed_selection(self, domain: Domain) -> Selection:
        """Return what is measured without a workload."""
        chosen = self._listed_tables(domain)
        # A plan states every table's noise before anything is measured. So an uncovered column is
        # measured even if the one-way stage measured it; one more one-way table costs little.
        chosen += _columns_left(domain, chosen) if self.columns else []
        return Selection(
            cliques=tuple(chosen),
            weights=shares([domain.size(clique) for clique in chosen], self.allocation),
        )

    def certain(self, domain: Domain, terms: Terms) -> Certain:
        if not self.workload:
            return Certain(self.fixed_selection(domain), Fraction(1))
        chosen = self._listed_tables(domain) if self.cliques else []
        wanted = chosen or [table.of for table in self.workload]
        others = [
            column
            for column in (_columns_left(domain, wanted) if self.columns else [])
            if column not in terms.known
        ]
        share = 1 - _OTHERS if others else Fraction(1)
        basis = Basis(
            interactions=self._alone,
            # Of the columns of a file that is drawn, a whole table is measured somewhere.
            columns_alone=not self.columns
            or all((name,) in terms.known for name in domain.columns),
            cliques=tuple(chosen) or None,
        )
        terms = dataclasses.replace(terms, measure=terms.measure * share)
        found = for_tables(self.workload, domain, terms, basis)
        each = shares([domain.size(clique) for clique in others], self.allocation) if others else ()
        weights = (
            *(share * weight for weight in found.weights),
            *((1 - share) * weight for weight in each),
        )
        selection = dataclasses.replace(found, cliques=(*found.cliques, *others), weights=weights)
        return Certain(selection, Fraction(1))

    def _listed_tables(self, domain: Domain) -> list[Clique]:
        """Return the listed tables, columns in the domain's order."""
        if not self.cliques:
            raise BadInput(
                "`select: fixed` needs `cliques`, a list of tables such as [[age, sex], [sex]], or"
                " `tables` at the top of the spec, such as [{of: [age, sex], weight: 2}]."
            )
        chosen = [_in_domain_order(clique, domain) for clique in self.cliques]
        if len(set(chosen)) != len(chosen):
            twice = next(clique for clique in chosen if chosen.count(clique) > 1)
            raise BadInput(f"`select.cliques` lists the table {list(twice)} twice; remove one.")
        return chosen


def _columns_left(domain: Domain, chosen: Collection[Clique]) -> list[Clique]:
    covered = {column for clique in chosen for column in clique}
    return [(column,) for column in domain.columns if column not in covered]


def _in_domain_order(clique: Sequence[str], domain: Domain) -> Clique:
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
