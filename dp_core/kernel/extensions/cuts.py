"""Scores of cuts of a numeric column's bins, by the distance from a histogram with fewer bins."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.counting.marginal import Marginal
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear_questions import CosineSums, OfBins, check_edges
from dp_core.kernel.questions.statistic import TableScores, records_moved
from dp_core.kernel.questions.whole_numbers import MOST, saturated


@dataclass(frozen=True, slots=True, kw_only=True)
class CutDeviations(OfBins, TableScores):
    """Minus the smallest L1 distance of a histogram from one that is constant between cuts.

    The bins `low` to `high` - 1 are cut before bin c. The right part becomes one run; the left part
    is divided into `left` runs by the best cuts. The entry of c is minus the sum, over the runs, of
    the absolute deviations of the bins' counts from the run's median, minus `price`. Unit: records.
    If `price` is not None, the last entry is for no cut: minus the deviation of all bins from their
    median.

    A median that is one of the counts attains the smallest sum of absolute deviations, so the
    entries are integers. They replace the published scores: deviations from the mean, which have
    twice the sensitivity (Acs, Castelluccia & Chen 2012), and squared deviations, whose sensitivity
    2 F + 1 needs a public bound F on every count (Xu et al. 2013, section 5).

    Attributes:
        column: Name of the numeric column.
        edges: First code of each of its bins, from 0, and then the number of codes that are not
            missing.
        low, high: The bins `low` to `high` - 1 are cut, at least `left` + 1 of them. The entries
            are the cuts `low` + `left` to `high` - 1.
        left: Number of runs left of the cut, at least 1.
        price: Public price of a cut, records; None if there must be a cut.
    """

    NAME: ClassVar[str] = "cut-deviations"
    NOT_IN_SHARES: ClassVar[str] = CosineSums.NOT_IN_SHARES
    STATED: ClassVar[tuple[str, ...]] = ("column", "bins", "low", "left", "length")

    column: str
    edges: tuple[int, ...]
    low: int
    high: int
    left: int = 1
    price: int | None = None

    def __post_init__(self) -> None:
        check_edges(self.edges, *self.edges[-1:])
        if self.left < 1 or not 0 <= self.low < self.high - self.left:
            raise ValueError("A range must have more bins than there are runs left of its cut.")
        if self.high > self.bins:
            raise ValueError("A range must lie within the bins.")
        if self.price is not None and not 0 <= self.price <= MOST:
            raise ValueError("A price is a whole number from 0.")

    @property
    def length(self) -> int:
        return self.high - self.low - self.left + (self.price is not None)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return ((self.column,),)

    @classmethod
    def change(cls, stated: Mapping[str, Any], neighbours: Neighbours) -> int:  # noqa: ARG003
        """1 under add-remove, 2 under replace-one.

        For given runs, the sum of absolute deviations from the runs' medians is the L1 distance of
        the vector of counts from the nearest vector that is constant in every run, and the
        smallest of these over all cuts of the left part is the distance from the nearest vector
        that is constant in the runs of some cuts. The distance from a set changes by no more than
        the point moves (triangle inequality). An added record moves the vector of counts by 1 in
        L1 or, outside the range or missing, by 0; a replaced record is one removed and one added,
        2 at most. Prices are public. All values are whole, and nothing is rounded.
        """
        return records_moved(neighbours)

    def compute(self, counts: Mapping[Clique, Marginal]) -> NDArray[np.int64]:
        edges = np.asarray(self.edges)
        bins = np.add.reduceat(counts[self.column,].counts[: edges[-1]], edges[:-1])
        values = [int(count) for count in bins[self.low : self.high]]
        right = deviations(values[::-1])[::-1]
        start = deviations(values)
        best = start if self.left == 1 else _fewest(values, self.left)
        price = self.price or 0
        found = [-int(best[cut]) - right[cut] - price for cut in range(self.left, len(values))]
        # privacy: integers of any size, cut at the end; there is no rounding and no overflow.
        return saturated(found if self.price is None else [*found, -start[-1]])


def deviations(values: Sequence[int]) -> list[int]:
    """Return the sum of absolute deviations from the median of the first i values, i from 0.

    A further value adds its distance from the nearest median of the values before it.

    >>> deviations([4, 1, 1, 9])
    [0, 0, 3, 3, 11]
    """
    found, ordered = [0], list[int]()
    for value in values:
        below, above = ordered[(len(ordered) - 1) // 2 :][:1], ordered[len(ordered) // 2 :][:1]
        more = max(below[0] - value, value - above[0], 0) if ordered else 0
        found.append(found[-1] + more)
        insort(ordered, value)
    return found


def _fewest(values: Sequence[int], runs: int) -> NDArray[np.int64]:
    """Return the smallest deviation of the first i values in `runs` runs, for i from `runs`."""
    size = len(values)
    kind: Any = object if sum(values) >= MOST else np.int64
    # The deviation of the values from one cut (row) to another (column).
    whole = np.zeros((size + 1, size + 1), dtype=kind)
    for begin in range(size):
        whole[begin, begin:] = deviations(values[begin:])
    best = whole[0]
    for made in range(2, runs + 1):
        longer = best.copy()
        for end in range(made, size + 1):
            begins = slice(made - 1, end)
            longer[end] = (best[begins] + whole[begins, end]).min()
        best = longer
    return np.asarray(best)
