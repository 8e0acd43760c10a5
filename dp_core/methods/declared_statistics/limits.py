"""The question for the sums of a table: public limits for each group, from noisy counts.

The limit with the least expected squared error is chosen. A larger limit needs more noise, and a
smaller limit clips more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.questions.limited_sums import MOST_REACH, LimitedSums
from dp_core.methods.declared_statistics.layers import Layers
from dp_core.methods.declared_statistics.tail_counts import TailCounts
from dp_core.methods.declared_statistics.value_table import ValueTable

Floats = NDArray[np.float64]

MISJUDGED = 1.0
"""Largest relative error that is expected of the estimated amount that clipping removes."""
RARE = 0.01
"""Expected number of records in the outermost layers below which the estimate leaves them out. So
this is the probability that a group has a dominant record, which no interval covers."""
_CENTRES = 17  # number of centres between the limits that are tried
_FINER = 8  # reach divided by the largest range of a group: how finely factors are rounded
_MOST_NOISE = 2.0**50  # largest standard deviation of an entry's noise


@dataclass(frozen=True, slots=True, eq=False)
class Excess:
    """The amount that clipping removes from the sum of each group, in the unit of the values.

    Attributes:
        above: Estimated excess of the values above the upper limit, shape (groups,).
        below: That of the values below the lower limit, at least 0.
        variance: Variance of both together: that of the estimated counts and of a group's own
            distribution, and that of the values of the few records beyond the limits.
        records: Estimated number of records beyond the limits.
        allowance: Bias allowance, the largest expected error of `above` and `below`: their sum, or
            the amount that records hidden by noise would add.
    """

    above: Floats
    below: Floats
    variance: Floats
    records: Floats
    allowance: Floats


def excess(tail: TailCounts, layers: Layers, limits: Floats) -> Excess:
    """Return the amount that clipping removes.

    Args:
        tail: Estimated counts.
        layers: The layers.
        limits: Limit of each group, as a distance from the origin.
    """
    beyond = layers.far[None, :] > limits[:, None] * (1 + 1e-12)
    cut = beyond & ~_rare(tail, layers)
    amount = np.maximum(layers.means[None, :] - limits[:, None], 0.0)
    over = amount * cut
    squares = layers.squares[None, :] - 2 * limits[:, None] * layers.means + limits[:, None] ** 2
    squares = np.maximum(squares, over**2) * cut
    side = np.where(layers.above, 1.0, 0.0)
    amounts = tail.counts * over
    hidden = (tail.doubt * amount * beyond).sum(axis=1)
    own = (tail.own_doubt * amount * beyond).sum(axis=1)
    return Excess(
        (amounts * side).sum(axis=1),
        (amounts * (1 - side)).sum(axis=1),
        (tail.counts * squares + tail.variance * over**2).sum(axis=1) + (own / 2) ** 2,
        (tail.counts * cut).sum(axis=1),
        np.maximum(MISJUDGED * amounts.sum(axis=1), hidden),
    )


def _rare(tail: TailCounts, layers: Layers) -> NDArray[np.bool_]:
    """Return the outermost layers that are likely to be empty, shape (groups, layers)."""
    order = np.argsort(-layers.far)
    found = np.zeros(tail.counts.shape, dtype=np.bool_)
    found[:, order] = np.cumsum(tail.counts[:, order], axis=1) < RARE
    return found


def sums_question(
    table: ValueTable, tail: TailCounts, count_sigma: float, noise: float
) -> LimitedSums:
    """Return the question for the sums.

    Args:
        table: The table.
        tail: Estimated counts of its layers.
        count_sigma: Standard deviation of the noise of the number of records of a group.
        noise: Standard deviation of the noise of a sum, relative to its reach.
    """
    layers = table.layers
    options = np.array(layers.limits, dtype=np.float64)
    errors = []
    for option in options:
        lost = excess(tail, layers, np.full(table.groups, option))
        errors.append((noise * option) ** 2 + lost.allowance**2 + lost.variance)
    limits = options[np.argmin(np.array(errors), axis=0)]
    lows = np.maximum(layers.least, layers.origin - limits)
    highs = np.minimum(layers.most, layers.origin + limits)
    kept = np.minimum(layers.means[None, :], limits[:, None]) * np.where(layers.above, 1, -1)
    means = layers.origin + (tail.counts * kept).sum(axis=1) / np.maximum(
        tail.counts.sum(axis=1), 1e-9
    )
    centres = _centres(lows, highs, means, count_sigma, noise)
    ranges = np.maximum(np.maximum(np.abs(lows - centres), np.abs(highs - centres)), 1.0)
    largest = float(ranges.max())
    reach = max(largest, min(_FINER * largest, MOST_REACH, _MOST_NOISE / max(noise, 1e-300)))
    factors = np.maximum(np.floor(reach / ranges), 1)
    return LimitedSums(
        by=table.by,
        sizes=table.sizes,
        edges=table.edges,
        column=table.column,
        positions=table.values.positions,
        runs=tuple(each for run in table.values.runs for each in run),
        lows=_whole(lows),
        highs=_whole(highs),
        centres=_whole(centres),
        factors=_whole(factors),
    )


def probe(table: ValueTable) -> LimitedSums:
    """Return a question of the same kind, from which the noise of the question is looked up."""
    empty = np.zeros((table.groups, len(table.layers.far)))
    tail = TailCounts(empty, empty, empty, empty)
    return sums_question(table, tail, 0.0, 1.0)


def _centres(lows: Floats, highs: Floats, means: Floats, sigma: float, noise: float) -> Floats:
    """Return the value that is subtracted in each group, whole numbers.

    With a centre c and records up to a distance r from it, the total has the variance (noise r)^2 +
    (c sigma)^2, and the mean, times the number of records, has (noise r)^2 + ((mean - c) sigma)^2.
    The centre has the least product of the two. A centre of 0 is always tried. Centres from which a
    record could add more than `MOST_REACH` are left out.
    """
    parts = np.linspace(0.0, 1.0, _CENTRES)
    options = np.rint(lows[:, None] + parts * (highs - lows)[:, None])
    options = np.hstack([np.zeros((len(lows), 1)), options])
    reach = np.maximum(np.abs(highs[:, None] - options), np.abs(lows[:, None] - options))
    common = (noise * np.maximum(reach, 1.0)) ** 2
    score = np.log(common + (options * sigma) ** 2)
    score += np.log(common + ((means[:, None] - options) * sigma) ** 2)
    score = np.where(reach <= MOST_REACH, score, np.inf)
    return np.asarray(options[np.arange(len(lows)), np.argmin(score, axis=1)])


def _whole(numbers: Floats) -> tuple[int, ...]:
    return tuple(int(each) for each in numbers)
