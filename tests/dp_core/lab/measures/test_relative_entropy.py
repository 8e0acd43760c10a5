import math

import pytest

from dp_core.lab.measures.table_errors import relative_entropy


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
