"""Trees of intervals of one column's bins: what is asked, and the consistent counts.

Hay, Rastogi, Miklau & Suciu (2010, section 4): intervals of 1, b, b^2 ... bins are the levels of a
tree. A record is in one interval of each level, so each level is a histogram, with its equal part
of the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dp_core.methods.parametric.histograms.column_histograms import (
    Estimated,
    bin_counts,
    bin_question,
)
from dp_core.methods.parametric.synthesizer import Ask
from dp_core.methods.private_domain import quantile_tree
from dp_core.schema.variables import Variable
from dp_core.wall.released import Totals


def ask_tree(variable: Variable, edges: Sequence[int], branching: int) -> tuple[Ask, ...]:
    """Return the questions for all levels, the widest intervals first, with equal shares.

    Args:
        variable: A numeric column.
        edges: First position of each of its bins, and then the number of positions.
        branching: Number of intervals of a level in one of the level above.
    """
    widths = quantile_tree.widths(len(edges) - 1, branching)
    return tuple(
        Ask(
            f"level-{level}",
            bin_question(variable, (*edges[:-1:width], edges[-1])),
            Fraction(1, len(widths)),
        )
        for level, width in enumerate(widths, start=1)
    )


def estimate_tree(
    variable: Variable,
    released: Sequence[Totals],
    branching: int,
    *,
    rows: float | None,
    bounded: bool,
) -> Estimated:
    """Return the least-squares counts of the bins, given the answers to `ask_tree`.

    Args:
        variable: The column.
        released: Answers, the widest intervals first.
        branching: As in `ask_tree`.
        rows: Number of records whose value is not missing, if it is known; otherwise None.
        bounded: Whether the parts of an interval become nonnegative, from the widest down.
    """
    levels = [bin_counts(variable, each) for each in released]
    values = quantile_tree.estimate(
        [counts.tolist() for _, counts, _ in levels],
        branching=branching,
        total=rows,
        bounded=bounded,
    )
    missing = float(np.mean([number for *_, number in levels]))
    widest = levels[0][1].size + variable.missing
    return Estimated(
        levels[-1][0], np.array(values), missing, released[0].variance * widest / len(levels)
    )
