import math

import pytest

from dp_core.lab.measures.table_errors import (
    cost_normalised_error,
    max_cell_error,
    relative_error,
)


def test_the_floor_is_nought_and_the_baseline_one():
    assert relative_error(0.02, floor=0.02, baseline=0.12) == 0.0
    assert relative_error(0.12, floor=0.02, baseline=0.12) == 1.0
    assert relative_error(0.17, floor=0.02, baseline=0.12) == pytest.approx(1.5, rel=1e-12)


def test_without_dependence_there_is_nothing_to_lose():
    assert math.isnan(relative_error(0.05, floor=0.02, baseline=0.02))
    assert math.isnan(relative_error(0.05, floor=math.nan, baseline=0.1))


def test_half_the_cells_pay_for_twice_the_error():
    # 2x2x3x3: all pairs are 37 cells, the full table 36
    assert cost_normalised_error(0.0863, 37) == pytest.approx(3.1931, rel=1e-12)
    assert cost_normalised_error(0.02, 10) == cost_normalised_error(0.01, 20)


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
