"""Overlaps worked out by hand, and a few that synthpop printed."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.lab.measures.inference_agreement import interval_overlap

ENDS = st.tuples(st.integers(-50, 50), st.integers(1, 40)).map(lambda p: (p[0], p[0] + p[1]))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 2), (0, 2), 1.0),
        ((0, 2), (1, 3), 0.5),
        ((0, 2), (2, 4), 0.0),
        ((0, 2), (1, 5), (1 / 2 + 1 / 4) / 2),
        ((0, 8), (3, 5), (2 / 8 + 1) / 2),
        ((0, 1), (2, 4), (-1 / 1 - 1 / 2) / 2),
        ((-4, -2), (2, 6), (-4 / 2 - 4 / 4) / 2),
    ],
)
def test_overlap_is_that_of_the_formula(first, second, expected):
    assert interval_overlap(first, second) == expected


@pytest.mark.parametrize(
    ("difference", "printed"),
    [
        (-0.7845429, 0.7998578),
        (0.8837740, 0.7745433),
        (1.1781803, 0.6994383),
        (-1.2289564, 0.6864850),
    ],
)
def test_intervals_of_one_width_give_what_synthpop_prints(difference, printed):
    """`compare.fit.synds` (R package synthpop) gives both intervals the width of the real one."""
    half = 1.959963984540054

    found = interval_overlap((-half, half), (difference - half, difference + half))

    assert found == pytest.approx(printed, abs=1e-7)


@given(first=ENDS, second=ENDS)
def test_overlap_is_symmetric_at_most_one_and_positive_only_with_common_inner_points(first, second):
    found = interval_overlap(first, second)

    assert found == interval_overlap(second, first)
    assert found <= 1
    assert (found == 1) == (first == second)
    common = min(first[1], second[1]) - max(first[0], second[0])
    assert (found > 0) == (common > 0)
    exact = Fraction(common, 2) * (
        Fraction(1, first[1] - first[0]) + Fraction(1, second[1] - second[0])
    )
    assert found == pytest.approx(float(exact), rel=1e-12)
    assert interval_overlap(first, second, disjoint="zero") == max(found, 0.0)


def test_overlap_does_not_depend_on_the_units():
    assert interval_overlap((1, 3), (2, 7)) == interval_overlap((100, 300), (200, 700))


def test_a_point_is_covered_or_infinitely_far():
    assert interval_overlap((1, 1), (0, 2)) == 0.5
    assert interval_overlap((1, 1), (1, 1)) == 1.0
    assert interval_overlap((5, 5), (0, 2)) == -math.inf
    assert interval_overlap((5, 5), (0, 2), disjoint="zero") == 0.0


def test_an_infinite_interval_covers_a_finite_one():
    assert interval_overlap((-math.inf, math.inf), (0, 2)) == 0.5
    assert interval_overlap((0, math.inf), (1, 2)) == 0.5


@pytest.mark.parametrize(
    "pair",
    [((2, 1), (0, 1)), ((math.nan, 1), (0, 1)), ((-math.inf, math.inf), (0, math.inf))],
)
def test_what_is_no_interval_is_refused(pair):
    with pytest.raises(ValueError, match="interval"):
        interval_overlap(*pair)
