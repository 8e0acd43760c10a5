import math

import pytest

from dp_core.metrics.relative_error import cost_normalised_error, relative_error


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
