from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.counting_queries import Cells, Parities
from dp_core.kernel.questions.query_scores import QueryCounts, QueryDistance, SignedQueries
from dp_core.kernel.questions.statistic import Statistic
from dp_core.kernel.questions.vetted import rebuilt, required
from tests.dp_core.kernel.questions.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    neighbours_of,
    says_what_it_needs,
    values,
)

COLUMNS = ("0", "1", "2")
ALL = tuple(clique for size in range(4) for clique in itertools.combinations(COLUMNS, size))
PARITIES = Parities(ALL[1:7])
CELLS = Cells((("0", "1"), ("0", "1"), ("2",)), ((0, 1), (1, 1), (1,)))
TABLE_C = np.array([10, 20, 30, 5, 8, 12, 6, 9]).reshape(2, 2, 2)
files = st.lists(st.integers(0, 9), min_size=8, max_size=8).map(
    lambda cells: np.array(cells).reshape(2, 2, 2)
)


def change(statistic, before, after):
    return np.abs(values(statistic, after, COLUMNS) - values(statistic, before, COLUMNS))


@pytest.mark.parametrize("queries", [PARITIES, CELLS, Parities(ALL)])
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_row_moves_all_counts_together_by_their_bound_and_no_more(queries, relation):
    statistic = QueryCounts(queries)
    far = max(
        int(change(statistic, TABLE_C, other).sum()) for other in neighbours_of(TABLE_C, relation)
    )
    assert far == statistic.l1(relation) == statistic.l2_squared(relation)


def test_counts_are_those_of_the_queries():
    assert values(QueryCounts(CELLS), TABLE_C, COLUMNS).tolist() == [35, 15, 46]
    assert values(QueryCounts(PARITIES), TABLE_C, COLUMNS).tolist() == [65, 50, 54, 45, 61, 32]


# -- distance from public answers


@given(table=files, answers=st.lists(st.integers(-900, 900), min_size=3, max_size=3))
def test_a_distance_is_that_of_the_count_from_the_answer(table, answers):
    statistic = QueryDistance(CELLS, np.array(answers), 16)
    counts = values(QueryCounts(CELLS), table, COLUMNS)
    expected = np.abs(16 * counts - answers)
    assert values(statistic, table, COLUMNS).tolist() == expected.tolist()


@pytest.mark.parametrize("queries", [PARITIES, CELLS])
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_row_moves_a_distance_by_one_grid_and_no_more(queries, relation):
    statistic = QueryDistance(queries, np.full(queries.length, 3), 8)
    tables = all_tables((2, 2, 2), 2)
    assert furthest(statistic, tables, COLUMNS, relation) == 8
    assert statistic.largest_change(relation) == 8


def test_a_distance_that_does_not_fit_is_the_largest_there_is():
    statistic = QueryDistance(CELLS, np.array([-(2**63), 0, 2**63 - 1]), 2**40)
    found = values(statistic, TABLE_C * 2**30, COLUMNS)
    assert found.tolist() == [2**62, 2**62, 2**62]


# -- signed multiples


def signed(factor=6, signs=(1, -1, 0), offsets=(5, -7, 0)):
    return SignedQueries(CELLS, factor, np.array(offsets), np.array(signs))


@given(table=files)
def test_a_signed_multiple_is_that_of_the_count_less_the_offset(table):
    first, second, _ = values(QueryCounts(CELLS), table, COLUMNS).tolist()
    assert values(signed(), table, COLUMNS).tolist() == [6 * first - 5, 7 - 6 * second, 0]


def test_numbers_beyond_64_bits_are_as_exact_as_the_others():
    huge = 2**62 - 1
    statistic = signed(factor=2**59, signs=(1, -1, 1), offsets=(huge, -huge, huge))
    exact = [35 * 2**59 - huge, huge - 15 * 2**59, 46 * 2**59 - huge]
    found = values(statistic, TABLE_C, COLUMNS).tolist()
    assert found == [max(-(2**62), min(number, 2**62)) for number in exact]
    assert abs(found[1]) < 2**62


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_row_moves_a_signed_multiple_by_its_factor_and_no_more(relation):
    assert furthest(signed(), all_tables((2, 2, 2), 2), COLUMNS, relation) == 6
    assert signed().largest_change(relation) == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: signed(signs=(1, 2, 0)),
        lambda: signed(factor=0),
        lambda: signed(factor=0.5),
        lambda: signed(offsets=(0, 0)),
        lambda: signed(signs=(1.0, 1.0, 1.0)),
    ],
)
def test_signs_and_factors_that_would_understate_the_change_are_refused(make):
    with pytest.raises(ValueError, match=r"[Ss]igns|factor|as many|Expected"):
        rebuilt(Statistic, make())


# -- what a receipt says


@pytest.mark.parametrize("queries", [PARITIES, CELLS])
@pytest.mark.parametrize(
    "make",
    [
        QueryCounts,
        lambda q: QueryDistance(q, np.arange(q.length), 8),
        lambda q: SignedQueries(q, 3, np.arange(q.length), np.ones(q.length, dtype=np.int64)),
    ],
)
def test_sensitivities_follow_from_what_a_receipt_says(queries, make):
    says_what_it_needs(make(queries))


@pytest.mark.parametrize(
    "document",
    [
        {"name": "unknown", "length": 3},
        {"name": "query-distance", "length": 3, "grid": 0},
        {"name": "query-distance", "length": -3, "grid": 1},
        {"name": "query-distance", "length": 3, "grid": 0.5},
        {"name": "query-distance", "length": 3, "grid": True},
        {"name": "signed-queries", "length": 3, "factor": 0},
        {
            "name": "query-counts",
            "queries": {"name": "cells", "cliques": [["a"]], "cells": [["0"]]},
        },
    ],
)
def test_what_no_statistic_says_is_refused(document):
    with pytest.raises(ValueError, match=r"whole number|proven|clique|cell"):
        required(document, Relation("add-remove"))


def test_answers_that_are_not_whole_or_not_as_many_are_refused():
    for answers in (np.zeros(3), np.zeros(2, dtype=np.int64)):
        with pytest.raises(ValueError, match=r"whole numbers|as many"):
            rebuilt(Statistic, QueryDistance(CELLS, answers, 1))
    with pytest.raises(ValueError, match="grid"):
        QueryDistance(CELLS, np.zeros(3, dtype=np.int64), 0)
    with pytest.raises(ValueError, match="Expected"):
        rebuilt(Statistic, QueryDistance(CELLS, np.zeros(3, dtype=np.int64), 1.5))
