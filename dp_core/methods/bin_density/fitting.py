"""Fits the pieces of public bins (`BinPieces`) to noisy counts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.released import Released
from dp_core.methods.bin_density.neighbours import below, falls
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.schema.bin_pieces import WHOLE, BinPieces
from dp_core.schema.bin_values import whole_bounds
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
