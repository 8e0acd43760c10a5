"""SBA: the cells of the table of all columns whose noisy counts reach a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dp_core.client.released import ReleasedKind
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.selection.budget.threshold_delta import Threshold, delta_of, threshold_table
from dp_core.methods.selection.candidates.known_rows import number_of_rows
from dp_core.methods.selection.selector import Selection, Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Sba(Selector):
    """Keep the combinations of all columns that occur in enough records.

    Only cells with records are visited, so the domain can have any size. Rare cells are lost; with
    many columns all cells can be rare (Li, Karwa, Slavkovic & Steorts 2018, section 2.2, after Bun,
    Nissim & Stemmer 2016).

    Attributes:
        threshold: `least`, the smallest threshold that is valid for the noise; `text` or
            `algorithm`, the larger ones of the paper's section 2.2 and Algorithm 1.
    """

    threshold: Threshold = "least"

    rounds: ClassVar[bool] = True
    needs_rows: ClassVar[bool] = True
    own_delta: ClassVar[bool] = True
    gives: ClassVar[frozenset[ReleasedKind]] = frozenset({"sparse"})
    extensions: ClassVar[tuple[str, ...]] = ("sparse-table",)
    adaptive: ClassVar[bool] = False

    def tables(self, domain: Domain) -> tuple[int, int]:
        """Return 1, the number of tables, and its number of cells."""
        return 1, domain.size()

    def select(self, inputs: MethodInputs) -> Selection:
        table = threshold_table(
            inputs,
            inputs.domain.columns,
            inputs.measure_cost,
            delta_of(inputs),
            rows=number_of_rows(inputs),
            form=self.threshold,
        )
        return Selection(measured=(table,))


METHOD = Sba
