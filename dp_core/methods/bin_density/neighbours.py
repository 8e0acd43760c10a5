"""How the density falls or rises within each bin, from the noisy counts of its neighbours.

The density of a bin is its count over its width. To each side, the bins next to it are taken
together until their count is clear of its noise; a side without clear counts says nothing.

- *A bin between two clear sides* takes the ratio of the densities at its two edges, each from the
  straight line through the logarithms of the densities at the centres of the bin and of that side.
  A bin that is higher or lower than both sides is uniform. As in van Leer's (1977) limiter of
  monotonized central differences, the ratio is at most what four times the smaller step would give.
- *A bin at the end* that is lower than its neighbours begins with their density at their common
  edge, extrapolated from up to two groups of neighbours, and falls. One that is higher rises by the
  smaller of two slopes of the logarithm: to its neighbours, and between these.

A logarithm has the variance v/c^2, with v the variance of the count c by noise and by sampling. An
estimated ratio or height d of variance s is reduced to d (1 - 2 s/d^2), at least 0: the positive
part of a James-Stein estimator with twice the usual shrinkage.

A density that falls from the left end of a bin of width 1 is a truncated Lomax distribution
(Lomax 1954) of shape 4,

    f(u) = a (1 + a u/4)^-5 / (1 - (1 + a/4)^-4),    0 <= u <= 1,

whose one parameter, the fall a >= 0, is 0 for the uniform distribution. Its tail is between that of
an exponential and that of a Pareto distribution of index 2. Its distribution function is rational,
so that only elementary operations are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_SHAPE = 4
_STEEPEST = 1e9


def below(fall: float, place: float) -> float:
    """Return the part of a bin's records up to a place, for a density that falls from the left.

    Args:
        fall: Parameter a of the family, at least 0.
        place: Place in the bin, from 0 (its left end) to 1.

    >>> below(0.0, 0.5), round(below(4.0, 0.5), 4)
    (0.5, 0.856)
    """
    if fall <= 1e-6:
        return place
    return _beyond(fall * place) / _beyond(fall)


def mean_place(fall: float) -> float:
    """Return the mean place in a bin whose density falls to the right, or rises if it is negative.

    >>> mean_place(0.0), round(mean_place(4.0), 4), round(mean_place(-4.0), 4)
    (0.5, 0.2444, 0.7556)
    """
    if fall < 0:
        return 1 - mean_place(-fall)
    if fall <= 1e-3:
        return 0.5
    left = 1 / (1 + fall / _SHAPE)
    return (_SHAPE * (1 - left**3) / (3 * fall) - left**4) / (1 - left**4)


def height(fall: float) -> float:
    """Return the density at the bin's high end, relative to the mean density of the bin; f(0)."""
    return fall / _beyond(fall) if fall > 1e-6 else 1.0


def fall_of_height(wanted: float) -> float:
    """Return the fall for which `height` has a value; 0 if that is at most 1.

    >>> round(fall_of_height(height(7.5)), 9)
    7.5
    """
    if not wanted > 1:
        return 0.0
    low, high = 0.0, min(4 * wanted, _STEEPEST)
    for _ in range(100):
        middle = (low + high) / 2
        if height(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def fall_of_ratio(log_ratio: float) -> float:
    """Return the fall for which the density at the high end is exp(log_ratio) times the other's.

    >>> fall_of_ratio(0.0)
    0.0
    """
    return min(_SHAPE * math.expm1(max(log_ratio, 0.0) / (_SHAPE + 1)), _STEEPEST)


def _beyond(scaled: float) -> float:
    """Return 1 - (1 + scaled/4)^-4 without cancellation."""
    part = scaled / _SHAPE
    power = (1 + part) * (1 + part)
    # (1 + p)^4 - 1 = p (p^3 + 4 p^2 + 6 p + 4)
    return part * (part * (part * (part + 4) + 6) + 4) / (power * power)


_CLEAR = 3.0
"""Smallest count of a group of neighbours, in standard errors."""
_SHRINK = 2.0
"""Variances by which the square of an estimate must exceed 0, to be used at all."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Bins taken together: their ends, the logarithm of their density, and its variance."""

    low: float
    high: float
    log: float
    variance: float

    @property
    def centre(self) -> float:
        return (self.low + self.high) / 2

    @property
    def width(self) -> float:
        return self.high - self.low


def falls(edges: Sequence[float], counts: Sequence[float], variance: float) -> list[float]:
    """Return the fall of the density in each bin: positive if it falls to the right.

    Args:
        edges: Edges of the bins, ascending.
        counts: Noisy counts of the bins, records.
        variance: Noise variance of a count, in records squared.
    """
    found = []
    for own, left, right in _with_sides(edges, counts, variance):
        if left and right:
            found.append(_inner(own, _mirror(left[0]), right[0]))
        elif left:
            found.append(_outer(_mirror(own), left))
        elif right:
            found.append(-_outer(own, right))
        else:
            found.append(0.0)
    return found


def steps(
    edges: Sequence[float], counts: Sequence[float], variance: float
) -> list[tuple[float, float]]:
    """Return two falls of each bin, between which the counts of its neighbours put its own.

    The change of the logarithm at each edge is that to this side; at the end of the range, the one
    that continues the others, or 0 if the bin has one clear group of neighbours. That of the whole
    bin is in the middle half between both. How far the falls differ from the one that `falls`
    chooses shows how little the counts tell about the density within the bin.

    Args:
        edges: Edges of the bins, ascending.
        counts: Noisy counts of the bins, records.
        variance: Noise variance of a count, in records squared.
    """
    found = []
    for own, left, right in _with_sides(edges, counts, variance):
        to_left, beyond_left = _changes(_mirror(own), left)
        to_right, beyond_right = _changes(own, right)
        one = -to_left if left else beyond_right
        other = to_right if right else -beyond_left
        quarter = (other - one) / 4
        found.append((_signed_fall(one + quarter), _signed_fall(other - quarter)))
    return found


def _signed_fall(change: float) -> float:
    """Return the fall in a bin in which the logarithm of the density changes to the right."""
    return -math.copysign(fall_of_ratio(abs(change)), change)


def _changes(own: _Group, inner: list[_Group]) -> tuple[float, float]:
    """Return the change of the logarithm within a bin, towards others to its right and away."""
    if not inner:
        return 0.0, 0.0
    near = inner[0]
    slope = (near.log - own.log) / (near.centre - own.centre)
    if len(inner) < 2:
        return slope * own.width, 0.0
    beyond = (inner[1].log - near.log) / (inner[1].centre - near.centre)
    times = (near.centre - own.centre + own.width) / (inner[1].centre - own.centre)
    return slope * own.width, (slope + (slope - beyond) * times) * own.width


def _with_sides(
    edges: Sequence[float], counts: Sequence[float], variance: float
) -> Iterator[tuple[_Group, list[_Group], list[_Group]]]:
    """Yield each bin with its clear neighbours to the left, mirrored, and to the right."""
    mirrored = [-edge for edge in reversed(edges)]
    turned = list(reversed(counts))
    for place in range(len(counts)):
        left = _groups(mirrored, turned, variance, len(counts) - 1 - place)
        right = _groups(edges, counts, variance, place)
        yield _group(edges, counts, variance, place, place + 1), left, right


def _mirror(group: _Group) -> _Group:
    """Return the group seen from the other side."""
    return _Group(-group.high, -group.low, group.log, group.variance)


def _group(
    edges: Sequence[float], counts: Sequence[float], variance: float, first: int, end: int
) -> _Group:
    count = math.fsum(counts[first:end])
    own = (end - first) * variance + max(count, 1.0)
    # A count that noise may explain is treated as one standard error.
    held = max(count, math.sqrt(own))
    width = edges[end] - edges[first]
    return _Group(edges[first], edges[end], math.log(held / width), own / held**2)


def _groups(
    edges: Sequence[float], counts: Sequence[float], variance: float, place: int
) -> list[_Group]:
    """Return up to two groups of bins to the right of a bin, each of which has clear counts."""
    found: list[_Group] = []
    first = place + 1
    while first < len(counts) and len(found) < 2:
        end, count = first, 0.0
        while end < len(counts):
            count += counts[end]
            end += 1
            if count > _CLEAR * math.sqrt((end - first) * variance + max(count, 1.0)):
                found.append(_group(edges, counts, variance, first, end))
                break
        first = end
    return found


def _inner(own: _Group, left: _Group, right: _Group) -> float:
    """Return the fall in a bin between two others."""
    to_left = own.width / (own.width + left.width)
    to_right = own.width / (own.width + right.width)
    one, other = (own.log - left.log) * to_left, (right.log - own.log) * to_right
    if one * other <= 0:
        return 0.0
    rise = min(abs(one + other), 4 * abs(one), 4 * abs(other))
    variance = (
        to_left**2 * left.variance
        + to_right**2 * right.variance
        + (to_left - to_right) ** 2 * own.variance
    )
    fall = fall_of_ratio(rise * _shrinkage(rise, variance))
    return fall if one < 0 else -fall


def _outer(own: _Group, inner: list[_Group]) -> float:
    """Return the fall, away from the others, in a bin at the end; all others lie to its right.

    Positive if the density falls to the left.
    """
    near, gap = inner[0], inner[0].centre - own.centre
    slope = (near.log - own.log) / gap  # of the logarithm, towards the others
    beyond = 0.0
    if len(inner) > 1:
        apart = inner[1].centre - near.centre
        beyond = (inner[1].log - near.log) / apart
    if slope > 0:
        # Continuity: the density at the edge follows from the neighbours.
        drop = max(beyond, 0.0)
        drop = min(drop, slope)
        log = near.log - drop * near.width / 2
        height = max(log - own.log, 0.0)
        variance = near.variance + own.variance
        return fall_of_height(math.exp(height * _shrinkage(height, variance)))
    if beyond >= 0:
        return 0.0
    rise = min(-slope, -beyond) * own.width
    variance = (own.variance + near.variance) * (own.width / gap) ** 2
    return -fall_of_ratio(rise * _shrinkage(rise, variance))


def _shrinkage(size: float, variance: float) -> float:
    """Return the factor by which an estimate is reduced."""
    return max(0.0, 1 - _SHRINK * variance / size**2) if size > 0 else 0.0
