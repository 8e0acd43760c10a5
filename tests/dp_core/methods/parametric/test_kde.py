"""Kernel density estimates released on a grid."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.methods.parametric.kde import KDE, narrow_kernel
from dp_core.schema.variables import Variable, Variables
from tests.memory_measurement import model_in_memory

AREA = Variable(name="area", size=3)
PAY = Variable(name="pay", size=101, positions=100, high=100, missing=True)
BOTH = Variables((AREA, PAY))


def file_of(rows=5_000, seed=3):
    rng = np.random.default_rng(seed)
    pay = np.clip(rng.normal(30, 12, rows), 0, 99)
    pay = np.where(rng.random(rows) < 0.1, 100, pay)
    return Dataset(BOTH.domain, np.stack([rng.binomial(2, 0.3, rows), pay]).astype(np.uint16))


def estimate(counts, bandwidth):
    """Return the kernel estimate of counts, each bin divided by the kernel's part within."""
    place = np.arange(len(counts))
    kernel = np.exp(-(((place[:, None] - place) / bandwidth) ** 2) / 2)
    return kernel @ counts / kernel.sum(axis=1)


def test_the_narrow_kernel_applied_twice_is_the_normal_kernel():
    weights = np.array(narrow_kernel(6.0, 200), dtype=float)
    kernel = np.concatenate([weights[:0:-1], weights])
    twice = np.convolve(kernel, kernel)
    place = np.arange(len(twice)) - len(twice) // 2
    normal = np.exp(-((place / 6.0) ** 2) / 2)
    np.testing.assert_allclose(twice / twice.max(), normal, atol=2e-4)


@pytest.mark.parametrize("bandwidth", [0.02, 0.1])
def test_without_noise_it_is_the_kernel_estimate_of_the_file(bandwidth, monkeypatch):
    monkeypatch.setattr(KDE, "bandwidth", bandwidth)
    data = file_of()
    model, _ = model_in_memory(KDE(), BOTH, data, rows=data.rows)
    counts = np.bincount(data.codes[1], minlength=101)
    wanted = estimate(counts[:100].astype(float), 100 * bandwidth)
    found = model.cells[1].values
    assert found[100] == pytest.approx(counts[100], rel=0.01)
    # Near the ends of the range the two kernels have lost other parts than one wide one.
    np.testing.assert_allclose(found[5:95], wanted[5:95], atol=0.02 * wanted.max())
    np.testing.assert_allclose(found[:5], wanted[:5], rtol=0.1, atol=1)
    np.testing.assert_allclose(model.cells[0].values, np.bincount(data.codes[0]), atol=1e-6)


def test_numbers_alone_estimate_the_number_of_records():
    variables = Variables((PAY,))
    data = Dataset(variables.domain, file_of().codes[1:])
    model, _ = model_in_memory(KDE(), variables, data)
    assert model.rows == pytest.approx(data.rows, rel=0.02)
