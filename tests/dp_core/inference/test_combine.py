"""The combining rules: the papers' numbers, and what must hold of any rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from dp_core.inference.combine import RULES, combine, inflation, known_rule

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
    assert found.includes_noise


def test_rubin_s_rule_on_the_same_numbers():
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, "posterior")

    assert found.variance == pytest.approx(0.5 + 1.2 * 2.5)
    assert found.degrees_of_freedom == pytest.approx(4 * (1 + 0.5 / 3) ** 2)
    statistic, p_value = found.test()
    assert statistic == pytest.approx(3 / 3.5**0.5)
    assert p_value == pytest.approx(2 * stats.t.sf(3 / 3.5**0.5, 4 * (7 / 6) ** 2))


@pytest.mark.parametrize(
    ("rule", "variance", "df"),
    [
        # W = 1/2 with 20 degrees of freedom, b = 1.2 2.5 = 3 with 4: 3.5^2 / (1/80 + 9/4).
        ("posterior", 3.5, 12.25 / (1 / 80 + 9 / 4)),
        # b = 2.5/5: 1 / (1/80 + 1/16).
        ("split", 1.0, 1 / (1 / 80 + 1 / 16)),
        ("shared", 1.0, 1 / (1 / 80 + 1 / 16)),
    ],
)
def test_a_small_file_s_degrees_of_freedom_are_satterthwaite_s_by_hand(rule, variance, df):
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, rule, complete_df=20)

    assert found.variance == pytest.approx(variance)
    assert found.degrees_of_freedom == pytest.approx(df)


@pytest.mark.parametrize("rule", RULES)
def test_equal_sets_have_the_degrees_of_freedom_of_the_file(rule):
    found = combine([2.0] * 4, [1.0] * 4, rule, complete_df=10)

    assert found.degrees_of_freedom == pytest.approx(10)


def test_shared_sets_are_combined_but_never_called_honest():
    found = combine([1, 2, 3, 4, 5], [0.5] * 5, "shared")

    assert found.variance == combine([1, 2, 3, 4, 5], [0.5] * 5, "split").variance
    assert not found.includes_noise
    assert all(combine([1, 2], [1, 1], rule).includes_noise for rule in RULES if rule != "shared")


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
    assert combine([0.0] * 3, [0.0] * 3, rule).test() == (0.0, 1.0)


def test_one_set_is_its_own_result_only_where_nothing_is_promised():
    found = combine([2.0], [4.0], "shared")
    assert (found.variance, found.between, found.degrees_of_freedom) == (4.0, 0.0, np.inf)
    for rule in ("split", "posterior"):
        with pytest.raises(ValueError, match="there is one"):
            combine([2.0], [4.0], rule)


# -- the joint test


def test_the_joint_test_of_imputations_is_li_raghunathan_and_rubin_s():
    rng = np.random.default_rng(3)
    q, u = rng.normal(size=(5, 3)) + 1, covariances(rng, 5, 3)
    w, b = u.mean(axis=0), np.cov(q.T)
    r = 1.2 * np.trace(b @ np.linalg.inv(w)) / 3
    t = 3 * 4
    away = q.mean(axis=0)
    f = away @ np.linalg.inv(w) @ away / (3 * (1 + r))
    df = 4 + (t - 4) * (1 + (1 - 2 / t) / r) ** 2
    found = combine(q, u, "posterior").wald()

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
@pytest.mark.parametrize("rule", ["split", "shared", "posterior"])
def test_the_joint_test_of_one_coefficient_is_its_own_test(rule, complete_df):
    rng = np.random.default_rng(5)
    found = combine(rng.normal(size=(4, 3)), covariances(rng, 4, 3), rule, complete_df=complete_df)
    statistic, p_value = found.test()
    joint = found.wald([1])

    assert joint.statistic == pytest.approx(statistic[1] ** 2)
    assert joint.p_value == pytest.approx(p_value[1])
    assert joint.degrees_of_freedom == (1, pytest.approx(found.degrees_of_freedom[1]))


def test_the_joint_test_on_a_small_file_is_worked_by_hand():
    """Two coefficients, five sets, W = I, 1.2 B = diag(3, 3): r = 3, with 12 degrees of freedom.

    t = 2 (5 - 1) = 8: v = 4 + 4 (1 + (1 - 2/8)/3)^2 = 10.25, and 1/(1/10.25 + 1/(16 12)).
    """
    q = np.column_stack([[1.0, 2, 3, 4, 5], [5.0, 1, 3, 4, 2]])
    found = combine(q, [np.eye(2)] * 5, "posterior", complete_df=12).wald()
    df = 1 / (1 / 10.25 + 1 / 192)

    assert found.degrees_of_freedom == (2, pytest.approx(df, rel=1e-12))
    # |mean|^2 / (k (1 + r)) = 18/8, whatever the covariance between the sets.
    assert found.statistic == pytest.approx(18 / 8)
    assert found.p_value == pytest.approx(stats.f.sf(18 / 8, 2, df))


def test_a_rule_without_a_factor_of_its_own_gets_no_other_s():
    assert [inflation(rule, 4) for rule in RULES] == [0.25, 0.25, 1.25]
    with pytest.raises(AssertionError, match="of tomorrow"):
        inflation("of tomorrow", 4)


def test_there_is_no_joint_test_without_an_inverse():
    rng = np.random.default_rng(8)
    q, u = rng.normal(size=(4, 2)), covariances(rng, 4, 2)
    with pytest.raises(ValueError, match="inverted"):
        combine(q, np.zeros((4, 2, 2)), "split").wald()
    with pytest.raises(ValueError, match="at least one"):
        combine(q, u, "split").wald([])


# -- what holds of any numbers


@given(scalars(), RULE, st.sampled_from([-8, 0.25]))
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


def test_the_covariance_between_coefficients_is_kept():
    q = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    u = np.array([[[1.0, -0.5], [-0.5, 2.0]]] * 3)
    found = combine(q, u, "posterior")

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
    with pytest.raises(ValueError, match="posterior"):
        known_rule("other")
    with pytest.raises(ValueError, match="level"):
        combine([1, 2], [1, 1], "split").interval(95)
    with pytest.raises(ValueError, match="Degrees of freedom must be positive"):
        combine([1, 2], [1, 1], "posterior", complete_df=0)
    with pytest.raises(ValueError, match="must be positive"):
        combine([1, 2], [1, 1], "split", design_df=-1)
