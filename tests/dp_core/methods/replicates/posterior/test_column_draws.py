"""The centre and the draws of a column's counts where noise hides the ends of a number."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.replicates.posterior.column_draws import draw_column
from dp_core.schema.structure.structural_zeros import StructuralZeros

FALLING = np.array([9_000.0, 5_000.0, 1_500.0, 400.0, 80.0, 15.0, 4.0, 1.0, *np.zeros(17)])


def column(counts, noise, *, values=True, sets=5, seed=0):
    """Return the draws of a column of these counts with normal noise, and its levels' values."""
    rng, levels = np.random.default_rng(seed), np.arange(counts.size, dtype=np.float64)
    total = float(counts.sum())
    found = draw_column(
        Domain(("pay",), (counts.size,)),
        (counts + rng.normal(0, noise, counts.size), noise**2),
        total=total,
        totals=np.full(sets, total),
        zeros=StructuralZeros(),
        values=levels if values else None,
        rng=rng,
    )
    return found, levels


def spread(counts, values):
    return np.sqrt(np.cov(values, aweights=counts, bias=True))


@pytest.mark.parametrize("values", [False, True])
def test_empty_bins_far_out_move_the_spread_of_a_number_only_without_its_values(values):
    """Mean over 60 draws of noise of 46 records a bin."""
    ratios = []
    for seed in range(60):
        found, levels = column(FALLING, 46.0, values=values, seed=seed)
        one_set = spread(found.draws[0], levels)
        ratios.append([spread(found.middle, levels), one_set] / spread(FALLING, levels))
    middle, one_set = np.mean(ratios, axis=0)
    if values:
        assert middle < 1.15
        assert one_set < 1.9
    else:
        assert middle > 1.4
        assert one_set > 2.5


def test_intervals_of_a_numbers_levels_mean_and_spread_cover():
    """Of 200 files; intervals of t(4) from 5 sets. Without values, the spread is never inside."""
    inside, of_levels = [], []
    for seed in range(200):
        found, levels = column(FALLING, 46.0, seed=seed)
        moments = np.array([[each @ levels, spread(each, levels)] for each in found.draws])
        off = np.abs(moments.mean(axis=0) - (FALLING @ levels, spread(FALLING, levels)))
        inside.append(off <= 2.776 * np.sqrt(1.2 * moments.var(axis=0, ddof=1)))
        off = np.abs(found.draws.mean(axis=0) - FALLING)
        of_levels.append(off <= 2.776 * np.sqrt(1.2 * found.draws.var(axis=0, ddof=1)) + 1)
    mean, of_spread = np.mean(inside, axis=0)
    assert mean > 0.87
    assert of_spread > 0.8
    assert np.mean(of_levels) > 0.96
    assert np.mean(of_levels, axis=0).min() > 0.83
