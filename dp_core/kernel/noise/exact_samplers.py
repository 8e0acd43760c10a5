"""The samplers: discrete Laplace and Gaussian noise, and two private choices. All are exact.

What is drawn has the distribution of the proof, not that of a float near it. Random bits come from
`system_randomness`; `exact_bernoulli` makes events of probability exp(-x) of them. The rest is
whole numbers. None of these functions takes a seed.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.mechanisms.event import LARGEST_SCALE
from dp_core.kernel.noise.exact_bernoulli import occurs
from dp_core.kernel.noise.system_randomness import below

LARGEST_NUMERATOR = LARGEST_SCALE
"""Numerators of scales are at most this, as every float's below `LARGEST_SCALE` is."""
_MOST_PERIODS = 1 << 9
"""More whole periods than geometric noise ever has: their probability is exp(-512)."""


def add_noise(
    kind: Literal["laplace", "gaussian"], values: NDArray[np.int64], scale: Fraction
) -> NDArray[np.int64]:
    """Return whole numbers plus independent exact noise, same shape.

    Args:
        kind: Distribution of the noise.
        values: Exact whole numbers, any shape. Confidential.
        scale: `b` of the discrete Laplace, `sigma` of the discrete Gaussian, in units of the
            values.

    Returns:
        Noisy values; where a sum is beyond 64 bits, the nearest that is not.

    Raises:
        TypeError: if the values are not of type int64.
        ValueError: if the scale is not above 0, or is too large to sample.
    """
    if values.dtype != np.int64:
        # privacy: discrete noise on floats has no guarantee.
        raise TypeError(f"Noise is added to int64, not to {values.dtype}.")
    sample = discrete_laplace if kind == "laplace" else discrete_gaussian
    noise = sample(scale, values.size).reshape(values.shape)
    noisy = values + noise
    if np.any(wrapped := ((values ^ noisy) & (noise ^ noisy)) < 0):
        limits = np.iinfo(np.int64)
        noisy = np.where(wrapped, np.where(noise < 0, limits.min, limits.max), noisy)
    return noisy


def discrete_laplace(scale: Fraction, number: int) -> NDArray[np.int64]:
    """Return draws y, each with probability in proportion to exp(-|y| / scale), shape (number,).

    Canonne, Kamath & Steinke (2020), Algorithm 2.

    Raises:
        ValueError: if the scale is not above 0, or is too large to sample.
    """
    _check(scale)
    found = np.empty(number, dtype=np.int64)
    left = np.arange(number)
    while len(left):
        # `geometric` is in units of 1/denominator of the scale's unit.
        size = _quotients(geometric(scale.numerator, len(left)), scale.denominator)
        negative = below(2, len(left)) == 1
        found[left] = np.where(negative, -size, size)
        # Zero has one sign: otherwise it would be twice as likely.
        left = left[negative & (size == 0)]
    return found


def discrete_gaussian(sigma: Fraction, number: int) -> NDArray[np.int64]:
    """Return draws y, each with probability in proportion to exp(-y^2 / (2 sigma^2)).

    Canonne, Kamath & Steinke (2020), Algorithm 3: discrete Laplace noise of the next whole scale,
    each draw of it accepted with probability exp(-(|y| - sigma^2/t)^2 / (2 sigma^2)).

    Returns:
        Shape (number,).

    Raises:
        ValueError: if the scale is not above 0, or is too large to sample.
    """
    _check(sigma)
    scale = int(sigma) + 1
    variance = sigma**2
    centre = variance / scale

    def exact_rate(sizes: NDArray[np.int64], index: int) -> Fraction:
        return (int(sizes[index]) - centre) ** 2 / (2 * variance)

    found = np.empty(number, dtype=np.int64)
    left = np.arange(number)
    while len(left):
        drawn = discrete_laplace(Fraction(scale), len(left))
        sizes = np.abs(drawn)
        with np.errstate(over="ignore"):  # an infinite rate stands for a large one
            rates = ((sizes - float(centre)) / float(sigma)) ** 2 / 2
        accepted = occurs(rates, partial(exact_rate, sizes))
        found[left[accepted]] = drawn[accepted]
        left = left[~accepted]
    return found


def geometric(scale: int, number: int) -> NDArray[np.int64]:
    """Return draws x from 0, each with probability in proportion to exp(-x / scale).

    A draw is a number of whole periods of length `scale`, and a place within the period. Canonne,
    Kamath & Steinke (2020), lines 1 to 11 of Algorithm 2.

    Returns:
        Shape (number,).
    """

    def exact_rate(drawn: NDArray[np.int64], index: int) -> Fraction:
        return Fraction(int(drawn[index]), scale)

    places = np.empty(number, dtype=np.int64)
    left = np.arange(number)
    while len(left):
        drawn = below(scale, len(left))
        accepted = occurs(drawn / scale, partial(exact_rate, drawn))
        places[left[accepted]] = drawn[accepted]
        left = left[~accepted]
    periods = np.zeros(number, dtype=np.int64)
    left = np.arange(number)
    while len(left):
        left = left[occurs(np.ones(len(left)), lambda _: Fraction(1))]
        periods[left] += 1
    # Beyond this, a draw could be too large for 64 bits; it never happens.
    assert periods.max(initial=0) < _MOST_PERIODS
    return periods * scale + places


def noisy_max(scores: NDArray[np.int64], scale: Fraction, *, gumbel: bool) -> int:
    """Return the index that is largest after Gumbel or exponential noise of this scale.

    The noise itself is never drawn: the index is drawn with its exact probabilities.

    - Gumbel noise: the exponential mechanism, by rejection. A candidate is proposed uniformly, and
      accepted with probability exp(-gap / scale), where the gap is to the largest score.
    - Exponential noise: permute-and-flip. Every candidate is accepted with that probability, and
      one of the accepted is taken uniformly, which is the first of them in a random order. Ding,
      Kifer, Sayed, Steinke, Wang, Xiao & Zhang (2021) show that both are the same.

    Args:
        scores: Whole numbers, shape (candidates,). Confidential.
        scale: Scale of the noise, in units of the scores.
        gumbel: Whether the noise is Gumbel's.

    Raises:
        TypeError: if the scores are not a vector of type int64.
        ValueError: if there are none, or the scale is not above 0.
    """
    if scores.dtype != np.int64 or scores.ndim != 1:
        raise TypeError("Scores are a vector of int64.")
    if not len(scores):
        raise ValueError("There is no candidate to choose.")
    if float(scale) <= 0:
        raise ValueError(f"A scale of noise is above 0, not {float(scale)}.")
    best = int(scores.max())
    # As unsigned words: the gap between two words of 64 bits may need all of them.
    gaps = np.uint64(best % (1 << 64)) - scores.view(np.uint64)
    with np.errstate(over="ignore"):  # an infinite rate stands for a large one
        rates = gaps / float(scale)

    def exact_rate(of: NDArray[np.int64], index: int) -> Fraction:
        return Fraction(int(gaps[of[index]])) / scale

    everyone = np.arange(len(scores))
    while True:
        proposed = below(len(scores), len(scores)) if gumbel else everyone
        accepted = proposed[occurs(rates[proposed], partial(exact_rate, proposed))]
        if len(accepted):
            return int(accepted[0 if gumbel else int(below(len(accepted), 1)[0])])


def _check(scale: Fraction) -> None:
    # privacy: a scale of 0 would mean "no noise".
    # The float of the scale must be above 0, and the next whole number within the limit too.
    if float(scale) <= 0 or scale >= LARGEST_SCALE - 1 or scale.numerator > LARGEST_NUMERATOR:
        raise ValueError(
            f"A scale of noise is above 0 and below 2**53, with at most 53 binary digits, not"
            f" {float(scale):.6g}."
        )


def _quotients(values: NDArray[np.int64], denominator: int) -> NDArray[np.int64]:
    """Return whole parts of quotients; the denominator may be any number."""
    if denominator > np.iinfo(np.int64).max:
        return np.zeros_like(values)
    return values // denominator
