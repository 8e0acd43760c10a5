"""Sampling deviations of tables, both of the file (which is a sample) and of drawn records.

Cells of a product table are grouped into a few bins by expected deviation (width).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique, Domain

HALF_NORMAL = math.sqrt(2 / math.pi)
"""Mean absolute value of a standard normal variable."""
_LOOKED_AT = 100  # tables in a sample


def deviation(expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sampling deviation of counts, as an equivalent normal standard deviation.

    The mean absolute deviation of a Poisson variable is nearly that of a normal one; for an
    expectation far below 1 it is twice the expectation.

    Args:
        expected: Mean counts, of any shape.
    """
    return np.minimum(np.sqrt(expected), 2 / HALF_NORMAL * expected)


@dataclass(frozen=True)
class Chance:
    """Summed absolute sampling deviations of tables of a file that is a sample, in records.

    A count deviates by the square root of its expectation, and by at most twice its expectation. If
    the margins of a table are known, a factor of (1 - 1/p) per column of p levels remains as the
    variance of its own deviation.

    Attributes:
        domain: All columns.
        rows: Number of records.
        factors: For each column, the sum of the roots of its shares, times the root of its factor.
        binned: For each column, the number of codes with each approximate share of records.
    """

    domain: Domain
    rows: float
    factors: tuple[float, ...]
    binned: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]
    _pairs: dict[Clique, float] = field(default_factory=dict, init=False, repr=False)
    _parts: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, domain: Domain, columns: Sequence[NDArray[np.float64]], rows: float) -> Chance:
        """Return the sampling deviations for estimated one-way tables, in records."""
        factors = [
            float(np.sqrt(column / rows).sum()) * math.sqrt(1 - 1 / column.size)
            for column in columns
        ]
        found = []
        for column in columns:
            number, mean = bin_widths([column], rows, 1.0)
            found.append((number[number > 0], mean[number > 0] / rows))
        return cls(domain, rows, tuple(factors), tuple(found))

    def pair(self, clique: Clique) -> float:
        """Return the deviation of a pair beyond its columns, in records."""
        if clique not in self._pairs:
            self._pairs[clique] = self._expected_deviation(self.domain.axes(clique))
        return self._pairs[clique]

    def triple(self, clique: Clique) -> float:
        """Return the approximate deviation of a triple beyond its pairs, in records."""
        return self._by_roots(self.domain.axes(clique)) * self._part(3)

    @cached_property
    def mean_pair(self) -> float:
        """Approximate mean deviation of all pairs, in records; 0 if there is none."""
        number = math.comb(len(self.factors), 2)
        one, two = (sum(each**power for each in self.factors) for power in (1, 2))
        products = (one**2 - two) / 2
        return self._root * products / number * self._part(2) if number else 0.0

    @cached_property
    def mean_triple(self) -> float:
        """Approximate mean deviation of all triples, in records; 0 if there is none."""
        number = math.comb(len(self.factors), 3)
        one, two, three = (sum(each**power for each in self.factors) for power in (1, 2, 3))
        # Newton's identity.
        products = (one**3 - 3 * one * two + 2 * three) / 6
        return self._root * products / number * self._part(3) if number else 0.0

    @property
    def _root(self) -> float:
        return HALF_NORMAL * math.sqrt(self.rows)

    def _by_roots(self, axes: Sequence[int]) -> float:
        """Return the deviation if no cell had an expectation far below 1."""
        return self._root * math.prod(self.factors[axis] for axis in axes)

    def _part(self, order: int) -> float:
        """Return the remaining part of `_by_roots` in tables of so many columns, from a sample."""
        if order not in self._parts:
            d = len(self.factors)
            every = itertools.combinations(range(d), order)
            step = max(1, math.comb(d, order) // _LOOKED_AT)
            some = list(itertools.islice(every, 0, None, step))
            roots = sum(self._by_roots(axes) for axes in some)
            self._parts[order] = sum(map(self._expected_deviation, some)) / roots if roots else 1.0
        return self._parts[order]

    def _expected_deviation(self, axes: Sequence[int]) -> float:
        """Return the summed deviation of a table's cells beyond its margins, in records."""
        number, expected = np.ones(1), np.array([self.rows])
        for axis in axes:
            own = 1 - 1 / self.domain.sizes[axis]
            more, share = self.binned[axis]
            number = np.multiply.outer(number, more).ravel()
            expected = np.multiply.outer(expected, own * share).ravel()
        return float(number @ deviation(expected)) * HALF_NORMAL


BINS = 32
"""Number of bins."""
_MOST_LEVELS = 1 << 10
"""Levels of a column that are looked at one by one; of more, levels of like counts are together."""
_GROUPS = 1 << 9


def bin_widths(
    tables: Sequence[NDArray[np.float64]], rows: float, power: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of cells in each bin of widths, and their mean width.

    Args:
        tables: One-way tables of the columns, in records; expected counts are their product.
        rows: Number of records.
        power: A cell of expected count E has width E ** power; nearly empty cells are left out.

    Returns:
        Two arrays of shape (`BINS`,).
    """
    expected = np.asarray(rows)
    cells: NDArray[np.float64] = np.asarray(1.0)
    for table in tables:
        means, levels = _mean_by_group(table / rows)
        expected = np.multiply.outer(expected, means)
        cells = np.multiply.outer(cells, levels)
    seen = expected > 1e-6
    width, cells = expected[seen] ** power, cells[seen]
    if width.size == 0:
        width = cells = np.ones(1)
    logs = np.log(width)
    low, high = float(logs.min()), float(logs.max())
    bins = np.minimum(((logs - low) * (BINS / max(high - low, 1e-9))).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, weights=cells, minlength=BINS).astype(np.float64)
    sums = np.bincount(bins, weights=cells * width, minlength=BINS)
    return counts, np.divide(sums, counts, out=np.zeros(BINS), where=counts > 0)


def _mean_by_group(shares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean share of each group of levels, and the number of levels in it.

    A group is one level, or in columns of very many levels those whose shares differ by little:
    by 10 % if the largest share is 10^22 times the smallest.
    """
    if shares.size <= _MOST_LEVELS:
        return shares, np.ones(shares.size)
    positive = np.maximum(shares, 1e-300)
    logs = np.log(positive)
    low, high = float(logs.min()), float(logs.max())
    groups = ((logs - low) * ((_GROUPS - 1) / max(high - low, 1e-9))).astype(np.int64)
    levels = np.bincount(groups, minlength=_GROUPS).astype(np.float64)
    sums = np.bincount(groups, weights=shares, minlength=_GROUPS)
    some = levels > 0
    return sums[some] / levels[some], levels[some]
