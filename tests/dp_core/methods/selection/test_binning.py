from __future__ import annotations

import numpy as np
import pytest

from dp_core.methods.selection.budget.binning import BINS, binned

TABLES = [np.array([700.0, 200.0, 100.0]), np.array([990.0, 10.0]), np.linspace(1, 49, 40)]


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_every_cell_is_in_a_bin_and_the_widths_add_up(power):
    tables = [table * (1000 / table.sum()) for table in TABLES]
    cells = np.einsum("a,b,c->abc", *tables) / 1000**2
    assert cells.min() < 0.1
    counts, widths = binned(tables, 1000.0, power)
    assert counts.shape == widths.shape == (BINS,)
    assert counts.sum() == cells.size
    assert counts @ widths == pytest.approx((cells**power).sum(), rel=1e-12)
    assert (np.diff(widths[counts > 0]) > 0).all()
    assert counts[-1] > 0


def test_widths_in_a_bin_are_nearly_the_same():
    expected = np.logspace(0, 3, 4000)
    counts, widths = binned([expected], expected.sum(), 1.0)
    step = 1000 ** (1 / BINS)  # from the lowest to the highest of a bin
    edges = step ** np.arange(BINS + 1)
    assert (counts > 0).all()
    assert (edges[:-1] <= widths * (1 + 1e-9)).all()
    assert (widths <= edges[1:] * (1 + 1e-9)).all()


def test_cells_next_to_empty_are_left_out_and_no_cells_are_survived():
    counts, widths = binned([np.array([10.0, 0.0]), np.array([4.0, 6.0])], 10.0, 0.5)
    assert counts.sum() == 2
    assert counts @ widths == pytest.approx(np.sqrt([4.0, 6.0]).sum())
    counts, _ = binned([np.zeros(3)], 1.0, 1.0)
    assert counts.sum() == 1
