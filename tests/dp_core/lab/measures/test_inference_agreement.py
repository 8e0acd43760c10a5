"""Agreement of two analyses: Table 1 of the CIPHER paper, and overlaps that synthpop printed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.lab.measures.inference_agreement import (
    MEANING,
    Agreement,
    Coefficient,
    Outcome,
    Pair,
    agree,
    interval_overlap,
    outcome,
    shares,
)

TABLE_1 = {
    # signs match, significant before, significant after
    (True, True, True): "Best",
    (True, False, False): "Best",
    (False, False, False): "Neutral",
    (True, True, False): "II+",
    (True, False, True): "I+",
    (False, True, False): "II-",
    (False, False, True): "I-",
    (False, True, True): "Worst",
}


def of(before, after, clear_before, clear_after):
    return outcome(before, after, significant_before=clear_before, significant_after=clear_after)


@pytest.mark.parametrize(("combination", "name"), TABLE_1.items())
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_combination_is_named_as_in_table_1(combination, name, sign):
    match, before, after = combination

    assert of(sign * 0.4, sign * (0.9 if match else -0.9), before, after) == name


def test_seven_outcomes_cover_the_eight_combinations():
    found = {
        of(1.0, sign, before, after)
        for sign, before, after in itertools.product((1.0, -1.0), (True, False), (True, False))
    }

    assert found == set(Outcome) == set(MEANING)
    assert [str(kind) for kind in Outcome] == list(dict.fromkeys(TABLE_1.values()))


@pytest.mark.parametrize("other", [-2.0, 0.0, 2.0])
def test_an_estimate_of_zero_contradicts_neither_sign(other):
    assert of(0.0, other, False, False) == Outcome.BEST
    assert of(other, -0.0, True, False) == Outcome.TYPE_2_SAME


@pytest.mark.parametrize("pair", [(math.nan, 1.0), (1.0, math.nan)])
def test_what_is_no_number_has_no_sign(pair):
    with pytest.raises(ValueError, match="no sign"):
        of(*pair, True, True)


def test_shares_name_all_outcomes_and_sum_to_one():
    found = shares([Outcome.BEST, Outcome.WORST, Outcome.BEST, Outcome.TYPE_2_SAME])

    assert list(found) == list(Outcome)
    assert found[Outcome.BEST] == 0.5
    assert found[Outcome.WORST] == found[Outcome.TYPE_2_SAME] == 0.25
    assert sum(found.values()) == 1
    assert set(shares([]).values()) == {0.0}


ENDS = st.tuples(st.integers(-50, 50), st.integers(1, 40)).map(lambda p: (p[0], p[0] + p[1]))


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


def test_a_point_is_covered_or_infinitely_far():
    assert interval_overlap((1, 1), (0, 2)) == 0.5
    assert interval_overlap((1, 1), (1, 1)) == 1.0
    assert interval_overlap((5, 5), (0, 2)) == -math.inf


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


def about(name, estimate, half):
    return Coefficient(name, estimate, estimate - half, estimate + half)


@pytest.mark.parametrize(
    ("low", "high", "clear"),
    [(0.1, 2.0, True), (-2.0, -0.1, True), (-0.1, 2.0, False), (0.0, 2.0, False)],
)
def test_what_differs_from_zero_is_what_the_interval_excludes(low, high, clear):
    assert Coefficient("x", (low + high) / 2, low, high).significant == clear


def test_a_pair_is_judged_by_signs_and_intervals():
    pair = Pair(about("x", 1.0, 0.5), about("x", 0.5, 1.0))

    assert pair.outcome == Outcome.TYPE_2_SAME
    assert pair.overlap == (1.0 / 1.0 + 1.0 / 2.0) / 2
    assert pair.width_ratio == 2.0
    assert Pair(about("x", -1, 0.5), about("x", 1, 0.5)).outcome == Outcome.WORST
    assert math.isnan(Pair(about("x", 1, 0), about("x", 1, 1)).width_ratio)


def test_parameters_are_matched_by_name_not_by_place():
    real = [about("Intercept", 0, 1), about("a", 1, 0.5), about("b", -1, 0.5)]
    synthetic = [about("b", -1, 0.5), about("Intercept", 0, 1), about("c", 9, 0.5)]

    found = agree("y ~ a + b", real, synthetic)

    assert [pair.name for pair in found.pairs] == ["Intercept", "b"]
    assert found.lost == ("a",)
    assert found.gained == ("c",)
    assert found.outcomes == (Outcome.BEST,)
    assert found.mean_overlap() == 1.0


def test_an_average_counts_disjoint_intervals_as_zero_and_leaves_the_intercept_out():
    real = [about("Intercept", 0, 1), about("a", 1, 0.5), about("b", -1, 0.5)]
    far = [about("Intercept", 100, 1), about("a", 1, 0.5), about("b", 90, 0.5)]

    found = agree("y ~ a + b", real, far)

    assert found.mean_overlap() == 0.5
    assert [pair.overlap for pair in found.slopes][1] == -90.0


def test_an_analysis_of_an_intercept_alone_is_judged_by_it():
    found = agree("y ~ 1", [about("Intercept", 3, 1)], [about("Intercept", 3, 1)])

    assert found.outcomes == (Outcome.BEST,)
    assert math.isnan(Agreement("y ~ x", problem="no such column").mean_overlap())
