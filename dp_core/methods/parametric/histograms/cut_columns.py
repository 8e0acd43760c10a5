"""Base class of methods that choose the cuts of a column's bins, and then count between them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.parametric.histograms.column_histograms import (
    ColumnHistograms,
    bin_question,
)
from dp_core.schema.variables import Variable
from dp_core.wall.released import Released

CHOOSING = Fraction(1, 2)
"""Part of a column's budget for the cuts: wrong cuts and noisy counts do about equal harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutColumns(ColumnHistograms):
    """Choose cuts of a column's bins privately, and count the records between them with noise.

    Records are uniform between two cuts.
    """

    chooses: ClassVar[bool] = True

    @abstractmethod
    def choose_cuts(
        self,
        inputs: MethodInputs,
        variable: Variable,
        edges: tuple[int, ...],
        step: str,
        cost: Fraction,
    ) -> tuple[list[int], Fraction]:
        """Return the chosen cuts, and what they cost together.

        Args:
            inputs: The inputs of `measure`.
            variable: The column.
            edges: First position of each bin, and then the number of positions.
            step: Prefix of the names of its steps.
            cost: The column's budget, of which `CHOOSING` is for the cuts.

        Returns:
            Numbers of the bins before which there is a cut, from 1 to the number of bins - 1, and
            the cost. The cost is at most the part `CHOOSING`; what is left pays for the counts.
        """

    def measure_column(
        self, inputs: MethodInputs, variable: Variable, step: str, cost: Fraction
    ) -> list[Released]:
        edges = self.edges(variable)
        cuts, spent = self.choose_cuts(inputs, variable, edges, step, cost)
        chosen = tuple(edges[cut] for cut in (0, *sorted(cuts), len(edges) - 1))
        asked = bin_question(variable, chosen)
        return [
            inputs.curator.total(
                "measure", f"{step}-counts", asked, cost - spent, replicate=inputs.replicate
            )
        ]
