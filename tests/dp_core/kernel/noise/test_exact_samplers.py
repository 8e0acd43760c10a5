"""The samplers, step by step: what they make of given coins, and what they refuse.

That the draws have their distribution is tested in tests/distributions/test_noise.py.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_core.kernel.mechanisms.event import LARGEST_SCALE
from dp_core.kernel.noise import exact_samplers
from dp_core.kernel.noise.exact_samplers import (
    add_noise,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    noisy_max,
)
from tests.statistical import FALSE_ALARM, fits
from tests.statistical import discrete_gaussian as gaussian_law
from tests.statistical import discrete_laplace as laplace_law

SCALES = [Fraction(1, 3), Fraction(1), Fraction(9, 4), Fraction(12.3456)]


@pytest.fixture
def coins(monkeypatch):
    """Let the coins and numbers of the samplers be given; return what rates were asked for."""
    asked = []

    def give(*, occurs=(), below=()):
        events, numbers = iter(occurs), iter(below)

        def scripted_occurs(rates, exact_rate):
            asked.append([exact_rate(index) for index in range(len(rates))])
            np.testing.assert_allclose(rates, [float(rate) for rate in asked[-1]], rtol=1e-12)
            return np.array(next(events), dtype=bool)

        monkeypatch.setattr(exact_samplers, "occurs", scripted_occurs)
        monkeypatch.setattr(
            exact_samplers, "below", lambda _end, _number: np.array(next(numbers), dtype=np.int64)
        )
        return asked

    return give


def test_a_geometric_draw_is_its_periods_and_its_place(coins):
    """Two draws of scale 10: places 4 (of 9, which is refused) and 3; one period and none."""
    asked = coins(
        below=[[9, 3], [4]],
        occurs=[[False, True], [True], [True, False], [False]],
    )
    assert geometric(10, 2).tolist() == [14, 3]
    assert asked[0] == [Fraction(9, 10), Fraction(3, 10)]
    assert asked[1] == [Fraction(4, 10)]
    assert asked[2] == [1, 1]


def test_laplace_noise_is_a_quotient_with_a_sign_and_zero_has_one(monkeypatch):
    """Scale 5/2: geometric draws of scale 5, halved; a negative zero is drawn again."""
    drawn = iter([np.array([7, 1, 8]), np.array([3])])
    signs = iter([np.array([1, 1, 0]), np.array([0])])
    monkeypatch.setattr(exact_samplers, "geometric", lambda _scale, _number: next(drawn))
    monkeypatch.setattr(exact_samplers, "below", lambda _end, _number: next(signs))
    assert discrete_laplace(Fraction(5, 2), 3).tolist() == [-3, 1, 4]


def test_a_gaussian_draw_is_accepted_with_the_probability_of_the_paper(monkeypatch):
    """Sigma 3/2: candidates of scale 2, rates (|y| - 9/8)^2 / (9/2)."""
    candidates = iter([np.array([-3, 1]), np.array([2])])
    accepted = iter([[False, True], [True]])
    asked = []

    def occurs(rates, exact_rate):
        asked.extend(exact_rate(index) for index in range(len(rates)))
        return np.array(next(accepted))

    def laplace(scale, _number):
        assert scale == 2
        return next(candidates)

    monkeypatch.setattr(exact_samplers, "discrete_laplace", laplace)
    monkeypatch.setattr(exact_samplers, "occurs", occurs)
    assert discrete_gaussian(Fraction(3, 2), 2).tolist() == [2, 1]
    expected = [(Fraction(size) - Fraction(9, 8)) ** 2 / Fraction(9, 2) for size in (3, 1, 2)]
    assert asked == expected


@pytest.mark.statistical
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize(
    ("kind", "law"), [("laplace", laplace_law), ("gaussian", gaussian_law)], ids=lambda x: x
)
def test_draws_have_their_law_at_scales_below_and_above_one(kind, law, scale):
    noise = add_noise(kind, np.zeros(20_000, dtype=np.int64), scale)
    assert fits(noise, law(float(scale), math.ceil(20 * scale) + 12)) > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [Fraction(3), Fraction(2.0**43)], ids=str)
def test_draws_agree_with_those_of_opendp(scale):
    """Two samples of 20,000 each, by Kolmogorov and Smirnov; ties make the test conservative."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    zeros = np.zeros(20_000, dtype=np.int64)
    for kind, make, metric in (
        ("laplace", dp.m.make_laplace, dp.l1_distance(T="i64")),
        ("gaussian", dp.m.make_gaussian, dp.l2_distance(T="f64")),
    ):
        theirs = make(domain, metric, scale=float(scale))(zeros)
        ours = add_noise(kind, zeros, scale)
        assert stats.ks_2samp(ours, theirs).pvalue > FALSE_ALARM


# -- choices


def test_the_exponential_mechanism_takes_the_first_proposal_that_is_accepted(coins):
    """Scores 10, 4, 7 at scale 2: rates 0, 3, 3/2, by which proposals are accepted."""
    scores = np.array([10, 4, 7], dtype=np.int64)
    asked = coins(below=[[1, 1, 2], [2, 0, 1]], occurs=[[False, False, False], [False, True, True]])
    assert noisy_max(scores, Fraction(2), gumbel=True) == 0
    assert asked == [[3, 3, Fraction(3, 2)], [Fraction(3, 2), 0, 3]]


def test_permute_and_flip_takes_one_of_those_that_are_accepted(coins):
    scores = np.array([10, 4, 7], dtype=np.int64)
    asked = coins(below=[[1]], occurs=[[True, False, True]])
    assert noisy_max(scores, Fraction(2), gumbel=False) == 2
    assert asked == [[0, 3, Fraction(3, 2)]]


@pytest.mark.parametrize("gumbel", [True, False])
def test_scores_at_both_ends_of_their_type_have_their_gap(gumbel):
    limits = np.iinfo(np.int64)
    scores = np.array([limits.min, limits.max, limits.min + 1], dtype=np.int64)
    assert noisy_max(scores, Fraction(1), gumbel=gumbel) == 1
    assert noisy_max(scores[::2] * 0 + limits.min, Fraction(1), gumbel=gumbel) in (0, 1)
    # However large the scale is: no noise is drawn, so none can leave 64 bits.
    assert noisy_max(scores, Fraction(1e300), gumbel=gumbel) in (0, 1, 2)


# -- limits


def test_a_sum_beyond_64_bits_stays_at_the_end():
    limits = np.iinfo(np.int64)
    for end in (limits.min, limits.max):
        noisy = add_noise("gaussian", np.full(200, end), Fraction(1 << 30))
        assert (noisy == end).any()
        assert (np.abs(noisy.astype(float) - float(end)) < 2.0**40).all()


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_tiny_scale_draws_zeros(kind):
    for scale in (Fraction(5e-324), Fraction(1e-200), Fraction(1, 100)):
        assert not add_noise(kind, np.zeros(50, dtype=np.int64), scale).any()


@pytest.mark.parametrize(
    "scale",
    [Fraction(0), Fraction(-1), Fraction(LARGEST_SCALE), Fraction(2**54 + 1, 2**54)],
    ids=str,
)
def test_a_scale_that_cannot_be_sampled_is_refused(scale):
    values = np.zeros(3, dtype=np.int64)
    for kind in ("laplace", "gaussian"):
        with pytest.raises(ValueError, match="scale"):
            add_noise(kind, values, scale)
    if scale <= 0:
        with pytest.raises(ValueError, match="scale"):
            noisy_max(values, scale, gumbel=True)


def test_noise_is_added_to_whole_numbers_only():
    with pytest.raises(TypeError, match="int64"):
        add_noise("laplace", np.zeros(3), Fraction(1))
    with pytest.raises(TypeError, match="int64"):
        noisy_max(np.zeros(3), Fraction(1), gumbel=True)
    with pytest.raises(ValueError, match="no candidate"):
        noisy_max(np.zeros(0, dtype=np.int64), Fraction(1), gumbel=True)


def test_no_values_get_no_noise():
    assert add_noise("laplace", np.zeros((0, 3), dtype=np.int64), Fraction(1)).shape == (0, 3)
