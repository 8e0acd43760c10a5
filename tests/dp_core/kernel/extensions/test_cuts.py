from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.kernel.extensions.cuts import CutDeviations
from dp_core.kernel.privacy import Relation
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
EDGES = (0, 1, 2, 4, 5, 6, 8)  # the ninth code might mean missing
FORMS = [(0, 6, 1, None), (1, 5, 1, 3), (0, 6, 3, None), (0, 5, 2, 0)]
histograms = st.lists(st.integers(0, 9), min_size=9, max_size=9).map(np.array)


def scores(low=0, high=6, left=1, price=None):
    return CutDeviations(column="x", edges=EDGES, low=low, high=high, left=left, price=price)


def deviation(counts):
    return float(np.abs(counts - np.median(counts)).sum())


def by_hand(counts, left, price):
    """Return the scores from every partition, one by one."""
    found = []
    for cut in range(left, len(counts)):
        least = min(
            sum(deviation(run) for run in np.split(counts[:cut], cuts))
            for cuts in itertools.combinations(range(1, cut), left - 1)
        )
        found.append(-least - deviation(counts[cut:]) - (price or 0))
    return found if price is None else [*found, -deviation(counts)]


@settings(max_examples=60)
@given(table=histograms, form=st.sampled_from(FORMS))
def test_scores_are_the_deviations_from_medians_of_the_best_partition(table, form):
    low, high, left, price = form
    bins = np.add.reduceat(table[:8], EDGES[:-1])[low:high]
    found = values(scores(*form), table, COLUMNS)
    assert found.dtype == np.int64
    assert found.tolist() == by_hand(bins, left, price)
    assert scores(*form).length == len(found)


def test_the_best_cut_is_where_the_counts_change():
    table = np.array([5, 5, 3, 2, 40, 40, 20, 20, 7])
    assert values(scores(price=4), table, COLUMNS).tolist() == [-74, -39, -4, -39, -74, -105]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", range(3))
def test_no_small_file_moves_a_score_further_than_proven(relation, form, rows):
    far = furthest(scores(*form), all_tables((9,), rows), COLUMNS, relation)
    assert far <= scores(*form).largest_change(relation)


@settings(max_examples=30)
@given(table=histograms, form=st.sampled_from(FORMS))
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_file_moves_a_score_further_than_proven(relation, table, form):
    statistic = scores(*form)
    assert furthest(statistic, [table], COLUMNS, relation) <= statistic.largest_change(relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("form", FORMS)
def test_the_bound_is_reached_so_one_smaller_would_be_wrong(relation, form):
    tables = [np.array([2, 9, 0, 7, 1, 8, 0, 6, 3]), np.array([9, 9, 9, 0, 9, 9, 0, 9, 0])]
    found = furthest(scores(*form), tables, COLUMNS, relation)
    assert found == scores(*form).largest_change(relation)


def test_counts_that_could_overflow_are_exact_and_cut_at_the_end():
    table = np.array([2**62, 0, 0, 0, 2**62, 0, 0, 0, 0])
    found = values(scores(left=2), table, COLUMNS)
    assert found.dtype == np.int64
    assert found.tolist() == [-MOST, -MOST, -MOST, -MOST]


def test_sensitivities_follow_from_what_a_receipt_says():
    for form in FORMS:
        says_what_it_needs(scores(*form))
    for length in (-1, 1.0, True, "2"):
        with pytest.raises((ValueError, TypeError)):
            required({**scores().to_json(), "length": length}, Relation("add-remove"))


def test_ranges_edges_and_prices_that_are_none_are_refused():
    for change in ({"low": 5}, {"low": -1}, {"high": 7}, {"left": 0}, {"left": 6}, {"price": -1}):
        with pytest.raises(ValueError, match=r"range|price"):
            scores(**change)
    for edges in ((1, 2, 3), (0, 2, 2)):
        with pytest.raises(ValueError, match="Edges"):
            CutDeviations(column="x", edges=edges, low=0, high=2)
