"""Public bins at an end of the range that are much wider than all others together.

Few records in such a bin may hold much of the sum of a column, and no count says where in the bin
they are. This follows from the schema alone, so that it is known before anything is spent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from dp_core.schema.definition import Column, Schema

WIDE = 3
"""Width of an outer bin, in widths of all other bins together, from which it is named."""
PART = Fraction(1, 20)
"""Part of the records for which the effect on the mean is stated."""


@dataclass(frozen=True, slots=True)
class OuterBin:
    """An outer bin that is much wider than the others.

    Attributes:
        column: Name of the column.
        label: Label of the bin.
        times: Width of the bin, in widths of all other bins together.
        moves: Range in which the mean may lie if the bin contains `PART` of the records, in the
            column's unit.
        uniform: Whether the schema makes values uniform within bins.
    """

    column: str
    label: str
    times: float
    moves: float
    uniform: bool

    @property
    def in_words(self) -> str:
        """A sentence that says what the bin does, and how to fix it."""
        percent = float(100 * PART)
        moves = f"{self.moves:,.0f}" if self.moves >= 100 else f"{self.moves:.3g}"
        density = (
            "the uniform density that the schema states"
            if self.uniform
            else "a density within the bin, fitted to the neighbouring bins"
        )
        return (
            f"{self.column}: the bin {self.label} is {self.times:,.0f} times as wide as all other"
            f" bins together. If it contains {percent:.0f} % of the records, the mean is uncertain"
            f" by {moves}. The sets assume {density}. State more edges in this range, or write"
            " bins: {private: 12}."
        )


def outer_bins(schema: Schema) -> Iterator[OuterBin]:
    """Yield the outer bins that are much wider than all others of their column together.

    Dates have no sum, and private bins have about equally many records, so neither is named.

    Args:
        schema: Schema of a release. If it is on a grid, its values do not come from bins.
    """
    for column in schema.columns if schema.coarse is None else ():
        if column.type.sums and column.choice is None and column.bins > 1:
            yield from (each for code in (0, column.bins - 1) for each in _outer(column, code))


def _outer(column: Column, code: int) -> Iterator[OuterBin]:
    width = column.edges[code + 1] - column.edges[code]
    others = column.edges[-1] - column.edges[0] - width
    if width >= WIDE * others:
        label, uniform = column.code_labels()[code], column.density == "uniform"
        times, moves = float(width / others), float(PART * width)
        yield OuterBin(column.name, label, times, moves, uniform)
