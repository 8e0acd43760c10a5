from __future__ import annotations

import numpy as np
import pytest

from dp_core.client.interactions import steps_of_a_record
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods.reconstruction.estimates.table_parts import (
    beyond,
    interaction_part,
    interactions_by_clique,
)
from tests.measured import noisy_sums

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
TABLE = np.random.default_rng(2).integers(0, 900, (2, 3))


def totals(columns, table, stddev):
    """An exact interaction that says its noise is as that of a table's cells."""
    of = Interaction(columns, table.shape)
    return noisy_sums(of, of.of_table(table), scale=stddev * steps_of_a_record(of))


def test_the_interaction_of_a_table_is_read_in_the_order_of_the_domain():
    found = interactions_by_clique(DOMAIN, [totals(("b", "a"), TABLE.T.copy(), 5.0)])
    values, variance = found["a", "b"]
    np.testing.assert_allclose(values, beyond(TABLE.astype(float)), atol=1e-9)
    assert variance == pytest.approx(25.0)


def test_interactions_of_the_same_columns_are_averaged_by_inverse_variance():
    other = TABLE[::-1].copy()
    found = interactions_by_clique(
        DOMAIN, [totals(("a", "b"), TABLE, 1.0), totals(("a", "b"), other, 3.0)]
    )
    values, variance = found["a", "b"]
    np.testing.assert_allclose(values, beyond(0.9 * TABLE + 0.1 * other), atol=1e-9)
    assert variance == pytest.approx(0.9)


def test_the_part_of_the_noise_in_the_interaction_is_the_rank_of_its_projection():
    cells = DOMAIN.size()
    eye = np.eye(cells).reshape(cells, *DOMAIN.sizes)
    own = sum(beyond(each).ravel()[index] for index, each in enumerate(eye))
    assert interaction_part(DOMAIN) == pytest.approx(own / cells)
