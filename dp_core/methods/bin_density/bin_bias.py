"""What bins do to means and slopes: the bias of the sets, and how far means of bins may be off.

All is known from public figures before a set is analysed. Bins alone, without any noise, bias
means, and slopes on or of a numeric column: the values of a set within a bin are drawn from the
bin's density and are independent of everything else there. With x a value, b(x) the mean of its bin
in the sets and u the value in a set:

- *Mean.* E u = E b(x), so the error of the mean is E b(x) - E x. It is 0 if the values of a set
  follow the fitted density; where they are uniform and the density falls within a bin, the mean of
  its records is below its middle.
- *Predictor.* The sets keep cov(b(x), y). So a slope on x is multiplied by cov(b(x), x)/Var(u).
  With t the part of the variance within the bins, this is 1 - t with the fitted density, and about
  1 - 2 t for uniform values of a smooth density.
- *Outcome.* The sets keep the covariance of the predictor with b(y), so a slope of y is multiplied
  by cov(b(y), y)/Var(y), if the mean of the predictor is linear in y. With the fitted density this
  is 1 - t. For uniform values of a smooth density it is 1, because middles that are too high in one
  part of the density are too low in another (Sheppard 1898).

E x and Var x are those of the density that is fitted to the noisy counts
(`dp_core.methods.bin_density.fitting`), whether or not the sets follow it.

A fitted density may be wrong in three ways. *In single bins*: the two neighbours suggest different
densities. *Heaps*: bins have records that their neighbours do not suggest, such as 0 or 40 hours,
and these may lie anywhere in them, in several bins on the same side: edges are often round numbers,
and so are heaps. *In all bins together*: people round. Where bins begin at round numbers, values
are then lower than the density says.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.bin_density.fitting import MOST_BINS, ends_of, fit_pieces, means_by_steps
from dp_core.schema.bin_values import BinValues
from dp_core.schema.definition import Column

Floats = NDArray[np.float64]
TOGETHER = 0.03
"""Standard error that the means of all bins have together, in lengths of the bins: it covers values
that are rounded to a tenth of a bin. Chosen on the columns of `benchmarks/bin_intervals.py` and
others like them, with 6 to 40 bins: at least .97 of means were covered, and .96 without it."""


@dataclass(frozen=True, slots=True, eq=False)
class BinBias:
    """What bins do to estimates from the sets.

    Attributes:
        column: The number.
        records: Numbers of records by bin, of all records, at least 0, shape (bins,).
        centre: Mean of the number, in the column's unit.
        variance: Its variance, in this unit squared.
        mean_error: Expected error of the mean in the sets, in the column's unit.
        by_neighbours: Largest difference between the mean of each bin in the sets and those of the
            densities that one neighbour alone suggests, in the column's unit, shape (bins,).
        spread: Standard deviation in the sets of the values in each bin, in this unit, same shape.
        predictor: Factor of a slope on this column; 1 without bias.
        outcome: Factor of a slope of this column on others; 1 without bias.
    """

    column: Column
    records: Floats
    centre: float
    variance: float
    mean_error: float
    by_neighbours: Floats
    spread: Floats
    predictor: float
    outcome: float

    def doubts(self, records: Floats | None = None) -> Floats:
        """Return the standard errors of the means of single bins, in the column's unit.

        Args:
            records: Numbers of records by bin of some groups, at least 0, shape (..., bins); by
                default of all records.

        Returns:
            Standard errors, same shape.
        """
        return np.hypot(self.by_neighbours, self.spread * self._unexplained(records)[0])

    def anywhere(self, records: Floats | None = None) -> Floats:
        """Return the part of each bin's records that may have any value in the bin.

        The density of its neighbours does not explain them. All of an end's: whether its density
        falls to 0 matters little for a mean, and much for a quantile or logarithm.

        Args:
            records: As for `doubts`.
        """
        return self._unexplained(records)[1]

    def tilts(self, records: Floats) -> Floats:
        """Return how far sums of values move if the density in bins leans towards a group's mean.

        If the distribution of a group is that of all records times exp(k x), the mean of each bin
        differs by k times the variance in the bin, and the mean of the group by k times the
        variance of the number.

        Args:
            records: Numbers of records by bin of some groups, at least 0, shape (..., bins).

        Returns:
            Changes of the sums, in the column's unit, shape (...).
        """
        values = BinValues.of(self.column)
        whole = np.maximum(records.sum(axis=-1), 1e-300)
        apart = records @ (values.mean() / values.steps) / whole - self.centre
        return np.asarray(records @ self.spread**2 * apart / self.variance)

    def errors(self, weights: Floats) -> Floats:
        """Return standard deviations of independent errors of weighted sums of the means of bins.

        The errors of bins by themselves are independent, heaps included: on the same side they
        would cancel where weights have both signs.

        Args:
            weights: Weights of the bins, shape (..., bins).

        Returns:
            One for each bin and one for all bins together, shape (..., bins + 1). The sum of their
            squares is the variance of a sum; that of products of two is a covariance.
        """
        together = weights @ self._together
        return np.concatenate([weights * self.doubts(), together[..., None]], axis=-1)

    def errors_of_totals(self, records: Floats) -> Floats:
        """Return the same of totals of values, with all heaps on the same side.

        Args:
            records: As for `doubts`.

        Returns:
            One for each bin, one for all heaps, and one for all bins together, shape
            (..., bins + 2).
        """
        heaps = np.sum(records * self.spread * self._unexplained(records)[0], axis=-1)
        both = [each[..., None] for each in (heaps, records @ self._together)]
        return np.concatenate([records * self.by_neighbours, *both], axis=-1)

    @property
    def _together(self) -> Floats:
        first, last = ends_of(self.column)
        return np.asarray(TOGETHER * (last - first))

    def _unexplained(self, records: Floats | None) -> tuple[Floats, Floats]:
        return _unexplained(self.column, self.records if records is None else records)


def bin_bias(column: Column, counts: Floats, standard_error: float) -> BinBias | None:
    """Return the bias that the bins of a numeric column cause.

    Args:
        column: Column; None is returned for one with levels. Within bins that were chosen
            privately, the values of sets follow the noisy counts, and no other density is fitted.
        counts: Noisy counts of its codes, records; a last one for missing is ignored.
        standard_error: Standard error of a count due to noise, records.
    """
    if column.levels or not 1 <= column.bins <= MOST_BINS:
        return None
    kept = np.maximum(counts[: column.bins], 0.0)
    if kept.sum() <= 0:
        return None
    share = kept / kept.sum()
    public, fitted = column.choice is None, column
    if public:
        fitted = dataclasses.replace(column, pieces=fit_pieces(column, counts, standard_error**2))
    of_set, true = BinValues.of(column), BinValues.of(fitted)
    mean, inside = true.mean() / true.steps, true.variance() / true.steps**2
    middle, inside_of_set = of_set.mean() / of_set.steps, of_set.variance() / of_set.steps**2
    centre, centre_of_set = float(share @ mean), float(share @ middle)
    covariance = float(share @ ((middle - centre_of_set) * (mean - centre)))
    variance = float(share @ (np.square(mean - centre) + inside))
    variance_of_set = float(share @ (np.square(middle - centre_of_set) + inside_of_set))
    if not (variance_of_set > 0 and variance > 0):
        return None
    by_neighbours = np.zeros(column.bins)
    if public:
        steps = means_by_steps(column, counts, standard_error**2)
        by_neighbours = np.abs(steps - middle).max(axis=0)
    return BinBias(
        *(column, kept, centre, variance, centre_of_set - centre, by_neighbours),
        *(np.sqrt(inside_of_set), covariance / variance_of_set, covariance / variance),
    )


def unknown_bias(column: Column) -> BinBias:
    """Return the bias if nothing is known of values within bins: they may be anywhere.

    Args:
        column: Integer, number or date, whose private bins, if any, are chosen.
    """
    first, last = ends_of(column)
    spread, middle = (last - first) / math.sqrt(12), float(first[0] + last[-1]) / 2
    none = np.zeros(column.bins)
    return BinBias(column, none, middle, math.inf, 0.0, spread, spread, 1.0, 1.0)


def _unexplained(column: Column, records: Floats) -> tuple[Floats, Floats]:
    """Return the part of each bin's records that the density of its neighbours does not explain.

    Args:
        column: The number.
        records: Numbers of records by bin, at least 0, shape (..., bins).

    Returns:
        The part for a mean, and that for functions that depend on the values next to an edge.
    """
    density = records / np.maximum(np.diff([float(edge) for edge in column.edges]), 1e-300)
    side = np.zeros((*density.shape[:-1], 1))
    left, right = (
        np.concatenate(each, axis=-1)
        for each in ((side, density[..., :-1]), (density[..., 1:], side))
    )
    is_end, some = (left == 0) | (right == 0), density > 0
    around = np.maximum(left, right) / np.maximum(density, 1e-300)
    # Where one side has no records, the density may fall to 0 within the bin, or not at all.
    ends = np.where(around < 1, 1 - around / 2, 1 / np.maximum(2 * around, 1e-300))
    if column.choice is not None:
        ends = np.ones_like(ends)
    # Beside a heap, the geometric mean of both sides: heaps in adjacent bins do not explain each
    # other.
    between = np.sqrt(left * right) / np.maximum(density, 1e-300)
    inner = np.maximum(1 - between, 0.0)
    return np.where(is_end, ends, inner) * some, np.where(is_end, 1.0, inner) * some
