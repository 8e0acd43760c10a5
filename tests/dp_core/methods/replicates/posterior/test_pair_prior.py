"""The prior of pairs: coordinates, what it learns, and what it says of pairs not measured."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.replicates.posterior.known_sums import KnownSums
from dp_core.methods.replicates.posterior.pair_prior import (
    Column,
    Component,
    Pair,
    conditional,
    learn,
)

TOTAL = 10_000.0
RNG = np.random.default_rng(7)
ONE = Column.of(TOTAL * np.array([0.5, 0.3, 0.2]), np.arange(3.0))
OTHER = Column.of(TOTAL * np.array([0.4, 0.3, 0.2, 0.1]), np.arange(4.0))


def deviation(scale, rng=RNG):
    shape = TOTAL * np.sqrt(np.multiply.outer(ONE.values, OTHER.values))
    return ONE.vectors @ (scale * shape * rng.normal(size=shape.shape)) @ OTHER.vectors.T


def pairs_of(scale, noise, count=40):
    rng = np.random.default_rng(11)
    found = {}
    for at in range(count):
        seen = deviation(scale, rng) + ONE.vectors @ rng.normal(0, noise, (2, 3)) @ OTHER.vectors.T
        found[str(at), "x"] = Pair(ONE, OTHER, TOTAL, observed=seen, variance=noise**2)
    return found


def believed(pair, prior, key):
    """Return the posterior mean of each coordinate."""
    each = [conditional(pair, component)[0] for component in prior.components]
    return np.tensordot(prior.beliefs[key], np.array(each), 1)


def test_coordinates_are_orthonormal_and_lose_nothing_of_a_deviation():
    for column in (ONE, OTHER):
        size = column.shares.size
        assert column.vectors.T @ column.vectors == pytest.approx(np.eye(size - 1), abs=1e-9)
        assert column.vectors.sum(axis=0) == pytest.approx(np.zeros(size - 1), abs=1e-9)
    pair, table = Pair(ONE, OTHER, TOTAL), deviation(0.1)
    assert pair.table(pair.coordinates(table)) == pytest.approx(table, abs=1e-6)


def test_the_first_coordinate_of_a_column_is_its_trend():
    along = OTHER.shares * (np.arange(4.0) - OTHER.shares @ np.arange(4.0))
    assert abs(OTHER.vectors[:, 0] @ along) == pytest.approx(np.linalg.norm(along))
    assert not Column.of(np.array([3.0, 5.0]), np.arange(2.0)).trend


def test_without_noise_the_posterior_is_what_was_observed():
    pairs = pairs_of(0.1, 1e-6)
    prior = learn(pairs)
    for key, pair in pairs.items():
        assert believed(pair, prior, key) == pytest.approx(
            pair.coordinates(pair.observed), abs=1e-3
        )


def test_pure_noise_is_believed_to_be_independence():
    pairs = pairs_of(0.0, 300.0)
    prior = learn(pairs)
    size = [np.abs(believed(pair, prior, key)).mean() for key, pair in pairs.items()]
    assert np.mean(size) < 30


def test_strong_dependence_is_hardly_shrunk():
    pairs = pairs_of(0.3, 20.0)
    prior = learn(pairs)
    for key, pair in pairs.items():
        gap = believed(pair, prior, key) - pair.coordinates(pair.observed)
        assert np.abs(gap).mean() < 10


def test_a_pair_that_one_number_tells_of_gets_a_variance_of_that_size():
    measured = pairs_of(0.05, 50.0)
    weak = Pair(ONE, OTHER, TOTAL, dependence=(50.0, 40.0))
    strong = Pair(ONE, OTHER, TOTAL, dependence=(2500.0, 40.0))
    prior = learn({**measured, ("weak", "x"): weak, ("strong", "x"): strong})

    def spread(pair, key):
        each = [conditional(pair, component)[1].sum() for component in prior.components]
        return float(prior.beliefs[key] @ np.array(each)) ** 0.5

    assert spread(strong, ("strong", "x")) > 2 * spread(weak, ("weak", "x"))
    # A sum of absolute deviations of 2,500 records in 12 cells: about 250 records in each.
    assert 400 < spread(strong, ("strong", "x")) < 2500


def full_dependence():
    """A column of five levels, some of them rare, and a function of it with three levels."""
    counts = TOTAL * np.array([0.6, 0.3, 0.08, 0.015, 0.005])
    level_of = np.array([0, 1, 2, 1, 2])
    table = np.zeros((5, 3))
    table[np.arange(5), level_of] = counts
    one, other = counts, table.sum(axis=0)
    apart = table - np.multiply.outer(one, other) / TOTAL
    pair = Pair(Column.of(one, np.arange(5.0)), Column.of(other, np.arange(3.0)), TOTAL)
    return pair, pair.coordinates(apart)


def test_no_scale_gives_a_rare_level_more_than_its_records_allow():
    pair, true = full_dependence()
    strongest = Component(np.full(3, 1.5), 0)
    centre, tails = pair.prior(strongest)
    # One column determines the other: nothing depends more. Directions are not exactly levels.
    assert (np.abs(true) <= 1.25 * np.sqrt(tails)).all()
    assert (tails >= centre).all()
    # The rarest level has 50 records.
    rarest = int(np.argmin(pair.one.values))
    assert centre[rarest].sum() < (1.3 * 50.0) ** 2
    unbound = strongest.scales[0] ** 2 * pair.shape[rarest].sum()
    assert unbound > 100 * centre[rarest].sum()


def test_a_weak_dependence_is_far_from_the_bound():
    pair = Pair(ONE, OTHER, TOTAL)
    weak = Component(np.full(3, 0.05), 0)
    assert pair.prior(weak)[0] == pytest.approx(0.05**2 * pair.shape)


def test_a_pair_of_which_nothing_is_known_has_the_learned_prior():
    pairs = {**pairs_of(0.2, 20.0), ("unknown", "x"): Pair(ONE, OTHER, TOTAL)}
    prior = learn(pairs)
    others = np.mean([prior.beliefs[key] for key in pairs if key[0] != "unknown"], axis=0)
    assert prior.beliefs["unknown", "x"] == pytest.approx(others, abs=0.05)


def test_a_good_prediction_is_used_and_a_wrong_one_is_not():
    found = {}
    rng = np.random.default_rng(3)
    for good in (True, False):
        for at in range(20):
            true = deviation(0.1, rng)
            seen = true + ONE.vectors @ rng.normal(0, 200.0, (2, 3)) @ OTHER.vectors.T
            told = true if good else deviation(0.1, rng)
            key = (f"{good}{at}", "x")
            found[key] = Pair(ONE, OTHER, TOTAL, seen, 200.0**2, predicted=(told,))
    prior = learn(found)
    use = np.array([component.use for component in prior.components])
    good = np.mean([prior.beliefs[key] @ use for key in found if key[0].startswith("True")])
    bad = np.mean([prior.beliefs[key] @ use for key in found if key[0].startswith("False")])
    assert good > 0.8 > 0.4 > bad


def test_a_prediction_of_another_kind_is_chosen_where_it_is_the_better_one():
    found = {}
    rng = np.random.default_rng(5)
    for better in (1, 2):
        for at in range(20):
            true = deviation(0.1, rng)
            seen = true + ONE.vectors @ rng.normal(0, 200.0, (2, 3)) @ OTHER.vectors.T
            told = (true, deviation(0.1, rng)) if better == 1 else (None, true)
            found[f"{better}{at}", "x"] = Pair(ONE, OTHER, TOTAL, seen, 200.0**2, predicted=told)
    prior = learn(found)
    for better in (1, 2):
        chosen = np.array([component.use == better for component in prior.components])
        keys = [key for key in found if key[0].startswith(str(better))]
        assert np.mean([prior.beliefs[key] @ chosen for key in keys]) > 0.8


def test_sampling_of_the_file_is_no_part_of_the_variance_of_a_pair_known_to_be_independent():
    clear, hidden = (Pair(ONE, OTHER, TOTAL, dependence=(300.0, noise)) for noise in (1e-3, 1e9))
    small, large = (Component(np.full(3, scale), 0) for scale in (0.001, 0.3))
    assert conditional(clear, small)[1] == pytest.approx(np.zeros((2, 3)))
    gap = conditional(hidden, large)[1] - conditional(clear, large)[1]
    assert gap == pytest.approx(clear.shape / TOTAL)


def test_sampling_of_the_file_is_kept_where_nothing_tells_it_from_dependence():
    small = Component(np.full(3, 0.001), 0)
    sums = KnownSums(np.zeros((1, 3, 4)), np.zeros(1), np.ones((1, 1)))
    for pair in (
        Pair(ONE, OTHER, TOTAL),
        Pair(ONE, OTHER, TOTAL, dependence=(300.0, 1e-3), sums=sums),
    ):
        assert (conditional(pair, small)[1] > 0).all()


def test_directions_of_very_many_levels_are_sparse_and_orthonormal():
    counts = TOTAL / np.arange(1.0, 1_201.0)
    column = Column.of(counts, np.arange(1_200.0))
    assert not column.trend
    assert column.vectors.nnz < 0.02 * 1_200**2
    dense = column.vectors.toarray()
    assert dense.T @ dense == pytest.approx(np.eye(1_199), abs=1e-9)
    assert dense.sum(axis=0) == pytest.approx(np.zeros(1_199), abs=1e-9)
    covariance = np.diag(column.shares) - np.outer(column.shares, column.shares)
    assert column.values == pytest.approx(np.diag(dense.T @ covariance @ dense), abs=1e-9)
