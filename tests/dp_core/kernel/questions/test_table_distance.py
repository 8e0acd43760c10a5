from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.table_distance import TableDistance
from dp_core.kernel.questions.vetted import rebuilt, required
from tests.dp_core.kernel.questions.neighbours import (
    RELATIONS,
    all_tables,
    furthest,
    says_what_it_needs,
    values,
)

COLUMNS = ("a", "b")
CLIQUES = (("a",), ("b",), ("b", "a"))
files = st.lists(st.integers(0, 9), min_size=6, max_size=6).map(
    lambda cells: np.array(cells).reshape(2, 3)
)
numbers = st.integers(-200, 200)


def distance(answers, grid=16, weights=(1, 1, 1), offsets=(0, 0, 0)):
    return TableDistance(CLIQUES, tuple(map(np.array, answers)), grid, weights, offsets)


NOTHING = ([0, 0], [0, 0, 0], [[0, 0], [0, 0], [0, 0]])


@given(
    table=files,
    answer=st.lists(numbers, min_size=6, max_size=6),
    weight=st.integers(0, 9),
    offset=numbers,
)
def test_it_is_the_weighted_distance_less_its_offset(table, answer, weight, offset):
    answer = np.array(answer).reshape(3, 2)
    answers = (answer.sum(axis=0), answer.sum(axis=1), answer)
    statistic = distance(answers, 16, (1, 1, weight), (0, 5, offset))
    expected = [
        np.abs(16 * table.sum(axis=1) - answers[0]).sum(),
        np.abs(16 * table.sum(axis=0) - answers[1]).sum() - 5,
        weight * (np.abs(16 * table.T - answer).sum() - offset),
    ]
    assert values(statistic, table, COLUMNS).tolist() == expected
    flat = TableDistance(
        CLIQUES, tuple(a.ravel() for a in answers), 16, statistic.weights, statistic.offsets
    )
    assert values(flat, table, COLUMNS).tolist() == expected


@pytest.mark.parametrize(("relation", "cells"), [("add-remove", 1), ("replace-one", 2)])
@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 5, 2)])
def test_a_row_moves_it_by_the_grid_and_the_weight_and_no_more(relation, cells, weights):
    statistic = distance(([8, 24], [0, 16, 48], [[16, 0], [0, 16], [9, 7]]), 16, weights)
    far = furthest(statistic, all_tables((2, 3), 2), COLUMNS, relation)
    assert far == statistic.largest_change(relation) == 16 * max(weights) * cells


@pytest.mark.parametrize("rows", [2**30, 2**41, 2**55])
def test_it_is_exact_for_any_number_of_rows(rows):
    table = np.array([[rows, 0, 1], [0, 0, rows]])
    answers = ([7, 7], [0, 0, 1], [[0, 0]] * 3)
    exact = [
        (1000 * (rows + 1) - 7) + (1000 * rows - 7),
        1000 * rows + 1000 * (rows + 1) - 1,
        1000 * (2 * rows + 1),
    ]
    found = values(distance(answers, 1000), table, COLUMNS).tolist()
    assert found == [min(number, 2**62) for number in exact]


LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize("corner", [LOW, LOW + 1, -(2**62), 2**62, HIGH])
@pytest.mark.parametrize("others", [0, LOW, HIGH])
def test_it_is_exact_for_answers_of_any_size(corner, others):
    table = np.array([[3, 0, 1], [0, 2, 0]])
    both = [[corner, others], [0, others], [others, 1]]
    statistic = distance(([corner, others], [others, 0, 0], both), 16)
    counted = (table.sum(axis=1), table.sum(axis=0), table.T)
    exact = [
        sum(
            abs(16 * int(count) - int(answer))
            for count, answer in zip(counts.flat, answers.flat, strict=True)
        )
        for counts, answers in zip(counted, statistic.answers, strict=True)
    ]
    found = values(statistic, table, COLUMNS).tolist()
    assert found == [min(number, 2**62) for number in exact]
    # With offsets near the sum, no entry is cut: a row still moves it by the grid.
    moved = distance(statistic.answers, 16, offsets=exact)
    assert values(moved, table, COLUMNS).tolist() == [0, 0, 0]
    for relation in RELATIONS:
        assert furthest(moved, [table], COLUMNS, relation) <= moved.largest_change(relation)


def test_sensitivities_follow_from_what_a_receipt_says():
    for weights in ((1, 1, 1), (0, 0, 0), (3, 0, 2)):
        says_what_it_needs(distance(NOTHING, 64, weights))
    assert set(distance(NOTHING).to_json()) == {"name", "length", "grid", "weight"}


@pytest.mark.parametrize("wrong", [{"grid": 0}, {"weight": 0}, {"weight": -1}, {"length": -1}])
@pytest.mark.parametrize("relation", RELATIONS)
def test_what_it_never_says_is_refused(wrong, relation):
    with pytest.raises(ValueError, match="whole number"):
        required(distance(NOTHING).to_json() | wrong, Relation(relation))


@pytest.mark.parametrize(
    "make",
    [
        lambda: distance(NOTHING, 0),
        lambda: distance(NOTHING, 1.5),
        lambda: distance(NOTHING, 1, (1, -1, 1)),
        lambda: distance(NOTHING, 1, (1, 0.5, 1)),
        lambda: distance(NOTHING, 1, (1, 1)),
        lambda: distance(NOTHING, 1, (1, 1, 1), (0.5, 0, 0)),
        lambda: distance(([0.0, 0.0], *NOTHING[1:])),
    ],
)
def test_what_would_not_be_whole_is_refused(make):
    with pytest.raises(ValueError, match=r"whole|weight|grid|Expected"):
        rebuilt(TableDistance, make())


def test_answers_of_another_table_are_refused():
    with pytest.raises(ValueError, match="reshape"):
        values(distance(([0, 0, 0], *NOTHING[1:])), np.ones((2, 3), dtype=int), COLUMNS)
