"""Overlap of two confidence intervals of the same quantity."""

from __future__ import annotations

import math
from typing import Literal

Disjoint = Literal["distance", "zero"]
"""Overlap of disjoint intervals: negative, by their distance (`distance`), or 0 (`zero`)."""


def interval_overlap(
    first: tuple[float, float], second: tuple[float, float], *, disjoint: Disjoint = "distance"
) -> float:
    """Return the overlap of two intervals: 1 if they are equal, 0 if they only touch.

    Karr, Kohnen, Oganian, Reiter and Sanil (The American Statistician 60, 2006, Section 3): with
    the length u of the common part, (u / length of the first + u / length of the second) / 2. One
    interval within another has at least 1/2, however much wider the other is, so that the overlap
    does not tell a very wide synthetic interval from a moderately wide one: look at both lengths.

    For disjoint intervals, the formula treats their distance as a negative length (`distance`; as
    in Snoke, Raab, Nowok, Dibben and Slavkovic, JRSS A 2018, and the package synthpop). This
    distinguishes close from distant intervals, but a single coefficient can dominate an average.
    With `zero` disjoint intervals have overlap 0, so that every overlap is between 0 and 1.

    An interval of length 0 counts as covered if its point is in the other one. Otherwise the
    distance is infinitely many times its length, and the overlap minus infinity. Of an infinite
    (or half-infinite) and a finite interval, the common part is all of the finite one and none of
    the infinite one.

    Args:
        first: Lower and upper end of one interval.
        second: Lower and upper end of the other.
        disjoint: Value for disjoint intervals; `distance` by default.

    Returns:
        At most 1.

    Raises:
        ValueError: if an end is not a number, an upper end is below its lower one, or both
            intervals are infinite.

    >>> interval_overlap((0, 2), (1, 3)), interval_overlap((0, 4), (1, 2))
    (0.5, 0.625)
    >>> interval_overlap((0, 1), (2, 4)), interval_overlap((0, 1), (2, 4), disjoint="zero")
    (-0.75, 0.0)
    """
    for low, high in (first, second):
        if not low <= high:
            raise ValueError(f"[{low}, {high}] is not an interval.")
    lengths = first[1] - first[0], second[1] - second[0]
    if all(math.isinf(length) for length in lengths):
        raise ValueError("Two infinite intervals have no overlap that can be compared.")
    common = min(first[1], second[1]) - max(first[0], second[0])
    if common < 0 and disjoint == "zero":
        return 0.0
    return (_part(common, lengths[0]) + _part(common, lengths[1])) / 2


def _part(common: float, length: float) -> float:
    if length > 0:
        return 0.0 if math.isinf(length) else common / length
    return 1.0 if common >= 0 else -math.inf
