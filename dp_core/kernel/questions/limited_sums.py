"""Sums of one number by groups of records, each group with its own public limits.

Relative to the range between a group's limits, the noise is the same for all groups. So the sum
of a group of small firms is not hidden by the noise that a group of large firms needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear_questions import (
    Edges,
    binned,
    binned_shape,
    check_bins,
    check_columns,
)
from dp_core.kernel.questions.statistic import ClaimedCodes, Sum, claims
from dp_core.kernel.questions.whole_numbers import cell_numbers, cut, exact_sums

MOST_REACH = 2**40
"""Largest absolute value that a record may add."""
MOST_GROUPS = 10_000
"""Largest number of groups."""
MOST_VALUE = 2**53
"""Largest absolute value of a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedSums(Sum):
    """Sums of a number by cells of other columns, each clipped to the limits of its cell.

    A record with value v in cell g adds f_g (min(max(v, low_g), high_g) - c_g) to entry g and
    nothing to the others. A record whose number is missing adds 0. Unit of entry g: 1/f_g of the
    unit of the values.

    Attributes:
        by: Columns that make the cells; their entries are flattened row by row.
        sizes: Number of codes of each of these.
        edges: Bins of each of these.
        column: Column of numbers.
        positions: Number of its grid positions; a larger code means missing.
        runs: Values of the positions: the first position of a run, its value, and the distance of
            the values from one position to the next; one after the other, from position 0.
        lows, highs: Limits of each cell, in the unit of the values.
        centres: The value c_g that is subtracted in each cell.
        factors: The factor f_g of each cell, at least 1.
    """

    NAME: ClassVar[str] = "limited-sums"
    IN_SHARES: ClassVar[bool] = True

    by: tuple[str, ...]
    sizes: tuple[int, ...]
    edges: Edges
    column: str
    positions: int
    runs: tuple[int, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]
    centres: tuple[int, ...]
    factors: tuple[int, ...]

    def __post_init__(self) -> None:
        check_columns(self.claimed_codes())
        check_bins(self.sizes, self.edges)
        starts = self.runs[::3]
        if (
            len(self.runs) % 3
            or starts[:1] != (0,)
            or not all(one < other for one, other in pairwise((*starts, self.positions)))
        ):
            raise ValueError("Runs must ascend from position 0, with three numbers each.")
        if self.length > MOST_GROUPS:
            raise ValueError(f"A sum has at most {MOST_GROUPS:,} cells.")
        if any(len(each) != self.length for each in self._limits):
            raise ValueError("Every cell needs limits, a centre and a factor.")
        # privacy: values are computed in 64 bits, those of a run between its first and its last.
        runs = zip(
            starts, self.runs[1::3], self.runs[2::3], (*starts[1:], self.positions), strict=True
        )
        lasts = [value + step * (end - 1 - start) for start, value, step, end in runs]
        stated = (*self.runs, *lasts, *self.lows, *self.highs, *self.centres)
        if any(abs(each) > MOST_VALUE for each in stated):
            raise ValueError("A value, a limit or a centre is too large.")
        if not all(low <= high for low, high in zip(self.lows, self.highs, strict=True)):
            raise ValueError("A lower limit must be at most the upper one.")
        if min(self.factors) < 1 or self.reach > MOST_REACH:
            raise ValueError(f"A record may add at most {MOST_REACH:,}, with factors of 1 or more.")

    @property
    def _limits(self) -> tuple[tuple[int, ...], ...]:
        return self.lows, self.highs, self.centres, self.factors

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels or bins of each column of `by`."""
        return binned_shape(self.sizes, self.edges)

    @property
    def length(self) -> int:
        return prod(self.shape)

    @property
    def reach(self) -> int:
        """Largest absolute value that a record may add to an entry, at least 1."""
        reaches = (f * max(abs(low - c), abs(high - c)) for low, high, c, f in self._cells())
        return max(1, *reaches)

    @property
    def span(self) -> int:
        """Largest difference between what two records of one cell add, at least 1."""
        return max(1, *(f * (high - low) for low, high, _, f in self._cells()))

    def _cells(self) -> Iterable[tuple[int, int, int, int]]:
        return zip(self.lows, self.highs, self.centres, self.factors, strict=True)

    def values(self) -> NDArray[np.int64]:
        """Return the value of every position, shape (positions,)."""
        starts = np.array(self.runs[::3], dtype=np.int64)
        place = np.arange(self.positions, dtype=np.int64)
        run = np.searchsorted(starts, place, side="right") - 1
        values, steps = (np.array(self.runs[at::3], dtype=np.int64)[run] for at in (1, 2))
        return np.asarray(values + steps * (place - starts[run]))

    def total(self, cells: Codes, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = binned(cells.astype(np.int64), (*self.edges, None))
        there = codes[:, -1] < self.positions
        where = cell_numbers(codes[there, :-1].T, self.shape, int(there.sum()))
        low, high, centre, factor = (np.array(each, dtype=np.int64)[where] for each in self._limits)
        # privacy: within the limits, so the absolute value is at most the reach.
        added = factor * (np.clip(self.values()[codes[there, -1]], low, high) - centre)
        return cut(exact_sums(where, added, counts[there], self.length))

    def norms(self, neighbours: Neighbours) -> tuple[int, int]:
        """Return R and R^2 under add-remove, D and D^2 under replace-one if there is one cell.

        For several cells they are 2 R and max(2 R^2, D^2) under replace-one.

        R is `reach`: a record is in one entry, and adds at most R to it in absolute value, because
        its value is between the limits, and the distance of a value between them from the centre
        is largest at one of them. D is max(R, `span`). A replaced record is one removed and one
        added. In two cells, the entries change by at most R each. In one cell, by at most the span,
        or by R if one of the two has no number; the span is at most 2 R.
        """
        most, within = self.reach, max(self.reach, self.span)
        if neighbours == "add-remove":
            return most, most**2
        return (2 * most, max(2 * most**2, within**2)) if self.length > 1 else (within, within**2)

    def claimed_codes(self) -> list[ClaimedCodes]:
        own = ClaimedCodes(self.column, self.positions, or_missing=True)
        return [*claims(self.by, self.sizes), own]
