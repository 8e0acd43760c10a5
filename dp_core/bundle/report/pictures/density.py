"""The density of a numeric column on its own axis: wide bins are wide, and high where many are.

A bar's height is the share of the records per unit of the column, so its area is their share. If a
bin is too narrow for the axis, or holds so many records that nothing else would be seen, the column
is drawn bin by bin instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_core.schema.definition import Column

_NARROWEST = 0.008
"""Least width of a bin, as a share of the axis."""
_STEEPEST = 12.0
"""Largest density of a bin, as a multiple of the average density."""
_TICKS = 5
"""Most labels of the axis."""
_APART = 14.0
"""Least distance of two labels, percent of the axis."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bin; everything in percent of the width or of the height of the picture.

    Attributes:
        left, width: Place on the axis.
        height: Density of the synthetic sets.
        noisy: Density by the noisy tables; None if none contains the column.
        low, high: Ends of the 95 % range of its noise.
    """

    left: float
    width: float
    height: float
    noisy: float | None
    low: float
    high: float

    @property
    def middle(self) -> float:
        """Place of the whisker."""
        return self.left + self.width / 2


@dataclass(frozen=True, slots=True)
class Density:
    """The density of one column, ready for the template.

    Attributes:
        bars: One for each bin.
        top: Density at the upper end of the picture, as a text.
        ticks: Places on the axis, percent, with their labels.
    """

    bars: tuple[Bar, ...]
    top: str
    ticks: tuple[tuple[float, str], ...]


def density(
    column: Column,
    synthetic: Sequence[float],
    noisy: Sequence[float] | None,
    half_width: float,
    counted: str = "records",
) -> Density | None:
    """Return the density of a column; None if it has no axis, or if one bin would hide the others.

    Args:
        column: The column.
        synthetic: Share of each code in the sets, percent of the records, length at least `bins`.
        noisy: The same by the noisy tables; None if none contains the column.
        half_width: Half-width of the 95 % range of the noise in each share, percent.
        counted: What the shares are shares of; `records` by default.
    """
    if column.levels or column.bins < 3 or len(column.edges) != column.bins + 1:
        return None
    edges = [float(edge) for edge in column.edges]
    whole = edges[-1] - edges[0]
    widths = [high - low for low, high in itertools.pairwise(edges)]
    shares = list(synthetic[: column.bins])
    told = shares if noisy is None else list(noisy[: column.bins])
    steepest = max(
        max(one, other) / width for one, other, width in zip(shares, told, widths, strict=True)
    )
    if min(widths) < _NARROWEST * whole or steepest > _STEEPEST * 100 / whole:
        return None
    reach = half_width if noisy is not None else 0.0
    top = max(
        max(one, other + reach) / width
        for one, other, width in zip(shares, told, widths, strict=True)
    )
    top = max(top, 1e-12)

    def height(share: float, width: float) -> float:
        return round(min(max(100 * share / width / top, 0.0), 100.0), 2)

    bars = tuple(
        Bar(
            left=round(100 * (low - edges[0]) / whole, 3),
            width=round(100 * width / whole, 3),
            height=height(share, width),
            noisy=None if noisy is None else height(other, width),
            low=height(other - reach, width),
            high=height(other + reach, width),
        )
        for low, width, share, other in zip(edges, widths, shares, told, strict=False)
    )
    return Density(bars, _per_unit(column, top, counted), _ticks(column, edges))


def _per_unit(column: Column, top: float, counted: str) -> str:
    if column.scale.difference:
        unit, times = column.scale.axis_unit
        if times * top > 100:  # no more than all records are in a unit
            unit, times = column.scale.difference.removesuffix("s"), 1.0
        return f"{_two_digits(times * top)} % of the {counted} per {unit}"
    digits = math.floor(math.log10(top))
    if digits in (0, 1):
        return f"{_two_digits(top)} % of the {counted} per 1"
    per = 10.0**-digits
    return f"{_two_digits(top * per)} % of the {counted} per {per:,.{max(digits, 0)}f}"


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"


def _ticks(column: Column, edges: Sequence[float]) -> tuple[tuple[float, str], ...]:
    """Return the first and last edge, and edges near equal distances between them."""
    first, whole = edges[0], edges[-1] - edges[0]
    # A whole number takes up one unit of the axis, with its label in the middle.
    values = [*edges[:-1], edges[-1] - column.scale.step]
    half = column.scale.step / 2
    places = [100 * (value + half - first) / whole for value in values]
    chosen = [0, len(edges) - 1]
    for part in range(1, _TICKS):
        aim = 100 * part / _TICKS
        near = min(range(len(edges)), key=lambda at: abs(places[at] - aim))
        if all(abs(places[near] - places[other]) >= _APART for other in chosen):
            chosen.append(near)
    return tuple(
        (round(places[at], 2), column.scale.axis_text(values[at])) for at in sorted(chosen)
    )
