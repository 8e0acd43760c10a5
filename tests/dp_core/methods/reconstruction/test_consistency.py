from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.consistency import (
    agree,
    column_tables,
    consistent,
    estimate_total,
    estimates,
    norm_sub,
    reconcile,
    shared,
)
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.measured import NONE, discrepancy, noisy_table

DOMAIN = Domain(("a", "b", "c"), (2, 2, 3))


def measured(clique, values, variance=1.0, domain=DOMAIN):
    values = np.asarray(values, dtype=np.int64)
    return noisy_table(domain.project(clique), values, scale=variance**0.5)


def noisy(seed=0, cliques=("ab", "bc", "ac", "a"), domain=DOMAIN, mean=40):
    rng = np.random.default_rng(seed)
    return [
        measured(tuple(clique), rng.integers(-5, mean, domain.project(clique).sizes), 4.0, domain)
        for clique in cliques
    ]


def test_two_tables_agree_on_their_column_as_published():
    tables = estimates(
        DOMAIN,
        [
            measured(("a", "b"), [[10, 2], [4, 8]], 1.0),  # rho 0.5
            measured(("a", "c"), [[9, 5, 3], [2, 6, 1]], 2.0),  # rho 0.25
        ],
        zeros=NONE,
    )
    agree(tables, ("a",))
    np.testing.assert_allclose(tables[0].values, [[10.625, 2.625], [3.625, 7.625]], rtol=1e-12)
    np.testing.assert_allclose(
        tables[1].values, [[7.75, 3.75, 1.75], [2.75, 6.75, 1.75]], rtol=1e-12
    )


@pytest.mark.parametrize(
    ("values", "wanted"), [([3, -1, 2], [2.5, 0, 1.5]), ([5, -1, -2, 0.5], [2.5, 0, 0, 0])]
)
def test_norm_sub_gives_the_published_tables(values, wanted):
    np.testing.assert_allclose(norm_sub(np.array(values, dtype=float)), wanted, rtol=1e-12)


VALUES = arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e4, 1e4))


@given(VALUES, st.floats(0, 1e4))
def test_norm_sub_is_not_negative_and_has_the_total(values, total):
    found = norm_sub(values, total=total)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(total, rel=1e-9, abs=1e-6)


@given(VALUES)
def test_norm_sub_leaves_a_nonnegative_table_alone(values):
    values = np.abs(values)
    np.testing.assert_allclose(norm_sub(values), values, rtol=1e-9, atol=1e-8)


def test_a_total_below_zero_leaves_an_empty_table():
    np.testing.assert_array_equal(norm_sub(np.array([-3.0, 1.0])), [0, 0])


def test_before_the_bounds_reconciling_is_generalised_least_squares():
    measurements = noisy(cliques=("ab", "bc", "ac", "a", "abc", ""))
    tables = estimates(DOMAIN, measurements, zeros=NONE)
    kept = [table for table in tables if table.clique]
    total = estimate_total(tables)
    reconcile(kept, shared([table.clique for table in kept], DOMAIN), total=total)

    rows, wanted = [], []
    for measurement in measurements:
        for cell in itertools.product(*map(range, measurement.domain.sizes)):
            joint = np.zeros(DOMAIN.sizes)
            where = dict(zip(measurement.clique, cell, strict=True))
            joint[tuple(where.get(name, slice(None)) for name in DOMAIN.columns)] = 1
            rows.append(joint.ravel() / measurement.variance**0.5)
            wanted.append(measurement.values[cell] / measurement.variance**0.5)
    best = np.linalg.lstsq(np.array(rows), np.array(wanted), rcond=None)[0].reshape(DOMAIN.sizes)
    for table in kept:
        others = tuple(i for i, name in enumerate(DOMAIN.columns) if name not in table.clique)
        np.testing.assert_allclose(table.values, best.sum(axis=others), rtol=1e-9, atol=1e-9)


def test_tables_of_the_same_columns_are_averaged_by_precision_whatever_their_order():
    tables = estimates(
        DOMAIN,
        [measured(("a", "b"), [[4, 8], [0, 2]], 1.0), measured(("b", "a"), [[8, 0], [0, 6]], 3.0)],
        zeros=NONE,
    )
    assert len(tables) == 1
    np.testing.assert_allclose(tables[0].values, [[5, 6], [0, 3]])
    assert tables[0].variance == pytest.approx(0.75)


def test_the_number_of_rows_is_the_average_of_all_sums_weighted_by_precision():
    tables = estimates(
        DOMAIN, [measured((), 100, 1.0), measured(("a",), [40, 48], 2.0)], zeros=NONE
    )
    # The column's sum has variance 4.
    assert estimate_total(tables) == pytest.approx((100 * 1 + 88 / 4) / 1.25)


def test_subsets_to_agree_on_come_small_first_with_what_intersections_share():
    domain = Domain(tuple("abcde"), (2,) * 5)
    found = shared([("a", "b", "c"), ("b", "c", "d"), ("c", "d", "e"), ("a",)], domain)
    assert found == [("a",), ("c",), ("b", "c"), ("c", "d")]


@given(st.integers(0, 10_000))
def test_consistent_tables_are_not_negative_and_have_the_same_total(seed):
    tables, rows = consistent(DOMAIN, noisy(seed), rows=None, zeros=NONE)
    for table in tables:
        assert (table.values >= 0).all()
        assert table.values.sum() == pytest.approx(rows)


def test_a_public_number_of_rows_is_kept():
    tables, rows = consistent(DOMAIN, noisy(), rows=777, zeros=NONE)
    assert rows == 777
    assert all(table.values.sum() == pytest.approx(777) for table in tables)


def test_impossible_cells_hold_nothing_and_take_no_part_in_sums():
    zeros = StructuralZeros((Rule(("a", "c"), ((0,), (1, 2)), "rule"),))
    tables, _ = consistent(DOMAIN, noisy(), rows=None, zeros=zeros)
    for table in tables:
        assert (table.values[zeros.mask(table.domain)] == 0).all()
    assert discrepancy(tables) < 1.0


def test_a_level_that_is_impossible_in_one_table_is_empty_in_all():
    zeros = StructuralZeros((Rule(("a", "b"), ((1,), (0, 1)), "no a = 1"),))
    columns, rows = column_tables(DOMAIN, noisy(), rows=None, zeros=zeros)
    np.testing.assert_allclose(columns[0].values, [rows, 0])


def test_a_column_that_was_never_measured_is_uniform():
    columns, _ = column_tables(DOMAIN, [measured(("a",), [30, 60])], rows=None, zeros=NONE)
    np.testing.assert_allclose(columns[2].values, [30, 30, 30])


def test_without_any_measurement_there_is_no_total():
    with pytest.raises(ValueError, match="number of records"):
        consistent(DOMAIN, [], rows=None, zeros=NONE)
