"""Sums of pooled counts, against least squares on the whole joint table."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dp_core.methods.reconstruction.estimates import functional_noise
from dp_core.methods.reconstruction.estimates.functional_noise import (
    fourth_cumulant,
    single_laplace_scale,
)
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.methods.reconstruction.estimates.pooled_functionals import (
    covariance,
    estimate,
    unobserved,
)
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from tests.dp_core.methods.reconstruction.test_pooled_parts import (
    CASES,
    DOMAIN,
    interaction,
    least_squares,
    table,
)

GROUPS = Functionals(("a", "b"), (np.eye(2), np.array([[1.0, 0, 1], [0, 1, 0]])))
VALUES = Functionals(("a", "b"), (np.eye(2), np.array([[2.0, 5, 11]])))
MIXED = [
    *(table(("a", "b"), 20.0, "laplace"), table(("b", "c"), 30.0, "laplace")),
    *(table(("a",), 9.0, "laplace"), table(("a",), 12.0, "laplace", replicate=2)),
    *(table(("c",), 15.0), interaction(("a", "b"), 15.0, "laplace")),
]


def by_matrix(functionals):
    """Weights of the functionals on the cells of their own table, shape (answers, cells)."""
    one, two = functionals.weights
    return np.einsum("ia,jb->ijab", one, two).reshape(len(one) * len(two), -1)


@pytest.mark.parametrize("name", CASES)
def test_an_estimate_is_that_of_least_squares_on_the_joint_table(name):
    pooled = pool(DOMAIN, CASES[name])
    known = least_squares(CASES[name], ("a", "b"))
    if known is None:
        assert unobserved(pooled, GROUPS)
        return
    for functionals in (GROUPS, VALUES):
        assert unobserved(pooled, functionals) == []
        wanted = by_matrix(functionals) @ known[0].ravel()
        np.testing.assert_allclose(estimate(pooled, functionals).ravel(), wanted, atol=1e-6)


def coefficients(items, functionals, rows=None):
    """What one record more in an entry adds to the answers, for every entry of every table."""
    base = estimate(pool(DOMAIN, items, rows=rows), functionals).ravel()
    for place, item in enumerate(items):
        for entry in range(item.values.size):
            values = item.values.copy()
            values.ravel()[entry] += 1
            changed = [*items]
            changed[place] = dataclasses.replace(item, values=values)
            found = estimate(pool(DOMAIN, changed, rows=rows), functionals).ravel()
            yield item, found - base


@pytest.mark.parametrize("rows", [None, 1000.0])
def test_covariance_and_fourth_cumulant_are_sums_over_the_noise_of_all_entries(rows):
    pooled = pool(DOMAIN, MIXED, rows=rows)
    for functionals in (GROUPS, VALUES):
        size = int(np.prod(functionals.shape))
        variance, fourth = np.zeros((size, size)), np.zeros(size)
        for item, effect in coefficients(MIXED, functionals, rows):
            variance += item.variance * np.outer(effect, effect)
            fourth += (item.noise == "laplace") * 3 * item.variance**2 * effect**4
        found = covariance(pooled, functionals, functionals).ravel()
        np.testing.assert_allclose(found, np.diag(variance), rtol=1e-3)
        np.testing.assert_allclose(fourth_cumulant(pooled, functionals).ravel(), fourth, rtol=5e-3)
        # With another family: the count of each group of `a`.
        whole = Functionals(("a", "b"), (np.eye(2), np.ones((1, 3))))
        both = np.zeros(size)
        pairs = zip(
            coefficients(MIXED, functionals, rows), coefficients(MIXED, whole, rows), strict=True
        )
        for (item, one), (_, other) in pairs:
            both += item.variance * one * np.repeat(other, functionals.shape[1])
        np.testing.assert_allclose(
            covariance(pooled, functionals, whole).ravel(), both, rtol=1e-3, atol=1e-6
        )


def test_normal_noise_has_no_fourth_cumulant():
    assert not fourth_cumulant(pool(DOMAIN, [table(("a", "b"), 9.0)]), GROUPS).any()


def test_too_many_patterns_count_as_one_draw(monkeypatch):
    pooled = pool(DOMAIN, MIXED)
    exact = fourth_cumulant(pooled, GROUPS)
    monkeypatch.setattr(functional_noise, "MOST_PATTERNS", 1)

    assert (fourth_cumulant(pooled, GROUPS) > exact).all()
    np.testing.assert_allclose(
        fourth_cumulant(pooled, GROUPS), 3 * covariance(pooled, GROUPS, GROUPS) ** 2
    )


def test_parts_that_were_not_observed_are_named():
    pooled = pool(DOMAIN, [table(("a",), 9.0), table(("b",), 9.0)])

    assert unobserved(pooled, GROUPS) == [("a", "b")]
    # All of b: only the counts of a are needed.
    assert unobserved(pooled, Functionals(("a", "b"), (np.eye(2), np.ones((1, 3))))) == []
    assert unobserved(pool(DOMAIN, []), Functionals((), ())) == [()]
    assert unobserved(pool(DOMAIN, [], rows=9.0), Functionals((), ())) == []


def test_one_cell_of_one_table_has_one_draw():
    one = table(("a", "b"), 7.0, "laplace")
    cells = Functionals(("a", "b"), (np.eye(2), np.eye(3)))

    assert single_laplace_scale(pool(DOMAIN, [one]), cells) == pytest.approx(7.0)
    assert single_laplace_scale(pool(DOMAIN, [one]), GROUPS) is None
    assert single_laplace_scale(pool(DOMAIN, [one, one]), cells) is None
    assert single_laplace_scale(pool(DOMAIN, [one], rows=9.0), cells) is None
    assert single_laplace_scale(pool(DOMAIN, [table(("a", "b"), 7.0)]), cells) is None
