"""Counts that hardly stand out of their noise are named beforehand."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.bundle.quality.near_zero import counts_near_zero
from dp_core.tables.domain import Domain
from dp_core.tables.structural_zeros import Rule, StructuralZeros
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b"), (2, 3))
NONE = StructuralZeros()


def table(clique, values, scale=10.0, noise="gaussian"):
    return noisy_table(DOMAIN.project(clique), np.asarray(values), noise=noise, scale=scale)


def test_a_count_below_three_standard_errors_is_faint():
    given = [table(("a", "b"), [[100, 29, 31], [-5, 200, 90]])]
    found = counts_near_zero(DOMAIN, given, [("a", "b")], zeros=NONE)
    assert [(each.codes, each.count, each.standard_error) for each in found] == [
        ((0, 1), pytest.approx(29), pytest.approx(10)),
        ((1, 0), pytest.approx(-5), pytest.approx(10)),
    ]
    assert {
        each.codes for each in counts_near_zero(DOMAIN, given, [("b", "a")], zeros=NONE, times=3.2)
    } == {
        (0, 1),
        (0, 2),
        (1, 0),
    }


def test_sums_have_the_noise_of_all_their_cells_and_tables_are_pooled():
    pair = table(("a", "b"), [[100, 20, 300], [100, 10, 300]])
    (alone,) = counts_near_zero(DOMAIN, [pair], [("b",)], zeros=NONE)
    assert (alone.codes, alone.count) == ((1,), pytest.approx(30))
    assert alone.standard_error == pytest.approx(10 * np.sqrt(2))
    # A table of its own with half the variance has twice the say: 30 and 48 make 42.
    own = table(("b",), [200, 48, 600], scale=10.0)
    (pooled,) = counts_near_zero(DOMAIN, [pair, own], [("b",)], zeros=NONE, times=6)
    assert pooled.count == pytest.approx(42)
    assert pooled.standard_error == pytest.approx(10 * np.sqrt(2 / 3))


def test_laplace_noise_has_twice_its_scale_squared():
    given = [table(("b",), [41, 43, 500], noise="laplace")]
    (found,) = counts_near_zero(DOMAIN, given, [("b",)], zeros=NONE)
    assert found.codes == (0,)
    assert found.standard_error == pytest.approx(np.sqrt(200))


def test_what_cannot_occur_or_was_not_measured_is_not_faint():
    zeros = StructuralZeros((Rule(("a", "b"), ((1,), (0,)), "rule"),))
    given = [table(("a", "b"), [[100, 200, 300], [3, 200, 90]])]
    assert counts_near_zero(DOMAIN, given, [("a", "b")], zeros=zeros) == ()
    only = [table(("b",), [0, 0, 0])]
    assert counts_near_zero(DOMAIN, only, [("a",), ("a", "b"), ()], zeros=NONE) == ()
