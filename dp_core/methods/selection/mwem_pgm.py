"""MWEM on a graphical model: a fixed number of rounds, each measuring the worst table.

Hardt, Ligett and McSherry, NIPS 2012, with the model of McKenna, Sheldon and Miklau, ICML 2019, in
place of a weight for every cell of the joint table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dp_core.client.released import tables_of
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.candidates.model_errors import (
    FIRST_PART,
    RoundModel,
    first_round,
    table_distances,
    tables_in_advance,
    tables_up_to,
)
from dp_core.methods.selection.selector import Selection, Selector

ORDER = 2
"""Number of columns of the candidate tables. `aim` is for tables of more columns."""
_MOST_TABLES = 20_000  # every round answers all candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class MwemPgm(Selector):
    """Repeatedly choose the table with the largest model error, measure it, and fit the model.

    The error that is expected from noise is subtracted from a candidate's error, as in AIM: without
    it, tables of many cells would be chosen for their noise. The number of rounds is twice that of
    the columns.
    """

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    # Of the junction tree, as for `aim` by default: a round fits it in seconds.
    max_cells: ClassVar[int] = 2**16

    # Rounds for each column: a round then has as much noise as a table of `privbayes`.
    turns: ClassVar[int] = 2

    def check(self, domain: Domain) -> None:
        tables = math.comb(len(domain), ORDER)
        if tables > _MOST_TABLES:
            raise BadInput(
                f"`select: mwem_pgm` means {tables:,} pairs of {len(domain)} columns, more than the"
                f" {_MOST_TABLES:,} it can choose among; use `method: auto`."
            )

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return tables_in_advance(
            domain, (*self._candidates(domain), *((c,) for c in domain.columns))
        )

    def _candidates(self, domain: Domain) -> tuple[Clique, ...]:
        tables = tables_up_to(domain, min(ORDER, len(domain)), max_cells=self.max_cells)
        largest = max(len(clique) for clique in tables)
        return tuple(clique for clique in tables if len(clique) == largest)

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        model = RoundModel(
            domain, inputs.zeros, rows=curator.public_rows(), max_cells=self.max_cells
        )
        before = tables_of(inputs.known)
        found = list(first_round(inputs))
        left = (1 - FIRST_PART) * inputs.measure_cost
        model.refit([*before, *found])
        candidates = self._candidates(domain)
        columns = [(name,) for name in domain.columns]
        turns = self.turns * len(domain)
        noise = curator.count_noise(left / turns).mean_absolute
        for number in range(1, turns + 1):
            open_ = [clique for clique in candidates if model.fits(clique)] or columns
            place = curator.choose(
                "select",
                f"round {number}",
                table_distances(open_, [model.answer(clique) for clique in open_], noise=noise),
                inputs.select_cost / turns,
                replicate=inputs.replicate,
            )
            found += curator.measure(
                "measure",
                [open_[place]],
                [left / turns],
                replicate=inputs.replicate,
                round=number + 1,
            )
            model.refit([*before, *found])
        return Selection(measured=tuple(found))


METHOD = MwemPgm
