"""Fits the pieces of public bins (`BinPieces`) to noisy counts, and states them.

Few records in a public bin at an end of the range that is much wider than all others together may
hold much of the sum of a column, and no count says where in the bin they are. This follows from the
schema alone, so that it is known before anything is spent.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Released
from dp_core.methods.bin_density.neighbours import below, falls, mean_place, steps
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.schema.bin_pieces import WHOLE, BinPieces
from dp_core.schema.bin_values import whole_bounds
from dp_core.schema.column_types.column_type import ValueType
from dp_core.schema.definition import Column, Schema

MOST_BINS = 256
"""Largest number of bins of a column for which a density is fitted."""
MOST_PIECES = 40
"""Largest number of pieces of a bin."""
_LEAST_FALL = 0.02
"""Bins whose density falls less are uniform: their mean is less than 1/600 of a width off."""
_RATIO = 1.05
"""Ratio of the densities at the ends of a piece, if the bin does not need too many of them."""
_FINEST = 1000  # parts of a bin in which cuts are round numbers, at least


def with_densities(schema: Schema, released: Sequence[Released]) -> Schema:
    """Return the schema with a density within the bins of each column that has noisy counts.

    The result depends on the tables only, and not on pieces that the schema has already. Columns
    on a grid, for which a method models numbers, are left as they are.

    Args:
        schema: The schema, with privately chosen bins and levels.
        released: Everything that was measured, of all sets.
    """
    if schema.coarse is not None or not any(map(may_have_density, schema.columns)):
        return schema
    pooled, columns = pool(schema.domain, released), []
    for column in schema.columns:
        pieces = None
        if may_have_density(column):
            counts, variance = pooled.counts((column.name,)), pooled.variance((column.name,))
            if counts is not None and variance is not None:
                pieces = fit_pieces(column, counts, variance)
        columns.append(dataclasses.replace(column, pieces=pieces))
    return dataclasses.replace(schema, columns=tuple(columns))


def may_have_density(column: Column) -> bool:
    """Return whether a density may be fitted: the bins are public, several, and not too many."""
    return (
        not column.levels
        and column.choice is None
        and column.density == "fitted"
        and 1 < column.bins <= MOST_BINS
    )


def fit_pieces(column: Column, counts: NDArray[np.float64], variance: float) -> BinPieces | None:
    """Return the pieces of a column's bins; None if values are uniform in every bin.

    Args:
        column: Integer, number or date with public bins.
        counts: Noisy counts of its codes, records; a last one for missing is ignored.
        variance: Noise variance of a count, in records squared.
    """
    lattices = _lattices(column)
    ends = [float(each.low) for each in lattices] + [float(lattices[-1].high)]
    steep = falls(ends, [float(count) for count in counts[: column.bins]], variance)
    edges: list[Fraction] = [column.edges[0]]
    weights: list[int] = []
    for code, (lattice, fall) in enumerate(zip(lattices, steep, strict=True)):
        cuts = list(lattice.cuts(fall))
        edges += [*cuts, column.edges[code + 1]]
        weights += lattice.weights(cuts, fall)
    return BinPieces(tuple(edges), tuple(weights)) if len(weights) > column.bins else None


def means_by_steps(
    column: Column, counts: NDArray[np.float64], variance: float
) -> NDArray[np.float64]:
    """Return the mean of each bin if its density changes as to one of its sides.

    Args:
        column: Integer, number or date with public bins.
        counts: Noisy counts of its codes, records; a last one for missing is ignored.
        variance: Noise variance of a count, in records squared.

    Returns:
        Means in the column's unit, shape (2, bins): as to the left side, and as to the right.
    """
    lattices = _lattices(column)
    ends = [float(each.low) for each in lattices] + [float(lattices[-1].high)]
    found = steps(ends, [float(count) for count in counts[: column.bins]], variance)
    places = np.array([[mean_place(fall) for fall in each] for each in found]).T
    low, last = ends_of(column)
    return np.asarray(low + places * (last - low))


def ends_of(column: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and the last value of each bin, in the column's unit, shape (bins,) each."""
    lattices = _lattices(column)
    low = np.array([float(each.low) for each in lattices])
    return low, np.array([float(each.high - each.step) for each in lattices])


@dataclasses.dataclass(frozen=True, slots=True)
class _Lattice:
    """The values of a bin: multiples of a step. Cuts are multiples too, so no piece is empty.

    Attributes:
        low: Least value of the bin.
        high: End of the bin; the last value plus the step.
        step: Distance of values; for a number of full precision, that of possible cuts.
    """

    low: Fraction
    high: Fraction
    step: Fraction

    def cuts(self, fall: float) -> Iterator[Fraction]:
        """Yield the cuts between pieces, ascending, for a density that falls to the right."""
        steep = abs(fall)
        if steep < _LEAST_FALL:
            return
        # Between two cuts, 1 + a u/4 grows by the same factor; the density is its power -5.
        growth = math.log1p(steep / 4)
        number = min(MOST_PIECES, math.ceil(5 * growth / math.log(_RATIO)))
        places = [4 * math.expm1(growth * each / number) / steep for each in range(1, number)]
        if fall < 0:
            places = [1 - place for place in reversed(places)]
        last = self.low
        for place in places:
            exact = self.low + Fraction(place) * (self.high - self.low)
            cut = Fraction(round(exact / self.step)) * self.step
            # The first piece must contain a value, and so must the last one.
            if cut - last >= self.step and self.high - cut >= self.step:
                yield cut
                last = cut

    def weights(self, cuts: Sequence[Fraction], fall: float) -> list[int]:
        """Return the weights of the pieces between cuts; they sum to `WHOLE`."""
        width, steep = self.high - self.low, abs(fall)
        shares = [0.0]
        for cut in cuts:
            place = float((cut - self.low) / width)
            shares.append(below(steep, place) if fall >= 0 else 1 - below(steep, 1 - place))
        ends = [round(share * WHOLE) for share in (*shares, 1.0)]
        return [high - low for low, high in pairwise(ends)]


def _lattices(column: Column) -> list[_Lattice]:
    """Return the values of each bin."""
    if not column.type.continuous:
        ends = zip(*whole_bounds(column), strict=True)
        return [
            _Lattice(Fraction(int(low)), Fraction(int(high) + 1), Fraction(1)) for low, high in ends
        ]
    found = []
    for low, high in pairwise(column.edges):
        step = Fraction(10) ** math.floor(math.log10(high - low)) / _FINEST
        if column.decimals is not None:
            step = Fraction(1, 10**column.decimals)
        found.append(_Lattice(low, high, step))
    return found


_EXACT = re.compile(r"-?[0-9]{1,40}([.][0-9]{1,20}|/[0-9]{1,40})?")
ROUNDING = 4
"""Largest difference of two weights that floating-point arithmetic of two machines may explain."""


def statement(schema: Schema) -> list[dict[str, object]]:
    """Return the fitted densities for the statement of a release; empty if there are none.

    Each column has its bins with more than one piece: the code of the bin, where each piece begins,
    and the weight of each piece in millionths of the bin's records.
    """
    found: list[dict[str, object]] = []
    for column in schema.columns:
        if column.pieces is None:
            continue
        places = column.pieces.places(column.edges)
        starts = [column.scale.text(edge) for edge in column.pieces.edges[:-1]]
        bins = [
            {
                "code": code,
                "from": starts[low:high],
                "millionths": list(column.pieces.weights[low:high]),
            }
            for code, (low, high) in enumerate(pairwise(places))
            if high - low > 1
        ]
        found.append({"column": column.name, "bins": bins})
    return found


def with_statement(schema: Schema, entries: object) -> Schema:
    """Return the schema with the densities that a statement states.

    Args:
        schema: Schema of the release, as written.
        entries: What `statement` returned, read from a file.

    Raises:
        Exception: a lookup, type or value error if the entries do not have that shape, or do not
            fit the schema.
    """
    if not isinstance(entries, list):
        raise TypeError("The densities must be a list.")
    found = {entry["column"]: entry["bins"] for entry in entries}
    if len(found) != len(entries) or not {*found} <= {
        column.name for column in schema.columns if may_have_density(column)
    }:
        raise ValueError("A density is stated twice, or for a column that has none.")
    columns = tuple(
        dataclasses.replace(column, pieces=_pieces(column, found[column.name]))
        if column.name in found
        else column
        for column in schema.columns
    )
    return dataclasses.replace(schema, columns=columns)


def agree(one: BinPieces | None, other: BinPieces | None) -> bool:
    """Return whether two densities are the same, except for the rounding of their weights."""
    if one is None or other is None:
        return one is other
    return one.edges == other.edges and all(
        abs(weight - another) <= ROUNDING
        for weight, another in zip(one.weights, other.weights, strict=True)
    )


def _pieces(column: Column, bins: Sequence[Mapping[str, object]]) -> BinPieces:
    stated = {entry["code"]: entry for entry in bins}
    if len(stated) != len(bins) or not {*stated} <= {*range(column.bins)}:
        raise ValueError("A bin is stated twice, or does not exist.")
    edges: list[Fraction] = []
    weights: list[int] = []
    for code in range(column.bins):
        starts, own = [column.edges[code]], [WHOLE]
        if code in stated:
            texts, given = stated[code]["from"], stated[code]["millionths"]
            if not isinstance(texts, list) or not isinstance(given, list):
                raise TypeError("Pieces must be lists.")
            if any(type(weight) is not int for weight in given) or sum(given) != WHOLE:
                raise ValueError("The weights of a bin must be whole and sum to a million.")
            starts, own = [_value(text, column.scale) for text in texts], given
        if len(starts) != len(own) or starts[0] != column.edges[code]:
            raise ValueError("A bin must begin with its first piece.")
        edges += starts
        weights += own
    found = BinPieces((*edges, column.edges[-1]), tuple(weights))
    found.places(column.edges)
    return found


def _value(text: object, scale: ValueType) -> Fraction:
    """Return the value of a text as `ValueType.text` writes it."""
    if isinstance(text, str) and scale.own_texts:
        return scale.parse(text)
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ValueError("not the text of a value")
    return Fraction(text)


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
