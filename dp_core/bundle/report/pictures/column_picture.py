"""Pictures of single columns: synthetic sets beside the noisy tables they were made from.

Labels are HTML text. Only the marks are drawn; they are stretched to the width of the page, with
strokes of constant width. Everything is computed from noisy tables and synthetic sets.

A numeric column has its density on its own axis: wide bins are wide. A bar's height is the share of
the records per unit of the column, so its area is their share. If a bin is too narrow for the axis,
or holds so many records that nothing else would be seen, the column is drawn bin by bin instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.definition import Column

ROWS_AT_MOST = 16
"""Most codes with a row each. Of more levels the most frequent have one; of more bins none has."""


class Mark(NamedTuple):
    """One code of a column; all numbers are shares in percent of the records.

    Attributes:
        label: Label of the code.
        sets: Share in each set.
        synthetic: Mean of these; 0 without sets.
        noisy: Share according to the noisy tables; None if none contains the column.
        noisy_low, noisy_high: Ends of the 95 % range of its noise.
    """

    label: str
    sets: tuple[float, ...]
    synthetic: float
    noisy: float | None
    noisy_low: float
    noisy_high: float


@dataclass(frozen=True, slots=True)
class Picture:
    """One column, ready for the template.

    Attributes:
        column: Its name.
        description: Its description in the schema; may be empty.
        marks: One for each code.
        rows: Those with a row each: all, or of many the most frequent, the most frequent first.
        source: Where the measured values come from; empty if no noisy table contains the column.
        top: Share at the end of the axis, percent.
        summary: What the picture shows, for those who do not see it.
        ordered: Whether the codes are bins or ordered levels.
        density: The column on its own axis; None if it is drawn code by code.
        beside: Codes without a value (missing, no member), which are stated below a density.
    """

    column: str
    description: str
    marks: tuple[Mark, ...]
    rows: tuple[Mark, ...]
    source: str
    top: float
    summary: str
    ordered: bool
    density: Density | None = None
    beside: tuple[Mark, ...] = ()

    @property
    def wide(self) -> bool:
        """Whether the codes are drawn side by side, because they are too many for a row each."""
        return self.density is None and self.ordered and len(self.marks) > ROWS_AT_MOST

    @property
    def listed(self) -> bool:
        """Whether all values are also given as a table, because the picture does not say them."""
        return self.density is not None or len(self.marks) > ROWS_AT_MOST

    @property
    def ticks(self) -> tuple[str, ...]:
        """At most four labels for the axis of a wide picture."""
        last = len(self.marks) - 1
        places = sorted({round(last * part / 3) for part in range(4)})
        return tuple(self.marks[place].label for place in places)


def source_of(pooled: Pooled, column: str) -> str:
    """Return the measurements that tell a column, in words; empty if none contains it."""
    tables = len(pooled.holders((column,)))
    several = f"{tables} noisy tables" if tables > 1 else "a noisy table" if tables else ""
    if (column,) not in pooled.interactions:
        return f"{several} together" if tables > 1 else several
    return f"an interaction and {several} together" if tables else "an interaction"


def picture(
    column: Column,
    pooled: Pooled,
    tallies: Sequence[Tally],
    *,
    records: float,
    origin: tuple[str, NDArray[np.intp]] | None = None,
    counted: str = "records",
) -> Picture:
    """Return the picture of one column.

    Args:
        column: The column.
        pooled: All measurements.
        tallies: One per synthetic set, counting at least the single column.
        records: Public or estimated number of records of the file.
        origin: For a dependent column, the name of its source column, and for each code of the
            source the code of the dependent column.
        counted: What is counted; `records` by default.
    """
    name, becomes = origin or (column.name, np.arange(column.size))
    shares = np.array(
        [
            100 * _merge_counts(tally.count((name,)), becomes, column.size) / max(tally.rows, 1)
            for tally in tallies
        ],
        dtype=np.float64,
    ).reshape(len(tallies), column.size)
    whole, noisy, half, source = max(records, 1.0), np.zeros(column.size), 0.0, ""
    counts, width = pooled.counts((name,)), pooled.half_width((name,))
    if counts is not None and width is not None:
        noisy = 100 * _merge_counts(counts, becomes, column.size) / whole
        half = 100 * width * math.sqrt(np.bincount(becomes).max()) / whole
        source = source_of(pooled, name)
    top = float(max(shares.max(initial=0.0), (noisy + half).max(initial=0.0), 1e-9))
    by_code = np.ascontiguousarray(shares.T)
    synthetic = by_code.mean(axis=1) if tallies else np.zeros(column.size)
    marks = tuple(
        map(
            Mark,
            column.code_labels(),
            map(tuple, by_code.tolist()),
            synthetic.tolist(),
            noisy.tolist() if source else [None] * column.size,
            (noisy - half).tolist(),
            (noisy + half).tolist(),
        )
    )
    shown = marks
    if len(marks) > ROWS_AT_MOST:
        most = np.argsort(-(noisy if source else synthetic), kind="stable")[: ROWS_AT_MOST - 1]
        shown = tuple(marks[place] for place in most)
    drawn = density(
        column,
        (synthetic if tallies else noisy[: column.bins]).tolist(),
        noisy.tolist() if source else None,
        half,
        counted,
    )
    return Picture(
        column=column.name,
        description=column.description,
        marks=marks,
        rows=shown,
        source=source,
        top=top,
        summary=_summary(
            column, marks, source, half + 50 / whole, synthetic if tallies else None, noisy
        ),
        ordered=column.type.ordered,
        density=drawn,
        beside=marks[column.bins :] if drawn else (),
    )


def _merge_counts(
    counts: NDArray[Any], becomes: NDArray[np.intp], size: int
) -> NDArray[np.float64]:
    """Return counts by the codes to which the given codes are mapped."""
    return np.bincount(becomes, weights=counts, minlength=size).astype(np.float64)


def place_on_axis(value: float, top: float) -> float:
    """Return the position of a share on an axis that ends at `top`, percent of its length."""
    return round(min(max(100 * value / top, 0.0), 100.0), 2)


def _summary(
    column: Column,
    marks: Sequence[Mark],
    source: str,
    reach: float,
    synthetic: NDArray[np.float64] | None,
    noisy: NDArray[np.float64],
) -> str:
    """Return what the picture shows, in a sentence.

    Args:
        column: The column.
        marks: One for each code.
        source: The measurements that tell the column; empty if none does.
        reach: Half-width of the 95 % range of the noise, and half a record, percent.
        synthetic: Share of each code in the sets, percent; None without sets.
        noisy: Share of each code by the measurements, percent; 0 if none contains the column.
    """
    alone = synthetic is None and source != ""
    shares = noisy if synthetic is None else synthetic
    most = int(shares.argmax())
    text = (
        f"{column.name}: {len(marks)} codes; the most frequent"
        f" {f'by {source}' if alone else 'in the synthetic sets'} is {marks[most].label} with"
        f" {shares[most]:.1f} percent."
    )
    if alone:
        return text
    if not source:
        return text + " No noisy table contains this column."
    inside = int((np.abs(noisy - shares) <= reach).sum())
    return text + (
        f" For {inside} of {len(marks)} codes the synthetic share is within the noise of {source}."
    )


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
