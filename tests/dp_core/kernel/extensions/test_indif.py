"""The distance from independence: what it is, and how far one row or one person moves it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.extensions.indif import InDif, RScore
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import bounds
from tests.dp_core.kernel.questions.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    neighbours_of,
    says_what_it_needs,
    values,
)

COLUMNS = ("a", "b")
PAIR = InDif((COLUMNS,))


def indif(table):
    return int(values(PAIR, table, COLUMNS)[0])


@pytest.mark.parametrize(
    ("table", "distance"), [([[10, 0], [0, 10]], 20), ([[2, 4], [3, 6]], 0), ([[0, 0], [0, 0]], 0)]
)
def test_dependence_and_independence(table, distance):
    assert indif(table) == distance


@given(st.integers(2, 4), st.lists(st.integers(0, 30), min_size=16, max_size=16))
def test_it_is_the_rounded_distance_from_independence(k, cells):
    table = np.array(cells[: 4 * k]).reshape(k, 4)
    n = table.sum()
    exact = np.abs(table - np.outer(table.sum(1), table.sum(0)) / n).sum() if n else 0.0
    assert abs(indif(table) - exact) <= 0.5 + 1e-9


@pytest.mark.parametrize("rows", [10**6, 2**31 - 1, 2**31, 2**33])
def test_it_is_exact_for_any_number_of_rows(rows):
    half = rows // 2
    whole = half * (rows - half)
    # The sum of |n M - M M'| is 4 half (n - half).
    assert indif([[half, 0], [0, rows - half]]) == (2 * 4 * whole + rows) // (2 * rows)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("shape", "most"), [((2, 2), 9), ((2, 3), 6), ((3, 3), 4), ((2, 4), 4), ((1, 3), 4)], ids=str
)
def test_no_small_file_moves_it_further_than_proven(relation, shape, most):
    """Every file of up to so many rows, and every neighbour of it."""
    files = itertools.chain.from_iterable(all_tables(shape, rows) for rows in range(most + 1))
    assert furthest(PAIR, files, COLUMNS, relation) <= PAIR.largest_change(relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("k", [2, 3])
def test_no_person_of_several_rows_moves_it_further_than_proven(relation, rows, k):
    """Every file of others, and every two sets of at most k rows of one person beside it."""
    cells = list(np.ndindex(2, 2))
    added = [np.zeros((2, 2), dtype=np.int64)]
    for size in range(1, k + 1):
        for chosen in itertools.combinations_with_replacement(cells, size):
            person = np.zeros((2, 2), dtype=np.int64)
            for cell in chosen:
                person[cell] += 1
            added.append(person)
    bound = bounds(PAIR, Relation(relation, k))[0]
    assert bound == k * max(PAIR.largest_change(step) for step in Relation(relation, k).steps)
    for others in all_tables((2, 2), rows):
        found = [indif(others + person) for person in added]
        without = found[:1] if relation == "add-remove" else found
        assert max(abs(one - other) for one in without for other in found) <= bound


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_bound_is_reached_so_one_smaller_would_be_wrong(relation):
    assert max(_searched(relation)) == PAIR.largest_change(relation)


def _searched(relation):
    """Yield changes between neighbours of the kind for which the proof's terms add up."""
    if relation == "add-remove":
        yield abs(indif(np.diag([60, 1])) - indif(np.diag([60, 0])))
        return
    for large, middle in itertools.product((100, 400), (5, 20, 40)):
        before = np.array([[0, 0, 0], [0, large, middle], [0, middle, 1]])
        for after in neighbours_of(before, relation):
            yield abs(indif(after) - indif(before))


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_has_the_sensitivity_of_the_r_score_of_one_parent(relation):
    score = RScore((("a", ("b",)),))
    assert PAIR.largest_change(relation) == score.largest_change(relation)
    says_what_it_needs(PAIR)
