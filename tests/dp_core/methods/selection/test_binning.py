"""The cells of a table are grouped by their expected deviation."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.selection.budget import binning
from dp_core.methods.selection.budget.binning import bin_widths

ROWS = 20_000.0
LONG = 1 / np.arange(1, 65_001)
LONG = LONG * (ROWS / LONG.sum())
SHORT = np.array([5_000.0, 15_000.0])


@pytest.mark.parametrize("others", [[], [SHORT], [SHORT, SHORT]])
def test_levels_of_like_counts_are_together_without_changing_the_sum_of_the_widths(
    others, monkeypatch
):
    counts, widths = bin_widths([LONG, *others], ROWS, 0.3)
    monkeypatch.setattr(binning, "_MOST_LEVELS", LONG.size)
    each_counts, each_widths = bin_widths([LONG, *others], ROWS, 0.3)

    assert counts.sum() == pytest.approx(each_counts.sum(), rel=1e-3)
    assert (counts * widths).sum() == pytest.approx((each_counts * each_widths).sum(), rel=1e-4)


def test_cells_without_expected_records_are_left_out():
    counts, _ = bin_widths([np.array([100.0, 0.0, 50.0])], 150.0, 1.0)

    assert counts.sum() == 2
