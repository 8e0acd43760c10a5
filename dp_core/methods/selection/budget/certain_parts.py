"""What the certain measurements for a workload tell the division of the rest of the budget."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.selection.budget.wanted_shares import told_by
from dp_core.methods.selection.budget.workload import (
    Told,
    WantedTable,
    mean_variance,
    precisions,
)
from dp_core.methods.selection.selector import Certain, Selection, Terms
from dp_core.tables.domain import Clique, Domain


@dataclass(frozen=True, slots=True, eq=False)
class CertainParts:
    """What the measurements for a workload tell the division of the rest.

    Attributes:
        kinds: For each of their cliques, whether it is an interaction. What the rest of the budget
            adds to one of them is measured in the same way, at once.
        told: Their noise, and that of the one-way tables.
        columns: Noise variance of a cell of each column's table, in records squared.
    """

    kinds: Mapping[Clique, bool]
    told: Sequence[Told]
    columns: NDArray[np.float64]

    @classmethod
    def of(cls, certain: Certain | None, domain: Domain, terms: Terms) -> CertainParts | None:
        """Return what is known from the certain measurements; None if there are none."""
        if certain is None:
            return None
        selection = certain.selection
        paid = dataclasses.replace(terms, measure=terms.measure * certain.share)
        told = told_by(selection, domain, paid)
        single = [WantedTable(of=(name,)) for name in domain.columns]
        return cls(
            {clique: clique in selection.interactions for clique in selection.cliques},
            told,
            np.array([mean_variance(each, told, domain, rows_public=False) for each in single]),
        )

    def precisions(self, cliques: Sequence[Clique], domain: Domain) -> NDArray[np.float64]:
        """Return the precision of each clique's own deviation; 0 for single columns."""
        known = precisions([clique for clique in cliques if len(clique) > 1], self.told, domain)
        own = {
            clique: math.prod(1 - 1 / domain.size((name,)) for name in clique) for clique in known
        }
        return np.array(
            [
                known[clique] / own[clique] if len(clique) > 1 and own[clique] else 0.0
                for clique in cliques
            ]
        )


def together(certain: Certain | None, chosen: Selection) -> Selection:
    """Return one selection of the workload's measurements and of what was chosen for the rest."""
    if certain is None:
        return chosen
    weights: dict[Clique, Fraction] = {}
    for selection, share in ((certain.selection, certain.share), (chosen, 1 - certain.share)):
        for clique, weight in zip(selection.cliques, selection.weights, strict=True):
            weights[clique] = weights.get(clique, Fraction(0)) + share * weight
    return Selection(
        cliques=tuple(weights),
        weights=tuple(weights.values()),
        interactions=certain.selection.interactions | chosen.interactions,
    )
