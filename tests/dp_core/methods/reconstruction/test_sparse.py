"""Records from the cells of one table of all columns that passed a threshold."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.errors import BadInput, StageFailed
from dp_core.methods.reconstruction.gibbs import Gibbs
from dp_core.methods.reconstruction.sparse import Sparse
from tests.dp_core.methods.reconstruction.thresholded import DOMAIN, NONE, rng, sparse, total

JOINT = sparse(("a", "b", "c"), [[0, 0, 1], [0, 2, 3], [1, 1, 0]], [10, 30, 60])


def test_records_are_drawn_from_the_kept_cells_by_their_noisy_counts():
    model = Sparse().fit(DOMAIN, [JOINT], rows=None, zeros=NONE, rng=rng())
    assert model.rows == 100
    data = model.sample(20_000, rng=rng(1))
    cells, counts = np.unique(data.codes.T, axis=0, return_counts=True)
    assert cells.tolist() == JOINT.cells.tolist()
    np.testing.assert_allclose(counts / 20_000, [0.1, 0.3, 0.6], atol=6 * 0.5 / 20_000**0.5)
    np.testing.assert_allclose(model.project(("c", "a"))[3], [30, 0])
    assert [table.values.tolist() for table in model.tables] == [
        [40, 60],
        [10, 60, 30],
        [60, 10, 0, 30],
    ]


def test_the_number_of_records_is_the_measured_or_the_public_one():
    fit = Sparse().fit
    model = fit(DOMAIN, [JOINT, total(2000)], rows=None, zeros=NONE, rng=rng())
    assert model.rows == 2000
    assert model.tables[0].values.sum() == pytest.approx(2000)
    assert fit(DOMAIN, [JOINT, total(2000)], rows=77, zeros=NONE, rng=rng()).rows == 77


def test_columns_may_stand_in_another_order():
    turned = sparse(("c", "a", "b"), [[1, 0, 0], [3, 0, 2], [0, 1, 1]], [10, 30, 60])
    model = Sparse().fit(DOMAIN, [turned], rows=None, zeros=NONE, rng=rng())
    expected = Sparse().fit(DOMAIN, [JOINT], rows=None, zeros=NONE, rng=rng())
    np.testing.assert_array_equal(model.cells, expected.cells)


@pytest.mark.runbook("nothing-kept")
def test_nothing_kept_is_said_and_nothing_is_made_up(says):
    empty = sparse(("a", "b", "c"), [], [], threshold=41)
    with pytest.raises(StageFailed, match=r"removed everything: .* of 41 or more. Abandon") as lost:
        Sparse().fit(DOMAIN, [empty, total(500)], rows=None, zeros=NONE, rng=rng())
    says(lost.value)
    for given in ([total(500)], [sparse(("a",), [[0]], [9])]):
        with pytest.raises(BadInput, match="needs one thresholded table of all columns"):
            Sparse().fit(DOMAIN, given, rows=None, zeros=NONE, rng=rng())


def test_options_are_checked():
    with pytest.raises(ValueError, match="sweeps"):
        Gibbs(sweeps=0)
    for method in (Sparse(), Gibbs()):
        method.check(DOMAIN)
        assert 0 < method.memory(DOMAIN, [], 10) < method.memory(DOMAIN, [], 10**6)
