"""AIM: repeatedly choose and measure the table with the largest model error.

McKenna, Mullins, Sheldon and Miklau, AIM: An Adaptive and Iterative Mechanism for Differentially
Private Synthetic Data, VLDB 2022, Algorithm 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dp_core.client.released import tables_of
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.candidates.model_errors import (
    FIRST_PART,
    RoundModel,
    first_round,
    overlap_weights,
    table_distances,
    tables_in_advance,
    tables_up_to,
)
from dp_core.methods.selection.selector import Selection, Selector

_MOST_TABLES = 2000  # of the workload's order: every round answers all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim(Selector):
    """Repeatedly measure the table with the largest weighted model error beyond its expected noise.

    Each round spends the same part of the selection and of the measuring budget. If a measurement
    changes the model by no more than its noise explains, later rounds spend more of both and have
    half the noise.

    Attributes:
        order: Number of columns of the tables in the workload; smaller tables are candidates too.
            With more than 2,000 tables of that order it is lowered, to at least 2.
        pace: Number of rounds per column of the domain if the noise is never halved. The paper has
            16; fewer rounds have less noise each, and adapt by halving it.
    """

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    order: int = 3
    pace: int = 4
    # Of the junction tree (the paper's capacity): a round fits it in seconds.
    max_cells: ClassVar[int] = 2**16

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError(f"order is a number of columns from 1, not {self.order}.")
        if self.pace < 1:
            raise ValueError(f"pace is at least one round for each column, not {self.pace}.")

    def largest_choice(self, domain: Domain) -> Fraction:  # noqa: ARG002
        """Each round chooses and measures with the same parts of both budgets."""
        return 1 / (1 - FIRST_PART)

    def needs(self, domain: Domain) -> tuple[Clique, ...]:
        return tables_in_advance(domain, self._candidates(domain))

    def _candidates(self, domain: Domain) -> tuple[Clique, ...]:
        order = self.order
        while order > 2 and math.comb(len(domain), order) > _MOST_TABLES:
            order -= 1
        return tables_up_to(domain, order, max_cells=self.max_cells)

    def select(self, inputs: MethodInputs) -> Selection:
        curator, domain = inputs.curator, inputs.domain
        candidates = self._candidates(domain)
        largest = max(len(clique) for clique in candidates)
        workload = [clique for clique in candidates if len(clique) == largest]
        weight = dict(zip(candidates, overlap_weights(candidates, workload), strict=True))
        model = RoundModel(
            domain, inputs.zeros, rows=curator.public_rows(), max_cells=self.max_cells
        )
        before = tables_of(inputs.known)
        found = list(first_round(inputs))
        left_to_measure = (1 - FIRST_PART) * inputs.measure_cost
        model.refit([*before, *found])

        # privacy: every round spends the same part of both budgets; the last takes exactly the
        # rest.
        part, left = Fraction(1, self.pace * len(domain)), Fraction(1)
        faster = 2 if curator.currency.kind == "pure" else 4
        number = 0
        while left:
            number += 1
            part = left if left < 2 * part else part
            left -= part
            noise = curator.count_noise(part * left_to_measure).mean_absolute
            open_ = [clique for clique in candidates if model.fits(clique)]
            place = curator.choose(
                "select",
                f"round {number}",
                table_distances(
                    open_,
                    [model.answer(clique) for clique in open_],
                    weights=[weight[clique] for clique in open_],
                    noise=noise,
                ),
                part * inputs.select_cost,
                replicate=inputs.replicate,
            )
            chosen = open_[place]
            old = model.answer(chosen)
            found += curator.measure(
                "measure",
                [chosen],
                [part * left_to_measure],
                replicate=inputs.replicate,
                round=number + 1,
            )
            model.refit([*before, *found])
            moved = float(np.abs(model.answer(chosen) - old).sum())
            if moved <= noise * old.size:
                part *= faster
        return Selection(measured=tuple(found))


METHOD = Aim
