from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dct

from dp_core.kernel.extensions import cosine_tails
from dp_core.kernel.extensions.cosine_tails import CosineTails
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.linear_questions import GRID
from dp_core.kernel.questions.vetted import required
from dp_core.kernel.questions.whole_numbers import MOST
from tests.dp_core.kernel.questions.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    says_what_it_needs,
    values,
)

COLUMNS = ("x",)
EDGES = (0, 1, 3, 4, 7, 8)
histograms = st.lists(st.integers(0, 30), min_size=9, max_size=9).map(np.array)


def tails(prices=(0, 0, 0, 0, 0)):
    return CosineTails(column="x", edges=EDGES, prices=prices)


def binned(table):
    return np.add.reduceat(np.asarray(table)[: EDGES[-1]], EDGES[:-1]).astype(float)


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
    monkeypatch.setattr(cosine_tails, "_BLOCK", 64)
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


def test_counts_that_could_overflow_are_exact_and_cut_at_the_end():
    table = np.zeros(9, dtype=np.int64)
    table[0] = 2**50
    assert (values(tails(), table, COLUMNS)[:4] == -MOST).all()


def test_sensitivities_follow_from_what_a_receipt_says():
    says_what_it_needs(tails())
    for length in (-1, 1.0, True, "2"):
        with pytest.raises((ValueError, TypeError)):
            required({**tails().to_json(), "length": length}, Relation("add-remove"))


def test_prices_and_bins_that_are_none_are_refused():
    for prices in ((), (0,) * 6, (-1,)):
        with pytest.raises(ValueError, match=r"prices|Prices"):
            tails(prices)
    for edges in ((1, 8), (0, 3, 3), (0,)):
        with pytest.raises(ValueError, match="Edges"):
            CosineTails(column="x", edges=edges, prices=(0,))
