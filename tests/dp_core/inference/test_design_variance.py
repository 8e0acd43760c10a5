"""Variances by clusters and strata, and the replicate weights that agree with them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dp_core.inference.combine import combine
from dp_core.inference.design_variance import (
    design_degrees,
    random_groups,
    replicate_factors,
    sums_by_group,
    variance_of_totals,
)
from dp_core.inference.intervals import degrees_of_sum
from dp_core.schema.survey.primary_units import hadamard, has_hadamard
from dp_core.schema.survey.survey_design import Replicates

STRATA = np.array([0, 0, 1, 1, 1, 2, 2])
TOTALS = np.array([[1.0, 2], [4, -1], [0, 0], [3, 5], [9, 1], [2, 2], [-2, 7]])


def of_replicates(rule, strata, totals):
    """Return the variance of the sum of all totals by replicates."""
    whole = totals.sum(axis=0)
    parts = [
        part * np.outer(factors @ totals - whole, factors @ totals - whole)
        for part, factors in replicate_factors(rule, strata)
    ]
    return np.sum(parts, axis=0)


def test_the_variance_of_a_total_is_the_textbook_formula():
    wanted = np.zeros((2, 2))
    for stratum in range(3):
        own = TOTALS[stratum == STRATA]
        wanted += len(own) * np.cov(own.T)  # n/(n - 1) sum of squares = n s^2

    assert np.allclose(variance_of_totals(TOTALS, STRATA), wanted, rtol=1e-12)


def test_a_single_cluster_is_compared_with_all():
    strata = np.array([0, 0, 1])
    totals = np.array([[1.0], [3.0], [11.0]])

    # 2 (1 + 1) in the first stratum, and (11 - 5)^2.
    assert variance_of_totals(totals, strata).item() == pytest.approx(4 + 36)


def test_sums_by_group_have_a_place_for_empty_groups():
    found = sums_by_group(np.array([[1.0], [2.0], [5.0]]), np.array([2, 0, 2]), 4)

    assert found.ravel().tolist() == [2, 0, 6, 0]


def test_the_jackknife_of_a_total_is_its_linearization():
    rule = Replicates(method="jkn", number=7)
    assert np.allclose(
        of_replicates(rule, STRATA, TOTALS), variance_of_totals(TOTALS, STRATA), rtol=1e-12
    )

    rule = Replicates(method="jk1", number=7)
    one = np.zeros_like(STRATA)
    assert np.allclose(
        of_replicates(rule, STRATA, TOTALS), variance_of_totals(TOTALS, one), rtol=1e-12
    )


@pytest.mark.parametrize("fay", [Fraction(0), Fraction(3, 10), Fraction(1, 2)])
@pytest.mark.parametrize(("strata", "number"), [(3, 4), (11, 12), (13, 20), (27, 28), (30, 36)])
def test_balanced_half_samples_of_a_total_are_its_linearization(strata, number, fay):
    rng = np.random.default_rng(strata)
    order = rng.permutation(2 * strata)  # clusters of a stratum need not be neighbours
    own = np.repeat(np.arange(strata), 2)[order]
    totals = rng.normal(size=(2 * strata, 2))
    rule = Replicates(method="brr", number=number, fay=fay)

    assert np.allclose(
        of_replicates(rule, own, totals), variance_of_totals(totals, own), rtol=1e-10
    )


def test_the_bootstrap_of_a_total_is_near_its_linearization_and_the_same_every_time():
    rule = Replicates(method="bootstrap", number=1000)
    found = of_replicates(rule, STRATA, TOTALS)

    # The rule has a public seed, so this is one number: it cannot fail by chance.
    assert np.allclose(np.diag(found), np.diag(variance_of_totals(TOTALS, STRATA)), rtol=0.15)
    assert np.array_equal(found, of_replicates(rule, STRATA, TOTALS))
    for _, factors in replicate_factors(rule, STRATA):
        for stratum in range(3):
            assert factors[stratum == STRATA].sum() == pytest.approx((stratum == STRATA).sum())


def test_hadamard_matrices_are_what_their_name_says():
    made = [order for order in range(1, 201) if has_hadamard(order)]

    assert {1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 80, 120, 160, 200} <= set(made)
    assert not any(order % 4 for order in made if order > 2)
    for order in made:
        matrix = hadamard(order).astype(int)
        assert np.array_equal(matrix.T @ matrix, order * np.eye(order))
        assert (matrix[:, 0] == 1).all()
    with pytest.raises(ValueError, match="order 52"):
        hadamard(52)


def test_random_groups_divide_every_stratum_evenly():
    strata = np.random.default_rng(1).integers(0, 3, 1000)
    groups, above = random_groups(strata, 5)

    assert np.array_equal(above[groups], strata)
    for stratum in range(3):
        sizes = np.bincount(groups[strata == stratum], minlength=15)[above == stratum]
        assert sizes.max() - sizes.min() <= 1


def test_degrees_of_freedom_are_clusters_minus_strata():
    assert design_degrees(STRATA) == 4
    assert design_degrees(np.array([5])) == 1


def test_degrees_of_a_sum_are_between_those_of_its_parts():
    assert degrees_of_sum(2.0, 1.0, 5, np.inf) == pytest.approx(4 * 3**2)
    assert degrees_of_sum(2.0, 0.0, 5, 12) == 12
    assert degrees_of_sum(0.0, 2.0, 5, 12) == 4
    assert degrees_of_sum(0.0, 0.0, 5, 12) == np.inf


@pytest.mark.parametrize("rule", ["split", "shared", "posterior"])
def test_no_rule_has_more_degrees_than_the_design_for_equal_sets(rule):
    same = combine([2.0] * 5, [0.5] * 5, rule, design_df=12)
    apart = combine([1, 2, 3, 4, 5.0], [0.5] * 5, rule, design_df=12)

    assert same.degrees_of_freedom == pytest.approx(12)
    assert apart.degrees_of_freedom < combine([1, 2, 3, 4, 5.0], [0.5] * 5, rule).degrees_of_freedom


def test_the_joint_test_of_a_design_is_the_adjusted_wald_test():
    estimate, within = np.array([1.0, 2.0, -1.0]), np.diag([0.5, 1.0, 2.0])
    found = combine([estimate] * 3, [within] * 3, "split", design_df=10)

    # Korn and Graubard (1990): (d - k + 1)/(d k) X^2 is F with k and d - k + 1.
    square = estimate @ np.linalg.inv(within) @ estimate
    wald = found.wald()
    assert wald.statistic == pytest.approx(8 / 30 * square)
    assert wald.degrees_of_freedom == (3, 8)
    with pytest.raises(ValueError, match="2 degrees of freedom, too few"):
        combine([estimate] * 3, [within] * 3, "split", design_df=2).wald()
