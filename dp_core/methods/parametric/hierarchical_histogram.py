"""Hierarchical histograms: noisy counts of intervals of several widths, made consistent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dp_core.client.released import Totals
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.parametric.column_histograms import (
    ColumnHistograms,
    Estimated,
    ask_tree,
    estimate_tree,
)
from dp_core.methods.parametric.synthesizer import Ask
from dp_core.schema.variables import Variable


@dataclass(frozen=True, slots=True, kw_only=True)
class HierarchicalHistogram(ColumnHistograms):
    """Count intervals of several widths with noise, and make the counts consistent (Hay et al.).

    Hay, Rastogi, Miklau & Suciu (2010, section 4): intervals of 1, b, b^2 ... bins are the levels
    of a tree, and the least-squares estimate given all noisy counts is found by one pass up and
    one pass down the tree, in linear time. A range is then a sum of few intervals, so its error
    grows with the logarithm of its length and not with its square root. The paper's b is 2;
    Qardaji, Yang & Li (2013) find 8 to 16 best. The root of the tree is not measured: the number of
    records is known, or the release measures it for all columns.

    Here b is 16. If there are at most b bins, only the bins are measured.

    Privacy:
        A record is in one interval of each level, so each level is a histogram with an equal part
        of the budget. This equals the published sensitivity, the height of the tree.
    """

    branching: int = field(default=16, metadata=NO_OPTION)

    def ask_column(self, variable: Variable) -> tuple[Ask, ...]:
        return ask_tree(variable, self.edges(variable), self.branching)

    def estimate(
        self, variable: Variable, released: Sequence[Totals], rows: float | None
    ) -> Estimated:
        return estimate_tree(variable, released, self.branching, rows=rows, bounded=True)


METHOD = HierarchicalHistogram
