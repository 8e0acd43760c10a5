"""Differences of two files, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.lab.measures.table_errors import (
    RangeQueries,
    max_cell_error,
    mean_range_error,
    random_range_queries,
    relative_entropy,
    relative_error,
)


def test_it_is_the_sum_by_hand():
    # .5 ln(.5/.25) + .5 ln(.5/.75)
    by_hand = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    assert relative_entropy([1, 1], [1, 3]) == pytest.approx(by_hand, rel=1e-12)


def test_it_is_not_symmetric():
    by_hand = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    assert relative_entropy([1, 3], [1, 1]) == pytest.approx(by_hand, rel=1e-12)


def test_equal_proportions_are_at_zero_whatever_the_number_of_records():
    assert relative_entropy([[1, 2], [3, 0]], [[10, 20], [30, 0]]) == 0.0


def test_a_cell_that_the_synthetic_table_lacks_makes_it_infinite():
    assert relative_entropy([1, 1], [1, 0]) == math.inf
    assert relative_entropy([1, 0], [1, 1]) == pytest.approx(math.log(2), rel=1e-12)
    assert relative_entropy([1, 1], [0, 0]) == math.inf


def test_smoothing_spreads_so_many_records_over_the_synthetic_cells():
    # (1 + .5) / 2 and (0 + .5) / 2 instead of 1 and 0
    by_hand = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    assert relative_entropy([1, 1], [1, 0], smoothing=1) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    ("real", "synthetic"), [([0, 0], [1, 1]), ([1, -1], [1, 1]), ([1, 2], [1, -2]), ([1], [1, 1])]
)
def test_what_are_no_counts_is_refused(real, synthetic):
    with pytest.raises(ValueError, match=r"Relative entropy|shapes"):
        relative_entropy(real, synthetic)


def test_the_floor_is_nought_and_the_baseline_one():
    assert relative_error(0.02, floor=0.02, baseline=0.12) == 0.0
    assert relative_error(0.12, floor=0.02, baseline=0.12) == 1.0
    assert relative_error(0.17, floor=0.02, baseline=0.12) == pytest.approx(1.5, rel=1e-12)


def test_without_dependence_there_is_nothing_to_lose():
    assert math.isnan(relative_error(0.05, floor=0.02, baseline=0.02))
    assert math.isnan(relative_error(0.05, floor=math.nan, baseline=0.1))


def test_the_largest_difference_of_proportions_counts():
    # .2 .3 .5 against .3 .3 .4
    assert max_cell_error([2, 3, 5], [[30, 30, 40]][0]) == pytest.approx(0.1, rel=1e-12)


def test_tables_of_any_number_of_axes_and_records_compare():
    assert max_cell_error([[1, 0], [0, 1]], [[0, 5], [5, 0]]) == pytest.approx(0.5, rel=1e-12)


def test_a_table_without_mass_is_zeros():
    assert max_cell_error([0, 0], [1, 3]) == pytest.approx(0.75, rel=1e-12)
    assert max_cell_error([0, 0], [0, 0]) == 0.0


def test_tables_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        max_cell_error([1, 2], [1, 2, 3])


DOMAIN = Domain(("a", "b"), (4, 3))
DATA = Dataset(DOMAIN, np.array([[0, 1, 2, 3, 3], [0, 1, 2, 2, 0]], dtype=np.uint16))


def queries(*boxes):
    """Queries over both columns, each ((a from, to), (b from, to))."""
    low = np.array([[side[0] for side in box] for box in boxes], dtype=np.uint16)
    high = np.array([[side[1] for side in box] for box in boxes], dtype=np.uint16)
    return RangeQueries(DOMAIN, np.array([[0, 1]] * len(boxes)), low, high)


def test_both_ends_belong_to_an_interval():
    # records (0,0) (1,1) (2,2) (3,2) (3,0)
    asked = queries(((1, 3), (1, 2)), ((3, 3), (0, 2)), ((0, 0), (1, 2)), ((0, 3), (0, 2)))
    assert asked.count(DATA).tolist() == [3, 2, 0, 5]


def test_counts_of_pieces_add_up():
    asked = random_range_queries(DOMAIN)
    pieces = (DATA.codes[:, :2], DATA.codes[:, 2:])
    parts = sum(asked.count(Dataset(DOMAIN, piece)) for piece in pieces)
    assert parts.tolist() == asked.count(DATA).tolist()


def test_queries_are_the_same_each_time_and_within_the_domain():
    domain = Domain(("a", "b", "c", "d"), (4, 300, 2, 1))
    first, second = random_range_queries(domain), random_range_queries(domain)
    assert first.axes.shape == (1000, 3)
    assert np.array_equal(first.axes, second.axes)
    assert np.array_equal(first.high, second.high)
    assert (first.low <= first.high).all()
    assert (first.high < np.array(domain.sizes)[first.axes]).all()
    assert (np.diff(first.axes, axis=1) > 0).all()
    wide = (first.axes == 1).any(axis=1)
    assert first.high[wide].max() > 255


def test_the_error_is_the_average_difference_of_proportions():
    # 1/4 - 4/8 and 2/4 - 4/8
    assert mean_range_error([1, 2], [4, 4], first_rows=4, second_rows=8) == 0.125


def test_data_of_another_domain_are_refused():
    other = Dataset(Domain(("a", "b"), (4, 4)), DATA.codes)
    with pytest.raises(ValueError, match="domain"):
        queries(((0, 1), (0, 1))).count(other)
