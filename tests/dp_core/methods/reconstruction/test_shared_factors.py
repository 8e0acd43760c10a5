from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.shared_factors import Deviation, common_part, enough

LEVELS = (2, 3, 4, 5, 6, 3, 2, 4)
DOMAIN = Domain(tuple("abcdefgh"), LEVELS)
ROWS = 20_000.0


def noisy(stddev, *, strength=0.5, seed=0):
    """Pairs of one common scale, and noise that is orthogonal to all margins."""
    rng = np.random.default_rng(seed)
    share = [np.sort(rng.dirichlet(np.full(size, 3.0))) for size in LEVELS]
    score = []
    for each in share:
        values = rng.normal(size=each.size)
        values -= (each * values).sum()
        score.append(values / np.sqrt((each * values**2).sum()))
    truth, pairs = {}, {}
    for (i, one), (j, two) in itertools.combinations(enumerate(DOMAIN.columns), 2):
        expected = ROWS * np.multiply.outer(share[i], share[j])
        truth[one, two] = strength * expected * np.multiply.outer(score[i], score[j])
        noise = rng.normal(0, stddev, expected.shape)
        noise -= noise.mean(axis=0)
        noise -= noise.mean(axis=1, keepdims=True)
        free = (1 - 1 / expected.shape[0]) * (1 - 1 / expected.shape[1])
        pairs[one, two] = Deviation(truth[one, two] + noise, expected, free * stddev**2)
    return truth, pairs


def size(tables):
    return np.sqrt(sum(np.square(table).sum() for table in tables))


def test_a_common_scale_is_found_under_noise_larger_than_itself():
    truth, pairs = noisy(300.0, strength=0.1)
    found = common_part(DOMAIN, pairs, ROWS)
    noise = size(pairs[clique].residual - truth[clique] for clique in pairs)
    assert noise > size(truth.values())
    assert size(found[clique] - truth[clique] for clique in pairs) < 0.4 * noise


def test_of_noise_alone_next_to_nothing_is_left():
    _, pairs = noisy(300.0, strength=0.0)
    found = common_part(DOMAIN, pairs, ROWS)
    assert size(found.values()) < 0.25 * size(pair.residual for pair in pairs.values())


def test_without_noise_one_common_scale_is_the_tables():
    truth, pairs = noisy(1e-3)
    found = common_part(DOMAIN, pairs, ROWS)
    assert size(found[clique] - truth[clique] for clique in pairs) < 0.05 * size(truth.values())


def test_what_is_returned_says_nothing_of_single_columns():
    _, pairs = noisy(100.0)
    for table in common_part(DOMAIN, pairs, ROWS).values():
        np.testing.assert_allclose(table.sum(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(table.sum(axis=1), 0, atol=1e-6)


def test_a_pair_that_was_not_measured_is_not_asked_for():
    _, pairs = noisy(100.0)
    del pairs["a", "c"]
    found = common_part(DOMAIN, pairs, ROWS)
    assert ("a", "c") not in found
    assert len(found) == len(pairs)


@pytest.mark.parametrize(
    ("pairs", "levels", "said"), [(9, 5, True), (8, 5, False), (9, 500, False)]
)
def test_few_pairs_and_too_many_codes_are_left_alone(pairs, levels, said):
    domain = Domain(tuple("abcdefgh"), (levels,) * 8)
    assert enough(domain, pairs) == said
