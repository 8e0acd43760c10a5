from __future__ import annotations

import numpy as np
import pytest

from dp_core.wall.statistics import sum_from_json
from dp_core.wall.statistics.binned_counts import MOST_CELLS, BinnedCounts
from tests.dp_core.wall.statistics.neighbours import (
    RELATIONS,
    farthest,
    random_rows,
    some_neighbours,
    total,
)

SIZES = {"g": 3, "x": 11, "y": 8}  # the last code of x means missing
TABLE = BinnedCounts(
    columns=tuple(SIZES), sizes=tuple(SIZES.values()), edges=(None, (0, 1, 6, 10, 11), (0, 4, 8))
)


def test_it_counts_records_by_levels_and_bins():
    assert TABLE.shape == (3, 4, 2)
    assert TABLE.length == 24
    rng = np.random.default_rng(1)
    for rows in (0, 1, 500):
        data = random_rows(rng, rows, SIZES)
        expected = np.zeros(TABLE.shape, dtype=np.int64)
        for g, x, y in data:
            bin_of_x = next(bin for bin, edge in enumerate((1, 6, 10, 11)) if x < edge)
            expected[g, bin_of_x, int(y >= 4)] += 1
        found = total(TABLE, data, SIZES)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found.reshape(TABLE.shape), expected)


def test_a_table_may_leave_columns_out_and_name_them_in_any_order():
    table = BinnedCounts(columns=("y", "g"), sizes=(8, 3), edges=((0, 2, 8), None))
    found = total(table, [(2, 5, 1), (2, 0, 7), (0, 1, 7), (2, 9, 2)], SIZES)
    assert found.reshape(2, 3).tolist() == [[0, 0, 1], [1, 0, 2]]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_neighbouring_files_are_no_farther_apart_than_the_bound_and_reach_it(neighbours):
    bound = {"add-remove": 1, "replace-one": 2}[neighbours]
    assert farthest(TABLE, some_neighbours(neighbours, SIZES), SIZES) == (bound, bound)
    assert (TABLE.l1(neighbours), TABLE.l2_squared(neighbours)) == (bound, bound)


@pytest.mark.parametrize(
    "change",
    [
        {"columns": ["g", "x", "x"]},
        {"columns": "gxy"},
        {"columns": ["g", "x"]},
        {"sizes": [3, 11]},
        {"sizes": [3, 11, 8.0]},
        {"sizes": [0, 11, 8]},
        {"sizes": [2**33, 11, 8]},
        {"edges": [None, None]},
        {"edges": None},
        {"edges": [None, [0, 5], [0, 8]]},  # positions 5 to 10 would be in no bin
        {"edges": [None, [1, 11], [0, 8]]},
        {"edges": [None, [0, 5, 5, 11], [0, 8]]},
        {"edges": [None, [0, 7, 5, 11], [0, 8]]},
        {"edges": [None, [0, 5.5, 11], [0, 8]]},
        {"edges": [None, [0], [0, 8]]},
    ],
)
def test_a_description_that_is_none_is_refused(change):
    assert sum_from_json(TABLE.to_json()) == TABLE
    with pytest.raises((ValueError, TypeError)):
        sum_from_json({**TABLE.to_json(), **change})


def test_a_table_has_a_limit_of_cells():
    def table(cells):
        return BinnedCounts(columns=("a", "b"), sizes=(2**13, cells), edges=(None, None))

    assert table(2**13).length == MOST_CELLS
    with pytest.raises(ValueError, match="at most"):
        table(2**13 + 1)
