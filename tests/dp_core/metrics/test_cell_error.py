import pytest

from dp_core.metrics.cell_error import max_cell_error


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
