"""Edges of bins, and pieces of bins and of groups of levels.

A piece is a range of values within which values are uniform; a bin consists of one or more pieces.
The noisy counts that choose private bins also show how many records each part of a bin has. Within
public bins, the pieces follow a density that is fitted to the noisy counts of neighbouring bins
(`dp_core.methods.bin_density`). For levels, a piece is a run of levels that are equally likely
within their group. All of this is post-processing.

Edges are exact numbers. A bin contains its lower edge and not its upper one. So the edges of
integers and dates end one step (1, a day) after the largest value. The edges of a number end at the
largest value, which the last bin contains, too.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import parse_fraction, quote

WHOLE = 1_000_000
"""Sum of the weights of a public bin's pieces."""

Pieces: TypeAlias = tuple[tuple[int, int], ...]
"""First position and weight of each piece, in order; the first piece begins at 0. A weight is in
thousandths of a record, and the pieces of a bin do not all have weight 0."""


@dataclass(frozen=True, slots=True)
class BinPieces:
    """Distribution of values within the bins of a column.

    Attributes:
        edges: Edges of the pieces, ascending; every edge of the column's bins is one of them. Dates
            are day ordinals.
        weights: Weight of each piece, relative to the other pieces of its bin.
    """

    edges: tuple[Fraction, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.weights) + 1 or min(self.weights, default=-1) < 0:
            raise ValueError("Each piece has two edges and a weight of at least 0.")
        if not all(low < high for low, high in pairwise(self.edges)):
            raise ValueError("The edges of pieces must ascend.")

    def places(self, edges: Sequence[Fraction]) -> tuple[int, ...]:
        """Return the index of the first piece of each bin, and last the number of pieces.

        Args:
            edges: Edges of the column's bins.

        Raises:
            ValueError: if a bin begins or ends within a piece, or has no weight.
        """
        index = {edge: place for place, edge in enumerate(self.edges)}
        if edges[0] != self.edges[0] or edges[-1] != self.edges[-1] or not {*edges} <= {*index}:
            raise ValueError("Every edge of a bin must be an edge of a piece.")
        found = tuple(index[edge] for edge in edges)
        if not all(any(self.weights[low:high]) for low, high in pairwise(found)):
            raise ValueError("A bin's pieces must not all have weight 0.")
        return found


def weights_of(edges: Sequence[int], pieces: Pieces) -> NDArray[np.float64]:
    """Return the weight of each range between edges; the weight of a piece is divided by width.

    Args:
        edges: Positions from 0 to the end of the last piece, with the start of every piece.
        pieces: Pieces of the column.
    """
    starts = np.array([start for start, _ in pieces])
    weights = np.array([weight for _, weight in pieces], dtype=np.float64)
    ends = np.append(starts[1:], edges[-1])
    of = np.searchsorted(starts, np.asarray(edges[:-1]), side="right") - 1
    return np.asarray(weights[of] * np.diff(edges) / (ends - starts)[of])


def spread(
    bins: NDArray[Any], edges: Sequence[int], pieces: Pieces, *, rng: np.random.Generator
) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """Return a piece for each row, drawn by the weights of the pieces in its bin.

    Args:
        bins: Bin of each row, shape (rows,).
        edges: Edges of the bins as positions, from 0 to the end of the last piece. They may differ
            from the bins that were chosen.
        pieces: Pieces of the column.
        rng: Generator for post-processing.

    Returns:
        The piece of each row, shape (rows,), and the edges of the pieces, which include those of
        the bins.
    """
    finer = tuple(sorted({*edges, *(start for start, _ in pieces)}))
    place = np.searchsorted(finer, edges)
    weights = weights_of(finer, pieces)
    for first, last in pairwise(place.tolist()):
        if not weights[first:last].any():
            weights[first:last] = np.diff(finer[first : last + 1])
    return drawn_places(bins, place, weights, rng=rng), finer


def drawn_places(
    bins: NDArray[Any],
    first: NDArray[Any],
    weights: NDArray[np.float64],
    *,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return a place for each row, drawn by the weights of the places in its bin.

    Args:
        bins: Bin of each row, shape (rows,).
        first: First place of each bin, and last the number of places; no bin that a row is in has
            weight 0.
        weights: Weight of each place.
        rng: Generator for post-processing.
    """
    below = np.concatenate([[0.0], np.cumsum(weights)])
    low, high = below[first[:-1]][bins], below[first[1:]][bins]
    at = np.searchsorted(below, low + rng.random(bins.size) * (high - low), side="right") - 1
    # A rounded sum may lead to the first place of the next bin.
    return np.asarray(np.clip(at, first[:-1][bins], first[1:][bins] - 1))


MAX_CODES = 1_000_000  # of a column; a release of so many areas has been made
VALUES_WITHOUT_BINS = 100
MAX_INTEGER = 10**18  # within 64 bits, with room for one more
USUAL_BINS = 20
"""Bins of a draft."""


def exact_text(value: Fraction) -> str:
    """Return the shortest exact text: a decimal of at most 20 digits if there is one, or a ratio.

    >>> exact_text(Fraction(1, 8)), exact_text(Fraction(1, 3)), exact_text(Fraction(-7))
    ('0.125', '1/3', '-7')
    """
    if value.denominator == 1:
        return str(value.numerator)
    for digits in range(1, 21):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            sign = "-" if scaled < 0 else ""
            whole, part = divmod(abs(scaled.numerator), 10**digits)
            return f"{sign}{whole}.{part:0{digits}d}"
    return str(value)


def check_distinct(edges: tuple[Fraction, ...], node: Node) -> None:
    """Refuse edges that are equal, or infinite, as 32-bit floats, which values are rounded to."""
    short = _in_32_bits(edges)
    with np.errstate(invalid="ignore"):
        same = np.flatnonzero(~(np.diff(short) > 0) | ~np.isfinite(short[1:]))
    if same.size:
        raise node.error(
            f"the edges near {exact_text(edges[same[0]])} are equal as 32-bit floats, of about"
            " seven digits, which numbers are rounded to; make fewer and wider bins, or use the"
            " type integer in a smaller unit."
        )


def check_missing(codes: tuple[str, ...], edges: tuple[Fraction, ...], node: Node) -> None:
    """Refuse codes for missing that are no edge of a number, but equal one as 32-bit floats."""
    for code in codes:
        with contextlib.suppress(ValueError):
            value = parse_fraction(code)
            if value not in edges and _in_32_bits((value,))[0] in _in_32_bits(edges):
                raise node.error(
                    f"the missing value {quote(code)} equals a bin edge or bound as a 32-bit float,"
                    " of about seven digits, which numbers are rounded to; change the edge."
                )


def _in_32_bits(numbers: tuple[Fraction, ...]) -> NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        return np.array([float(number) for number in numbers], np.float64).astype(np.float32)


def bin_count(node: Node) -> int:
    """Return the number of bins that a schema states."""
    return node.integer(minimum=1, maximum=MAX_CODES)


def common_step(numbers: Iterable[Fraction]) -> Fraction:
    """Return the largest number that divides all of these; 0 if all are 0."""
    listed = list(numbers)
    denominator = math.lcm(*(each.denominator for each in listed))
    return Fraction(math.gcd(*(int(each * denominator) for each in listed)), denominator)


def empty_bin(edges: tuple[Fraction, ...], decimals: int) -> tuple[Fraction, Fraction] | None:
    """Return the first bin that contains no number with `decimals` decimals; None without any."""
    grid = 10**decimals
    last = len(edges) - 2
    for code, (low, high) in enumerate(pairwise(edges)):
        smallest = Fraction(math.ceil(low * grid), grid)
        if smallest > high or (smallest == high and code < last):
            return low, high
    return None
