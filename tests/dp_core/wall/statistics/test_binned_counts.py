from __future__ import annotations

import json

import numpy as np
import pytest

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.wall.statistics import sum_from_json
from dp_core.wall.statistics.binned_counts import MOST_CELLS, BinnedCounts

DOMAIN = Domain(("g", "x", "y"), (3, 11, 8))  # the last code of x means missing
TABLE = BinnedCounts(
    columns=DOMAIN.columns, sizes=DOMAIN.sizes, edges=(None, (0, 1, 6, 10, 11), (0, 4, 8))
)
RELATIONS = ["add-remove", "replace-one"]


def counts(table, rows):
    codes = np.array(rows, dtype=np.uint16).reshape(-1, 3).T
    data = Dataset(DOMAIN, np.ascontiguousarray(codes))
    return table.total(*MemoryCounter(data).observed(table.clique))


def random_rows(rng, rows):
    return np.column_stack([rng.integers(0, size, rows) for size in DOMAIN.sizes])


def test_it_counts_records_by_levels_and_bins():
    assert TABLE.shape == (3, 4, 2)
    assert TABLE.length == 24
    rng = np.random.default_rng(1)
    for rows in (0, 1, 500):
        data = random_rows(rng, rows)
        expected = np.zeros(TABLE.shape, dtype=np.int64)
        for g, x, y in data:
            bin_of_x = next(bin for bin, edge in enumerate((1, 6, 10, 11)) if x < edge)
            expected[g, bin_of_x, int(y >= 4)] += 1
        found = counts(TABLE, data)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found.reshape(TABLE.shape), expected)


def test_a_table_may_leave_columns_out_and_name_them_in_any_order():
    table = BinnedCounts(columns=("y", "g"), sizes=(8, 3), edges=((0, 2, 8), None))
    found = counts(table, [(2, 5, 1), (2, 0, 7), (0, 1, 7), (2, 9, 2)])
    assert found.reshape(2, 3).tolist() == [[0, 0, 1], [1, 0, 2]]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_neighbouring_files_are_no_farther_apart_than_the_bound_and_reach_it(neighbours):
    rng = np.random.default_rng(2)
    far = far_squared = 0
    for _ in range(300):
        rows = random_rows(rng, 6)
        other = rows[:-1] if neighbours == "add-remove" else np.vstack([rows[:-1], rows[0] * 0])
        change = np.abs(counts(TABLE, rows) - counts(TABLE, other))
        far, far_squared = max(far, change.sum()), max(far_squared, (change**2).sum())
    bound = {"add-remove": 1, "replace-one": 2}[neighbours]
    assert far == TABLE.l1(neighbours) == bound
    assert far_squared == TABLE.l2_squared(neighbours) == bound


def test_it_is_read_back_from_its_description():
    assert sum_from_json(json.loads(json.dumps(TABLE.to_json()))) == TABLE


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
    with pytest.raises((ValueError, TypeError)):
        sum_from_json({**TABLE.to_json(), **change})


def test_a_table_has_a_limit_of_cells():
    def table(cells):
        return BinnedCounts(columns=("a", "b"), sizes=(2**13, cells), edges=(None, None))

    assert table(2**13).length == MOST_CELLS
    with pytest.raises(ValueError, match="at most"):
        table(2**13 + 1)
