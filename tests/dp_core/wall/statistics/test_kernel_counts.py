from __future__ import annotations

import numpy as np
import pytest

from dp_core.wall.statistics import sum_from_json
from dp_core.wall.statistics.kernel_counts import MOST_WEIGHT, KernelCounts
from tests.dp_core.wall.statistics.neighbours import RELATIONS, total

KERNEL = KernelCounts(column="x", positions=12, edges=(0, 2, 4, 6, 8, 10, 12), weights=(7, 4, 1))


def sums(kernel, codes):
    return total(kernel, codes, {"x": 13})  # the last code means missing


def test_each_record_adds_its_weights_to_the_bins_near_it():
    assert sums(KERNEL, [5]).tolist() == [1, 4, 7, 4, 1, 0, 0]
    assert sums(KERNEL, [0]).tolist() == [7, 4, 1, 0, 0, 0, 0]
    assert sums(KERNEL, [12, 12]).tolist() == [0, 0, 0, 0, 0, 0, 14]
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 13, 400)
    expected = sum(sums(KERNEL, [each]) for each in codes)
    np.testing.assert_array_equal(sums(KERNEL, codes), expected)
    assert sums(KERNEL, []).dtype == np.int64


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL,
        KernelCounts(column="x", positions=12, edges=(0, 12), weights=(3,)),
        # Wider than the grid: no record adds all of the weights.
        KernelCounts(column="x", positions=12, edges=(0, 3, 6, 12), weights=(5, 4, 3)),
        KernelCounts(column="x", positions=12, edges=tuple(range(13)), weights=(2, 9)),
    ],
)
def test_the_bound_is_the_largest_change_of_one_record_and_that_of_two_apart(kernel, neighbours):
    vectors = [sums(kernel, [code]) for code in range(13)]
    alone = max(int(each.sum()) for each in vectors), max(int((each**2).sum()) for each in vectors)
    apart = [one - other for one in vectors for other in vectors]
    factor = 1 if neighbours == "add-remove" else 2
    assert kernel.l1(neighbours) == factor * alone[0]
    assert kernel.l2_squared(neighbours) == factor * alone[1]
    if neighbours == "replace-one":
        assert max(int(np.abs(each).sum()) for each in apart) <= kernel.l1(neighbours)
        found = max(int((each**2).sum()) for each in apart)
        assert alone[1] <= found <= kernel.l2_squared(neighbours)


def test_two_records_far_apart_reach_the_bound_of_a_replacement():
    kernel = KernelCounts(column="x", positions=12, edges=tuple(range(13)), weights=(5, 3, 1))
    change = sums(kernel, [2]) - sums(kernel, [9])
    assert np.abs(change).sum() == kernel.l1("replace-one") == 26
    assert (change**2).sum() == kernel.l2_squared("replace-one") == 90


def test_sums_beyond_64_bits_are_cut_and_do_not_overflow():
    kernel = KernelCounts(column="x", positions=12, edges=(0, 6, 12), weights=(MOST_WEIGHT, 1))
    cells = np.array([[0], [12]], dtype=np.uint16)
    found = kernel.total(cells, np.array([2**50, 2**50], dtype=np.int64))
    assert found.tolist() == [2**62, 2**50, 2**62]


@pytest.mark.parametrize(
    "change",
    [
        {"positions": 0},
        {"positions": 11},
        {"edges": [0]},
        {"edges": [0, 5, 5, 12]},
        {"edges": [1, 12]},
        {"weights": []},
        {"weights": [0, 4]},
        {"weights": [7, -1]},
        {"weights": [MOST_WEIGHT + 1]},
        {"weights": [1] * 7},  # more than bins
    ],
)
def test_a_description_that_is_none_is_refused(change):
    assert sum_from_json(KERNEL.to_json()) == KERNEL
    with pytest.raises(ValueError, match=r"number|Edges|eights"):
        sum_from_json({**KERNEL.to_json(), **change})
