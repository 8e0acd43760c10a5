"""Events of probability exp(-x): floats decide only where they agree with exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.kernel.noise import exact_bernoulli
from dp_core.kernel.noise.exact_bernoulli import FLOAT_ERROR, exp_bounds, is_below, occurs

RATES = [
    Fraction(0),
    Fraction(1, 10**30),
    Fraction(1, 3),
    Fraction(1),
    Fraction(355, 113),
    Fraction(123456789, 10**7),
    Fraction(50),
    Fraction(63999, 1000),
    Fraction(2**70 + 1, 2**60),
    Fraction(10**30),
]


def exp_by_series(rate, bits):
    """Return bounds of exp(-rate) in units of 2^-bits, by 1 / (1 + x + x^2/2! + ...)."""
    total = term = Fraction(1)
    for number in range(1, 4 * bits + 20 * math.ceil(rate)):
        term = term * rate / number
        total += term
        if number > 2 * rate and term < Fraction(1, 1 << bits + 10):
            break
    # Each term is less than half of the one before, so the rest is less than the last.
    return Fraction(1 << bits) / (total + term), Fraction(1 << bits) / total


@pytest.mark.parametrize("rate", [rate for rate in RATES if rate < 100], ids=str)
@pytest.mark.parametrize("bits", [64, 128])
def test_the_bounds_hold_what_the_series_gives(rate, bits):
    low, high = exp_bounds(rate, bits)
    least, most = exp_by_series(rate, bits)
    assert low <= least
    assert most <= high
    assert high - low <= 1 or rate == 0


@pytest.mark.parametrize("rate", RATES, ids=str)
def test_bounds_close_in_as_bits_are_added(rate):
    low, high = exp_bounds(rate, 64)
    for bits in (128, 192, 256):
        finer = exp_bounds(rate, bits)
        assert low << (bits - 64) <= finer[0] <= finer[1] <= high << (bits - 64)


def scripted(monkeypatch, *rounds):
    served = iter([np.array(each, dtype=np.uint64) for each in rounds])
    monkeypatch.setattr(exact_bernoulli, "words", lambda _number: next(served))
    return served


@pytest.mark.parametrize("rate", [rate for rate in RATES if 10**-9 < rate < 40], ids=str)
def test_words_around_the_probability_are_decided_exactly(rate, monkeypatch):
    """The word that holds exp(-rate) needs further ones; its neighbours do not."""
    low, high = exp_bounds(rate, 64)
    assert high == low + 1
    finer = exp_bounds(rate, 128)[0] - (low << 64)  # the next 64 bits of exp(-rate)
    assert 0 < finer < (1 << 64) - 1
    near = [low - 1, low, low, high]
    left = scripted(monkeypatch, near, [finer - 1], [finer + 1])
    found = occurs(np.full(4, float(rate)), lambda _index: rate)
    assert found.tolist() == [True, True, False, False]
    assert next(left, None) is None


def test_a_certain_event_occurs_whatever_is_drawn(monkeypatch):
    for word in (0, 2**64 - 1):
        scripted(monkeypatch, [word])
        assert occurs(np.zeros(1), lambda _index: Fraction(0)).all()


def test_an_event_all_but_impossible_takes_as_many_bits_as_its_probability_has_zeros(monkeypatch):
    """exp(-200) = 1.4e-87 begins with 288 binary zeros."""
    for word, expected in ((0, True), (1 << 40, False)):
        left = scripted(monkeypatch, [0], [0], [0], [0], [word])
        found = occurs(np.array([200.0]), lambda _index: Fraction(200))
        assert found.tolist() == [expected]
        assert next(left, None) is None


def test_floats_decide_as_exact_arithmetic_does_or_leave_it_to_it():
    """Fixed words and rates: what the float decides is what the exact comparison decides."""
    rng = np.random.default_rng(3)
    rates = [
        Fraction(int(rng.integers(1, 2**40)), int(rng.integers(2**36, 2**40))) for _ in range(900)
    ]
    floats = np.array([float(rate) for rate in rates])
    offsets = rng.choice([-1.0, 1.0], 900) * 2.0 ** rng.uniform(-37.9, -1, 900)
    numbers = np.clip(np.exp(-floats) + offsets, 0, 1 - 2.0**-53)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            exact_bernoulli, "words", lambda _number: (numbers * 2.0**64).astype(np.uint64)
        )
        found = occurs(floats, lambda index: pytest.fail(f"{index} was left to exact arithmetic"))
    for number, rate, occurred in zip(numbers, rates, found, strict=True):
        assert occurred == is_below(int(number * 2.0**64), rate)


def test_the_float_error_covers_what_numpy_computes():
    """Rates with the largest error that is allowed, at the steepest and at the flattest place."""
    for rate in (Fraction(1, 7), Fraction(1), Fraction(63)):
        low, high = exp_bounds(rate, 120)
        for off in (-(2.0**-40), 2.0**-40):
            computed = Fraction(float(np.exp(-(float(rate) + off)))) * (1 << 120)
            assert max(abs(computed - low), abs(computed - high)) < FLOAT_ERROR * 2**120


def test_exact_decisions_alone_have_the_probability(monkeypatch):
    """All left to exact arithmetic; off by 6 standard errors with probability below 1e-8."""
    monkeypatch.setattr(exact_bernoulli, "FLOAT_ERROR", 2.0)
    rate, number = Fraction(2, 3), 4_000
    share = occurs(np.full(number, float(rate)), lambda _index: rate).mean()
    expected = math.exp(-2 / 3)
    assert abs(share - expected) < 6 * math.sqrt(expected * (1 - expected) / number)
