from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.kernel.extensions.quantile import Quantile
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
PARTS = [(1, 2), (1, 3), (2, 3), (3, 8), (7, 8)]
files = st.lists(st.integers(0, 9), min_size=7, max_size=7).map(np.array)


def quantile(part=1, of=2, low=1, high=6):
    return Quantile(column="x", low=low, high=high, part=part, of=of)


@given(table=files, parts=st.sampled_from(PARTS), low=st.integers(0, 3), more=st.integers(2, 4))
def test_it_is_minus_the_distance_from_the_quantile(table, parts, low, more):
    statistic = quantile(*parts, low=low, high=low + more)
    found = values(statistic, table, COLUMNS)
    inside = table[low : low + more]
    share = Fraction(*parts)
    expected = [
        -abs(int(inside[:cut].sum()) - share * int(inside.sum())) * parts[1]
        for cut in range(1, more)
    ]
    assert found.dtype == np.int64
    assert found.tolist() == expected
    assert statistic.length == len(found)


def test_the_best_cut_is_the_quantile_and_what_is_outside_does_not_count():
    table = np.array([1000, 2, 2, 4, 0, 8, 1000])  # the last code might mean missing
    assert values(quantile(), table, COLUMNS).tolist() == [-12, -8, 0, 0]
    assert values(quantile(1, 4), table, COLUMNS).tolist() == [-8, 0, -16, -16]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("rows", range(4))
def test_no_small_file_moves_it_further_than_proven(relation, parts, rows):
    statistic = quantile(*parts, low=1, high=4)
    far = furthest(statistic, all_tables((5,), rows), COLUMNS, relation)
    bound = statistic.largest_change(relation)
    assert bound == (max(parts[0], parts[1] - parts[0]) if relation == "add-remove" else parts[1])
    assert far <= bound


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("parts", PARTS)
def test_the_bound_is_reached_so_one_smaller_would_be_wrong(relation, parts):
    statistic = quantile(*parts)
    tables = [np.array([0, *row, 0]) for row in ([30, 0, 0, 0, 0], [0, 0, 0, 0, 30])]
    assert furthest(statistic, tables, COLUMNS, relation) == statistic.largest_change(relation)


@settings(max_examples=40)
@given(table=files, parts=st.sampled_from(PARTS))
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_file_moves_it_further_than_proven(relation, table, parts):
    statistic = quantile(*parts)
    assert furthest(statistic, [table], COLUMNS, relation) <= statistic.largest_change(relation)


def test_counts_that_could_overflow_are_exact_and_cut_at_the_end():
    table = np.array([2**60, 2**60, 0])
    found = values(quantile(1, 8, low=0, high=3), table, COLUMNS)
    assert found.dtype == np.int64
    assert found.tolist() == [-MOST, -MOST]  # -6 times 2^60, and -14 times
    small = values(quantile(1, 2, low=0, high=3), table // 8, COLUMNS)
    assert small.tolist() == [0, -(2**58)]


def test_sensitivities_follow_from_what_a_receipt_says():
    for parts in PARTS:
        says_what_it_needs(quantile(*parts))
    for part, of in itertools.product((-1, 0, 2, 3, 1.0, True), (2, 0, -3)):
        document = {**quantile().to_json(), "part": part, "of": of}
        with pytest.raises((ValueError, TypeError)):
            required(document, Relation("add-remove"))


def test_a_range_and_a_fraction_that_are_none_are_refused():
    for change in ({"low": 5}, {"low": -1}, {"part": 0}, {"part": 2}, {"of": 1}):
        with pytest.raises(ValueError, match=r"range|fraction"):
            quantile(**change)
