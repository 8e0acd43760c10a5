from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.interactions import steps_of_a_record
from dp_core.client.released import Totals
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates import shrinkage
from dp_core.methods.reconstruction.estimates.consistency import discrepancy
from dp_core.methods.reconstruction.estimates.shrinkage import shrunk
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.measured import NONE, noisy_sums, noisy_table

DOMAIN = Domain(("a", "b", "c", "d"), (6, 8, 5, 3))


def joint(seed=0):
    """Records with one strong pair, a skewed column and the rest nearly independent."""
    rng = np.random.default_rng(seed)
    skewed = np.array([0.8, 0.1, 0.05, 0.03, 0.01, 0.005, 0.004, 0.001])
    table = np.multiply.outer(np.ones(6) / 6, np.multiply.outer(skewed, np.ones((5, 3)) / 15))
    table *= np.exp(0.8 * rng.normal(size=(6, 1, 5, 1)))
    return np.round(table / table.sum() * 20_000)


def exact(clique):
    return summed(joint(), DOMAIN, clique)


def measured(clique, stddev, seed=0):
    rng = np.random.default_rng([seed, *DOMAIN.axes(clique)])
    values = np.rint(exact(clique) + rng.normal(0, stddev, DOMAIN.project(clique).sizes))
    return noisy_table(DOMAIN.project(clique), values.astype(np.int64), scale=stddev)


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


def test_the_one_free_cell_of_a_binary_pair_is_believed_and_larger_tables_are_not():
    # A weak dependence, far below the noise: shrinking it in every pair alike would add up.
    domain = Domain(("a", "b", "c"), (2, 2, 3))

    def given(clique, values):
        exact = np.asarray(values, dtype=np.int64)
        return noisy_table(domain.project(clique), exact, scale=400.0)

    ones = [given(("a",), [2000, 2000]), given(("b",), [2000, 2000])]
    pair = given(("a", "b"), [[1100, 900], [900, 1100]])
    tables, _ = shrunk(domain, [*ones, pair], rows=4000, zeros=NONE)
    np.testing.assert_allclose(tables[-1].values, pair.values, rtol=1e-9)
    wide = given(("a", "c"), [[700, 650, 650], [650, 650, 700]])
    tables, _ = shrunk(domain, [*ones, wide], rows=4000, zeros=NONE)
    independent = tables[-1].values.sum(axis=1, keepdims=True) * tables[-1].values.sum(axis=0)
    left = np.abs(tables[-1].values - independent / 4000).max()
    assert left < 0.5 * np.abs(wide.values - 2000 * wide.values.sum(axis=0) / 4000).max()


def interaction(clique, stddev, seed=0):
    """What a table says beyond its margins, with noise like that of a whole table."""
    sizes = DOMAIN.project(clique).sizes
    of = Interaction(clique, sizes)
    scale = stddev * steps_of_a_record(of)
    rng = np.random.default_rng([seed, 7, *DOMAIN.axes(clique)])
    noise = np.rint(rng.normal(0, scale, of.length)).astype(np.int64)
    values = of.of_table(np.ascontiguousarray(exact(clique)).astype(np.int64)) + noise
    return Totals(of, values, noise="gaussian", scale=scale, stage="measure", replicate=0, grant=1)


ONES = [(name,) for name in DOMAIN.columns]


def test_without_noise_interactions_are_the_rest_of_the_tables():
    larger = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "a", "b"), ("d", "b")]
    tables, rows = shrunk(
        DOMAIN,
        [measured(clique, 1e-3) for clique in ONES],
        rows=None,
        zeros=NONE,
        interactions=[interaction(clique, 1e-3) for clique in larger],
    )
    assert rows == joint().sum()
    wanted = [*ONES, ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c"), ("b", "d")]
    assert [table.clique for table in tables] == wanted
    for table in tables:
        np.testing.assert_allclose(table.values, exact(table.clique), atol=0.5)


def test_a_columns_interaction_is_averaged_with_its_table():
    def error(**more):
        tables, _ = shrunk(
            DOMAIN, [measured(clique, 60.0) for clique in ONES], rows=20_000, zeros=NONE, **more
        )
        return np.abs(tables[0].values - exact(("a",))).sum()

    precise = error(interactions=[interaction(("a",), 1.0)])
    useless = error(interactions=[interaction(("a",), 1e6)])
    assert 3 * precise < error()
    assert useless == pytest.approx(error(), rel=1e-3)


def test_a_table_and_its_interaction_are_averaged_by_their_noise():
    ones = [measured(clique, 1e-3) for clique in ONES]

    def error(table, alone):
        tables, _ = shrunk(
            DOMAIN,
            [*ones, measured(("a", "c"), table)],
            rows=None,
            zeros=NONE,
            interactions=[interaction(("a", "c"), alone)],
            believe=True,
        )
        return np.square(tables[4].values - exact(("a", "c"))).sum()

    assert error(20.0, 1e6) == pytest.approx(error(20.0, 1e9), rel=1e-3)
    assert error(1e6, 20.0) == pytest.approx(error(1e9, 20.0), rel=1e-3)
    both = error(20.0, 20.0)
    assert both < 0.8 * min(error(20.0, 1e9), error(1e9, 20.0))


def test_impossible_cells_hold_nothing_of_an_interaction():
    zeros = StructuralZeros((Rule(("b", "c"), ((0, 1), (2,)), "rule"),))
    tables, _ = shrunk(
        DOMAIN,
        [measured(clique, 30.0) for clique in ONES],
        rows=None,
        zeros=zeros,
        interactions=[interaction(("c", "b"), 30.0)],
    )
    assert tables[4].clique == ("b", "c")
    assert (tables[4].values[:2, 2] == 0).all()


def test_many_binary_pairs_learn_from_each_other_how_much_to_believe():
    names = tuple("abcdefghijkl")
    domain = Domain(names, (2,) * 12)
    rng = np.random.default_rng(5)
    ones = [
        noisy_table(domain.project((n,)), np.array([5000, 5000]), scale=1e-3, stage="one_way")
        for n in names
    ]
    noise = {pair: int(rng.normal(0, 300)) for pair in itertools.combinations(names, 2)}

    def deviation(pairs):
        found = [Interaction(pair, (2, 2)) for pair in pairs]
        made = []
        for of in found:
            cell = noise[of.columns]
            exact = of.of_table(np.array([[2500 + cell, 2500 - cell], [2500 - cell, 2500 + cell]]))
            made.append(noisy_sums(of, exact, scale=600 * steps_of_a_record(of)))
        tables, _ = shrunk(domain, ones, rows=10_000, zeros=NONE, interactions=made, together=False)
        return np.mean([abs(table.values[0, 0] - 2500) for table in tables[12:]])

    pure_noise = np.mean(np.abs(list(noise.values())))
    assert deviation(list(noise)) < 0.35 * pure_noise
    alone = list(noise)[:3]
    assert deviation(alone) == pytest.approx(
        np.mean([abs(noise[pair]) for pair in alone]), rel=0.01
    )


def test_pairs_tell_each_other_what_noise_is_left_in_them(monkeypatch):
    monkeypatch.setattr(shrinkage, "enough", lambda *_: True)
    seen = {}

    def common(_, pairs, __):
        seen.update(pairs)
        return {clique: np.zeros_like(pair.residual) for clique, pair in pairs.items()}

    monkeypatch.setattr(shrinkage, "common_part", common)
    shrunk(
        DOMAIN,
        [
            *(measured(clique, 1e-3) for clique in ONES),
            *(measured(clique, 30.0) for clique in (("a", "b"), ("a", "c"))),
        ],
        rows=None,
        zeros=NONE,
        interactions=[interaction(("a", "c"), 60.0), interaction(("b", "d"), 20.0)],
    )
    sizes = dict(zip(DOMAIN.columns, DOMAIN.sizes, strict=True))
    wanted = {("a", "b"): 900.0, ("a", "c"): 720.0, ("b", "d"): 400.0}  # 1 / (1/900 + 1/3600)
    assert set(seen) == set(wanted)
    for (one, two), variance in wanted.items():
        free = (1 - 1 / sizes[one]) * (1 - 1 / sizes[two])
        assert seen[one, two].variance == pytest.approx(free * variance, rel=1e-6)
