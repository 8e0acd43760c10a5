from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.reconstruction.joint.cipher_equations import Equations, unknowns

C = np.array([10, 20, 30, 5, 8, 12, 6, 9]).reshape(2, 2, 2) / 100


def faces(table):
    return [table.sum(axis=axis) for axis in range(table.ndim)]


def random_table(sizes, seed=0):
    table = np.random.default_rng(seed).gamma(2.0, size=sizes)
    return table / table.sum()


def test_the_largest_ridge_of_the_reference_gives_its_first_cell():
    joint = Equations(weight="even", ridge=0.01).joint(faces(C), 2)
    assert 100 * joint[0, 0, 0] == pytest.approx(10.730238039417, abs=1e-11)
    bent = [np.abs(joint.sum(axis=axis) - C.sum(axis=axis)).max() for axis in range(3)]
    assert max(bent) == pytest.approx(0.0040, abs=5e-5)


@pytest.mark.parametrize("form", ["conditional", "joint"])
@pytest.mark.parametrize("weight", ["even", "prob"])
@pytest.mark.parametrize("sizes", [(3, 4), (2, 3, 4), (3, 2, 2, 3)])
def test_every_margin_that_is_given_is_kept(sizes, weight, form):
    table = random_table(sizes)
    for pivot in range(len(sizes)):
        joint = Equations(form=form, weight=weight, ridge=0.0).joint(faces(table), pivot)
        for axis, wanted in enumerate(faces(table)):
            np.testing.assert_allclose(joint.sum(axis=axis), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("sizes", [(9, 10, 3), (2, 2, 2, 2, 2, 2, 2, 2, 2, 2), (7, 8, 8)])
def test_rows_and_columns_full_and_sparse_give_the_same(sizes):
    # The first is solved by rows, the second by columns, the last two as sparse matrices.
    table = random_table(sizes, 1)
    pivot = 0
    near = Equations(ridge=1e-9).joint(faces(table), pivot)
    for axis, wanted in enumerate(faces(table)):
        np.testing.assert_allclose(near.sum(axis=axis), wanted, rtol=0, atol=1e-8)
    if table.size < 500:
        shortest = Equations(ridge=0.0).joint(faces(table), pivot)
        np.testing.assert_allclose(near, shortest, rtol=0, atol=1e-7)


def test_the_solution_is_the_one_of_least_weighted_squares():
    table = random_table((3, 4, 2), 2)
    pivot = 2
    rest = table.sum(axis=pivot)
    for weight, by in [("even", np.ones_like(rest)), ("prob", rest)]:
        z = Equations(weight=weight, ridge=0.0).joint(faces(table), pivot)[..., 0] / rest
        # A direction that no equation sees: its margins over either column are zero.
        free = np.zeros_like(rest)
        free[:2, :2] = [[1, -1], [-1, 1]]
        direction = free / rest
        assert (by * z * direction).sum() == pytest.approx(0, abs=1e-12)


def test_near_zero_denominators_do_not_upset_the_joint_form():
    table = random_table((2, 3, 3), 3)
    noisy = faces(table)
    noisy[0] = noisy[0] - noisy[0].mean(axis=1, keepdims=True) + 1e-13
    wild = Equations(weight="even", ridge=0.0).joint(noisy, 2)
    tame = Equations(form="joint", weight="even", ridge=0.0).joint(noisy, 2)
    assert np.abs(wild).max() > 1e6
    assert np.abs(tame).max() < 10


def test_a_table_of_zeros_gives_a_table_of_zeros():
    empty = [np.zeros((3, 4)), np.zeros((2, 4)), np.zeros((2, 3))]
    for form in ("joint", "conditional"):
        np.testing.assert_array_equal(Equations(form=form).joint(empty, 1), np.zeros((2, 3, 4)))


def test_the_largest_system_leaves_the_column_of_fewest_levels_out():
    assert unknowns((5, 2, 3)) == 15
    assert unknowns(()) == 1


def test_what_the_level_left_out_may_not_hold_goes_to_those_that_may():
    rng = np.random.default_rng(6)
    noisy = [face + rng.normal(0, 0.02, face.shape) for face in faces(random_table((3, 4, 3), 5))]
    possible = np.ones((3, 4, 3), dtype=bool)
    possible[0, 1:3, [0, 2]] = False  # both ends of the pivot
    joint = Equations(ridge=0.0).joint(noisy, 2, possible)
    assert (joint[~possible] == 0).all()
    # The table without the pivot is kept, whatever the others say.
    np.testing.assert_allclose(joint.sum(axis=2), noisy[2], rtol=0, atol=1e-14)
