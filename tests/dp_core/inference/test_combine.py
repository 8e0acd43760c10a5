"""The combining rules: the papers' numbers, and what must hold of any rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from dp_core.inference.combine import RULES, _inflation, combine, known_rule
from dp_core.inference.intervals import degrees_joint, degrees_joint_small

NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False)
POSITIVE = st.floats(1e-3, 1e3, allow_subnormal=False)
RULE = st.sampled_from(RULES)


@st.composite
def scalars(draw, least=2):
    sets = draw(st.integers(least, 8))
    return draw(arrays(float, sets, elements=NUMBERS)), draw(arrays(float, sets, elements=POSITIVE))


def covariances(rng, sets, size):
    roots = rng.normal(size=(sets, size, size + 3))
    return roots @ np.swapaxes(roots, 1, 2)


# -- numbers


def test_the_example_of_the_paper_s_rule():
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, "split")

    assert (found.estimate, found.between, found.variance) == (3.0, 2.5, 1.0)
    assert found.degrees_of_freedom == 16.0
    assert found.interval(0.95) == pytest.approx((0.880095, 5.119905), abs=5e-7)
    assert found.standard_error == 1.0
    assert found.honest


def test_rubin_s_rule_on_the_same_numbers():
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, "noise-aware")

    assert found.variance == pytest.approx(0.5 + 1.2 * 2.5)
    assert found.degrees_of_freedom == pytest.approx(4 * (1 + 0.5 / 3) ** 2)
    statistic, p_value = found.test()
    assert statistic == pytest.approx(3 / 3.5**0.5)
    assert p_value == pytest.approx(2 * stats.t.sf(3 / 3.5**0.5, 4 * (7 / 6) ** 2))


def test_barnard_and_rubin_s_degrees_of_freedom():
    # mice::pool.scalar(c(1, 2, 3, 4, 5), rep(.5, 5), n = 21, k = 1): df of barnard.rubin, by hand:
    # lambda = 3/3.5, old = 4/lambda^2, observed = 21/23 * 20 * (1 - lambda).
    part = 3 / 3.5
    old, observed = 4 / part**2, 21 / 23 * 20 * (1 - part)
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, "noise-aware", complete_df=20)

    assert found.degrees_of_freedom == pytest.approx(old * observed / (old + observed))
    for rule in ("split", "shared"):  # their references know nothing of it
        assert combine([1, 2, 3], [1] * 3, rule, complete_df=5).degrees_of_freedom > 5
        q, u = np.column_stack([[1.0, 2, 3], [2.0, 1, 4]]), [np.eye(2)] * 3
        plain, told = combine(q, u, rule), combine(q, u, rule, complete_df=5)
        assert told.wald().degrees_of_freedom == plain.wald().degrees_of_freedom


@pytest.mark.parametrize(
    ("between", "complete_df", "df"),
    [
        # mice::barnard.rubin(m = 10, b = .02, t = .1 + 1.1 * .02, dfcom), worked by hand:
        # lambda = .022/.122 = 11/61, old = 9 (61/11)^2 = 33489/121.
        (0.02, 50, 1 / (121 / 33489 + 53 / (51 * 50) * 61 / 50)),
        (0.02, 500, 1 / (121 / 33489 + 503 / (501 * 500) * 61 / 50)),
        (0.02, np.inf, 33489 / 121),
        # A mean of 20 values whose sets agree: (c + 1)/(c + 3) c with c = 19.
        (0.0, 19, 20 / 22 * 19),
    ],
)
def test_degrees_of_freedom_are_those_of_mice(between, complete_df, df):
    # Ten estimates with this variance: half of them above and half below their mean.
    away = np.sqrt(between * 9 / 10)
    found = combine([5 - away, 5 + away] * 5, [0.1] * 10, "noise-aware", complete_df=complete_df)

    assert found.between == pytest.approx(between, abs=1e-12)
    assert found.degrees_of_freedom == pytest.approx(df, rel=1e-9)


def test_without_difference_between_sets_the_complete_data_s_own_reference_is_left():
    found = combine([2.0] * 4, [1.0] * 4, "noise-aware", complete_df=10)

    assert found.degrees_of_freedom == pytest.approx(11 / 13 * 10)


def test_the_posterior_predictive_rule_and_its_way_out():
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, "posterior-predictive")
    assert found.variance == pytest.approx(1.2 * 2.5 - 0.5)
    assert found.degrees_of_freedom == pytest.approx(4 * (1 - 0.5 / 3) ** 2)

    found = combine([1.0, 1.1, 1.0], [0.5] * 3, "posterior-predictive")
    assert (found.variance, found.degrees_of_freedom) == (0.5, np.inf)


def test_shared_sets_are_combined_but_never_called_honest():
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, "shared")

    assert found.variance == combine([1, 2, 3, 4, 5], [0.5] * 5, "split").variance
    assert not found.honest
    assert all(combine([1, 2], [1, 1], rule).honest for rule in RULES if rule != "shared")


def test_sets_that_agree_leave_the_normal_distribution():
    found = combine([2.0] * 5, [0.25] * 5, "split")

    assert found.degrees_of_freedom == np.inf
    low, high = found.interval(0.95)
    assert (low, high) == pytest.approx((2 - 1.959963985 * 0.5, 2 + 1.959963985 * 0.5))


@pytest.mark.parametrize("rule", RULES)
def test_without_any_variance_the_interval_has_width_0(rule):
    found = combine([2.0] * 3, [0.0] * 3, rule)

    assert found.interval() == (2.0, 2.0)
    assert found.test() == (np.inf, 0.0)
    assert found.test(2.0) == (0.0, 1.0)


def test_one_set_is_its_own_result_only_where_nothing_is_promised():
    found = combine([2.0], [4.0], "shared")
    assert (found.variance, found.between, found.degrees_of_freedom) == (4.0, 0.0, np.inf)
    for rule in ("split", "noise-aware", "posterior-predictive"):
        with pytest.raises(ValueError, match="there is one"):
            combine([2.0], [4.0], rule)


# -- the joint test


def test_the_joint_test_of_imputations_is_li_raghunathan_and_rubin_s():
    rng = np.random.default_rng(3)
    q, u = rng.normal(size=(5, 3)) + 1, covariances(rng, 5, 3)
    w, b = u.mean(axis=0), np.cov(q.T)
    r = 1.2 * np.trace(b @ np.linalg.inv(w)) / 3
    t = 3 * 4
    away = q.mean(axis=0) - [1, 0, 2]
    f = away @ np.linalg.inv(w) @ away / (3 * (1 + r))
    df = 4 + (t - 4) * (1 + (1 - 2 / t) / r) ** 2
    found = combine(q, u, "noise-aware").wald(null=[1, 0, 2])

    assert found.statistic == pytest.approx(f)
    assert found.degrees_of_freedom == pytest.approx((3, df))
    assert found.p_value == pytest.approx(stats.f.sf(f, 3, df))


@pytest.mark.parametrize("rule", ["split", "shared"])
def test_the_joint_test_of_partially_synthetic_sets_is_reiter_s(rule):
    rng = np.random.default_rng(4)
    q, u = rng.normal(size=(2, 3)), covariances(rng, 2, 3)
    r = np.trace(np.cov(q.T) @ np.linalg.inv(u.mean(axis=0))) / (2 * 3)
    df = 3 * (1 + 1 / 3) * (1 + 1 / r) ** 2 / 2  # k (m - 1) = 3: the form for few sets

    assert combine(q, u, rule).wald().degrees_of_freedom == pytest.approx((3, df))


def test_the_joint_test_of_sets_that_agree_is_a_chi_square():
    u = np.array([[2.0, 0.5], [0.5, 1.0]])
    found = combine([[1.0, 2.0]] * 3, [u] * 3, "split").wald()
    whole = np.array([1, 2]) @ np.linalg.inv(u) @ [1, 2]

    assert found.statistic == pytest.approx(whole / 2)
    assert found.p_value == pytest.approx(stats.chi2.sf(whole, 2))


@pytest.mark.parametrize("complete_df", [None, 30])
@pytest.mark.parametrize("rule", ["split", "shared", "noise-aware"])
def test_the_joint_test_of_one_coefficient_is_its_own_test(rule, complete_df):
    rng = np.random.default_rng(5)
    found = combine(rng.normal(size=(4, 3)), covariances(rng, 4, 3), rule, complete_df=complete_df)
    statistic, p_value = found.test(0.3)
    joint = found.wald([1], 0.3)

    assert joint.statistic == pytest.approx(statistic[1] ** 2)
    assert joint.p_value == pytest.approx(p_value[1])
    assert joint.degrees_of_freedom == (1, pytest.approx(found.degrees_of_freedom[1]))


def test_a_small_file_shrinks_the_reference_of_the_joint_test():
    rng = np.random.default_rng(6)
    q, u = rng.normal(size=(5, 2)), covariances(rng, 5, 2)
    large = combine(q, u, "noise-aware").wald().degrees_of_freedom[1]
    small = combine(q, u, "noise-aware", complete_df=12).wald().degrees_of_freedom[1]

    assert small < min(large, 12)


def test_the_joint_test_on_a_small_file_is_reiter_s_worked_by_hand():
    """Two coefficients, five sets, r = .75, complete_df 27 (Reiter 2007, equations 1 and 2).

    t = 8, a = .75 8/6 = 1, v* = 28/30 27 = 25.2, v* - 2 (1 + a) = 21.2 and v* - 4 (1 + a) = 17.2.
    """
    z = (
        1 / 17.2
        + 21.2 / (4 * 17.2) / 4
        + (8 * 21.2 / (2 * 17.2**2) + 4 / (2 * 17.2)) / 4
        + (4 / (17.2 * 21.2) + 16 * 21.2 / 17.2**3) / 4
        + 8 / 17.2**2 / 4
    )
    # W = I and 1.2 B = .75 I: estimates of variance .625 = .25 2.5.
    q = np.sqrt(0.25) * np.column_stack([[1.0, 2, 3, 4, 5], [5.0, 1, 3, 4, 2]])
    found = combine(q, [np.eye(2)] * 5, "noise-aware", complete_df=27).wald()

    assert found.degrees_of_freedom == (2, pytest.approx(4 + 1 / z, rel=1e-12))
    assert found.degrees_of_freedom[1] == pytest.approx(7.8157, abs=5e-5)


@pytest.mark.parametrize(
    ("count", "ratio", "sets", "complete_df"), [(4, 0.2, 5, 46), (9, 0.3, 5, 191), (3, 1.5, 20, 60)]
)
def test_the_small_file_s_reference_has_the_moments_of_its_derivation(
    count, ratio, sets, complete_df
):
    """Reiter (2007), equations 18 to 20, with the second derivative of H found numerically.

    Matching the first two moments gives w = 4 + 2/(R - 1), R the ratio of the second moment to the
    square of the first. The printed first term of z is 1/(v* - 4 (1 + a)) in place of (1 + a) times
    that; the rest of z must agree.
    """
    t = count * (sets - 1)
    star = (complete_df + 1) / (complete_df + 3) * complete_df

    def moment(x):
        observed = star / (1 + ratio * t * x)
        return 1 / ((observed - 2) * (observed - 4))

    x, step = 1 / (t - 2), 1e-4 / (t - 2)
    second = (moment(x + step) - 2 * moment(x) + moment(x - step)) / step**2
    a = ratio * t / (t - 2)
    first = star / (1 + a) - 2
    spread = first**2 * (moment(x) + second / ((t - 2) ** 2 * (t - 4)))
    derived = (spread - 1) / 2
    printed = derived - a / (star - 4 * (1 + a))
    found = degrees_joint_small(count, ratio, sets, complete_df)
    assert found == pytest.approx(4 + 1 / printed, rel=1e-5)


def test_the_small_file_s_reference_tends_to_the_large_file_s():
    for count, ratio, sets in ((2, 0.75, 5), (6, 0.1, 20)):
        large = degrees_joint(count, ratio, sets)
        assert degrees_joint_small(count, ratio, sets, 1e9) == pytest.approx(large, rel=1e-4)
        assert degrees_joint_small(count, ratio, sets, np.inf) == large
        small = [degrees_joint_small(count, ratio, sets, c) for c in (4, 8, 20, 100, 1000)]
        assert all(found <= c for found, c in zip(small, (4, 8, 20, 100, 1000), strict=True))
        assert small == sorted(small)
    # Sets that agree leave the file's own reference, and few sets the form of one coefficient.
    assert degrees_joint_small(3, 0.0, 5, 27) == pytest.approx(25.2)
    assert degrees_joint_small(2, 1.0, 2, 27) == pytest.approx(1 / (1 / 6 + 1 / 12.6))


def test_the_joint_test_without_reiter_s_conditions_is_barnard_and_rubin_s_by_hand():
    """v* is not above 4 (1 + a).

    Two coefficients, five sets, W = I: (1 + 1/m) B = 1.2 diag(2.5, 2.5), so r = 3.

    t = 2 (5 - 1) = 8: v = 4 + 4 (1 + (1 - 2/8)/3)^2 = 10.25. Barnard and Rubin (1999): of the
    variance r/(1 + r) = 3/4 is between the sets, u = (12 + 1)/(12 + 3) 12 (1 - 3/4) = 2.6, and
    1/(1/10.25 + 1/2.6) = 26.65/12.85.
    """
    q = np.column_stack([[1.0, 2, 3, 4, 5], [5.0, 1, 3, 4, 2]])
    found = combine(q, [np.eye(2)] * 5, "noise-aware", complete_df=12).wald()

    assert found.degrees_of_freedom == (2, pytest.approx(26.65 / 12.85, rel=1e-12))
    # |mean|^2 / (k (1 + r)) = 18/8, whatever the covariance between the sets.
    assert found.statistic == pytest.approx(18 / 8)
    assert found.p_value == pytest.approx(stats.f.sf(18 / 8, 2, 26.65 / 12.85))


def test_a_rule_without_a_factor_of_its_own_gets_no_other_s():
    assert [_inflation(rule, 4) for rule in RULES] == [0.25, 0.25, 1.25, 1.25, 1.25]
    with pytest.raises(AssertionError, match="of tomorrow"):
        _inflation("of tomorrow", 4)


def test_the_joint_test_holds_its_level():
    """2000 times at 5 %; the band is five standard errors wide, and the seed is fixed."""
    rng = np.random.default_rng(7)
    sets, times, size = 5, 2000, 3
    rejected = 0
    for _ in range(times):
        centre = rng.normal(0, 1.0, size)  # the file's own estimate
        q = centre + rng.normal(0, 0.8, (sets, size))
        # imputations: the noise-aware sets scatter around a draw that is off by as much again
        q = q + rng.normal(0, 0.8, size)
        found = combine(q, [np.eye(size)] * sets, "noise-aware").wald()
        rejected += found.p_value < 0.05
    assert rejected / times == pytest.approx(0.05, abs=0.024)


def test_there_is_no_joint_test_without_a_reference_or_an_inverse():
    rng = np.random.default_rng(8)
    q, u = rng.normal(size=(4, 2)), covariances(rng, 4, 2)
    with pytest.raises(ValueError, match="posterior-predictive"):
        combine(q, u, "posterior-predictive").wald()
    with pytest.raises(ValueError, match="inverted"):
        combine(q, np.zeros((4, 2, 2)), "split").wald()
    with pytest.raises(ValueError, match="at least one"):
        combine(q, u, "split").wald([])


# -- what holds of any numbers


@given(scalars(), RULE, st.randoms(use_true_random=False))
def test_the_order_of_the_sets_does_not_matter(pair, rule, random):
    q, u = pair
    order = list(range(q.size))
    random.shuffle(order)
    first, second = combine(q, u, rule), combine(q[order], u[order], rule)

    assert first.estimate == pytest.approx(second.estimate, rel=1e-9, abs=1e-9)
    assert first.within == pytest.approx(second.within)
    assert first.between == pytest.approx(second.between, rel=1e-9, abs=1e-9)


@given(scalars(), st.sampled_from(["split", "shared", "noise-aware"]), st.sampled_from([-8, 0.25]))
def test_another_unit_changes_the_scale_only(pair, rule, unit):
    q, u = pair
    first, second = combine(q, u, rule), combine(unit * q, unit**2 * u, rule)

    assert second.estimate == pytest.approx(unit * first.estimate)
    assert second.variance == pytest.approx(unit**2 * first.variance)
    assert second.degrees_of_freedom == pytest.approx(first.degrees_of_freedom)
    assert sorted(second.interval()) == pytest.approx(sorted(unit * e for e in first.interval()))


@given(scalars(), RULE)
def test_a_number_is_a_matrix_of_one(pair, rule):
    q, u = pair
    number, matrix = combine(q, u, rule), combine(q[:, None], u[:, None, None], rule)

    assert matrix.variance.shape == (1, 1)
    for name in ("estimate", "variance", "within", "between", "degrees_of_freedom"):
        assert getattr(matrix, name).item() == pytest.approx(getattr(number, name))
    assert matrix.interval()[0].item() == pytest.approx(number.interval()[0])


@given(scalars(), st.sampled_from(["split", "shared", "noise-aware"]))
def test_entries_of_a_vector_are_combined_each_by_itself(pair, rule):
    q, u = pair
    # Doubling is exact in floats; an offset would round away a small spread.
    both = np.stack([q, 2 * q], axis=1)
    cov = np.zeros((q.size, 2, 2))
    cov[:, 0, 0], cov[:, 1, 1] = u, 4 * u
    found = combine(both, cov, rule)

    assert found.variances[0] == pytest.approx(combine(q, u, rule).variance)
    # Of equal estimates the mean may be an ulp off them: degrees of 1e55 or of infinity.
    degrees = (found.degrees_of_freedom[1], combine(q, u, rule).degrees_of_freedom)
    assert min(degrees[0], 1e9) == pytest.approx(min(degrees[1], 1e9), rel=1e-6)


@given(scalars())
def test_a_rule_that_covers_more_is_never_narrower(pair):
    split, aware = combine(*pair, "split"), combine(*pair, "noise-aware")

    assert split.variance <= aware.variance
    assert split.degrees_of_freedom >= aware.degrees_of_freedom * (1 - 1e-12)


@given(scalars(), st.floats(1, 1e4))
def test_small_sample_degrees_of_freedom_stay_below_both(pair, complete_df):
    large = combine(*pair, "noise-aware").degrees_of_freedom
    small = combine(*pair, "noise-aware", complete_df=complete_df).degrees_of_freedom

    assert 0 < small <= min(large, complete_df) * (1 + 1e-12)


def test_the_covariance_between_coefficients_is_kept():
    q = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    u = np.array([[[1.0, -0.5], [-0.5, 2.0]]] * 3)
    found = combine(q, u, "noise-aware")

    np.testing.assert_allclose(found.variance, u[0] + 4 / 3 * np.array([[1, 2], [2, 4]]))
    np.testing.assert_allclose(found.standard_error, np.sqrt(np.diag(found.variance)))


# -- bad input


@pytest.mark.parametrize(
    ("estimates", "variances", "rule", "said"),
    [
        ([], [], "split", "for each set"),
        ([1, 2], [1], "split", "shape"),
        ([[1, 2], [3, 4]], [[1, 1], [1, 1]], "split", "shape"),
        ([1, float("nan")], [1, 1], "split", "finite"),
        ([1, 2], [1, float("inf")], "split", "finite"),
        ([1, 2], [1, -1], "split", "negative"),
        ([[1, 2]] * 2, [[[1, 0.5], [0, 1]]] * 2, "split", "symmetric"),
        ([1, 2], [1, 1], "rubin", "There is no rule 'rubin'"),
    ],
)
def test_what_cannot_be_combined_is_refused(estimates, variances, rule, said):
    with pytest.raises(ValueError, match=said):
        combine(estimates, variances, rule)


def test_rules_are_known_by_name():
    assert known_rule("split") == "split"
    with pytest.raises(ValueError, match="noise-aware"):
        known_rule("other")
    with pytest.raises(ValueError, match="level"):
        combine([1, 2], [1, 1], "split").interval(95)
    with pytest.raises(ValueError, match="degrees of freedom must be positive"):
        combine([1, 2], [1, 1], "noise-aware", complete_df=0)
