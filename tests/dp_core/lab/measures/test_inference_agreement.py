import math

import pytest

from dp_core.lab.measures.inference_agreement import Agreement, Coefficient, Outcome, Pair, agree


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
