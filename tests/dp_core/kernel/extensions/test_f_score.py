from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.kernel.extensions.f_score import FScore
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import required
from tests.dp_core.kernel.questions.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    says_what_it_needs,
    values,
)
from tests.full import examples

COLUMNS = ("x", "p")
SCORE = FScore((("x", ("p",)),))
EXAMPLE = np.array([[3, 1], [0, 4], [2, 2]]).T
files = st.integers(1, 7).flatmap(
    lambda parents: st.lists(st.integers(0, 9), min_size=2 * parents, max_size=2 * parents).map(
        lambda cells: np.array(cells).reshape(2, -1)
    )
)


def score(table):
    return int(values(SCORE, table, COLUMNS)[0])


def by_all_splits(table):
    """Return 2 n F by trying every split of the parents' codes."""
    n, best = int(table.sum()), []
    for split in itertools.product((0, 1), repeat=table.shape[1]):
        k0, k1 = (
            sum(int(table[value, i]) for i, side in enumerate(split) if side == value)
            for value in (0, 1)
        )
        best.append(max(n - 2 * k0, 0) + max(n - 2 * k1, 0))
    return -min(best)


def test_the_example_of_the_paper_is_minus_a_quarter():
    assert score(EXAMPLE) / (2 * EXAMPLE.sum()) == -0.25


@settings(max_examples=examples(300))
@given(table=files)
def test_it_is_the_best_of_all_splits(table):
    assert score(table) == by_all_splits(table)


@given(table=files)
def test_f_itself_is_the_distance_to_the_nearest_table_of_largest_information(table):
    """Its definition: half of the L1 distance, over tables that give each parent one child."""
    n = int(table.sum())
    assert -2 * n <= score(table) <= 0
    alone = values(FScore((("x", ()),)), table, COLUMNS)[0]
    assert alone == -n  # without parents the nearest table is half of the records away
    assert score(table) >= alone - n


def test_a_child_decided_by_its_parents_in_two_halves_misses_nothing():
    assert score([[10, 0, 5], [0, 15, 0]]) == 0
    assert score([[0, 0], [0, 0]]) == 0


def test_a_child_with_one_code_only_counts_as_binary_and_one_with_three_is_refused():
    assert score([[4, 5]]) == -9
    with pytest.raises(ValueError, match="R score"):
        score(np.ones((3, 2), dtype=int))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", range(5))
def test_no_small_file_moves_it_further_than_proven(relation, rows):
    assert furthest(SCORE, all_tables((2, 3), rows), COLUMNS, relation) <= 2


@settings(max_examples=60)
@given(table=files)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_file_moves_it_further_than_proven(relation, table):
    assert furthest(SCORE, [table], COLUMNS, relation) <= 2


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_bound_is_reached_so_one_smaller_would_be_wrong(relation):
    assert furthest(SCORE, [EXAMPLE], COLUMNS, relation) == SCORE.largest_change(relation) == 2


def by_pairs_that_are_reached(table):
    """Return 2 n F from the set of all (k0, k1) with the largest k1, however large k0 is."""
    n, reached = int(table.sum()), {0: 0}
    for zero, one in table.T.tolist():
        more = {k0: k1 + one for k0, k1 in reached.items()}
        for k0, k1 in reached.items():
            more[k0 + zero] = max(more.get(k0 + zero, 0), k1)
        reached = more
    return -min(max(n - 2 * k0, 0) + max(n - 2 * k1, 0) for k0, k1 in reached.items())


def test_parents_are_all_their_combinations_be_they_many():
    columns = ("x", *(f"p{index}" for index in range(6)))
    statistic = FScore((("x", columns[1:]), ("x", ("p0",))))
    table = (np.arange(128) * 977 % 89).reshape((2,) * 7)
    flat = table.reshape(2, 64)
    found = values(statistic, table, columns)
    assert found.tolist() == [
        by_pairs_that_are_reached(flat),
        by_all_splits(flat.reshape(2, 2, 32).sum(axis=2)),
    ]


def test_sensitivities_follow_from_what_a_receipt_says():
    says_what_it_needs(FScore((("x", ("p",)), ("p", ("x",)))))
    assert required({"name": "f-score", "length": 3}, Relation("add-remove")) == (2, 6, 12)
