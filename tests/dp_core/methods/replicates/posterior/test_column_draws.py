"""The centre of a column's counts where noise hides the ends of a number."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.replicates.posterior.agreement import clear_scores
from dp_core.methods.replicates.posterior.column_draws import draw_column, with_geometric_tails
from dp_core.methods.replicates.posterior.truncation import central_counts
from dp_core.schema.structure.structural_zeros import StructuralZeros


def test_beyond_what_stands_out_counts_fall_as_a_geometric_series_of_the_same_sum():
    counts = np.array([4.0, -2.0, 900.0, 600.0, 30.0, -10.0, 40.0, -20.0])
    scores = np.array([2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0])
    found = with_geometric_tails(counts, scores)
    assert found[2:4] == pytest.approx(counts[2:4])
    assert found[4:].sum() == pytest.approx(40.0)
    assert found[5:] / found[4:-1] == pytest.approx(np.full(3, 40 / 640))
    assert found[:2].sum() == pytest.approx(2.0)
    assert found[1] > found[0] > 0


def test_a_tail_whose_noise_is_below_zero_is_empty():
    found = with_geometric_tails(np.array([500.0, 80.0, -9.0, 3.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    assert found[2:].tolist() == [0.0, 0.0]


def test_levels_without_values_and_ends_that_stand_out_stay():
    counts = np.array([5.0, -3.0, 400.0])
    assert with_geometric_tails(counts, None) is counts
    np.testing.assert_array_equal(with_geometric_tails(counts, np.array([0.0, 1.0, 2.0])), counts)


def test_empty_bins_far_out_do_not_move_the_spread_of_a_number():
    """Of 25 bins the first three have all records; 200 draws of noise of 30 records a bin."""
    rng = np.random.default_rng(7)
    exact = np.zeros(25)
    exact[:3] = 9_000.0, 5_000.0, 2_000.0
    values = np.arange(25.0)

    def spread(counts):
        mean = counts @ values / counts.sum()
        return np.sqrt(counts @ (values - mean) ** 2 / counts.sum())

    ratios, plain = [], []
    for _ in range(200):
        noisy = exact + rng.normal(0, 30.0, 25)
        found = draw_column(
            Domain(("pay",), (25,)),
            (noisy, 900.0),
            total=16_000.0,
            totals=np.full(2, 16_000.0),
            zeros=StructuralZeros(),
            scores=clear_scores(values, noisy, np.full(25, 900.0)),
            rng=rng,
        )
        ratios.append(spread(found.middle) / spread(exact))
        usual = central_counts(noisy, np.full(25, 30.0), np.ones(25, dtype=bool))
        plain.append(spread(usual) / spread(exact))
    assert np.mean(plain) > 1.3
    assert np.mean(ratios) < 1.2
