"""Sums over areas within areas, against generalised least squares on the whole joint table."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy.linalg import null_space

from dp_core.client.interactions import cell_variance, implied_table, steps_of_a_record
from dp_core.client.released import Measurement, Totals
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates import functional_noise
from dp_core.methods.reconstruction.estimates.functional_noise import (
    cells,
    fourth_cumulant,
    half_widths,
)
from dp_core.methods.reconstruction.estimates.functional_terms import Functionals
from dp_core.methods.reconstruction.estimates.pooled_functionals import (
    covariance,
    estimate,
    unobserved,
)
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.methods.reconstruction.estimates.table_parts import beyond
from dp_core.tables.nested_columns import NestedColumns

COUNTIES, REGIONS = (0, 0, 0, 1, 2, 2, 3, 3), (0, 0, 0, 1)
NESTED = NestedColumns(("region", "county", "district"), (REGIONS, COUNTIES))
DOMAIN = Domain(("age", "district", "region", "sex", "county"), (3, 8, 2, 2, 4), nested=NESTED)
FREE = ("age", "district", "sex")
SHAPE = DOMAIN.project(FREE).sizes
TRUTH = np.random.default_rng(4).integers(0, 400, SHAPE)


def of_district(name):
    """For each level of a column of areas, its districts, shape (levels, 8)."""
    if name == "district":
        return np.eye(8)
    return np.eye(DOMAIN.size((name,)))[:, NESTED.map(name, "district")]


def seen(clique):
    """The matrix of a table on the joint table of age, district and sex."""
    found = np.eye(1)
    for name in FREE:
        places = [each for each in clique if each in NESTED.columns]
        if name == "district":
            own = of_district(places[0]) if places else np.ones((1, 8))
        else:
            size = DOMAIN.size((name,))
            own = np.eye(size) if name in clique else np.ones((1, size))
        found = np.kron(found, own)
    return found


def ordered(clique):
    """Columns as in the rows of `seen`: age, areas, sex."""
    return tuple(
        sorted(clique, key=lambda name: 1.0 if name in NESTED.columns else 2 * (name > "b"))
    )


def table(clique, stddev, noise="gaussian", shift=0):
    domain = DOMAIN.project(ordered(clique))
    values = (seen(clique) @ TRUTH.ravel()).reshape(domain.sizes).astype(np.int64)
    values = values + np.random.default_rng(len(clique) + shift).integers(-9, 9, values.shape)
    return Measurement(domain, values, noise=noise, scale=stddev, stage="measure", grant=1)


def interaction(clique, stddev, noise="gaussian"):
    of = Interaction(ordered(clique), DOMAIN.project(ordered(clique)).sizes)
    values = of.of_table(table(clique, 1.0, shift=3).values)
    return Totals(
        of, values, noise=noise, scale=stddev * steps_of_a_record(of), stage="measure", grant=1
    )


def least_squares(items, asked, rows=None, county=None):
    """Estimates and covariance by the normal equations; None if they are not determined."""
    size = math.prod(SHAPE)
    exact = np.vstack([*([] if county is None else [seen(("county",))]), np.ones((1, size))])
    free, base, told = np.eye(size), np.zeros(size), []
    if rows is not None:
        base = np.linalg.pinv(exact) @ [*([] if county is None else county), rows]
        free = null_space(exact)
    for item in items:
        if isinstance(item, Measurement):
            told.append((seen(item.clique), item.values.ravel(), item.variance))
            continue
        matrix, values = seen(item.of.columns), implied_table(item.of, item.values)
        each = matrix.T.reshape(-1, *item.of.sizes)
        matrix = np.stack([beyond(one) for one in each]).reshape(size, -1).T
        told.append((matrix, values.ravel(), cell_variance(item.of, item.variance)))
    whole = np.vstack([matrix @ free / math.sqrt(variance) for matrix, _, variance in told])
    left = np.concatenate(
        [(values - matrix @ base) / math.sqrt(variance) for matrix, values, variance in told]
    )
    inverse, own = np.linalg.pinv(whole, rcond=1e-9), asked @ free
    if np.abs(own @ inverse @ whole - own).max() > 1e-6:
        return None
    return asked @ base + own @ inverse @ left, own @ inverse @ inverse.T @ own.T


def on_joint(functionals):
    """The functionals as a matrix on the joint table."""
    given = dict(zip(functionals.columns, functionals.weights, strict=True))
    rows = []
    for choice in itertools.product(*(range(len(each)) for each in functionals.weights)):
        row = np.eye(1)
        picked = dict(zip(functionals.columns, choice, strict=True))
        for name in FREE:
            if name == "district":
                place = next((each for each in picked if each in NESTED.columns), None)
                own = (
                    np.ones(8)
                    if place is None
                    else given[place][picked[place]] @ of_district(place)
                )
            else:
                own = given[name][picked[name]] if name in picked else np.ones(DOMAIN.size((name,)))
            row = np.kron(row, own)
        rows.append(row.ravel())
    return np.array(rows)


OLD = np.array([[0.0, 1, 1], [1, 0, 0]])
ASKED = {
    "all": Functionals((), ()),
    "old": Functionals(("age",), (OLD,)),
    "values of regions": Functionals(("age", "region"), (np.array([[3.0, 4, 9]]), np.eye(2))),
    "old by county": Functionals(("age", "county"), (OLD, np.eye(4))),
    "a county by sex": Functionals(("sex", "county"), (np.eye(2), np.array([[0.0, 1, 1, 0]]))),
    "districts": Functionals(("district",), (np.eye(8),)),
    "old by district": Functionals(("age", "district"), (OLD, np.eye(8))),
    "a region by its districts": Functionals(("district",), (np.array([[1.0] * 7 + [0]]),)),
    "a difference": Functionals(("county",), (np.array([[1.0, -1, 0, 0]]),)),
}
CASES = {
    "two levels": [table(("age", "county"), 20.0), table(("age", "district"), 15.0)],
    "the smallest alone": [table(("age", "district"), 15.0), table(("sex",), 30.0)],
    "the largest and the smallest": [
        *(table(("age", "region"), 10.0), table(("age", "district"), 25.0)),
        *(table(("sex", "county"), 8.0), table(("age", "sex"), 12.0)),
    ],
    "all levels, Laplace noise": [
        *(table(("age", "region"), 10.0, "laplace"), table(("age", "district"), 12.0, "laplace")),
        *(table(("county",), 9.0, "laplace"), table(("age", "sex"), 12.0, "laplace")),
        table(("sex", "county"), 14.0, "laplace"),
    ],
    "interactions": [
        *(table(("age",), 20.0), table(("county",), 10.0), table(("district",), 15.0)),
        *(interaction(("age", "county"), 9.0), interaction(("age", "district"), 12.0)),
        *(interaction(("age",), 6.0), interaction(("district",), 7.0), interaction(("sex",), 7.0)),
    ],
    "interactions, Laplace noise": [
        *(table(("age",), 20.0, "laplace"), table(("county",), 10.0, "laplace")),
        *(
            interaction(("age", "county"), 9.0, "laplace"),
            interaction(("district",), 7.0, "laplace"),
        ),
        *(interaction(("age",), 6.0, "laplace"), table(("sex", "district"), 15.0, "laplace")),
    ],
    "deviations without a sum": [interaction(("county",), 9.0), interaction(("district",), 7.0)],
}


@pytest.mark.parametrize("rows", [None, float(TRUTH.sum())])
@pytest.mark.parametrize("name", CASES)
def test_estimates_and_noise_are_those_of_least_squares_on_the_joint_table(name, rows):
    pooled, known = pool(DOMAIN, CASES[name], rows=rows), 0
    for what, asked in ASKED.items():
        exact = least_squares(CASES[name], on_joint(asked), rows)
        assert (not unobserved(pooled, asked)) == (exact is not None), what
        if exact is None:
            continue
        known += 1
        found = covariance(pooled, asked, asked).ravel()
        np.testing.assert_allclose(found, np.diag(exact[1]), rtol=1e-8, atol=1e-6, err_msg=what)
        found = estimate(pooled, asked).ravel()
        np.testing.assert_allclose(found, exact[0], rtol=1e-9, atol=1e-6, err_msg=what)
    assert known


@pytest.mark.parametrize("name", ["two levels", "interactions"])
def test_public_totals_of_areas_are_exact_and_narrow_the_rest(name):
    county = np.array([900.0, 500, 1200, 800])
    rows, items = float(county.sum()), [*CASES[name], table(("age", "district"), 15.0, shift=1)]
    bare = pool(DOMAIN, items)
    region = of_county("region") @ county
    pooled = dataclasses.replace(bare, rows=rows, known={"county": county, "region": region})
    for what, asked in ASKED.items():
        exact = least_squares(items, on_joint(asked), rows, county)
        if exact is None:
            continue
        variance = covariance(pooled, asked, asked)
        np.testing.assert_allclose(variance.ravel(), np.diag(exact[1]), rtol=1e-8, atol=1e-6)
        np.testing.assert_allclose(estimate(pooled, asked).ravel(), exact[0], atol=1e-6)
        assert (variance <= covariance(bare, asked, asked) * (1 + 1e-9)).all(), what
    counts = Functionals(("county",), (np.eye(4),))
    assert estimate(pooled, counts).tolist() == county.tolist()
    assert half_widths(pooled, counts).tolist() == [0.0] * 4


def of_county(name):
    return np.eye(DOMAIN.size((name,)))[:, NESTED.map(name, "county")]


def test_public_totals_of_another_column_are_exact_too():
    sex = np.array([1500.0, 1700])
    items = CASES["the largest and the smallest"]
    for domain in (DOMAIN, dataclasses.replace(DOMAIN, nested=None)):
        bare = pool(domain, items)
        pooled = dataclasses.replace(bare, rows=3200.0, known={"sex": sex})
        counts = Functionals(("sex",), (np.eye(2),))
        np.testing.assert_allclose(estimate(pooled, counts), sex, rtol=1e-12)
        assert covariance(pooled, counts, counts).tolist() == [0.0, 0.0]
        pair = Functionals(("sex", "county"), (np.eye(2), np.eye(4)))
        assert (covariance(pooled, pair, pair) < covariance(bare, pair, pair)).all()


@pytest.mark.parametrize("name", ["all levels, Laplace noise", "interactions, Laplace noise"])
def test_the_fourth_cumulant_is_the_sum_over_the_noise_of_all_entries(name, monkeypatch):
    items = CASES[name]
    pooled = pool(DOMAIN, items)
    for what in ("old by county", "districts", "old", "a difference", "all"):
        asked = ASKED[what]
        if unobserved(pooled, asked):
            continue
        base, wanted = estimate(pooled, asked), np.zeros(asked.shape)
        for place, item in enumerate(items):
            for entry in range(item.values.size):
                values = item.values.copy()
                values.ravel()[entry] += 1000
                changed = [*items]
                changed[place] = dataclasses.replace(item, values=values)
                effect = (estimate(pool(DOMAIN, changed), asked) - base) / 1000
                wanted += 3 * item.variance**2 * effect**4
        # The contrasts of a measured interaction are rounded to whole numbers.
        np.testing.assert_allclose(fourth_cumulant(pooled, asked), wanted, rtol=5e-3, err_msg=what)
    monkeypatch.setattr(functional_noise, "MOST_EFFECTS", 1)
    asked = ASKED["districts"]
    squares = covariance(pooled, asked, asked) ** 2
    np.testing.assert_allclose(fourth_cumulant(pooled, asked), 3 * squares)


@pytest.mark.parametrize("name", ["two levels", "the largest and the smallest", "interactions"])
@pytest.mark.parametrize("clique", [("district", "age"), ("county",), ("age", "region"), ("age",)])
def test_cells_of_a_table_have_the_counts_and_margins_of_questions(name, clique):
    clique = tuple(each for each in DOMAIN.columns if each in clique)
    pooled = pool(DOMAIN, CASES[name])
    asked = Functionals(clique, tuple(np.eye(size) for size in DOMAIN.project(clique).sizes))
    counts, margins = cells(pooled, clique)
    np.testing.assert_allclose(counts, estimate(pooled, asked), atol=1e-8)
    wanted = half_widths(pooled, asked)
    np.testing.assert_allclose(np.broadcast_to(margins, wanted.shape), wanted, rtol=1e-6)


def test_a_table_of_areas_needs_every_area():
    """The only county of a region has the region's count, but the others are not determined."""
    pooled = pool(DOMAIN, [table(("age", "region"), 9.0)])
    assert cells(pooled, ("county",)) is None
    assert not unobserved(pooled, Functionals(("county",), (np.array([[0.0, 0, 0, 1]]),)))


def test_many_areas_need_no_table_of_pairs_of_areas():
    """A table of all pairs of 20,000 areas would take 3 GB."""
    parents = tuple(np.repeat(np.arange(200), 100).tolist())
    nested = NestedColumns(("county", "district"), (parents,))
    domain = Domain(("county", "district"), (200, 20_000), nested=nested)
    rng, tables = np.random.default_rng(1), []
    for name in domain.columns:
        own = domain.project((name,))
        values = rng.integers(0, 99, own.sizes)
        tables.append(Measurement(own, values, noise="gaussian", scale=5.0, stage="a", grant=1))
    tracemalloc.start()
    counts, margins = cells(pool(domain, tables), ("district",))
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()
    assert counts.shape == margins.shape == (20_000,)
    assert counts.reshape(200, 100).sum() == pytest.approx(
        cells(pool(domain, tables), ("county",))[0].sum()
    )
