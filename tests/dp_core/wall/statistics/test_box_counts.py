from __future__ import annotations

import numpy as np
import pytest

from dp_core.wall.statistics import sum_from_json
from dp_core.wall.statistics.box_counts import MOST_BOXES, BoxCounts
from tests.dp_core.wall.statistics.neighbours import (
    RELATIONS,
    farthest,
    random_rows,
    some_neighbours,
    total,
)

SIZES = {"g": 3, "x": 11}
BOXES = BoxCounts(
    columns=tuple(SIZES),
    sizes=tuple(SIZES.values()),
    boxes=((0, 2, 0, 5), (2, 3, 0, 11), (0, 1, 5, 9)),
)


def test_it_counts_the_records_of_each_box_and_no_others():
    rng = np.random.default_rng(1)
    for rows in (0, 1, 500):
        data = random_rows(rng, rows, SIZES)
        expected = [
            sum(low <= g < high and start <= x < end for g, x in data)
            for low, high, start, end in BOXES.boxes
        ]
        found = total(BOXES, data, SIZES)
        assert found.dtype == np.int64
        assert found.tolist() == expected


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_neighbouring_files_are_no_farther_apart_than_the_bound_and_reach_it(neighbours):
    bound = {"add-remove": 1, "replace-one": 2}[neighbours]
    assert farthest(BOXES, some_neighbours(neighbours, SIZES), SIZES) == (bound, bound)
    assert (BOXES.l1(neighbours), BOXES.l2_squared(neighbours)) == (bound, bound)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"columns": ["x", "x"]}, "all different"),
        ({"columns": [], "sizes": [], "boxes": [[]]}, "need columns"),
        ({"sizes": [3]}, "needs a size"),
        ({"sizes": [0, 11]}, "A column has"),
        ({"boxes": []}, "There are 1"),
        ({"boxes": None}, "must be a list"),
        ({"boxes": [[0, 2, 0]]}, "two numbers"),
        ({"boxes": [[0, 4, 0, 5]]}, "within the column"),
        ({"boxes": [[1, 1, 0, 5]]}, "not empty"),
        ({"boxes": [[2, 1, 0, 5]]}, "not empty"),
        ({"boxes": [[0, 2, 0, 5], [1, 2, 4, 6]]}, "overlap"),
        ({"boxes": [[0, 2, 0, 5], [0, 2, 0, 5]]}, "overlap"),
        ({"boxes": [[0, 3, 3, 4], [1, 2, 0, 11]]}, "overlap"),
    ],
)
def test_boxes_that_overlap_or_are_none_are_refused(change, why):
    assert sum_from_json(BOXES.to_json()) == BOXES
    with pytest.raises(ValueError, match=why):
        sum_from_json({**BOXES.to_json(), **change})


def test_an_overlap_is_found_wherever_it_is_among_many_boxes():
    edges = np.arange(0, 1001)
    apart = [(int(low), int(low) + 1) for low in edges[:-1]]
    BoxCounts(columns=("x",), sizes=(1000,), boxes=tuple(apart))
    for first, second in ((0, 999), (255, 256), (300, 700)):
        changed = list(apart)
        changed[second] = apart[first]
        with pytest.raises(ValueError, match="overlap"):
            BoxCounts(columns=("x",), sizes=(1000,), boxes=tuple(changed))


def test_there_is_a_limit_of_boxes():
    def boxes(number):
        return tuple((each, each + 1) for each in range(number))

    limit = BoxCounts(columns=("x",), sizes=(5000,), boxes=boxes(MOST_BOXES))
    assert limit.length == MOST_BOXES
    with pytest.raises(ValueError, match=r"1 to 4,096"):
        BoxCounts(columns=("x",), sizes=(5000,), boxes=boxes(MOST_BOXES + 1))
