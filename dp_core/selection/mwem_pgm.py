"""MWEM on a graphical model: a fixed number of rounds, each measuring the worst table.

Hardt, Ligett and McSherry, NIPS 2012, with the model of McKenna, Sheldon and Miklau, ICML 2019, in
place of a weight for every cell of the joint table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dp_core.domain import Clique, Domain
from dp_core.marginals import Released, tables_of
from dp_core.selection.base import AdaptiveSelector, Selection
from dp_core.selection.candidates import (
    RoundModel,
    announced,
    distances,
    first_round,
    tables_up_to,
)
from dp_core.structural_zeros import StructuralZeros

if TYPE_CHECKING:
    from dp_core.curator import Curator


@dataclass(frozen=True, slots=True, kw_only=True)
class MwemPgm(AdaptiveSelector):
    """Choose the table that the model has most wrong, measure it, fit, and so on.

    Attributes:
        order: Candidates are all tables of so many columns (of all columns, where there are fewer).
        turns: Number of rounds; 0: twice as many as there are columns.
        penalty: Whether a candidate's error counts less what noise alone would leave of it.
        max_cells: Most cells of the graphical model's junction tree.
        first: Part of the measuring budget for tables of all columns, which come before.
    """

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    order: int = 2
    turns: int = 0
    penalty: bool = True
    max_cells: int = 2**16
    first: Fraction = Fraction(1, 10)

    def __post_init__(self) -> None:
        if not 0 < self.first < 1:
            raise ValueError(f"first: a part between 0 and 1, not {self.first}.")
        if self.order < 1:
            raise ValueError(f"order: tables have at least one column, not {self.order}.")
        if self.turns < 0:
            raise ValueError(f"turns: at least one round, or 0 for the default, not {self.turns}.")

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return announced(domain, (*self._candidates(domain), *((c,) for c in domain.columns)))

    def _candidates(self, domain: Domain) -> tuple[Clique, ...]:
        tables = tables_up_to(domain, self.order, max_cells=self.max_cells)
        largest = max(len(clique) for clique in tables)
        return tuple(clique for clique in tables if len(clique) == largest)

    def select(
        self,
        curator: Curator,
        known: Sequence[Released],
        *,
        domain: Domain,
        cost: Fraction,
        measure_cost: Fraction,
        zeros: StructuralZeros,
        rng: np.random.Generator,  # noqa: ARG002
        replicate: int = 0,
    ) -> Selection:
        model = RoundModel(domain, zeros, rows=curator.public_rows(), max_cells=self.max_cells)
        before = tables_of(known)
        found = list(first_round(curator, domain, self.first * measure_cost, replicate))
        left = (1 - self.first) * measure_cost
        model.refit([*before, *found])
        candidates = self._candidates(domain)
        columns = [(name,) for name in domain.columns]
        turns = self.turns or 2 * len(domain)
        noise = curator.count_noise(left / turns).mean_absolute
        steps = []
        for number in range(1, turns + 1):
            open_ = [clique for clique in candidates if model.fits(clique)] or columns
            place = curator.choose(
                "select",
                f"round {number}",
                distances(model, open_, noise=noise if self.penalty else 0.0),
                cost / turns,
                replicate=replicate,
            )
            found += curator.measure(
                "measure", [open_[place]], [left / turns], replicate=replicate, round=number + 1
            )
            steps.append(" x ".join(open_[place]))
            model.refit([*before, *found])
        return Selection(measured=tuple(found), note={"rounds": steps, "noise": noise})


METHOD = MwemPgm
