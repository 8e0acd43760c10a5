"""SBHG: a thresholded table of each column with the few columns that predict it best."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dp_core.client.released import ReleasedKind
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.threshold_delta import Threshold, delta_of, threshold_table
from dp_core.methods.selection.candidates.feature_choice import FeatureChoice
from dp_core.methods.selection.candidates.known_rows import number_of_rows
from dp_core.methods.selection.selector import Selection, Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Sbhg(FeatureChoice, Selector):
    """Choose a few features for each column (SBHG+EM), and keep their tables' frequent cells.

    Li, Karwa, Slavkovic & Steorts (2018), Algorithm 2, lines 1-6: each of the p tables gets 1/p of
    epsilon and of delta. A direct choice by mutual information is not private; here the exponential
    mechanism makes p R choices, paid from the selection's share.

    Attributes:
        threshold: `least`, the smallest threshold that is valid for the noise; `text` or
            `algorithm`, the larger ones of the paper's section 2.2 and Algorithm 1.
    """

    threshold: Threshold = "least"

    chooses: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    own_delta: ClassVar[bool] = True
    gives: ClassVar[frozenset[ReleasedKind]] = frozenset({"sparse"})
    """Sparse tables, one for each column; that column is the table's first."""

    @property
    def extensions(self) -> tuple[str, ...]:
        """Names of the kernel's extensions that it may ask."""
        return (*self.scores, "sparse-table")

    def check(self, domain: Domain) -> None:
        """Raise BadInput for a single column, because there is no other to choose."""
        if self.adaptive and len(domain) < 2:
            raise BadInput("sbhg needs at least two columns, and there is one; use sba.")

    def tables(self, domain: Domain) -> tuple[int, int]:
        """Return the number of tables, one per column, and the largest number of cells of one."""
        return len(domain), self.most_cells(domain)

    def select(self, inputs: MethodInputs) -> Selection:
        rows = number_of_rows(inputs)
        cliques = self.tables_of_each(inputs)
        # privacy: p tables, each with 1/p of the budget and of the reserved delta.
        share = Fraction(1, self.tables(inputs.domain)[0])
        delta = delta_of(inputs) * share
        measured = tuple(
            threshold_table(
                inputs,
                clique,
                inputs.measure_cost * share,
                delta,
                rows=rows,
                form=self.threshold,
            )
            for clique in cliques
        )
        return Selection(measured=measured)


METHOD = Sbhg
