"""Which intervals are warned of, and why."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.analysis.regression.interval_warnings import few_sets
from dp_core.inference.combine import combine


@pytest.mark.parametrize(("sets", "warns"), [(3, True), (5, True), (6, False), (20, False)])
def test_few_sets_whose_differences_dominate_are_warned_of(sets, warns):
    rng = np.random.default_rng(sets)
    estimates = rng.normal(0, 100.0, (sets, 2))
    combined = combine(estimates, np.tile(np.eye(2), (sets, 1, 1)), "posterior")
    found = few_sets(combined, ["a", "b"])
    assert [each.coefficients for each in found] == ([("a", "b")] if warns else [])
    assert all("cost no privacy" in each.text for each in found)
    limited = combine(estimates, np.tile(1e6 * np.eye(2), (sets, 1, 1)), "posterior", complete_df=3)
    assert [("cost no privacy" in each.text) for each in few_sets(limited, ["a", "b"])] == [False]
