"""The family of densities within a bin: constant, or falling towards one side.

A density that falls from the left end of a bin of width 1 is a truncated Lomax distribution
(Lomax 1954) of shape 4,

    f(u) = a (1 + a u/4)^-5 / (1 - (1 + a/4)^-4),    0 <= u <= 1,

whose one parameter, the fall a >= 0, is 0 for the uniform distribution. Its tail is between that of
an exponential and that of a Pareto distribution of index 2. Its distribution function is rational,
so that only elementary operations are needed.
"""

from __future__ import annotations

import math

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
