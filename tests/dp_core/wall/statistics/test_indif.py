"""How far one row, or one person, moves the distance from independence, on all small files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.schema.privacy import Relation
from dp_core.wall.statistics import InDif, RScore
from dp_core.wall.statistics.vetted import bounds
from tests.dp_core.wall.statistics.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    neighbours_of,
    says_what_it_needs,
    values,
)

COLUMNS = ("a", "b")
PAIR = InDif((COLUMNS,))


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
        found = [int(values(PAIR, others + person, COLUMNS)[0]) for person in added]
        without = found[:1] if relation == "add-remove" else found
        assert max(abs(one - other) for one in without for other in found) <= bound


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_bound_is_reached_so_one_smaller_would_be_wrong(relation):
    assert max(_searched(relation)) == PAIR.largest_change(relation)


def _searched(relation):
    """Yield changes between neighbours of the kind for which the proof's terms add up."""
    if relation == "add-remove":
        before, after = np.diag([60, 0]), np.diag([60, 1])
        yield abs(int(values(PAIR, after, COLUMNS)[0]) - int(values(PAIR, before, COLUMNS)[0]))
        return
    for large, middle in itertools.product((100, 400), (5, 20, 40)):
        before = np.array([[0, 0, 0], [0, large, middle], [0, middle, 1]])
        first = int(values(PAIR, before, COLUMNS)[0])
        for after in neighbours_of(before, relation):
            yield abs(int(values(PAIR, after, COLUMNS)[0]) - first)


@pytest.mark.parametrize("relation", RELATIONS)
def test_it_has_the_sensitivity_of_the_r_score_of_one_parent(relation):
    score = RScore((("a", ("b",)),))
    assert PAIR.largest_change(relation) == score.largest_change(relation)
    says_what_it_needs(PAIR)
