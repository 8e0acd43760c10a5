"""P-HP: recursive bisection of a column's bins, and noisy counts of the parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.methods.method_inputs import MethodInputs
from dp_core.methods.parametric.column_histograms import CHOOSING, CutColumns, bin_question
from dp_core.schema.variables import Variable

_DEPTH = 6
"""Number of times that parts are cut; every further one halves the budget of each choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PHPartition(CutColumns):
    """Cut a column in two, each part in two and so on, and count the parts (Acs et al. 2012).

    Every cut is chosen by the exponential mechanism so that the bins' counts vary little within
    both parts. One of the choices is not to cut; then the range stays whole. A cut has a public
    price, the expected size of the noise on one more count.
    Parts are cut up to 6 times, so that there are at most 64.

    Privacy:
        At most 63 choices by `CutDeviations`, each with an equal part of `CHOOSING`. The rest of a
        column's budget, and the parts of choices that were not needed, are for one histogram of the
        parts. Every choice is charged, though parts at one depth share no record.
    """

    def choose_cuts(
        self,
        inputs: MethodInputs,
        variable: Variable,
        edges: tuple[int, ...],
        step: str,
        cost: Fraction,
    ) -> tuple[list[int], Fraction]:
        curator, bins = inputs.curator, len(edges) - 1
        # Every choice is about a different range, of two bins or more.
        number = min(2**_DEPTH - 1, bins - 1)
        if not number:
            return [], Fraction(0)
        each = cost * CHOOSING / number
        counts = bin_question(variable, edges)
        noise = curator.statistic_noise(counts, cost * (1 - CHOOSING))
        price = max(round(noise.stddev * math.sqrt(2 / math.pi)), 1)
        found: list[int] = []
        spent = Fraction(0)
        # Ranges that are still to be cut: first bin, end, number in the tree.
        ranges = [(0, bins, 1)]
        while ranges:
            low, high, place = ranges.pop(0)
            if high - low < 2 or place >= 2**_DEPTH:
                continue
            scores = CutDeviations(
                column=variable.name, edges=edges, low=low, high=high, price=price
            )
            chosen = curator.choose(
                "measure", f"{step}-cut-{place}", scores, each, replicate=inputs.replicate
            )
            spent += each
            if chosen < scores.length - 1:
                cut = low + 1 + chosen
                found.append(cut)
                ranges += [(low, cut, 2 * place), (cut, high, 2 * place + 1)]
        return found, spent


METHOD = PHPartition
