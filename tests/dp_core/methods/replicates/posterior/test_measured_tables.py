from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.interactions import steps_of_a_record
from dp_core.client.released import Totals
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.replicates.posterior import larger_draws
from dp_core.methods.replicates.posterior.posterior_tables import measured_tables
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.measured import NONE, discrepancy, noisy_sums, noisy_table

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


def central(measurements, *, rows=None, zeros=NONE, interactions=(), domain=DOMAIN):
    rng = np.random.default_rng(0)
    released = [*measurements, *interactions]
    return measured_tables(FitInputs(domain, released, rows, zeros, rng))


CLIQUES = [("a",), ("b",), ("c",), ("d",), ("a", "b"), ("a", "c"), ("b", "c"), ("b", "c", "d")]


def test_without_noise_the_tables_are_the_measured_ones():
    tables, rows = central([measured(clique, 1e-3) for clique in CLIQUES])
    assert rows == joint().sum()
    for table in tables:
        np.testing.assert_allclose(table.values, exact(table.clique), atol=0.1)


def test_columns_come_first_then_the_larger_tables_and_all_agree():
    tables, rows = central([measured(clique, 60.0) for clique in CLIQUES])
    within = [("b", "d"), ("c", "d")]
    assert [table.clique for table in tables] == [*CLIQUES[:-1], *within, CLIQUES[-1]]
    assert discrepancy(tables) < 0.02
    for table in tables:
        assert (table.values >= 0).all()
        assert table.values.sum() == pytest.approx(rows)


def test_impossible_cells_hold_nothing():
    zeros = StructuralZeros((Rule(("b", "c"), ((0, 1), (2,)), "rule"),))
    tables, _ = central([measured(clique, 30.0) for clique in CLIQUES], zeros=zeros)
    for table in tables:
        assert (table.values[zeros.mask(table.domain)] == 0).all()


def test_a_column_without_a_measurement_is_uniform():
    tables, rows = central([measured(("a", "b"), 5.0)])
    assert [table.clique for table in tables] == [*[(n,) for n in "abcd"], ("a", "b")]
    np.testing.assert_allclose(tables[2].values, np.full(5, rows / 5))


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
    tables, rows = central(
        [measured(clique, 1e-3) for clique in ONES],
        interactions=[interaction(clique, 1e-3) for clique in larger],
    )
    assert rows == joint().sum()
    wanted = [*ONES, ("a", "b"), ("a", "c"), ("b", "c"), ("b", "d"), ("a", "b", "c")]
    assert [table.clique for table in tables] == wanted
    for table in tables:
        np.testing.assert_allclose(table.values, exact(table.clique), atol=0.5)


def test_a_columns_interaction_is_averaged_with_its_table():
    def error(**more):
        tables, _ = central([measured(clique, 60.0) for clique in ONES], rows=20_000, **more)
        return np.abs(tables[0].values - exact(("a",))).sum()

    precise = error(interactions=[interaction(("a",), 1.0)])
    useless = error(interactions=[interaction(("a",), 1e6)])
    assert 3 * precise < error()
    assert useless == pytest.approx(error(), rel=1e-3)


def test_impossible_cells_hold_nothing_of_an_interaction():
    zeros = StructuralZeros((Rule(("b", "c"), ((0, 1), (2,)), "rule"),))
    tables, _ = central(
        [measured(clique, 30.0) for clique in ONES],
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
        tables, _ = central(ones, rows=10_000, interactions=made, domain=domain)
        return np.mean([abs(table.values[0, 0] - 2500) for table in tables[12:]])

    pure_noise = np.mean(np.abs(list(noise.values())))
    assert deviation(list(noise)) < 0.35 * pure_noise


def test_a_table_with_too_many_cells_is_known_by_its_pairs(monkeypatch):
    monkeypatch.setattr(larger_draws, "MOST_CELLS", 100)
    tables, _ = central([measured(("b", "c", "d"), 1e-3), measured(("a", "c", "d"), 1e-3)])
    pairs = [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    assert [table.clique for table in tables] == [*ONES, *pairs, ("a", "c", "d")]
    for table in tables:
        np.testing.assert_allclose(table.values, exact(table.clique), atol=0.1)
