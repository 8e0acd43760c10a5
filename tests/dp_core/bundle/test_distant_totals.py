"""The report says how far public totals are from the noisy tables."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.bundle.quality.distant_totals import totals_distances
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.estimates.pooled_parts import pool
from dp_core.schema.structure.public_totals import PublicTotals
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b"), (4, 2))


def pooled(counts, scale=2.0):
    table = noisy_table(DOMAIN.project(("a",)), np.array(counts), scale=scale, stage="one_way")
    return pool(DOMAIN, [table])


@pytest.mark.parametrize(
    ("totals", "tvd", "far"),
    [
        ((4000, 3000, 2000, 1000), 0, False),
        ((400, 300, 200, 100), 0, False),
        ((3900, 3100, 2000, 1000), 0.01, False),
        ((1000, 3000, 2000, 4000), 0.3, True),
    ],
)
def test_a_distance_is_one_of_proportions(totals, tvd, far):
    known = [PublicTotals("a", totals, "Census")]
    (found,) = totals_distances(known, pooled([4000, 3000, 2000, 1000]))
    assert found.tvd == pytest.approx(tvd)
    assert found.is_far == far


def test_noise_explains_a_distance_of_its_size():
    rng = np.random.default_rng(0)
    counts, known = np.array([400, 300, 200, 100]), [PublicTotals("a", (400, 300, 200, 100), "C")]
    found = [
        totals_distances(known, pooled(counts + rng.normal(0, 40, 4).round(), 40.0))[0]
        for _ in range(200)
    ]
    mean = np.mean([each.tvd for each in found])
    assert mean == pytest.approx(np.mean([each.expected for each in found]), rel=0.25)
    assert np.mean([each.is_far for each in found]) < 0.02


def test_a_column_that_was_not_measured_has_no_distance():
    assert totals_distances([PublicTotals("b", (1, 2), "C")], pooled([1, 2, 3, 4])) == []
    assert totals_distances([PublicTotals("a", (1, 2, 3, 4), "C")], None) == []
