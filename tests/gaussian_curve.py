"""The exact curve of the continuous Gaussian mechanism, against which the conversions are held."""

from __future__ import annotations

import math


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta at epsilon of a Gaussian mechanism.

    Balle & Wang (2018), Theorem 8: Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu).

    Args:
        mu: L2 sensitivity over the standard deviation of the noise.
        epsilon: At least 0.
    """
    if mu == 0:
        return 0.0
    first = phi(mu / 2 - epsilon / mu)
    second = phi(-mu / 2 - epsilon / mu)
    # The second term can underflow while e^epsilon overflows, so multiply in logarithms.
    return first - (math.exp(epsilon + math.log(second)) if second > 0 else 0.0)


def phi(x):
    return math.erfc(-x / math.sqrt(2)) / 2
