from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.cost.curves import (
    SMOOTHING,
    gaussian_epsilon,
    gaussian_limit,
    zcdp_epsilon,
    zcdp_limit,
)
from tests.full import some
from tests.gaussian_curve import gaussian_delta

PER_SQUARE = Fraction(1, 48842**2)

epsilons = st.fractions(min_value=Fraction(1, 100), max_value=20, max_denominator=1000)
deltas = st.integers(3, 15).map(lambda digits: Fraction(1, 10**digits))


# Values computed by an independent implementation of Canonne, Kamath & Steinke's conversion.
@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [
        (Fraction(1), Fraction("1e-9"), 0.0149731),
        (Fraction(1), Fraction("1e-5"), 0.0305566),
        (Fraction("0.2"), PER_SQUARE, 0.00063998),
        (Fraction(1), PER_SQUARE, 0.0142703),
        (Fraction(2), PER_SQUARE, 0.0536453),
    ],
)
def test_zcdp_limit_is_the_tight_conversion(epsilon, delta, rho):
    assert float(zcdp_limit(epsilon, delta)) == pytest.approx(rho, rel=5e-6)


@given(epsilon=epsilons, delta=deltas)
def test_a_limit_never_implies_more_than_was_asked(epsilon, delta):
    assert zcdp_epsilon(zcdp_limit(epsilon, delta), delta) <= epsilon * (1 + Fraction(1, 10**10))
    half = gaussian_limit(epsilon, delta)
    assert gaussian_delta(math.sqrt(2 * float(half)), float(epsilon)) <= float(delta)


@given(epsilon=epsilons, delta=deltas)
def test_the_gaussian_curve_allows_more_than_zcdp(epsilon, delta):
    assert gaussian_limit(epsilon, delta) > zcdp_limit(epsilon, delta)


@given(epsilon=epsilons, delta=deltas)
def test_gaussian_epsilon_undoes_gaussian_limit(epsilon, delta):
    back = gaussian_epsilon(gaussian_limit(epsilon, delta), delta)
    assert float(back) == pytest.approx(float(epsilon), rel=1e-6)


def test_gaussian_delta_agrees_with_a_sum_over_the_density():
    mu, epsilon = 0.7, 1.1
    steps = 200_000
    width = 24 / steps
    total = 0.0
    for index in range(steps):
        x = -12 + (index + 0.5) * width
        first = math.exp(-((x - mu) ** 2) / 2)
        second = math.exp(epsilon - x**2 / 2)
        total += max(0.0, first - second) * width / math.sqrt(2 * math.pi)
    assert gaussian_delta(mu, epsilon) == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "delta", "tables"),
    some(
        [(1.0, 1e-9, 14), (0.2, 1e-9, 5), (5.0, 1e-6, 30), (1.0, 1e-5, 1)],
        lambda case: case[0] != 1,
    ),
)
def test_the_privacy_loss_distribution_of_the_discrete_noise_confirms_the_limit(
    epsilon, delta, tables
):
    """An accountant that is exact for the discrete noise finds at most epsilon.

    How far below is what the smoothing argument gives away: most for a single table.
    """
    limit = gaussian_limit(Fraction(epsilon), Fraction(delta))
    sigma = math.sqrt(float(tables / (2 * limit)) + SMOOTHING)
    one = pld.from_discrete_gaussian_mechanism(
        sigma, sensitivity=1, value_discretization_interval=1e-5
    )
    found = one.self_compose(tables).get_epsilon_for_delta(delta)

    assert found <= epsilon * 1.0005
    assert found >= epsilon * 0.92


def test_no_room_means_no_limit():
    assert gaussian_limit(Fraction(1, 10**9), Fraction(1, 10**9)) == 0
    assert zcdp_epsilon(Fraction(0), Fraction(1, 10**9)) == 0


@pytest.mark.parametrize("epsilon", ["1e-6", "1e-4", "0.1", "1", "100", "725"])
@pytest.mark.parametrize("delta", ["0.5", "1e-9", "1e-30", "1e-280", "1e-320"])
def test_floating_point_never_makes_a_limit_too_large(epsilon, delta):
    """The curve to 50 digits, where its two terms nearly cancel or underflow."""
    half = gaussian_limit(Fraction(epsilon), Fraction(delta))
    if half == 0:
        return
    with mpmath.workdps(50):
        mu = mpmath.sqrt(2 * mpmath.mpf(half.numerator) / half.denominator)
        target = mpmath.mpf(epsilon)
        near, far = mu / 2 - target / mu, mu / 2 + target / mu
        true = (
            mpmath.erfc(-near / mpmath.sqrt(2)) / 2
            - mpmath.exp(target) * mpmath.erfc(far / mpmath.sqrt(2)) / 2
        )
        assert true <= mpmath.mpf(delta)
