"""Answers about spread and inequality: standard deviation, Gini coefficient, top share.

Each is a function of the counts by bin (`dp_core.inference.spread_measures`): those of the sets, or
where sets do not tell most of them those of the tables; in both without bins that are mostly noise.
The tables' own estimate is one step from there to their counts, so noise does not bias it, to first
order.
"""

from __future__ import annotations

import math

import numpy as np

from dp_core.analysis.query.asked_counts import Asked
from dp_core.analysis.query.bin_errors import bias_of
from dp_core.analysis.query.set_counts import CLEAR
from dp_core.analysis.query.term_intervals import Ends, Intervals, check_size
from dp_core.inference.spread_measures import SPREAD_MEASURES, BinMoments, Spread
from dp_core.methods.bin_density.bin_bias import BinBias
from dp_core.methods.reconstruction.estimates.area_parts import Floats
from dp_core.schema.bin_values import BinValues

_LEAST_CLEAR = 0.9
"""Part of a group's records in bins that are not mostly noise from which the sets are used."""


def spread_answers(work: Intervals, asked: Asked) -> tuple[Ends, Ends]:
    """Return measures with their intervals, in the order of `asked.labels()`.

    Args:
        work: What is known of sums of counts.
        asked: A question about one (`Question.is_of_spread`).

    Returns:
        Measures with the ends of their intervals, which are infinite where the number of records
        cannot be distinguished from 0, or all records have the same value. Then the same with the
        ends if the mean and the variance of the values in each bin were known.

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
    counts = work.set_bin_counts(asked)
    if counts is not None:
        counts = counts.flat()
        told = counts.clear.sum(axis=1) >= _LEAST_CLEAR * counts.records.sum(axis=1)
        clear = np.where(told[:, None], counts.clear, clear)
    found = spread(clear)
    sums = [_sum_of(work, asked, group, own) for group, own in enumerate(found.by_count)]
    step, variance, noise, quantile = np.array(sums).T
    values = found.values + step - (found.by_count * clear).sum(axis=1)
    sampled = np.maximum(variance - noise, 0.0)
    if counts is not None:
        own = spread(counts.records).values
        few = np.where(told, own - found.values, math.inf)
        values, noise, _ = counts.with_tables(found.by_count, values, noise, own, few)
    known = _are_counted(work, asked) & np.isfinite(values)
    variances = noise + sampled, noise + sampled + _bin_variance(bias, found)
    without, plain = (
        (np.where(known, values, np.nan), values - half, values + half)
        for half in (np.where(known, quantile * np.sqrt(each), math.inf) for each in variances)
    )
    return plain, without


def _sum_of(
    work: Intervals, asked: Asked, group: int, weights: Floats
) -> tuple[float, float, float, float]:
    """Return a weighted sum of a group's counts in the tables.

    Args:
        work: What is known of sums of counts.
        asked: The question.
        group: Number of the group, row by row.
        weights: Weights of the bins, shape (bins,).

    Returns:
        The sum, its variance, that by noise alone, and the quantile of its error.
    """
    top = asked.of_group(group, np.nan_to_num(weights))
    value, variance, quantile = (float(np.ravel(each)[0]) for each in work.sums(top))
    noise = float(np.ravel(work.noise.sums(top)[1])[0]) if work.sampling else variance
    return value, max(variance, 0.0), max(noise, 0.0), quantile


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
    size, variance, quantile = work.sums(asked.counts(values=asked.has_value))
    known = size > quantile * np.sqrt(np.maximum(variance, 0.0))
    return np.asarray(known.ravel())
