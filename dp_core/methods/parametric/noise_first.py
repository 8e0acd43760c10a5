"""NoiseFirst: noisy counts of narrow bins, merged where the mean is probably more accurate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_core.methods.parametric.column_histograms import ColumnHistograms, Floats
from dp_core.schema.variables import Variable

PRICE = 2.0
"""Penalty for each run, in multiples of the noise variance, as in the paper: then the estimate of
the error is unbiased for a fixed partition. (The best of very many partitions fits some noise.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFirst(ColumnHistograms):
    """Count narrow bins with noise, then merge neighbouring bins (Xu et al. 2013, section 4).

    Runs of bins are replaced by their mean count. With noise of variance v, the expected squared
    error of a run of b bins is estimated without bias by its noisy sum of squares about the mean
    less (b - 2) v. So dynamic programming finds the partition into runs that minimises the sums of
    squares plus 2 v for each run. The paper minimises the same for each number of runs and takes
    the best.

    Privacy:
        One histogram; a record is in one of its bins. Merging is post-processing.
    """

    def smooth(self, variable: Variable, counts: Floats, variance: float) -> Floats:  # noqa: ARG002
        return merge_runs(counts, PRICE * variance)


def merge_runs(counts: Floats, price: float) -> Floats:
    """Return the counts with each run replaced by its mean, for the best partition into runs.

    It minimises the sum of squares about the means plus `price` for each run, in quadratic time.

    Args:
        counts: Noisy counts, shape (bins,).
        price: Price of a run, records squared.

    >>> merge_runs(np.array([5.0, 7.0, 6.0, 90.0]), 8.0)
    array([ 6.,  6.,  6., 90.])
    """
    # About their mean, so that differences of squares lose no digits.
    centre = counts.mean()
    sums = np.concatenate([[0.0], np.cumsum(counts - centre)])
    squares = np.concatenate([[0.0], np.cumsum((counts - centre) ** 2)])
    least = np.zeros(counts.size + 1)
    begins = np.zeros(counts.size + 1, dtype=np.int64)
    for end in range(1, counts.size + 1):
        width = np.arange(end, 0, -1)
        spread = squares[end] - squares[:end] - (sums[end] - sums[:end]) ** 2 / width
        total = least[:end] + np.maximum(spread, 0.0) + price
        begins[end] = int(np.argmin(total))
        least[end] = total[begins[end]]
    found = np.empty_like(counts)
    end = counts.size
    while end:
        begin = int(begins[end])
        found[begin:end] = counts[begin:end].mean()
        end = begin
    return found


METHOD = NoiseFirst
