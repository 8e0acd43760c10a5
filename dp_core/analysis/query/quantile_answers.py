"""Medians and other quantiles from the noisy counts of bins or levels, with their intervals.

The intervals invert the noisy counts below each edge (`dp_core.inference.quantile_intervals`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.asked_counts import MOST_ANSWERS, Asked
from dp_core.analysis.query.term_intervals import Intervals
from dp_core.errors import BadInput
from dp_core.inference.quantile_intervals import QuantileBins, quantile_bins, rounded_up
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.schema.bin_values import BinValues

MOST_EDGES = 20 * MOST_ANSWERS
"""Largest number of edges in all groups of a question together."""
_AT_ONCE = 16
"""Edges whose noise is computed at once: few enough that the distribution of each is exact."""


def quantile_answers(work: Intervals, asked: Asked) -> tuple[Floats, Floats, Floats, Floats]:
    """Return quantiles, both ends of their intervals, and their margins without bins.

    Args:
        work: What is known of sums of counts.
        asked: A question about a quantile.

    Returns:
        Arrays with an entry for each group, in the order of `asked.labels()`: values of the column,
        or codes of the levels of an ordinal. The ends are infinite where the number of records
        cannot be distinguished from 0. The margin without bins is half of the width of the interval
        if values within each bin follow the column's density; NaN of a column without bins.

    Raises:
        BadInput: if there are too many edges in all groups together.
    """
    found = _bins(work, asked)
    column = asked.schema.column(str(asked.question.number))
    if column.levels:
        values, lows, highs = (
            each.astype(float) for each in (found.place, found.first, found.last)
        )
        margins = np.full(values.shape, math.nan)
    else:
        density, (low, high) = BinValues.of(column), asked.bounds
        lows, highs = low[found.first], high[found.last]

        def within(codes: NDArray[np.intp], part: Floats) -> Floats:
            return np.asarray(density.quantile(codes, part) / density.steps, dtype=np.float64)

        values = np.clip(within(found.place, found.part), low[found.place], high[found.place])
        least, most = within(found.first, found.low_part), within(found.last, found.high_part)
        margins = np.maximum(np.maximum(most, values) - np.minimum(least, values), 0.0) / 2
    unknown = ~found.determined
    lows, highs = np.where(unknown, -math.inf, lows), np.where(unknown, math.inf, highs)
    return values, lows, highs, margins


def _bins(work: Intervals, asked: Asked) -> QuantileBins:
    """Return the bins of the interval of each group."""
    edges = asked.schema.column(str(asked.question.number)).bins + 1
    groups, axis = [len(rows) for rows in asked.groups], asked.number_axis
    if math.prod(groups) * edges > MOST_EDGES:
        raise BadInput(
            f"The question has {math.prod(groups):,} groups with {edges:,} edges each, more than"
            f" {MOST_EDGES:,} edges: name fewer columns after `by`, or restrict them with `where`."
        )
    parts = []
    for first in range(0, edges, _AT_ONCE):
        cuts = asked.cuts(first, first + _AT_ONCE)
        values, variances, quantiles = work.sums(cuts)
        variances = np.maximum(variances, 0.0)
        half = np.broadcast_to(quantiles * np.sqrt(variances), values.shape)
        half = rounded_up(half, np.broadcast_to(variances, values.shape))
        # The rows of the column's axis are those of its groups times the edges.
        apart = (*groups[:axis], groups[axis], -1, *groups[axis + 1 :])
        parts.append([np.moveaxis(each.reshape(apart), axis + 1, -1) for each in (values, half)])
    deviations, half_widths = (
        np.concatenate([each[place] for each in parts], axis=-1).reshape(-1, edges)
        for place in (0, 1)
    )
    return quantile_bins(deviations, half_widths)
