from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dp_core.domain import Domain
from dp_core.marginals import Measurement
from dp_core.reconstruction import shrinkage
from dp_core.reconstruction.consistency import discrepancy
from dp_core.reconstruction.shrinkage import low_rank, shrink_residual, shrunk
from dp_core.structural_zeros import Rule, StructuralZeros

DOMAIN = Domain(("a", "b", "c", "d"), (6, 8, 5, 3))
NONE = StructuralZeros()


def joint(seed=0):
    """Records with one strong pair, a skewed column and the rest nearly independent."""
    rng = np.random.default_rng(seed)
    skewed = np.array([0.8, 0.1, 0.05, 0.03, 0.01, 0.005, 0.004, 0.001])
    table = np.multiply.outer(np.ones(6) / 6, np.multiply.outer(skewed, np.ones((5, 3)) / 15))
    table *= np.exp(0.8 * rng.normal(size=(6, 1, 5, 1)))
    return np.round(table / table.sum() * 20_000)


def exact(clique):
    others = tuple(i for i, name in enumerate(DOMAIN.columns) if name not in clique)
    return joint().sum(axis=others)


def measured(clique, stddev, seed=0):
    rng = np.random.default_rng([seed, *DOMAIN.axes(clique)])
    values = np.rint(exact(clique) + rng.normal(0, stddev, DOMAIN.project(clique).sizes))
    return Measurement(
        DOMAIN.project(clique), values.astype(np.int64), "gaussian", stddev, "measure", 0, 1
    )


CLIQUES = [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("a", "c"), ("b", "c"), ("b", "c", "d")]


def test_without_noise_the_tables_are_the_measured_ones():
    tables, rows = shrunk(
        DOMAIN, [measured(clique, 1e-3) for clique in CLIQUES], rows=None, zeros=NONE
    )
    assert rows == joint().sum()
    for table in tables:
        np.testing.assert_allclose(table.values, exact(table.clique), atol=0.1)


def test_columns_come_first_then_the_larger_tables_and_all_agree():
    tables, rows = shrunk(
        DOMAIN, [measured(clique, 60.0) for clique in CLIQUES], rows=None, zeros=NONE
    )
    assert [table.clique for table in tables] == CLIQUES
    assert discrepancy(tables) < 0.02
    for table in tables:
        assert (table.values >= 0).all()
        assert table.values.sum() == pytest.approx(rows)


def test_with_much_noise_tables_are_nearer_the_truth_than_noise_and_than_independence():
    gained = []
    for seed in range(5):
        measurements = [measured(clique, 60.0, seed) for clique in CLIQUES[:7]]
        tables, rows = shrunk(DOMAIN, measurements, rows=None, zeros=NONE)
        errors = {t.clique: np.abs(t.values - exact(t.clique)).sum() for t in tables}
        noise = {m.clique: np.abs(m.values - exact(m.clique)).sum() for m in measurements}
        product = np.outer(exact(("a",)), exact(("c",))) / rows
        assert errors["a", "c"] < np.abs(product - exact(("a", "c"))).sum()
        gained.append(errors["a", "b"] / noise["a", "b"])
    assert np.mean(gained) < 0.7


def test_impossible_cells_hold_nothing():
    zeros = StructuralZeros((Rule(("b", "c"), ((0, 1), (2,)), "rule"),))
    tables, _ = shrunk(
        DOMAIN, [measured(clique, 30.0) for clique in CLIQUES], rows=None, zeros=zeros
    )
    for table in tables:
        assert (table.values[zeros.mask(table.domain)] == 0).all()


def test_a_column_without_a_measurement_is_uniform():
    tables, rows = shrunk(DOMAIN, [measured(("a", "b"), 5.0)], rows=None, zeros=NONE)
    assert [table.clique for table in tables] == [*[(n,) for n in "abcd"], ("a", "b")]
    np.testing.assert_allclose(tables[2].values, np.full(5, rows / 5))


def test_a_table_too_large_to_shrink_is_made_nonnegative(monkeypatch):
    monkeypatch.setattr(shrinkage, "_MOST_CELLS", 10)
    tables, rows = shrunk(DOMAIN, [measured(("a", "b"), 60.0)], rows=None, zeros=NONE)
    assert (tables[-1].values >= 0).all()
    assert tables[-1].values.sum() == pytest.approx(rows)


def test_under_a_prior_of_one_width_the_residual_is_the_posterior_mean(monkeypatch):
    monkeypatch.setattr(shrinkage, "_WIDTHS", np.array([0.0, 2.0]))
    rng = np.random.default_rng(1)
    expected = np.full(4000, 16.0)  # prior deviation 2 * 16 ** 0.75 = 16
    truth = rng.normal(0, 16, 4000) * (rng.random(4000) < 0.3)
    noisy = truth + rng.normal(0, 8, 4000)
    found = shrink_residual(noisy, 64.0, expected)
    for index in (0, 17, 200):
        at = noisy[index]

        def posterior(power, at=at):
            def density(x):
                return x**power * stats.norm.pdf(x, scale=16) * stats.norm.pdf(at - x, scale=8)

            still = (0.7 / 0.3) * stats.norm.pdf(at, scale=8) * (power == 0)
            return integrate.quad(density, -200, 200, limit=200)[0] + still

        # The mixture's weights are estimated from 4000 cells: near, not equal.
        assert found[index] == pytest.approx(posterior(1) / posterior(0), rel=0.1, abs=0.3)


def centred(values):
    values = values - values.mean(axis=0, keepdims=True)
    return values - values.mean(axis=1, keepdims=True)


def test_noise_alone_has_no_low_rank_part_and_one_strong_scale_is_kept():
    rng = np.random.default_rng(5)
    noise = centred(rng.normal(0, 10, (40, 60)))
    # The largest singular value of noise scatters closely around the threshold.
    assert np.abs(low_rank(noise, 1.2 * 100.0)).max() == 0
    signal = np.outer(np.linspace(-1, 1, 40), np.linspace(-1, 1, 60)) * 60
    found = low_rank(signal + noise, 100.0)
    assert np.linalg.matrix_rank(found, tol=1e-6) == 1
    assert np.linalg.norm(found - signal) < 0.35 * np.linalg.norm(noise)


def test_the_low_rank_part_of_little_noise_is_the_table():
    table = centred(np.random.default_rng(5).normal(0, 100, (6, 9)))
    np.testing.assert_allclose(low_rank(table, 1e-6), table, atol=1e-3)


def test_the_one_free_cell_of_a_binary_pair_is_believed_and_larger_tables_are_not():
    # A weak dependence, far below the noise: shrinking it in every pair alike would add up.
    domain = Domain(("a", "b", "c"), (2, 2, 3))

    def given(clique, values):
        exact = np.asarray(values, dtype=np.int64)
        return Measurement(domain.project(clique), exact, "gaussian", 400.0, "measure", 0, 1)

    ones = [given(("a",), [2000, 2000]), given(("b",), [2000, 2000])]
    pair = given(("a", "b"), [[1100, 900], [900, 1100]])
    tables, _ = shrunk(domain, [*ones, pair], rows=4000, zeros=NONE)
    np.testing.assert_allclose(tables[-1].values, pair.values, rtol=1e-9)
    wide = given(("a", "c"), [[700, 650, 650], [650, 650, 700]])
    tables, _ = shrunk(domain, [*ones, wide], rows=4000, zeros=NONE)
    independent = tables[-1].values.sum(axis=1, keepdims=True) * tables[-1].values.sum(axis=0)
    left = np.abs(tables[-1].values - independent / 4000).max()
    assert left < 0.5 * np.abs(wide.values - 2000 * wide.values.sum(axis=0) / 4000).max()
