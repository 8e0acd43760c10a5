"""Rates of success, their intervals, and what differential privacy permits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
"""Confidence level of all intervals."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of success with its Wilson score interval.

    Attributes:
        value: Centre of the interval, which anonymeter also reports, not successes / attempts.
        error: Half its length.
        successes: Number of successes.
        attempts: Number of attempts.
    """

    value: float
    error: float
    successes: int
    attempts: int

    @property
    def share(self) -> float:
        """Share of the attempts that succeeded; 0 without attempts."""
        return self.successes / self.attempts if self.attempts else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with a 95 % interval.

    Attributes:
        value: The estimate.
        low, high: Ends of the interval.
    """

    value: float
    low: float
    high: float


def wilson(successes: int, attempts: int) -> Rate:
    """Return a rate with its 95 % Wilson score interval (Wilson 1927, JASA 22).

    >>> round(wilson(0, 100).value, 5), round(wilson(50, 100).value, 2)
    (0.0185, 0.5)
    """
    from statsmodels.stats.proportion import proportion_confint

    if not 0 <= successes <= attempts or not attempts:
        raise ValueError(f"{successes} successes of {attempts} attempts are no rate.")
    low, high = proportion_confint(successes, attempts, 1 - LEVEL, method="wilson")
    return Rate(float(low + high) / 2, float(high - low) / 2, successes, attempts)


def residual_risk(attack: Rate, control: Rate) -> Estimate:
    """Return how far an attack on members exceeds the same attack on the control, from 0 to 1.

    R = (r - c) / (1 - c), with errors propagated to first order: Giomi, Boenisch, Wehmeyer &
    Tasnadi (2023), PoPETs 2023(2), Section 3.3.

    Args:
        attack: Success on members.
        control: Success on the control.
    """
    if control.value >= 1:
        return Estimate(0.0, 0.0, 1.0)
    left = 1 - control.value
    value = (attack.value - control.value) / left
    error = math.hypot(attack.error / left, (1 - attack.value) * control.error / left**2)
    return Estimate(*(min(max(one, 0.0), 1.0) for one in (value, value - error, value + error)))


def advantage(members: Rate, control: Rate) -> Estimate:
    """Return true minus false positive rate of a membership attack, with Newcombe's interval.

    The interval combines the two Wilson intervals: Newcombe (1998), Statistics in Medicine 17,
    method 10.

    Args:
        members: Members that the attack calls members.
        control: Records of the control that it calls members.
    """
    from statsmodels.stats.proportion import confint_proportions_2indep

    counts = members.successes, members.attempts, control.successes, control.attempts
    low, high = confint_proportions_2indep(*counts, method="newcomb", alpha=1 - LEVEL)
    return Estimate(members.share - control.share, float(low), float(high))


def mean_interval(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values with Student's 95 % interval.

    Args:
        values: At least two values.
    """
    from scipy import stats

    if len(values) < 2:
        raise ValueError("An interval needs at least two values.")
    mean, error = float(np.mean(values)), float(stats.sem(values))
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * error
    return Estimate(mean, mean - half, mean + half)


def permitted_advantage(epsilon: float, delta: float) -> float:
    """Return the largest advantage of any membership attack on an (epsilon, delta)-DP release.

    (e^epsilon - 1 + 2 delta) / (e^epsilon + 1): Kairouz, Oh & Viswanath (2015), Theorem 2.1, at its
    symmetric point; for delta = 0 see also Humphries et al. (2023), Theorem 3.1.

    >>> round(permitted_advantage(1.0, 0.0), 4), permitted_advantage(0.0, 0.0)
    (0.4621, 0.0)
    """
    if epsilon > 700:
        return 1.0
    grown = math.exp(epsilon)
    return min(1.0, (grown - 1 + 2 * delta) / (grown + 1))
