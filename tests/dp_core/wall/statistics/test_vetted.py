from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.tables.domain import Domain
from dp_core.tables.marginal import Marginal
from dp_core.wall.statistics import InDif
from tests.full import examples

PAIR = InDif((("a", "b"),))


def indif(table):
    table = np.asarray(table, dtype=np.int64)
    domain = Domain(("a", "b"), table.shape)
    return int(PAIR.compute({("a", "b"): Marginal(domain, table)})[0])


def test_perfect_dependence_of_twenty_rows_is_twenty():
    assert indif([[10, 0], [0, 10]]) == 20


def test_independence_is_zero_and_so_is_an_empty_table():
    assert indif([[2, 4], [3, 6]]) == 0
    assert indif([[0, 0], [0, 0]]) == 0


@given(
    st.integers(2, 4).flatmap(
        lambda k: st.lists(
            st.lists(st.integers(0, 30), min_size=k, max_size=k), min_size=2, max_size=4
        )
    )
)
def test_it_is_the_rounded_distance_from_independence(rows):
    table = np.array(rows, dtype=float)
    n = table.sum()
    exact = np.abs(table - np.outer(table.sum(1), table.sum(0)) / n).sum() if n else 0.0
    assert abs(indif(rows) - exact) <= 0.5 + 1e-9


@settings(max_examples=examples(300))
@given(
    table=st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=3, max_size=3),
    cell=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    other=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_one_row_moves_it_by_no_more_than_its_sensitivity(table, cell, other):
    before = np.array(table)
    added = before.copy()
    added[cell] += 1
    assert abs(indif(added) - indif(before)) <= PAIR.largest_change("add-remove")
    if before[other]:
        replaced = added.copy()
        replaced[other] -= 1
        assert abs(indif(replaced) - indif(before)) <= PAIR.largest_change("replace-one")


def test_the_sensitivity_is_no_larger_than_it_has_to_be():
    """Neighbours that come within one record of the bound: half of it would be wrong."""
    dependent = np.diag([0, 40, 0]) + np.diag([40, 0, 0])
    added = dependent.copy()
    added[0, 2] += 1
    worst = 0
    for k in (2, 3, 8):
        table = np.zeros((k, k), dtype=np.int64)
        table[0, 0] = 60
        other = table.copy()
        other[1, 1] += 1
        worst = max(worst, abs(indif(other) - indif(table)))
    assert worst >= 3


@pytest.mark.parametrize("rows", [10**6, 2**31 - 1, 2**31, 2**33])
def test_it_is_exact_for_any_number_of_rows(rows):
    half = rows // 2
    table = [[half, 0], [0, rows - half]]
    whole = half * (rows - half)
    exact = (2 * 4 * whole + rows) // (2 * rows)  # the sum of |n M - M M'| is 4 half (n - half)
    assert indif(table) == exact
