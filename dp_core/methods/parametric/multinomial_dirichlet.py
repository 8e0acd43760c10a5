"""Multinomial-Dirichlet: records from proportions drawn from a posterior that is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from dp_core.methods.parametric.drawn_records import TableDraws


@dataclass(frozen=True, slots=True, kw_only=True)
class MultinomialDirichlet(TableDraws):
    """Draw proportions of the cells of all columns from Dirichlet(counts + a), and records by them.

    Abowd & Vilhuber (2008), section 3.2.1 of Bowen & Liu (2020). The prior a = k/(e^epsilon - 1) in
    every cell is the least that is private for one set of k records, under both relations; what is
    paid for is the records, not the proportions, which nobody sees and which would have no bound.
    The paper's a, for all of epsilon, holds for one set: m sets have epsilon/m each. The prior is
    no option: less of it is not private, and more spends less than the budget. It grows with the
    file, so that a larger one does not help: about K/(K + e^epsilon - 1) of the records say nothing
    of it, for K cells.

    Attributes:
        kind: All records of a set by the same hidden proportions.
        records, bins, max_cells: As of `TableDraws`.
    """

    kind: ClassVar[Literal["independent", "urn"]] = "urn"


METHOD = MultinomialDirichlet
