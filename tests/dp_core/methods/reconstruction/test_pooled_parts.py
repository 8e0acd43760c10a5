"""What is known of cells, against generalised least squares on the whole joint table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dp_core.client.interactions import cell_variance, implied_table, steps_of_a_record
from dp_core.client.released import Measurement, Totals
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates import pooled_parts
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
EVERY = [c for size in range(4) for c in itertools.combinations(DOMAIN.columns, size)]


def table(clique, stddev, noise="gaussian", replicate=0):
    domain = DOMAIN.project(clique)
    values = np.random.default_rng(len(clique)).integers(-5, 900, domain.sizes)
    return noisy_table(domain, values, noise=noise, scale=stddev, replicate=replicate)


def interaction(clique, stddev, noise="gaussian"):
    """One whose table's noise is that of a whole table of so large a standard deviation."""
    of = Interaction(clique, DOMAIN.project(clique).sizes)
    values = of.of_table(np.random.default_rng(9).integers(0, 900, of.sizes))
    return Totals(
        of,
        values,
        noise=noise,
        scale=stddev * steps_of_a_record(of),
        stage="measure",
        replicate=0,
        grant=1,
    )


def margin_of(clique):
    """The matrix that sums the joint table over all but some columns."""
    eye = np.eye(DOMAIN.size()).reshape(*DOMAIN.sizes, -1)
    summed = tuple(axis for axis, name in enumerate(DOMAIN.columns) if name not in clique)
    kept = [name for name in DOMAIN.columns if name in clique]
    found = eye.sum(axis=summed).transpose([*(kept.index(name) for name in clique), len(clique)])
    return found.reshape(-1, DOMAIN.size())


def least_squares(items, clique):
    """The estimate of a table and its variances by the normal equations; None: not estimable."""
    information, weighted = np.zeros((DOMAIN.size(),) * 2), np.zeros(DOMAIN.size())
    for item in items:
        if isinstance(item, Measurement):
            seen, values, variance = margin_of(item.clique), item.values, item.variance
        else:
            seen, values = margin_of(item.of.columns), implied_table(item.of, item.values)
            each = seen.T.reshape(-1, *item.of.sizes)
            seen = np.stack([beyond(one) for one in each]).reshape(DOMAIN.size(), -1).T
            # Its covariance is this times a projection that leaves what is seen as it is.
            variance = cell_variance(item.of, item.variance)
        information += seen.T @ seen / variance
        weighted += seen.T @ values.ravel() / variance
    inverse, asked = np.linalg.pinv(information, rcond=1e-10, hermitian=True), margin_of(clique)
    if np.abs(asked @ inverse @ information - asked).max() > 1e-6:
        return None
    return asked @ inverse @ weighted, np.diag(asked @ inverse @ asked.T)


CASES = {
    "a table and its interaction": [table(("a",), 40.0), interaction(("a",), 9.0)],
    "the total comes from all": [table(("a",), 40.0), table(("b",), 7.0), interaction(("a",), 9.0)],
    "an interaction and a total": [table((), 30.0), interaction(("b",), 9.0)],
    "an interaction without any": [interaction(("b",), 9.0)],
    "a pair by its parts": [
        *(table(("a",), 40.0), table(("b",), 30.0), table((), 25.0)),
        *(interaction(("b", "a"), 9.0), interaction(("a",), 5.0)),
    ],
    "a pair both ways, twice": [
        *(table(("b", "a"), 40.0), table(("a", "b"), 50.0, replicate=2)),
        *(interaction(("a", "b"), 30.0), interaction(("b", "a"), 10.0)),
    ],
    "margins of larger ones": [
        *(table(("c", "a"), 12.0), table(("b", "c"), 15.0, "laplace"), table(DOMAIN.columns, 90.0)),
        *(interaction(("a", "b"), 30.0, "laplace"), interaction(("a", "b", "c"), 20.0)),
    ],
}


@pytest.mark.parametrize("items", CASES.values(), ids=CASES.keys())
def test_counts_and_noise_are_those_of_generalised_least_squares(items):
    found = pool(DOMAIN, items)
    known = 0
    for clique in (*EVERY, ("c", "a", "b"), ("b", "a")):
        exact = least_squares(items, clique)
        if exact is None:
            assert found.variance(clique) is None
            assert found.counts(clique) is None
            continue
        known += 1
        np.testing.assert_allclose(exact[1], found.variance(clique), rtol=1e-8)
        counts = found.counts(clique)
        assert counts.shape == DOMAIN.project(clique).sizes
        np.testing.assert_allclose(counts.ravel(), exact[0], atol=1e-6)
    assert known or len(items) == 1


def test_a_public_number_of_rows_takes_the_totals_place():
    items = [table(("a",), 40.0), interaction(("a",), 9.0)]
    open_, known = pool(DOMAIN, items), pool(DOMAIN, items, rows=1000)
    assert known.counts(("a",)).sum() == pytest.approx(1000)
    own = 1 / (1 / 40.0**2 + 1 / 9.0**2)
    assert known.variance(("a",)) == pytest.approx(own / 2)
    # Two cells share the noise of their table's total evenly.
    assert open_.variance(("a",)) == pytest.approx(own / 2 + 40.0**2 / 2)


def test_a_column_of_one_level_says_nothing_beyond_the_total():
    domain = Domain(("a", "one"), (2, 1))
    counts = noisy_table(domain.project(("a",)), np.array([3, 4]), scale=2.0)
    found = pool(domain, [counts])
    assert found.variance(("a", "one")) == pytest.approx(4.0)
    np.testing.assert_allclose(found.counts(("a", "one")), [[3.0], [4.0]])


def test_what_is_of_other_codes_or_columns_is_left_out():
    other = Domain(("a", "d"), (3, 2))
    items = [
        noisy_table(other.project((name,)), np.zeros(size, np.int64))
        for name, size in (("a", 3), ("d", 2))
    ]
    assert pool(DOMAIN, items).variance(()) is None


def test_the_range_is_the_wider_one_where_any_noise_is_laplace():
    narrow = pool(DOMAIN, [table(("a",), 10.0), interaction(("a",), 5.0)])
    wide = pool(DOMAIN, [table(("a",), 10.0, "laplace"), interaction(("a",), 5.0)])
    assert narrow.half_width(("a",)) == pytest.approx(
        1.96 * math.sqrt(narrow.variance(("a",))), 1e-4
    )
    wider = math.log(20) / math.sqrt(2)
    assert wide.half_width(("a",)) == pytest.approx(wider * math.sqrt(wide.variance(("a",))))
    assert wide.half_width(("b",)) is None


def test_what_one_table_tells_beyond_its_pairs_is_the_sum_of_its_parts(monkeypatch):
    domain = Domain(("a", "b", "c", "d"), (2, 3, 4, 2))
    rng = np.random.default_rng(4)
    expected = rng.uniform(0, 900, domain.sizes)
    whole = noisy_table(domain, rng.integers(0, 900, domain.sizes), scale=5.0)
    three = domain.project(("a", "b", "c"))

    def told(*others):
        return pool(domain, [whole, *others]).beyond_pairs(domain.columns, expected)

    alone, variance = told()
    # Another table of three of its columns makes it go through all parts.
    useless = noisy_table(three, np.zeros(three.sizes, dtype=np.int64), scale=1e9)
    parts, same = told(useless)
    np.testing.assert_allclose(alone, parts, atol=1e-6)
    assert variance == pytest.approx(same, rel=1e-9)
    for pair in itertools.combinations(range(4), 2):
        np.testing.assert_allclose(alone.sum(axis=pair), 0.0, atol=1e-6)
    precise = noisy_table(three, rng.integers(0, 900, three.sizes), scale=1e-3)
    assert told(precise)[1] < variance
    monkeypatch.setattr(pooled_parts, "_MOST_COLUMNS", 3)
    np.testing.assert_array_equal(told(precise)[0], alone)
