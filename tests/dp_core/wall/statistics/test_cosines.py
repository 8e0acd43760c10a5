from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dct

from dp_core.schema.privacy import Relation
from dp_core.wall.statistics import CosineSums, CosineTails, required
from dp_core.wall.statistics.histograms import cosines
from dp_core.wall.statistics.histograms.cosines import GRID
from dp_core.wall.statistics.whole_numbers import MOST
from tests.dp_core.wall.statistics.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    says_what_it_needs,
    values,
)

COLUMNS = ("x",)
EDGES = (0, 1, 3, 4, 7, 8)
histograms = st.lists(st.integers(0, 30), min_size=9, max_size=9).map(np.array)


def sums(kept=3, size=9):
    return CosineSums(column="x", size=size, edges=EDGES, kept=kept)


def tails(prices=(0, 0, 0, 0, 0)):
    return CosineTails(column="x", edges=EDGES, prices=prices)


def totals(statistic, table):
    cells = np.flatnonzero(table)
    return statistic.total(cells[:, None].astype(np.uint16), np.asarray(table)[cells])


def binned(table):
    return np.add.reduceat(np.asarray(table)[: EDGES[-1]], EDGES[:-1]).astype(float)


@given(table=histograms, kept=st.integers(1, 5))
def test_sums_are_the_cosine_transform_and_the_number_of_missing_values(table, kept):
    found = totals(sums(kept), table)
    np.testing.assert_allclose(
        found[:-1] / GRID, dct(binned(table))[:kept] / 2, atol=table.sum() / GRID
    )
    assert found[-1] == GRID * table[8]
    assert sums(kept, size=8).length == kept


@given(table=histograms)
def test_all_coefficients_give_the_histogram_back(table):
    found = sums(5).histogram(totals(sums(5), table).astype(float))
    np.testing.assert_allclose(found, binned(table), atol=1e-3)


@given(table=histograms)
def test_a_tail_is_the_norm_of_the_coefficients_that_are_left_out(table):
    found = values(tails((0, 1, 2, 3, 4)), table, COLUMNS)
    orthonormal = dct(binned(table), norm="ortho")
    expected = [-GRID * np.linalg.norm(orthonormal[kept:]) - kept + 1 for kept in range(1, 6)]
    assert found.dtype == np.int64
    np.testing.assert_allclose(found, expected, atol=2 + 2 * table.sum())
    assert found[4] == -4


def test_long_histograms_are_transformed_in_blocks(monkeypatch):
    edges = tuple(range(301))
    statistic = CosineTails(column="x", edges=edges, prices=(0,) * 300)
    table = np.arange(300) % 7
    whole = values(statistic, table, COLUMNS)
    monkeypatch.setattr(cosines, "_BLOCK", 64)
    assert np.array_equal(values(statistic, table, COLUMNS), whole)


# -- sensitivities


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", range(3))
def test_no_small_file_moves_a_tail_further_than_proven(relation, rows):
    assert furthest(tails(), all_tables((9,), rows), COLUMNS, relation) <= tails().largest_change(
        relation
    )


@settings(max_examples=30)
@given(table=histograms)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_file_moves_a_tail_further_than_proven(relation, table):
    assert furthest(tails(), [table], COLUMNS, relation) <= tails().largest_change(relation)


@pytest.mark.parametrize(("relation", "norm"), [("add-remove", 1), ("replace-one", math.sqrt(2))])
def test_the_bound_of_a_tail_is_nearly_reached(relation, norm):
    """With many bins C_0 is a small part of a record, so nearly all of it is in the tail."""
    statistic = CosineTails(column="x", edges=tuple(range(257)), prices=(0,))
    table = np.full(256, 1_000)
    # One bin is far above the others and one as far below, so a record there moves the norm most.
    table[3], table[9] = 2_000, 0 if relation == "replace-one" else 1_000
    other = table.copy()
    other[3] -= 1
    other[9] += relation == "replace-one"
    change = abs(int((values(statistic, other, COLUMNS) - values(statistic, table, COLUMNS))[0]))
    assert statistic.largest_change(relation) == pytest.approx(norm * GRID, abs=5)
    assert 0.99 * norm * GRID < change <= statistic.largest_change(relation)


@pytest.mark.parametrize("kept", [1, 2, 5])
@pytest.mark.parametrize("size", [8, 9])
def test_no_two_records_are_further_apart_in_the_sums_than_proven(kept, size):
    statistic = sums(kept, size)
    one = [totals(statistic, row).astype(object) for row in np.eye(size, dtype=np.int64)]
    for row in one:
        assert np.abs(row).sum() <= statistic.l1("add-remove")
        assert (row**2).sum() <= statistic.l2_squared("add-remove")
    for row, other in itertools.combinations(one, 2):
        assert np.abs(row - other).sum() <= statistic.l1("replace-one")
        assert ((row - other) ** 2).sum() <= statistic.l2_squared("replace-one")


def test_the_bound_of_the_sums_is_nearly_reached_with_many_bins():
    statistic = CosineSums(column="x", size=512, edges=tuple(range(513)), kept=8)
    first = totals(statistic, np.eye(512, dtype=np.int64)[0]).astype(object)
    assert 0.99 * statistic.l1("add-remove") < np.abs(first).sum() <= statistic.l1("add-remove")
    squares = int((first**2).sum())
    assert 0.99 * statistic.l2_squared("add-remove") < squares


def test_a_cosine_beyond_1_cannot_raise_a_sum_beyond_its_bound(monkeypatch):
    monkeypatch.setattr(np, "cos", lambda angles: np.full(np.shape(angles), 1.01))
    found = totals(sums(), np.eye(9, dtype=np.int64)[0])
    assert np.abs(found).sum() == sums().l1("add-remove")


def test_counts_that_could_overflow_are_exact_and_cut_at_the_end():
    table = np.zeros(9, dtype=np.int64)
    table[0] = 2**50
    found = totals(sums(), table)
    assert found.tolist() == [MOST, MOST, MOST, 0]
    assert (values(tails(), table, COLUMNS)[:4] == -MOST).all()


def test_sensitivities_follow_from_what_a_receipt_says():
    says_what_it_needs(tails())
    says_what_it_needs(sums())
    for length in (-1, 1.0, True, "2"):
        with pytest.raises((ValueError, TypeError)):
            required({**tails().to_json(), "length": length}, Relation("add-remove"))


def test_bins_coefficients_and_prices_that_are_none_are_refused():
    for change in ({"kept": 0}, {"kept": 6}, {"size": 7}, {"size": 10}, {"edges": (1, 8)}):
        with pytest.raises(ValueError, match=r"bins|coefficients"):
            CosineSums(**{"column": "x", "size": 9, "edges": EDGES, "kept": 1, **change})
    for prices in ((), (0,) * 6, (-1,)):
        with pytest.raises(ValueError, match=r"prices|Prices"):
            tails(prices)
