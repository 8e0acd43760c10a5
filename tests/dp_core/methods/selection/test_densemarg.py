from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.methods.selection import densemarg
from dp_core.methods.selection.candidates.pairs import pairs_up_to
from dp_core.methods.selection.densemarg import (
    DenseMarg,
    Problem,
    balance,
    combine,
    greedy,
    posterior_mean,
)
from dp_core.methods.selection.one_way import OneWay
from tests.conftest import DatasetCounter
from tests.measured import method_inputs

DOMAIN = Domain(("a", "b", "c", "d"), (4, 4, 3, 30))


def curator_of(epsilon="1", kind="zcdp", rows=4000):
    """b repeats a nine times in ten; c and d are independent of everything."""
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, rows) for size in DOMAIN.sizes])
    codes[1] = np.where(rng.random(rows) < 0.9, codes[0], codes[1])
    counter = DatasetCounter(Dataset(DOMAIN, codes.astype(np.uint16)), [])
    limit = largest_limit(kind, Fraction(epsilon), Fraction("1e-9"))
    session = MemorySession(Currency(kind, limit), "add-remove")
    return Curator(Kernel(DOMAIN, counter, session)), session


def one_way(curator, cost):
    planned = OneWay().fixed_selection(DOMAIN)
    return curator.measure("one_way", planned.cliques, [cost * w for w in planned.weights])


def test_the_greedy_choice_and_its_errors_are_the_published_ones():
    noise = 1 / math.sqrt(math.pi * 0.1)
    order, errors = greedy(
        np.array([500.0, 300.0, 90.0, 400.0, 20.0, 60.0]), [12, 20, 15, 10, 50, 6], noise
    )
    assert order == [0, 3, 1, 5, 2]
    np.testing.assert_allclose(
        errors, [1370, 891.409489, 525.43231, 297.835525, 276.241657, 265.250877], rtol=1e-8
    )


def test_with_so_much_noise_that_no_pair_pays_none_is_chosen():
    assert greedy(np.array([5.0, 3.0]), [12, 20], 100.0) == ([], [8.0])


def select(method, curator, select_cost, measure_cost, known=()):
    return method.select(
        method_inputs(
            curator, DOMAIN, known=known, select_cost=select_cost, measure_cost=measure_cost
        )
    )


@pytest.mark.parametrize(
    ("gamma", "tables"),
    [
        (5000, ["abcd", "de"]),
        (500, ["abc", "abd", "cd", "de"]),
        (0, ["ab", "ac", "ad", "bc", "bd", "cd", "de"]),
    ],
)
def test_pairs_are_joined_where_the_union_is_small_and_none_is_lost(gamma, tables):
    domain = Domain(tuple("abcde"), (4, 5, 6, 7, 8))
    pairs = [*itertools.combinations("abcd", 2), ("d", "e")]
    assert ["".join(clique) for clique in combine(pairs, domain, gamma)] == tables


@pytest.mark.parametrize("kind", ["zcdp", "gaussian", "pure"])
@pytest.mark.parametrize("rule", ["balance", "greedy"])
def test_the_dependent_pair_is_found_and_exactly_the_share_is_spent(rule, kind):
    curator, session = curator_of("20", kind)
    limit = session.currency.limit
    known = one_way(curator, limit / 10)
    spent = session.spent()
    found = select(DenseMarg(rule=rule), curator, limit / 10, limit * 8 / 10, known)
    assert ("a", "b") in found.cliques
    assert session.spent() - spent <= limit / 10
    # Rounding a scale up to a float may leave a little of the share unspent, no more.
    assert session.spent() - spent > limit / 10 * Fraction(999, 1000)
    assert found.dependences.by_pair()[0]["a", "b"] > 1000


def test_without_one_way_tables_every_column_is_still_measured():
    curator, session = curator_of()
    limit = session.currency.limit
    found = select(DenseMarg(), curator, limit / 10, limit * 8 / 10)
    assert {column for clique in found.cliques for column in clique} == set(DOMAIN.columns)


def test_pairs_that_are_too_large_are_not_even_counted(monkeypatch):
    monkeypatch.setattr(densemarg, "pairs_up_to", lambda domain: pairs_up_to(domain, 100))
    needs = DenseMarg().needs(DOMAIN)
    assert ("c", "d") in needs
    assert ("a", "d") not in needs
    assert DenseMarg().statistic(DOMAIN).length == len(needs) == 4


def test_joined_tables_get_what_their_pairs_got():
    curator, session = curator_of("20")
    limit = session.currency.limit
    known = one_way(curator, limit / 10)
    found = select(DenseMarg(gamma=100), curator, limit / 10, limit * 8 / 10, known)
    assert sum(found.weights) == 1
    assert any({"a", "b"} <= set(clique) for clique in found.cliques)


def problem(dependence, *, whole=1e-3, exponent=1.0, levels=(20, 20, 20)):
    columns = [np.full(size, 10_000 / size) for size in levels]
    pairs = np.array(list(itertools.combinations(range(len(levels)), 2)))
    return Problem(
        columns=columns,
        precision=np.full(len(levels), whole / 10),
        pairs=pairs,
        dependence=np.asarray(dependence, dtype=float),
        whole=whole,
        exponent=exponent,
    )


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_shares_sum_to_one_and_equal_pairs_get_equal_shares(exponent):
    share = balance(problem([4000, 4000, 4000], exponent=exponent))
    assert share.sum() == pytest.approx(1)
    np.testing.assert_allclose(share[:3], share[0], rtol=1e-9)
    np.testing.assert_allclose(share[3:], share[3], rtol=1e-9)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_a_pair_that_hardly_depends_is_not_measured(exponent):
    share = balance(problem([6000, 1, 1], exponent=exponent))
    assert share[0] > 0.1
    assert share[1] == share[2] == 0


def test_without_dependence_the_whole_budget_goes_to_single_columns():
    share = balance(problem([1e-6, 1e-6, 1e-6]))
    assert share[:3].sum() == 0
    assert share[3:].sum() == pytest.approx(1)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
@pytest.mark.parametrize("levels", [(20, 20, 20), (2, 5, 9)])
def test_where_noise_is_larger_than_every_count_no_pair_is_measured(levels, exponent):
    share = balance(problem([2500, 2500, 2500], whole=1e-10, exponent=exponent, levels=levels))
    assert share[:3].sum() == 0
    assert share.sum() == pytest.approx(1)


def test_no_small_exchange_between_two_tables_lowers_the_expected_error():
    from dp_core.methods.selection.densemarg import _Error

    given = problem([5000, 3000, 900], levels=(5, 40, 20))
    share = balance(given)
    error = _Error(given)
    best = error.value(share)
    kept = np.flatnonzero(share)
    assert kept.size >= 3
    for one, two in itertools.permutations(kept, 2):
        other = share.copy()
        moved = 0.05 * share[one]
        other[one] -= moved
        other[two] += moved
        assert error.value(other) >= best * (1 - 1e-5)


def test_a_single_column_gets_everything():
    alone = Problem(
        columns=[np.array([5.0, 6.0])],
        precision=np.ones(1),
        pairs=np.zeros((0, 2), dtype=np.int64),
        dependence=np.zeros(0),
        whole=0.1,
        exponent=1.0,
    )
    np.testing.assert_array_equal(balance(alone), [1.0])


def posterior_by_quadrature(value, mean, stddev):
    grid = np.linspace(0, 40 * mean, 400_001)
    weight = stats.expon.pdf(grid, scale=mean) * stats.norm.pdf(value, loc=grid, scale=stddev)
    return (grid * weight).sum() / weight.sum()


def test_the_posterior_mean_is_that_of_an_exponential_prior_whose_mean_is_estimated_likewise():
    noisy = np.array([-300.0, 0.0, 200.0, 2000.0])
    stddev, usual = 250.0, 600.0
    mean = posterior_by_quadrature(noisy.mean(), usual, stddev / 2)  # of four values
    for value, found in zip(noisy, posterior_mean(noisy, stddev, usual=usual), strict=True):
        assert found == pytest.approx(posterior_by_quadrature(value, mean, stddev), rel=1e-3)


def test_the_posterior_mean_is_positive_and_rises_with_the_noisy_value():
    noisy = np.linspace(-1e5, 1e5, 101)
    found = posterior_mean(noisy, 700.0, usual=3000.0)
    assert (found > 0).all()
    assert (np.diff(found) > 0).all()


def test_scores_that_are_nothing_but_noise_leave_what_is_usual():
    noisy = np.random.default_rng(1).normal(0, 1e7, 91)
    np.testing.assert_allclose(posterior_mean(noisy, 1e7, usual=3000.0), 3000.0, rtol=0.05)


def test_many_clear_scores_make_what_is_usual_irrelevant():
    noisy = np.random.default_rng(1).exponential(5000, 400)
    low, high = (posterior_mean(noisy, 300.0, usual=usual) for usual in (500.0, 50_000.0))
    np.testing.assert_allclose(low, high, rtol=0.01)


def test_without_noise_scores_are_what_they_are():
    np.testing.assert_array_equal(posterior_mean(np.array([5.0, 7.0]), 0.0, usual=3.0), [5, 7])


def test_a_binary_pair_is_worth_measuring_at_four_times_the_noise_of_a_large_one():
    # Three quarters of its cells' noise is that of its columns' tables, which are known.
    from dp_core.methods.selection.densemarg import _Error

    error = _Error(problem([3000.0], levels=(2, 2)))
    np.testing.assert_allclose(error.inner, 4.0)
    np.testing.assert_allclose(_Error(problem([3000.0], levels=(50, 50))).inner, (50 / 49) ** 2)


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_the_gain_is_the_slope_of_the_error(exponent):
    from dp_core.methods.selection.densemarg import _Error

    error = _Error(problem([5000, 3000, 900], levels=(2, 3, 20), exponent=exponent))
    share = np.array([0.3, 0.1, 0.2, 0.15, 0.15, 0.1])
    for index in range(share.size):
        step = np.zeros(share.size)
        step[index] = 1e-6
        slope = (error.value(share - step) - error.value(share + step)) / 2e-6
        assert error.gain(share)[index] == pytest.approx(slope, rel=1e-5)
