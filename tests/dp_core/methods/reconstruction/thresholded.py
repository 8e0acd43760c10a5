"""Thresholded tables for the tests of what draws records from them."""

from __future__ import annotations

import numpy as np

from dp_core.client.released import SparseTable
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_table

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))
NONE = StructuralZeros()


def rng(seed=0):
    return np.random.default_rng(seed)


def sparse(clique, cells, values, *, domain=DOMAIN, threshold=5):
    codes = np.array(cells, np.uint16).reshape(len(values), len(clique))
    return SparseTable(
        domain=domain.project(clique),
        cells=codes,
        values=np.array(values, np.int64),
        threshold=threshold,
        capacity=100,
        noise="laplace",
        scale=1.0,
        stage="measure",
        replicate=0,
        grant=1,
    )


def total(count, domain=DOMAIN):
    return noisy_table(domain.project(()), np.array(count), noise="laplace", stage="total", grant=2)


def table_of(data, clique, least=1):
    """The exact table of a clique, thresholded."""
    rows = np.stack([data.column(name) for name in clique], axis=1)
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    kept = counts >= least
    return sparse(clique, cells[kept], counts[kept], domain=data.domain, threshold=least)


def chain_tables():
    """Tables of each column with one other, from 400 records of a chain a - b - c."""
    draw = rng(5)
    a = draw.integers(0, 2, 400)
    b = np.where(draw.random(400) < 0.8, a, draw.integers(0, 3, 400))
    c = np.where(draw.random(400) < 0.8, b, draw.integers(0, 4, 400))
    data = Dataset(DOMAIN, np.stack([a, b, c]).astype(np.uint16))
    return [table_of(data, clique) for clique in (("a", "b"), ("b", "a"), ("c", "b"))]
