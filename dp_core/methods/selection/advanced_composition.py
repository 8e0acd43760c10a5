"""How much each of many rounds may cost by advanced composition, as papers of 2010 to 2014 have it.

Kept to read those papers by. A release here pays in zCDP where a delta is given, which is tighter.
"""

from __future__ import annotations

import math


def round_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    """Return the epsilon that each of `rounds` adaptive mechanisms may have.

    The largest epsilon_0 with sqrt(2 T ln(1/delta)) epsilon_0 + T epsilon_0 (e^epsilon_0 - 1) <=
    epsilon (Dwork, Rothblum & Vadhan 2010, Theorem III.3; Hardt, Ligett & McSherry 2012, Theorem
    3.2), or epsilon / T by basic composition where that is larger.

    Args:
        epsilon: Of all rounds together, positive.
        delta: Of all rounds together, from 0 (basic composition) to below 1.
        rounds: Their number, T.

    >>> round(round_epsilon(1, 1e-6, 30), 6)
    0.033541
    """
    if epsilon <= 0 or rounds < 1 or not 0 <= delta < 1:
        raise ValueError("epsilon is positive, there is a round, and delta is from 0 to below 1.")
    basic = epsilon / rounds
    if delta == 0:
        return basic
    linear = math.sqrt(2 * rounds * math.log(1 / delta))
    # The left side grows with epsilon_0 and is at least linear * epsilon_0: bisection below that.
    low, high = 0.0, epsilon / linear
    for _ in range(200):
        middle = (low + high) / 2
        if linear * middle + rounds * middle * math.expm1(middle) <= epsilon:
            low = middle
        else:
            high = middle
    return max(basic, low)
