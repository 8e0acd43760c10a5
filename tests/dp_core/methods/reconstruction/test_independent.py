from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dp_core.client.released import Table
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import independent
from dp_core.methods.reconstruction.independent import Independent
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.measured import NONE, noisy_table
from tests.statistical import FALSE_ALARM

DOMAIN = Domain(("a", "b", "c"), (2, 5, 70))


def model(zeros=NONE):
    rng = np.random.default_rng(2)
    tables = tuple(
        Table(DOMAIN.project((name,)), rng.gamma(1.0, size=size) * 10)
        for name, size in zip(DOMAIN.columns, DOMAIN.sizes, strict=True)
    )
    tables = tuple(Table(t.domain, t.values * (1000 / t.values.sum())) for t in tables)
    return Independent().restore(DOMAIN, tables, rows=1000, zeros=zeros)


def test_draws_have_the_tables_and_not_others():
    fitted = model()
    data = fitted.sample(200_000, rng=np.random.default_rng(1))
    for name, table in zip(DOMAIN.columns, fitted.tables, strict=True):
        seen = np.bincount(data.column(name), minlength=table.values.size)
        share = table.values / table.values.sum()
        assert stats.chisquare(seen, share * data.rows).pvalue > FALSE_ALARM
        tilted = share * np.where(np.arange(share.size) % 2, 1.2, 1.0)
        assert stats.chisquare(seen, tilted / tilted.sum() * data.rows).pvalue < FALSE_ALARM


def test_columns_are_drawn_independently():
    data = model().sample(100_000, rng=np.random.default_rng(1))
    joint = np.zeros((2, 5))
    np.add.at(joint, (data.column("a"), data.column("b")), 1)
    assert stats.chi2_contingency(joint).pvalue > FALSE_ALARM


def test_every_measurement_that_holds_a_column_informs_it():
    def measured(clique, values, variance):
        values = np.array(values, dtype=np.int64)
        return noisy_table(DOMAIN.project(clique), values, scale=variance**0.5)

    pair = np.full((2, 5), 10)
    found = Independent().fit(
        DOMAIN,
        [measured(("a",), [80, 20], 5.0), measured(("a", "b"), pair, 1.0)],
        rows=100,
        zeros=NONE,
        rng=np.random.default_rng(0),
    )
    # Both say it with variance 5: the pair adds up five cells of variance 1.
    np.testing.assert_allclose(found.tables[0].values, [65, 35])
    np.testing.assert_allclose(found.tables[1].values, np.full(5, 20))


def fits(data, name, values):
    seen = np.bincount(data.column(name), minlength=values.size)
    return stats.chisquare(seen, values / values.sum() * data.rows).pvalue > FALSE_ALARM


def test_columns_that_a_rule_ties_together_keep_their_tables():
    zeros = StructuralZeros((Rule(("c", "b"), (tuple(range(30)), (0, 1)), "many rows"),))
    fitted = model(zeros)
    free = model().sample(50_000, rng=np.random.default_rng(1))
    assert zeros.violations(free).mean() > 0.05
    data = fitted.sample(50_000, rng=np.random.default_rng(1))
    assert not zeros.violations(data).any()
    for name, table in zip(DOMAIN.columns, fitted.tables, strict=True):
        assert fits(data, name, table.values)
        np.testing.assert_allclose(fitted.project((name,)), table.values, atol=1)
    assert [block.clique for block in fitted.blocks] == [("a",), ("b", "c")]


def test_a_projection_knows_the_rules():
    zeros = StructuralZeros((Rule(("a", "b"), ((1,), (0, 1, 2)), "rule"),))
    fitted = model(zeros)
    found = fitted.project(("b", "c", "a"))
    assert found.shape == (5, 70, 2)
    assert found.sum() == pytest.approx(1000)
    assert (found[:3, :, 1] == 0).all()
    # The third column is independent of the two.
    np.testing.assert_allclose(
        found, np.einsum("ba,c->bca", fitted.project(("b", "a")), fitted.project(("c",))) / 1000
    )


def test_rows_are_independent_draws_among_rules_so_pieces_are_like_the_whole():
    zeros = StructuralZeros((Rule(("a", "b"), ((1,), (0, 1, 2)), "rule"),))
    fitted = model(zeros)
    assert fitted.streams
    rng = np.random.default_rng(3)
    seen = np.zeros((2, 5))
    for _ in range(2000):
        piece = fitted.sample(5, rng=rng)
        np.add.at(seen, (piece.column("a"), piece.column("b")), 1)
    expected = fitted.project(("a", "b"))
    kept = expected > 0
    assert seen[~kept].sum() == 0
    expected = expected[kept] / expected.sum() * seen.sum()
    assert stats.chisquare(seen[kept], expected).pvalue > FALSE_ALARM


def test_a_block_too_large_to_hold_is_mended(monkeypatch):
    monkeypatch.setattr(independent, "MOST_CELLS", 5)
    zeros = StructuralZeros((Rule(("a", "b"), ((1,), (0, 1, 2)), "rule"),))
    fitted = model(zeros)
    assert [block.clique for block in fitted.blocks] == [("a",), ("b",), ("c",)]
    assert not zeros.violations(fitted.sample(5000, rng=np.random.default_rng(1))).any()


def test_levels_that_the_rules_exclude_altogether_hold_nothing():
    zeros = StructuralZeros((Rule(("a", "b"), ((0, 1), (0, 3)), "no b = 0, 3"),))
    given = [
        noisy_table(DOMAIN.project((n,)), np.full(s, 700 // s))
        for n, s in zip(DOMAIN.columns, DOMAIN.sizes, strict=True)
    ]
    found = Independent().fit(DOMAIN, given, rows=700, zeros=zeros, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.tables[1].values, [0, 700 / 3, 700 / 3, 0, 700 / 3])
    np.testing.assert_allclose(found.project(("b",)), found.tables[1].values, atol=0.01)
