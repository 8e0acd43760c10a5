"""DPCube: noisy cells, boxes of cells with about equal counts, and noisy counts of the boxes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released, Table, Totals
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.privacy import Neighbours
from dp_core.kernel.questions.linear_questions import BinnedCounts, BoxCounts
from dp_core.kernel.questions.whole_numbers import MOST_WORK
from dp_core.methods.method_inputs import FitInputs, MethodInputs
from dp_core.methods.parametric.binned_tables import (
    CellsToRecords,
    as_measurement,
    binned_domain,
    zeros_by_bins,
)
from dp_core.methods.parametric.drawn_records import MOST_CELLS, edges_of, number_of_cells
from dp_core.methods.parametric.synthesizer import Ask, Edges, Synthesizer, release
from dp_core.methods.reconstruction.estimates.consistency import norm_sub
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variables

CELLS = Fraction(3, 4)
"""Part of the budget for the table of all columns; the boxes get the rest. It is 1/2 in the paper,
but the boxes can only be as good as the cells that they are found in."""
Box = tuple[slice, ...]
"""A range of bins or levels in each column."""

MOST_BOXES = isqrt(MOST_WORK)
"""Largest number of boxes; they are compared pair by pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCube(Synthesizer):
    """Measure all cells, then boxes of about equal cells (Xiao, Xiong & Yuan 2010; DPCube 2014).

    A part of the budget measures the table of all columns. A kd-tree divides its noisy cells into
    boxes, which is post-processing. The rest of the budget measures the number of records in each
    box. The two noisy totals of a box are averaged by precision, and divided evenly among its
    cells. A record is in one cell and in one box.

    The paper stops dividing at a stated unevenness and number of cells, and cuts at the median.
    Here a box is divided where the means of both sides differ most, as long as that difference, or
    the variance of its cells, is larger than noise explains.

    Levels count as ordered as in the schema, and missing as the last.
    """

    by_bins: ClassVar[bool] = True

    def check(self, variables: Variables, neighbours: Neighbours) -> None:  # noqa: ARG002
        """Raise BadInput if the table has more than `MOST_CELLS` cells."""
        cells = number_of_cells(variables)
        if cells > MOST_CELLS:
            raise BadInput(
                f"dpcube measures the table of all columns, here of {cells:,} cells, more than"
                f" {MOST_CELLS:,}: take fewer columns or bins, or a method that"
                " measures tables of few columns, such as privsyn."
            )

    def asks(self, variables: Variables) -> tuple[Ask, ...]:
        """Return what is measured; one box stands for those that are not known yet."""
        whole = tuple(slice(0, size) for size in self._domain(variables).sizes)
        return (
            Ask("cells", self._cells(variables), CELLS),
            Ask("boxes", self._boxes(variables, [whole]), 1 - CELLS),
        )

    def measure(self, inputs: MethodInputs, variables: Variables) -> tuple[Released, ...]:
        cells = Ask("cells", self._cells(variables), CELLS)
        (counted,) = release(inputs, [cells], inputs.measure_cost)
        assert isinstance(counted, Totals)
        noisy = as_measurement(counted)
        boxes = partition(
            noisy.values.astype(np.float64),
            self._possible(variables, inputs.zeros),
            variance=counted.variance,
        )
        asked = Ask("boxes", self._boxes(variables, boxes), 1 - CELLS)
        return (counted, *release(inputs, [asked], inputs.measure_cost))

    def model_of(self, variables: Variables, inputs: FitInputs) -> CellsToRecords:
        zeros = inputs.zeros
        edges, domain = edges_of(variables), self._domain(variables)
        possible = self._possible(variables, zeros)
        totals = [item for item in inputs.released if isinstance(item, Totals)]
        (counted,) = (item for item in totals if isinstance(item.of, BinnedCounts))
        (boxed,) = (item for item in totals if isinstance(item.of, BoxCounts))
        assert isinstance(boxed.of, BoxCounts)
        noisy = np.where(possible, as_measurement(counted).values, 0.0)
        boxes = [_in_bins(box, edges) for box in boxed.of.boxes]
        number = np.array([possible[box].sum() for box in boxes], dtype=np.float64)
        sums = np.array([noisy[box].sum() for box in boxes])
        # Least squares: two estimates of the same total, of known variances.
        own, other = boxed.variance, number * counted.variance
        best = np.where(
            number > 0,
            (boxed.values * other + sums * own) / np.where(number > 0, own + other, 1),
            0,
        )
        variance = np.where(number > 0, own * other / (own + other), 0.0).sum()
        total = inputs.number_of_rows([(float(best.sum()), float(variance))])
        values = np.zeros(domain.sizes)
        best = norm_sub(best, total=float(total), possible=number > 0)
        for box, count, among in zip(boxes, best, number, strict=True):
            values[box] = np.where(possible[box], count / max(among, 1.0), 0.0)
        return CellsToRecords(variables, total, zeros, (Table(domain, values),), edges, True)

    def _domain(self, variables: Variables) -> Domain:
        return binned_domain(variables, edges_of(variables))

    def _cells(self, variables: Variables) -> BinnedCounts:
        domain = variables.domain
        return BinnedCounts(columns=domain.columns, sizes=domain.sizes, edges=edges_of(variables))

    def _boxes(self, variables: Variables, boxes: Sequence[Box]) -> BoxCounts:
        """Return the question for boxes of bins, in codes."""
        edges = edges_of(variables)
        domain = variables.domain
        starts = [
            range(size + 1) if each is None else each
            for size, each in zip(domain.sizes, edges, strict=True)
        ]
        codes = tuple(
            tuple(
                starts[axis][end]
                for axis, part in enumerate(box)
                for end in (part.start, part.stop)
            )
            for box in boxes
        )
        return BoxCounts(columns=domain.columns, sizes=domain.sizes, boxes=codes)

    def _possible(self, variables: Variables, zeros: StructuralZeros) -> NDArray[np.bool_]:
        """Return which cells of bins and levels may hold a record; all, if rules allow none."""
        domain = self._domain(variables)
        known = zeros_by_bins(zeros, domain.columns, edges_of(variables))
        possible = ~known.mask(domain)
        return possible if possible.any() else ~possible


def partition(
    cells: NDArray[np.float64],
    possible: NDArray[np.bool_],
    *,
    variance: float,
) -> list[Box]:
    """Return disjoint boxes that cover all cells, each of cells with about equal counts.

    The box whose division explains most is divided first, up to `MOST_BOXES` boxes.

    Args:
        cells: Noisy counts, at least one axis.
        possible: Which cells may hold a record, of the same shape; the others are ignored.
        variance: Noise variance of each cell.
    """
    cells = np.where(possible, cells, 0.0)
    whole = tuple(slice(0, size) for size in cells.shape)
    done: list[Box] = []
    waiting: list[tuple[float, int, Box, Box, Box]] = []

    def put(box: Box) -> None:
        found = _division(cells, possible, box, variance)
        if found is None:
            done.append(box)
        else:
            gain, first, second = found
            # The running number keeps boxes of equal gain in order.
            heapq.heappush(waiting, (-gain, len(done) + len(waiting), box, first, second))

    put(whole)
    while waiting and len(done) + len(waiting) < MOST_BOXES:
        *_, first, second = heapq.heappop(waiting)
        put(first)
        put(second)
    done += [box for _, _, box, _, _ in waiting]
    return sorted(done, key=lambda box: [part.start for part in box])


def _division(
    cells: NDArray[np.float64],
    possible: NDArray[np.bool_],
    box: Box,
    variance: float,
) -> tuple[float, Box, Box] | None:
    """Return the sum of squares that the best division explains, and its sides; None if even."""
    inside, there = cells[box], possible[box]
    number = int(there.sum())
    if number < 2:
        return None
    best, at, ways = 0.0, (0, 0), 0
    mean = inside.sum() / number
    for axis in range(inside.ndim):
        away = tuple(other for other in range(inside.ndim) if other != axis)
        counts = np.cumsum(there.sum(axis=away))[:-1].astype(np.float64)
        off = np.cumsum(inside.sum(axis=away))[:-1] - mean * counts
        able = (counts > 0) & (counts < number)
        ways += int(able.sum())
        gains = np.zeros(len(counts))
        # Sums of both sides about the common mean are opposite numbers.
        gains[able] = off[able] ** 2 * number / (counts[able] * (number - counts[able]))
        if gains.size and gains.max() > best:
            place = int(gains.argmax())
            best, at = float(gains[place]), (axis, box[axis].start + place + 1)
    if not best:
        return None
    squares = float(((inside - mean * there) ** 2).sum()) / (number - 1)
    if squares <= variance and best <= 2 * variance * math.log(ways):
        return None
    axis, cut = at
    sides = (slice(box[axis].start, cut), slice(cut, box[axis].stop))
    first, second = ((*box[:axis], side, *box[axis + 1 :]) for side in sides)
    return best, first, second


def _in_bins(box: Sequence[int], edges: Edges) -> Box:
    """Return a box of codes as ranges of bins."""
    found = []
    for axis, each in enumerate(edges):
        low, high = box[2 * axis : 2 * axis + 2]
        found.append(slice(low, high) if each is None else slice(each.index(low), each.index(high)))
    return tuple(found)


METHOD = DPCube
