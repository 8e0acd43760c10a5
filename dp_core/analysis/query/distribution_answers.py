"""Answers about the distribution of a number: quantiles, spread and inequality.

A quantile follows from the numbers of records below the edges of the bins. Standard deviation, Gini
coefficient and top share are functions of the counts by bin (`dp_core.inference.spread_measures`):
those of the sets, or where sets do not tell most of them those of the tables; in both without bins
that are mostly noise. The tables' own estimate is one step from there to their counts, so noise
does not bias it, to first order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dp_core.analysis.query.asked_counts import MOST_ANSWERS, Asked
from dp_core.analysis.query.bin_errors import bias_of, place_errors
from dp_core.analysis.query.set_counts import CLEAR, Estimates
from dp_core.analysis.query.term_intervals import Answers, Intervals
from dp_core.errors import BadInput
from dp_core.inference.count_intervals import QuantileBins, cut_weights, quantile_bins, rounded_up
from dp_core.inference.spread_measures import SPREAD_MEASURES, BinMoments, Spread
from dp_core.methods.bin_density.bin_bias import BinBias
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.schema.bin_values import BinValues

MOST_EDGES = 20 * MOST_ANSWERS
"""Largest number of edges in all groups of a question together."""
_AT_ONCE = 16
"""Edges whose noise is computed at once: few enough that the distribution of each is exact."""
_LEAST_CLEAR = 0.9
"""Part of a group's records in bins that are not mostly noise from which the sets are used."""
_GROUPS_AT_ONCE = 8
"""Groups whose noise is computed at once, for the same reason."""


def check_size(asked: Asked, edges: int) -> None:
    """Refuse a question with too many edges or cells of bins in all groups together.

    Args:
        asked: The question.
        edges: Number of edges or cells in each group.

    Raises:
        BadInput: if they are more than `MOST_EDGES`.
    """
    groups = math.prod(len(rows) for rows in asked.groups)
    if groups * edges > MOST_EDGES:
        raise BadInput(
            f"The question has {groups:,} groups with {edges:,} edges each, more than"
            f" {MOST_EDGES:,} edges: name fewer columns after `by`, or restrict them with `where`."
        )


def quantile_answers(work: Intervals, asked: Asked) -> Answers:
    """Return quantiles with their intervals.

    Args:
        work: What is known of sums of counts.
        asked: A question about a quantile.

    Returns:
        Values of the column, or codes of the levels of an ordinal, with the ends of their
        intervals, which are infinite where the number of records cannot be distinguished from 0.
        Without bins, values within each bin follow the column's density.

    Raises:
        BadInput: if there are too many edges in all groups together.
    """
    found, of_sets = _bins(work, asked)
    column = asked.number_column
    if column.levels:
        values, low, high = (
            each.astype(np.float64) for each in (found.place, found.first, found.last)
        )
        ends = [(low, high), (low, high)]
    else:
        density, (least, most) = BinValues.of(column), asked.bounds

        def within(codes: NDArray[np.intp], part: Floats) -> Floats:
            value = np.asarray(density.quantile(codes, part) / density.steps, dtype=np.float64)
            return np.clip(value, least[codes], most[codes])

        values = within(found.place, found.part)
        ends = [
            (
                np.minimum(within(found.first, low), values),
                np.maximum(within(found.last, high), values),
            )
            for low, high in (
                (found.low_part, found.high_part),
                (found.low_part_without_bins, found.high_part_without_bins),
            )
        ]
    known = found.determined
    plain, without = (
        (values, np.where(known, low, -math.inf), np.where(known, high, math.inf))
        for low, high in ends
    )
    return Answers(plain, without, of_sets & known)


def _bins(work: Intervals, asked: Asked) -> tuple[QuantileBins, NDArray[np.bool_]]:
    """Return the bins of the interval of each group, and where the sets have a weight."""
    edges = asked.number_column.bins + 1
    check_size(asked, edges)
    parts = []
    for first in range(0, edges, _AT_ONCE):
        sums = work.sums(asked.cuts(first, first + _AT_ONCE))
        each = (np.broadcast_to(one, sums.values.shape) for one in sums)
        parts.append([asked.with_last_axis(one, min(_AT_ONCE, edges - first)) for one in each])
    found = Estimates(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))
    counts = work.set_bin_counts(asked)
    if counts is not None:
        weights = cut_weights(edges - 1, float(asked.question.quantile or 0))
        several = counts.clear.sum(axis=-1, keepdims=True)
        clear = counts.clear * counts.records.sum(axis=-1, keepdims=True)
        clear = clear / np.where(several > 0, several, np.nan)
        few = np.nan_to_num((counts.records - clear) @ weights.T, nan=math.inf)
        told = [
            counts.with_tables(
                each, Estimates(*(one[..., edge] for one in found)), few=few[..., edge]
            )
            for edge, each in enumerate(weights)
        ]
        found = Estimates(*(np.stack(each, axis=-1) for each in zip(*told, strict=True)))
    half = rounded_up(found.half_width, found.variance)
    deviations, half_widths, weight = (
        each.reshape(-1, edges) for each in (found.values, half, found.weight)
    )
    errors = place_errors(work.sources, asked, work.level) if asked.in_bins else None
    return quantile_bins(deviations, half_widths, errors), np.any(weight > 0, axis=-1)


def spread_answers(work: Intervals, asked: Asked) -> Answers:
    """Return measures of spread or inequality with their intervals.

    Args:
        work: What is known of sums of counts.
        asked: A question about one (`Question.is_of_spread`).

    Returns:
        Measures with the ends of their intervals, which are infinite where the number of records
        cannot be distinguished from 0, or all records have the same value. Without bins, the mean
        and the variance of the values in each bin are known.

    Raises:
        BadInput: if there are too many bins in all groups together.
    """
    question, bias = asked.question, bias_of(work.sources.pooled, asked)
    within = BinValues.of(bias.column)
    moments = BinMoments(np.asarray(within.mean() / within.steps), bias.spread**2)
    check_size(asked, moments.means.size)

    def spread(records: Floats) -> Spread:
        part = float(question.quantile or 0)
        return SPREAD_MEASURES[question.measure].of(records, moments, part)

    noisy, deviations = (a.reshape(-1, bias.column.bins) for a in work.table_bin_counts(asked))
    clear = np.where(noisy > CLEAR * deviations, noisy, 0.0)
    counts, told = work.set_bin_counts(asked), np.zeros(len(clear), dtype=bool)
    if counts is not None:
        counts = counts.flat()
        told = counts.clear.sum(axis=1) >= _LEAST_CLEAR * counts.records.sum(axis=1)
        clear = np.where(told[:, None], counts.clear, clear)
    found = spread(clear)
    sums = _sums_of(work, asked, np.nan_to_num(found.by_count))
    values = found.values + sums.values - (found.by_count * clear).sum(axis=1)
    sums = Estimates(values, sums.variance, sums.noise, sums.quantile)
    if counts is not None:
        own = spread(counts.records).values
        few = np.where(told, own - found.values, math.inf)
        sums = counts.with_tables(found.by_count, sums, own, few)
    known = _are_counted(work, asked) & np.isfinite(sums.values)
    values = np.where(known, sums.values, np.nan)
    variances = sums.variance, sums.variance + _bin_variance(bias, found)
    halves = (np.where(known, sums.quantile * np.sqrt(each), math.inf) for each in variances)
    without, plain = ((values, sums.values - half, sums.values + half) for half in halves)
    return Answers(plain, without, known & told)


def _sums_of(work: Intervals, asked: Asked, weights: Floats) -> Estimates:
    """Return a weighted sum of each group's counts in the tables.

    Args:
        work: What is known of sums of counts.
        asked: The question.
        weights: Weights of the bins, shape (groups, bins).
    """
    parts = []
    for first in range(0, len(weights), _GROUPS_AT_ONCE):
        cells, places = asked.of_groups(first, weights[first : first + _GROUPS_AT_ONCE])
        sums = work.sums(cells)
        parts.append([np.broadcast_to(each, cells.shape)[places] for each in sums])
    return Estimates(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _bin_variance(bias: BinBias, found: Spread) -> Floats:
    """Return the variance of measures because of bins, shape (groups,).

    Records that may be anywhere in a bin may all have one value there, so their variance is as
    uncertain as it is large.
    """
    means = bias.errors(np.nan_to_num(found.by_mean))
    doubts = np.minimum(bias.doubts() / np.maximum(bias.spread, 1e-300), 1.0)
    spreads = np.nan_to_num(found.by_variance) * bias.spread**2 * doubts
    return np.asarray(np.square(means).sum(axis=-1) + np.square(spreads).sum(axis=-1))


def _are_counted(work: Intervals, asked: Asked) -> Floats:
    """Return whether the number of records of each group can be distinguished from 0."""
    size = work.sums(asked.counts(values=asked.has_value))
    return np.ravel(size.values > size.half_width)
