"""Noisy distribution functions: trees of counts, least squares, isotonic regression."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.parametric.noisy_ecdf import NoisyECDF, monotone
from dp_core.schema.variables import Variable, Variables
from tests.memory_measurement import model_in_memory

AREA = Variable(name="area", size=3)
PAY = Variable(name="pay", size=101, positions=100, high=100, missing=True)
BOTH = Variables((AREA, PAY))


def file_of(rows=5_000, seed=3):
    rng = np.random.default_rng(seed)
    pay = np.minimum(rng.geometric(0.05, rows) - 1, 99)
    pay = np.where(rng.random(rows) < 0.1, 100, pay)
    return Dataset(BOTH.domain, np.stack([rng.binomial(2, 0.3, rows), pay]).astype(np.uint16))


def test_a_monotone_function_stays_and_another_becomes_the_nearest():
    rising = np.array([1.0, 2.0, 5.0, 8.0])
    np.testing.assert_array_equal(monotone(rising, 8.0), rising)
    rng = np.random.default_rng(2)
    noisy = np.cumsum(rng.normal(1, 4, 50))
    found = monotone(noisy, 100.0)
    assert (np.diff(found) >= 0).all()
    assert found[0] >= 0
    assert found[-1] == 100


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_without_noise_each_table_is_that_of_the_file(neighbours):
    data = file_of()
    model, _ = model_in_memory(NoisyECDF(), BOTH, data, neighbours=neighbours)
    assert model.rows == data.rows
    for table, codes in zip([each.values for each in model.cells], data.codes, strict=True):
        exact = np.bincount(codes, minlength=table.size)
        np.testing.assert_allclose(table, exact, atol=1e-5)
    drawn = model.sample(data.rows, rng=np.random.default_rng(1))
    real, made = (np.bincount(each.codes[1], minlength=101) for each in (data, drawn))
    # To within a record, by which a cell is rounded.
    assert np.abs(real - made).max() <= 1


def test_the_levels_of_a_tree_share_the_budget_of_their_column():
    _, session = model_in_memory(NoisyECDF(), BOTH, file_of(), 1)
    names = [grant.step.name for grant in session.charges]
    assert names[1:] == [f"column-2-level-{each}" for each in (1, 2, 3)]
    scales = [float(grant.step.event.scale) for grant in session.charges]
    assert scales == pytest.approx([2, 6, 6, 6])


def test_missing_is_a_bin_of_its_own():
    model, _ = model_in_memory(NoisyECDF(), BOTH, file_of())
    assert model.cells[1].values.size == 101
    assert model.cells[1].values[100] == pytest.approx((file_of().codes[1] == 100).sum())
