from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from dp_core.methods.selection.budget.residual_balance import (
    _ADD_UP,
    Parts,
    _Error,
    balance,
    expected_error,
)

ROWS = 10_000.0


def parts_of(levels, *, pairs=2000.0, triples=None, noise=400.0, exponent=1.0, margin=None):
    """Parts of even columns; `triples` None: only single columns and pairs."""
    columns = [np.full(size, ROWS / size) for size in levels]
    d = len(levels)
    cliques = [(at,) for at in range(d)] + list(itertools.combinations(range(d), 2))
    count = len(cliques) - d
    dependence = [0.0] * d + list(np.broadcast_to(pairs, count))
    if triples is not None:
        more = list(itertools.combinations(range(d), 3))
        cliques += more
        dependence += list(np.broadcast_to(triples, len(more)))
    margins = np.full((len(cliques), 2), np.inf)
    if margin is not None:
        margins[d : d + count] = margin
    return Parts(
        columns=columns,
        known=np.full(d, 100.0 * noise),
        cliques=cliques,
        dependence=np.asarray(dependence, dtype=float),
        noise=np.full(len(cliques), noise),
        margin=margins,
        exponent=exponent,
    )


@pytest.mark.parametrize("exponent", [1.0, 2.0])
@pytest.mark.parametrize("margin", [None, 900.0])
def test_shares_sum_to_one_and_equal_parts_get_equal_shares(exponent, margin):
    share = balance(parts_of((6, 6, 6), noise=4.0, exponent=exponent, margin=margin))
    assert share.sum() == pytest.approx(1)
    np.testing.assert_allclose(share[:3], share[0], rtol=1e-9)
    np.testing.assert_allclose(share[3:], share[3], rtol=1e-9)
    assert share[3] > 0


def test_with_little_noise_shares_are_those_that_make_the_summed_variance_least():
    given = parts_of((4, 4, 4, 4), pairs=5000.0, noise=1.0)
    given.known[:] = np.inf
    error = _Error(given)
    share = balance(given)
    for index in range(share.size):
        for other in range(share.size):
            moved = share.copy()
            moved[index] += 1e-3
            moved[other] -= 1e-3
            assert error.value(share) <= error.value(moved) * (1 + 1e-6)
    # Both of 4 levels: cells of a pair 16, of a column 4; mean errors in proportion to
    # 4 sqrt(4/s1) and 16 sqrt(6/s2), which add up by their power.
    ones = np.linspace(0.01, 0.99, 9801)
    column, pair = (64 / ones) ** (_ADD_UP / 2), (256 * 6 / (1 - ones)) ** (_ADD_UP / 2)
    errors = (pair + 2 * column) ** (1 / _ADD_UP) + (3 * pair + 3 * column) ** (1 / _ADD_UP)
    assert share[:4].sum() == pytest.approx(ones[errors.argmin()], rel=0.01)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_a_pair_that_hardly_depends_is_not_measured(exponent):
    given = parts_of((6, 6, 6), pairs=np.array([4000.0, 1e-3, 1e-3]), exponent=exponent)
    share = balance(given)
    assert share[3] > 0.1
    assert share[4] == share[5] == 0


def test_a_small_share_that_measures_a_small_table_precisely_is_kept():
    """Beside a table of 40,000 cells, 9 cells need less than a hundredth of the budget."""
    given = parts_of((3, 3, 200, 200), pairs=[200.0, 0.1, 0.1, 0.1, 0.1, 10_000.0], noise=0.01)
    error, share = _Error(given), balance(given)
    small = given.cliques.index((0, 1))
    assert 0 < share[small] < 0.1 / share.size
    without = share.copy()
    without[small] = 0.0
    assert error.value(share) < error.value(without / without.sum())


def test_under_noise_larger_than_every_count_columns_get_everything():
    share = balance(parts_of((6, 6, 6), noise=1e12))
    assert share[3:].sum() == 0
    assert share.sum() == pytest.approx(1)


def test_triples_are_measured_once_their_noise_is_below_what_they_hold():
    few = parts_of((2,) * 6, triples=100.0, noise=1e5)
    many = parts_of((2,) * 6, triples=100.0, noise=1e-1)
    assert balance(few)[21:].sum() == 0
    assert balance(many)[21:].sum() > 0.1


def test_pairs_that_tell_of_their_columns_leave_more_to_pairs():
    apart = balance(parts_of((6, 6, 6)))
    whole = balance(parts_of((6, 6, 6), margin=6 * 400.0))
    assert whole[:3].sum() < apart[:3].sum()


@pytest.mark.parametrize("exponent", [1.0, 2.0])
@pytest.mark.parametrize("margin", [None, 900.0])
def test_the_gain_is_the_slope_of_the_error(exponent, margin):
    given = parts_of(
        (2, 3, 20), pairs=np.array([5000.0, 3000, 900]), triples=200.0, exponent=exponent,
        margin=margin,
    )  # fmt: skip
    error = _Error(given)
    share = np.array([0.25, 0.1, 0.15, 0.15, 0.15, 0.1, 0.1])
    for index in range(share.size):
        step = np.zeros(share.size)
        step[index] = 1e-6
        slope = (error.value(share - step) - error.value(share + step)) / 2e-6
        assert error.gain(share)[index] == pytest.approx(slope, rel=1e-4)


def test_what_is_added_to_every_variance_is_added_to_that_of_each_share():
    parts = parts_of((6, 6, 6), noise=50.0, triples=100.0)
    share = np.linspace(1, 2, 7) / 10.5
    floor = dataclasses.replace(parts, floor=0.3)
    found = 1 / (_Error(floor).precision(share) - _Error(floor).before)
    np.testing.assert_allclose(found, 50.0 / share + 0.3 * 50.0)
    less = share.copy()
    for at in range(share.size):
        step = np.zeros(share.size)
        step[at] = 1e-6
        slope = (_Error(floor).value(less - step) - _Error(floor).value(less + step)) / 2e-6
        assert _Error(floor).gain(share)[at] == pytest.approx(slope, rel=1e-4)


def test_the_draw_of_records_adds_to_tables_of_three_and_decides_nothing():
    parts = parts_of((6, 6, 6), noise=50.0, triples=100.0)
    drawn = dataclasses.replace(parts, drawn=900.0)
    share = balance(parts)
    np.testing.assert_array_equal(balance(drawn), share)
    before, after = expected_error(parts, share), expected_error(drawn, share)
    assert after.two == before.two
    assert after.three == pytest.approx(np.hypot(before.three, 900 / (2 * ROWS)))
