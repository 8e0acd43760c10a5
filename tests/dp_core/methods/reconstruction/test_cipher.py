from __future__ import annotations

import itertools

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import cipher
from dp_core.methods.reconstruction.cipher import Cipher, _covered
from dp_core.methods.reconstruction.dense import Dense
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.measured import NONE, noisy_table

FINE = 10**9
"""Tables are multiplied by it, so that rounding to whole numbers is below the tolerances."""

C = np.array([10, 20, 30, 5, 8, 12, 6, 9]).reshape(2, 2, 2)
F = np.array(
    [
        [[[4, 10, 7], [6, 6, 4], [2, 9, 3]], [[15, 14, 15], [5, 2, 2], [4, 7, 4]]],
        [[[4, 3, 4], [18, 4, 6], [5, 6, 4]], [[6, 2, 3], [6, 1, 1], [4, 2, 2]]],
    ]
)


def paper(**options):
    """The paper's form without its random choice of pivot."""
    given = {
        "form": "conditional",
        "weight": "even",
        "pivot": "last",
        "tables": "measured",
    }
    return Cipher(**{**given, **options})


def domain_of(table):
    return Domain(tuple("abcdefgh"[: table.ndim]), table.shape)


def ways(table, order):
    return list(itertools.combinations(range(table.ndim), order))


def margin(table, axes):
    return np.asarray(table.sum(axis=tuple(k for k in range(table.ndim) if k not in axes)))


def measured(domain, axes, values, scale=1.0):
    clique = domain.project(domain.columns[axis] for axis in axes)
    return noisy_table(clique, np.asarray(values, np.int64), noise="laplace", scale=scale)


def exact(table, order, times=FINE):
    domain = domain_of(table)
    return [measured(domain, axes, times * margin(table, axes)) for axes in ways(table, order)]


def fit(method, domain, given, *, rows=None, zeros=NONE, ridge=None):
    """Return the proportions of the joint table; by default the paper's form has no ridge."""
    if ridge is None:
        measured = getattr(method, "tables", "") == "measured"
        ridge = 0.0 if measured else cipher.RIDGE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cipher, "RIDGE", ridge)
        model = method.fit(domain, given, rows=rows, zeros=zeros, rng=np.random.default_rng(0))
    return model.tables[0].values / model.rows


def test_small_systems_are_solved_by_one_thread_of_blas_and_large_ones_by_all(monkeypatch):
    seen = []
    step = Cipher._step

    def watched(self, *given):
        seen.extend(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
        return step(self, *given)

    monkeypatch.setattr(Cipher, "_step", watched)
    with threadpool_limits(limits=2, user_api="blas"):
        fit(Cipher(), domain_of(F), exact(F, 2))
        assert set(seen) == {1}
        seen.clear()
        monkeypatch.setattr("dp_core.methods.reconstruction.cipher.ONE_THREAD", 1)
        fit(Cipher(), domain_of(F), exact(F, 2))
    assert set(seen) == {2}


def tvd(one, other, order):
    """Average total variation distance of all tables of an order."""
    return np.mean(
        [
            np.abs(margin(one / one.sum() - other / other.sum(), axes)).sum() / 2
            for axes in ways(one, order)
        ]
    )


@pytest.mark.parametrize(
    ("options", "percent"),
    [
        (
            {},
            [
                10.756549520767,
                19.243450479233,
                29.243450479233,
                5.756549520767,
                7.243450479233,
                12.756549520767,
                6.756549520767,
                8.243450479233,
            ],
        ),
        (
            {"pivot": "first"},
            [
                8.621765506995,
                21.378234493005,
                31.378234493005,
                3.621765506995,
                9.378234493005,
                10.621765506995,
                4.621765506995,
                10.378234493005,
            ],
        ),
    ],
)
def test_the_cube_has_the_reference_cells_whatever_pivot(options, percent):
    joint = fit(paper(**options), domain_of(C), exact(C, 2))
    np.testing.assert_allclose(100 * joint.ravel()[: len(percent)], percent, rtol=0, atol=1e-11)
    if not options:
        for axes in ways(C, 2):
            np.testing.assert_allclose(
                margin(joint, axes), margin(C, axes) / 100, rtol=0, atol=1e-14
            )


@pytest.mark.parametrize(("ridge", "error", "digits"), [(1e-6, 4.0e-7, 1e-8), (1e-4, 4.0e-5, 1e-6)])
def test_a_ridge_bends_the_pairs_by_as_much_as_the_reference(ridge, error, digits):
    joint = fit(paper(), domain_of(C), exact(C, 2), ridge=ridge)
    bent = max(np.abs(margin(joint, axes) - margin(C, axes) / 100).max() for axes in ways(C, 2))
    assert bent == pytest.approx(error, abs=digits)


@pytest.mark.parametrize(
    ("order", "cells", "distance"),
    [(2, [-0.009891, 0.031206, 0.062361], 0.292824), (3, [0.022111, 0.051064, 0.031826], 0.026612)],
)
def test_the_four_way_table_has_the_reference_cells_and_distance(
    order, cells, distance, monkeypatch
):
    given = exact(F, order)
    joint = fit(paper(), domain_of(F), given)
    assert tvd(joint, F, 4) == pytest.approx(distance, abs=5e-7)
    # Before the last correction, which `fit` has done: zero for the negative cell, others scaled.
    monkeypatch.setattr(cipher, "RIDGE", 0.0)
    raw = paper()._joint(
        domain_of(F),
        {m.clique: m.values / (FINE * F.sum()) for m in given},
        NONE,
        np.random.default_rng(0),
    )
    np.testing.assert_allclose(raw[0, 0, 0], cells, rtol=0, atol=5e-7)


def test_weighing_by_probability_brings_it_as_near_as_the_reference():
    joint = fit(paper(weight="prob"), domain_of(F), exact(F, 2))
    assert tvd(joint, F, 4) == pytest.approx(0.035248, abs=5e-7)


def test_two_columns_get_the_shortest_conditional_and_not_the_product():
    domain = Domain(("a", "b"), (2, 3))
    given = [measured(domain, (0,), [600, 400]), measured(domain, (1,), [500, 300, 200])]
    joint = fit(paper(pivot="first"), domain, given)
    np.testing.assert_allclose(joint[0], [0.394736842, 0.142105263, 0.063157895], atol=5e-10)
    product = fit(paper(pivot="first", weight="prob"), domain, given)
    np.testing.assert_allclose(product, np.outer([0.6, 0.4], [0.5, 0.3, 0.2]), atol=1e-12)


def test_the_joint_table_itself_gives_what_the_histogram_gives_on_the_same_noise():
    domain = domain_of(F)
    noise = np.rint(np.random.default_rng(3).laplace(0, 6.0, F.shape)).astype(np.int64)
    given = [measured(domain, (0, 1, 2, 3), F + noise, 6.0)]
    dense = fit(Dense(), domain, given, rows=206)
    np.testing.assert_allclose(fit(Cipher(), domain, given, rows=206), dense, rtol=0, atol=1e-12)
    scaled = np.maximum(F + noise, 0) / np.maximum(F + noise, 0).sum()
    for tables in ("clip", "measured"):
        joint = fit(Cipher(tables=tables), domain, given, rows=206)
        np.testing.assert_allclose(joint, scaled, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        fit(paper(), domain, [measured(domain, (0, 1, 2, 3), F)]), F / F.sum(), atol=1e-15
    )


def test_a_set_inside_several_given_ones_is_the_mean_of_their_margins():
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    given = [
        measured(domain, (0, 1), [[30, 20], [40, 10]]),  # b: .7, .3
        measured(domain, (1, 2), [[25, 25], [25, 25]]),  # b: .5, .5
    ]
    joint = fit(paper(pivot="last"), domain, given, rows=100)
    # The pivot is c: the table of a and b is kept as it is, and c is even in every cell.
    np.testing.assert_allclose(joint.sum(axis=2), [[0.3, 0.2], [0.4, 0.1]], atol=1e-12)
    known = {m.clique: m.values / 100 for m in given}
    np.testing.assert_allclose(_covered(("b",), known), [0.6, 0.4], atol=1e-15)
    np.testing.assert_allclose(_covered(("a",), known), [0.5, 0.5], atol=1e-15)
    assert _covered(("a", "c"), known) is None


def test_tables_of_mixed_order_are_all_kept():
    rng = np.random.default_rng(5)
    table = rng.integers(20, 60, (2, 3, 2, 3, 2))
    domain = domain_of(table)
    sets = [(0, 1, 2), (2, 3), (3, 4), (0, 4)]
    given = [measured(domain, axes, FINE * margin(table, axes)) for axes in sets]
    joint = fit(Cipher(), domain, given, ridge=0.0)
    for axes in sets:
        np.testing.assert_allclose(
            margin(joint, axes), margin(table, axes) / table.sum(), rtol=0, atol=2e-4
        )
    assert np.abs(joint - table / table.sum()).max() > 1e-4


def test_a_column_of_one_level_changes_nothing():
    wide = F[:, :, None, :, :]
    domain = domain_of(wide)
    given = [measured(domain, axes, FINE * margin(wide, axes)) for axes in ways(wide, 2)]
    joint = fit(paper(), domain, given)
    np.testing.assert_allclose(
        joint[:, :, 0], fit(paper(), domain_of(F), exact(F, 2)), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("options", [{}, {"form": "joint"}, {"tables": "clip"}, {"weight": "even"}])
def test_impossible_cells_hold_nothing_and_the_pairs_are_kept_nearly(options):
    zeros = StructuralZeros((Rule(("a", "c"), ((0,), (2,)), "rule"),))
    table = np.where(zeros.mask(domain_of(F)), 0, F)
    joint = fit(Cipher(**options), domain_of(F), exact(table, 2), zeros=zeros)
    assert (joint[zeros.mask(domain_of(F))] == 0).all()
    for axes in ways(F, 2):
        assert np.abs(margin(joint, axes) - margin(table, axes) / table.sum()).max() < 0.02


def test_what_the_left_out_level_may_not_hold_goes_to_the_others():
    zeros = StructuralZeros((Rule(("a", "d"), ((1,), (2,)), "the pivot's last level"),))
    table = np.where(zeros.mask(domain_of(F)), 0, F)
    joint = fit(paper(weight="prob"), domain_of(F), exact(table, 2), zeros=zeros)
    assert (joint[1, :, :, 2] == 0).all()
    np.testing.assert_allclose(margin(joint, (0,)), margin(table, (0,)) / table.sum(), atol=0.01)


def test_a_domain_that_is_too_large_is_refused_with_the_limit_and_a_method_that_fits():
    with pytest.raises(BadInput, match=r"2\.05e\+03 unknowns.*1024.*reconstruct: dense"):
        Cipher().check(Domain(tuple("abcdefghijkl"), (2,) * 12))
    with pytest.raises(BadInput, match=r"1024.*method: privsyn"):
        Cipher().check(Domain(tuple("abcdefghijkl"), (9,) * 12))
    for columns, levels in [(11, 2), (7, 3), (5, 5)]:
        Cipher().check(Domain(tuple("abcdefghijk"[:columns]), (levels,) * columns))
    Cipher().check(Domain(("a", "b", "c"), (1, 1000, 1000)))
