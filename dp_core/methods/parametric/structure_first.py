"""StructureFirst: the cuts of an optimal histogram, chosen from the right, then noisy counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.parametric.column_histograms import CHOOSING, CutColumns
from dp_core.schema.variables import Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureFirst(CutColumns):
    """Choose the cuts of the best histogram of k runs, and count the runs (Xu et al. 2013).

    As in section 5, cuts are chosen from the right to the left by the exponential mechanism. The
    score of a cut is the deviation within the run to its right plus the smallest deviation that
    the runs left of it can have, found by dynamic programming.

    Attributes:
        bins: Number of equal bins of each numeric column; every choice takes time quadratic in it.
        runs: Number k of runs: 16, public.

    Privacy:
        k - 1 choices by `CutDeviations` with equal parts of `CHOOSING`, then one histogram. The
        paper's score, squared deviations from the mean, has a sensitivity of 2 F + 1 if no count
        exceeds F; with F read from the file it is not private, and with a public F only noise is
        left. Deviations from the median have sensitivity 1 (add-remove) or 2 (replace-one).
    """

    runs: int = field(default=16, metadata=NO_OPTION)

    bins: ClassVar[int] = 256

    def choose_cuts(
        self,
        inputs: MethodInputs,
        variable: Variable,
        edges: tuple[int, ...],
        step: str,
        cost: Fraction,
    ) -> tuple[list[int], Fraction]:
        runs = min(self.runs, len(edges) - 1)
        found: list[int] = []
        spent = Fraction(0)
        high = len(edges) - 1
        for left in range(runs - 1, 0, -1):
            scores = CutDeviations(column=variable.name, edges=edges, low=0, high=high, left=left)
            each = cost * CHOOSING / (runs - 1)
            high = left + inputs.curator.choose(
                "measure", f"{step}-cut-{left}", scores, each, replicate=inputs.replicate
            )
            found.append(high)
            spent += each
        return found, spent


METHOD = StructureFirst
