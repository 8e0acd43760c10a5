"""Draws of nested columns: tables of all areas agree, and small areas inform larger ones."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.area_parts import summed
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.methods.replicates.posterior.nested_draws import (
    counts_of,
    expected_within,
    in_order,
    observed_pair,
    with_pairs_above,
)
from dp_core.methods.replicates.posterior.pair_prior import Column, of_coordinates
from dp_core.methods.replicates.posterior.posterior_tables import (
    PosteriorTables,
    drawn_pairs,
    undrawn_pairs,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import cliques_of, levels_within
from dp_core.tables.nested_columns import NestedColumns
from tests.measured import noisy_table

# 2 regions, 5 counties, 9 districts, in no order; one county has a single district.
REGION_OF = (1, 0, 1, 0, 0)
COUNTY_OF = (0, 1, 1, 2, 3, 0, 2, 4, 2)
NESTED = NestedColumns(("region", "county", "district"), (REGION_OF, COUNTY_OF))
DOMAIN = Domain(("age", "region", "district", "county", "sex"), (4, 2, 9, 5, 2), nested=NESTED)
PAIRS = tuple(cliques_of(DOMAIN, 2))
ONES = tuple((name,) for name in DOMAIN.columns)
NOTHING = StructuralZeros()


def population(seed, rows=6000):
    """Return codes of records, shape (columns, rows); age and sex depend on the areas."""
    rng = np.random.default_rng(seed)
    district = rng.choice(9, rows, p=rng.dirichlet(np.full(9, 4.0)))
    county = np.array(COUNTY_OF)[district]
    region = np.array(REGION_OF)[county]
    shares = 0.2 + 0.3 * region + rng.uniform(-0.1, 0.1, 9)[district]
    age = rng.binomial(3, shares)
    sex = rng.binomial(1, 0.3 + 0.1 * (district % 3) + 0.1 * (age > 1))
    codes = {"age": age, "region": region, "district": district, "county": county, "sex": sex}
    return np.stack([codes[name] for name in DOMAIN.columns])


def exact(codes, clique):
    sizes = DOMAIN.project(clique).sizes
    cells = np.ravel_multi_index([codes[axis] for axis in DOMAIN.axes(clique)], sizes)
    return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes)


def measured(codes, cliques, scale, rng):
    found = []
    for clique in cliques:
        table = exact(codes, clique)
        noise = np.rint(rng.normal(0, scale, table.shape)).astype(np.int64) if scale else 0
        found.append(noisy_table(DOMAIN.project(clique), table + noise, scale=max(scale, 1e-4)))
    return found


def posterior(released, *, sets=4, zeros=NOTHING, seed=1, **more):
    rng = np.random.default_rng(seed)
    return PosteriorTables.of(DOMAIN, released, sets=sets, rows=None, zeros=zeros, rng=rng, **more)


def by_clique(tables):
    return {table.clique: table.values for table in tables}


def larger_of(clique, upper, lower):
    named = {upper if name == lower else name for name in clique}
    return tuple(name for name in DOMAIN.columns if name in named)


def assert_levels_agree(tables, tolerance):
    """The blocks of every table of smaller areas add up to the table of larger ones."""
    checked = 0
    for upper, lower in itertools.combinations(NESTED.columns, 2):
        for clique, values in tables.items():
            above = larger_of(clique, upper, lower)
            if lower not in clique or above not in tables:
                continue
            sums = summed(values, NESTED.map(upper, lower), axis=clique.index(lower))
            if above != tuple(upper if name == lower else name for name in clique):
                sums = sums.T
            assert sums == pytest.approx(tables[above], abs=tolerance)
            checked += 1
    assert checked >= 9


def test_without_noise_every_set_has_the_exact_tables_of_all_levels():
    codes = population(2)
    found = posterior(measured(codes, [*ONES, *PAIRS], 0.0, np.random.default_rng(0)))
    for tables in (found.draw(1), found.draw(4), found.central_tables()):
        assert {table.clique for table in tables} == {*ONES, *PAIRS}
        for table in tables:
            assert table.values == pytest.approx(exact(codes, table.clique), abs=1.0)


@pytest.mark.parametrize("scale", [3.0, 60.0])
def test_blocks_of_small_areas_add_up_to_the_larger_areas_in_every_set(scale):
    codes = population(3)
    found = posterior(measured(codes, [*ONES, *PAIRS], scale, np.random.default_rng(5)))
    for number, tables in [(n, by_clique(found.draw(n))) for n in range(1, 5)]:
        assert_levels_agree(tables, 0.5)
        total = found.totals[number - 1]
        for values in tables.values():
            assert (values >= 0).all()
            assert values.sum() == pytest.approx(total, rel=1e-3)
    assert_levels_agree(by_clique(found.central_tables()), 0.5)


def test_smaller_areas_that_were_not_measured_follow_the_larger_area():
    codes = population(4, rows=20_000)
    cliques = [*ONES, ("age", "county"), ("age", "region"), ("age", "sex")]
    found = posterior(measured(codes, cliques, 0.0, np.random.default_rng(0)))
    tables = by_clique(found.central_tables())
    ages = tables["age", "county"] / tables["age", "county"].sum(axis=0)
    districts = tables["age", "district"] / tables["age", "district"].sum(axis=0)
    # Differences between districts are unknown, so a prior has them; they are near to the county.
    own = np.abs(districts - ages[:, list(COUNTY_OF)]).mean()
    everywhere = np.abs(districts - ages.mean(axis=1, keepdims=True)).mean()
    assert own < 0.02
    assert everywhere > 4 * own
    for number in (1, 3):
        assert_levels_agree(by_clique(found.draw(number)), 0.5)


def test_areas_that_were_not_counted_share_their_larger_area_evenly():
    codes = population(4)
    cliques = [("age",), ("county",), ("sex",), ("age", "county")]
    found = posterior(measured(codes, cliques, 0.0, np.random.default_rng(0)))
    tables = by_clique(found.central_tables())
    counties = exact(codes, ("county",))
    number = np.bincount(COUNTY_OF)
    even = (counties / number)[list(COUNTY_OF)]
    assert tables["district",] == pytest.approx(even, abs=1.0)
    # Regions are told by their counties, though they were not counted.
    assert tables["region",] == pytest.approx(exact(codes, ("region",)), abs=1.0)
    assert tables["age", "region"] == pytest.approx(exact(codes, ("age", "region")), abs=2.0)


def test_sums_of_small_areas_are_exact_without_noise():
    codes = population(7)
    pooled = pool(DOMAIN, measured(codes, [("district",)], 0.0, np.random.default_rng(0)))
    for name in ("region", "county"):
        told = counts_of(pooled, name)
        assert told is not None
        assert told[0] == pytest.approx(exact(codes, (name,)))
    assert counts_of(pooled, "age") is None


def test_the_interaction_of_larger_areas_follows_from_smaller_ones():
    codes = population(7)
    rng = np.random.default_rng(0)
    direct = pool(DOMAIN, measured(codes, [("age", "region")], 0.0, rng))
    summed_up = pool(DOMAIN, measured(codes, [("age", "district")], 0.0, rng))
    own, other = (observed_pair(each, ("age", "region")) for each in (direct, summed_up))
    assert own is not None
    assert other is not None
    assert other[0] == pytest.approx(own[0], abs=1e-6)
    # Nothing tells of the smaller areas what the larger ones are.
    assert observed_pair(direct, ("age", "district")) is None


def test_larger_areas_come_before_the_areas_within_them():
    assert in_order(None, DOMAIN.columns) == [*DOMAIN.columns]
    order = in_order(NESTED, DOMAIN.columns)
    assert sorted(order) == sorted(DOMAIN.columns)
    assert [name for name in order if name in NESTED.columns] == [*NESTED.columns]


def test_a_pair_is_drawn_with_those_of_its_larger_areas():
    found = with_pairs_above(DOMAIN, [("district", "sex"), ("age", "sex")])
    assert {*found} == {("district", "sex"), ("age", "sex"), ("region", "sex"), ("county", "sex")}
    flat = dataclasses.replace(DOMAIN, nested=None)
    assert with_pairs_above(flat, [("district", "sex")]) == [("district", "sex")]


def test_a_measured_pair_is_drawn_with_larger_areas_beyond_the_limits(monkeypatch):
    from dp_core.methods.replicates.posterior import posterior_tables

    monkeypatch.setattr(posterior_tables, "MOST_PAIRS", 1)
    found = drawn_pairs(DOMAIN, [("age", "district")])
    assert found == (("age", "region"), ("age", "district"), ("age", "county"))
    released = measured(population(2), [*ONES, ("age", "district")], 5.0, np.random.default_rng(0))
    assert {*undrawn_pairs(DOMAIN, released)} == {*PAIRS} - {*found}
    assert {*by_clique(posterior(released).draw(1))} == {*ONES, *found}


def test_expected_counts_keep_the_table_of_the_larger_area():
    children = levels_within(NESTED, "district")
    rows = exact(population(13), ("district",)).astype(float)
    table = exact(population(13), ("county", "age")).astype(float)
    found = expected_within(rows, table, children, np.ones((9, 4), dtype=bool))
    assert found.sum(axis=1) == pytest.approx(rows)
    for block, across in zip(children, table, strict=True):
        assert found[block].sum(axis=0) == pytest.approx(across)
        assert found[block] == pytest.approx(
            np.outer(rows[block], across) / max(across.sum(), 1e-9)
        )


def test_directions_of_small_areas_stay_within_one_larger_area():
    counts = exact(population(13), ("district",)).astype(float)
    children = levels_within(NESTED, "district")
    column = Column.of_areas(counts, children)
    vectors = column.vectors @ np.eye(9 - 5)
    assert vectors.shape == (9, 4)
    assert vectors.T @ vectors == pytest.approx(np.eye(4), abs=1e-12)
    for block in children:
        inside = np.abs(vectors[block]).sum(axis=0) > 1e-12
        others = np.delete(vectors, block, axis=0)
        assert np.abs(others[:, inside]).max(initial=0.0) < 1e-12
        assert vectors[block].sum(axis=0) == pytest.approx(0, abs=1e-12)
    # The variances along them are those of a record's district given its county.
    shares = counts / counts.sum()
    within = 1 - sum((shares[block] ** 2).sum() / shares[block].sum() for block in children)
    assert column.values.sum() == pytest.approx(within, rel=1e-9)


def test_directions_of_very_many_areas_in_one_are_orthonormal_and_sparse():
    rng = np.random.default_rng(3)
    counts = rng.gamma(1.0, 30.0, 1_500)
    children = [np.arange(3), np.arange(3, 1_500)]
    column = Column.of_areas(counts, children)
    vectors = column.vectors
    assert vectors.shape == (1_500, 1_498)
    assert vectors.nnz < 25_000
    np.testing.assert_allclose((vectors.T @ vectors).toarray(), np.eye(1_498), atol=1e-12)
    for block in children:
        np.testing.assert_allclose(vectors[block].sum(axis=0), 0.0, atol=1e-12)
    shares = np.maximum(counts, 0.5) / np.maximum(counts, 0.5).sum()
    covariance = np.zeros((1_500, 1_500))
    for block in children:
        own = shares[block]
        covariance[np.ix_(block, block)] = np.diag(own) - np.outer(own, own) / own.sum()
    dense = vectors.toarray()
    expected = (dense * (covariance @ dense)).sum(axis=0)
    np.testing.assert_allclose(column.values, np.maximum(expected, 1e-12), rtol=1e-9, atol=1e-15)


@pytest.mark.statistical
def test_a_larger_area_of_many_smaller_ones_has_the_variance_of_all_of_them():
    nested = NestedColumns(("county", "district"), ((0, 1, 1, *(2,) * 20),))
    domain = Domain(("county", "district", "edu"), (3, 23, 3), nested=nested)
    rng, runs, scale = np.random.default_rng(14), 2000, 10.0
    clique = ("district", "edu")
    truth = rng.integers(20, 60, (23, 3))
    parents = nested.map("county", "district")
    counts = np.zeros((3, 3))
    np.add.at(counts, parents, truth)
    off, along = np.zeros(3), np.zeros(2)
    column, other = (Column.of(counts.sum(axis=at), np.arange(3.0)) for at in (1, 0))
    for _ in range(runs):
        noisy = truth + np.rint(rng.normal(0, scale, truth.shape)).astype(np.int64)
        table = noisy_table(domain.project(clique), noisy, scale=scale)
        told = pool(domain, [table], rows=int(truth.sum()))
        ones, pairs = counts_of(told, "county"), observed_pair(told, ("county", "edu"))
        assert ones is not None
        assert pairs is not None
        off += (ones[0] - counts.sum(axis=1)) ** 2 / runs
        coordinates = column.vectors.T @ (pairs[0] - beyond(counts)) @ other.vectors
        along += (coordinates**2).mean(axis=1) / runs
    # Districts of a county have independent noise: the variance grows with their number.
    stated = np.ravel(pairs[1])
    assert stated == pytest.approx(scale**2 * np.array([1, 2, 20]))
    assert np.ravel(ones[1]) == pytest.approx(3 * scale**2 * np.array([1, 2, 20]))
    # The draws are brought to the number of records, as the estimates are.
    each = np.ravel(ones[1])
    assert off == pytest.approx(each - each**2 / each.sum(), rel=6 * math.sqrt(2 / runs))
    found = np.ravel(of_coordinates(pairs[1], column, other))
    assert along == pytest.approx(found, rel=6 * math.sqrt(1 / runs))
    assert found.max() > 5 * found.min()
