import numpy as np
import pytest

from dp_core.lab.measures.range_queries import (
    RangeQueries,
    mean_range_error,
    random_range_queries,
)
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain

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
