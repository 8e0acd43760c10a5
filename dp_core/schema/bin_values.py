"""The values of bins: their bounds, and their distribution within each, for quantiles and moments.

Values are distributed as `decoding.draw_values` draws them: a piece of the bin by its weight, and
uniformly within the piece; without pieces, uniformly within the bin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.schema.definition import Column

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class BinValues:
    """The distribution of values within each bin of an integer, number or date.

    Values are in *units*: whole numbers for integers, day ordinals for dates, `steps` to one for
    numbers. With `whole`, values are whole numbers of units; otherwise they are real numbers.

    Attributes:
        whole: Whether the values are whole numbers of units: integers, dates, and numbers with
            `decimals`.
        steps: Units in one of the column's own units: 10^decimals for a number, otherwise 1.
        first: Index of the first piece of each bin, and last the number of pieces.
        starts: Smallest value of each piece, in units.
        widths: With `whole`, the number of values of each piece; otherwise its width in units.
        below: Weight of all pieces before each piece; last, of all. Weights are whole numbers, so
            that sums are exact.
    """

    whole: bool
    steps: int
    first: NDArray[np.intp]
    starts: Floats
    widths: Floats
    below: Floats

    @classmethod
    def of(cls, column: Column) -> BinValues:
        """Return the distribution of values within the bins of a column.

        Args:
            column: Integer, number or date, with its bins chosen.

        Raises:
            ValueError: if the column has levels.
        """
        if column.levels:
            raise ValueError(f"Column {column.name!r} has levels, not bins.")
        within = column.within
        edges = column.edges if within is None else within.edges
        first = range(column.bins + 1) if within is None else within.places(column.edges)
        weights = (
            np.ones(len(edges) - 1) if within is None else np.array(within.weights, np.float64)
        )
        ends = _ends(column, edges)
        steps = 10 ** (column.decimals or 0) if column.type.continuous else 1
        whole = ends is not None
        if ends is None:
            steps = 1
            numbers = np.array([float(edge) for edge in edges])
            ends = numbers[:-1], numbers[1:]
        return cls(
            whole=whole,
            steps=steps,
            first=np.array(first, dtype=np.intp),
            starts=ends[0],
            widths=ends[1] - ends[0],
            below=np.concatenate([[0.0], np.cumsum(weights)]),
        )

    def mean(self) -> Floats:
        """Return the mean value of each bin, in units, shape (bins,)."""
        middles = self.starts + (self.widths - self.whole) / 2
        sums = np.add.reduceat(np.diff(self.below) * middles, self.first[:-1])
        return np.asarray(sums / np.diff(self.below[self.first]))

    def variance(self) -> Floats:
        """Return the variance of the values within each bin, in units squared, shape (bins,)."""
        weights, bins = np.diff(self.below), self.first[:-1]
        total = np.diff(self.below[self.first])
        means = np.repeat(self.mean(), np.diff(self.first))
        off = self.starts + (self.widths - self.whole) / 2 - means
        within = (np.square(self.widths) - self.whole) / 12
        return np.asarray(np.add.reduceat(weights * (np.square(off) + within), bins) / total)

    def quantile(self, codes: NDArray[Any], parts: Floats) -> NDArray[Any]:
        """Return the smallest value that a value of the bin does not exceed with a probability.

        Args:
            codes: Bin of each row, shape (rows,).
            parts: Probability for each row, from 0 to 1.

        Returns:
            Values in units: whole numbers (`int64`) with `whole`, otherwise `float64`.
        """
        codes = np.asarray(codes)
        low, high = self.first[codes], self.first[codes + 1]
        total = self.below[high] - self.below[low]
        target = np.asarray(parts, dtype=np.float64) * total
        piece = np.searchsorted(self.below, self.below[low] + target, side="left") - 1
        piece = np.clip(piece, low, high - 1)
        weight = self.below[piece + 1] - self.below[piece]
        before = self.below[piece] - self.below[low]
        place = np.clip((target - before) / np.where(weight > 0, weight, 1.0), 0.0, 1.0)
        place = place * self.widths[piece]
        if not self.whole:
            return np.asarray(self.starts[piece] + place)
        # `target` is rounded, so that a whole number of values may be exceeded by very little.
        value = np.ceil(place - 1e-9 * self.widths[piece]) - 1
        value = np.clip(value, 0, self.widths[piece] - 1)
        return np.asarray(self.starts[piece] + value).astype(np.int64)


def legal_range(column: Column) -> tuple[Fraction, Fraction]:
    """Return the smallest and the largest legal value of an integer, number or date column."""
    low = column.edges[0] if column.minimum is None else column.minimum
    if column.type.continuous:
        return low, column.edges[-1] if column.maximum is None else column.maximum
    # A bin ends before its upper edge.
    high = math.ceil(column.edges[-1]) - 1 if column.maximum is None else column.maximum
    return Fraction(math.ceil(low)), Fraction(math.floor(high))


def units_of_bins(
    column: Column, decimals: int = 0, edges: Sequence[Fraction] = ()
) -> tuple[list[int], list[int]]:
    """Return the first and the last value of each bin as whole numbers of units.

    The last value of a bin without a value is before its first one.

    Args:
        column: A column with bins.
        decimals: A unit is 10^-decimals; by default 1.
        edges: The edges of the bins; by default the column's.
    """
    edges = edges or column.edges
    scale = 10**decimals
    # Quotients of whole numbers, rounded up: a grid has thousands of edges.
    starts = [-(-edge.numerator * scale // edge.denominator) for edge in edges]
    firsts, lasts = starts[:-1], [start - 1 for start in starts[1:]]
    if column.type.continuous:
        lasts[-1] = math.floor(edges[-1] * scale)
        return firsts, lasts
    least, most = map(int, legal_range(column))
    return [max(first, least) for first in firsts], [min(last, most) for last in lasts]


def whole_bounds(column: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the smallest and the largest whole number of each bin."""
    firsts, lasts = units_of_bins(column)
    return np.array(firsts, dtype=np.int64), np.array(lasts, dtype=np.int64)


def float_bounds(column: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and the largest binary64 of each bin of a number."""
    low = np.array([float(edge) for edge in column.edges[:-1]])
    # The last bin contains its upper end; the others end at the value just below their upper edge.
    last = np.nextafter([float(edge) for edge in column.edges[1:]], -np.inf)
    last[-1] = float(column.edges[-1])
    return low, last


def _ends(column: Column, edges: tuple[Any, ...]) -> tuple[Floats, Floats] | None:
    """Return the first whole number of units of each piece and the end, or None if there is none.

    The values of a number without `decimals` are real numbers, and so are those of a number of
    which a piece contains no multiple of the last decimal.
    """
    if column.type.continuous and column.decimals is None:
        return None
    low, last = units_of_bins(column, column.decimals or 0, edges)
    high = [end + 1 for end in last]
    if max(map(abs, (*low, *high))) >= 2**53 or any(
        one >= other for one, other in zip(low, high, strict=True)
    ):
        return None
    return np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
