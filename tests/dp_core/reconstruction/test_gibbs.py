"""How far a record's columns go from where the Gibbs sampler begins."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dp_core.domain import Domain
from dp_core.marginals import SparseTable
from dp_core.reconstruction.gibbs import Gibbs
from dp_core.structural_zeros import StructuralZeros

DOMAIN = Domain(("a", "b"), (2, 2))
CELLS = [[0, 0], [0, 1], [1, 0], [1, 1]]
SAMPLED = 20_000


def kept(clique):
    """Two columns that agree in nine records of ten, and are 0 in half of all."""
    return SparseTable(
        domain=DOMAIN.project(clique),
        cells=np.array(CELLS, np.uint16),
        values=np.array([450, 50, 50, 450], np.int64),
        threshold=5,
        capacity=100,
        noise="laplace",
        scale=1.0,
        stage="measure",
        replicate=0,
        grant=1,
    )


def begun_at_zero(method):
    """Return the part of the records with a = 0 and with b = 0, all begun at (0, 0)."""
    model = method.fit(
        DOMAIN,
        [kept(("a", "b")), kept(("b", "a"))],
        rows=None,
        zeros=StructuralZeros(),
        rng=np.random.default_rng(0),
    )
    model = dataclasses.replace(model, states=np.zeros((1, 2), np.uint16), chances=np.ones(1))
    return (model.sample(SAMPLED, rng=np.random.default_rng(1)).codes == 0).mean(axis=1)


@pytest.mark.parametrize(
    ("method", "steps"), [(Gibbs(sweeps=1), 1), (Gibbs(sweeps=2), 3), (Gibbs(), 39)]
)
def test_every_sweep_forgets_the_start_by_as_much_as_the_chain_says(method, steps):
    """A step takes .8 of the distance from 1/2: after one sweep a is 0 in .9, b in .82.

    Twenty sweeps, the default, are 40 steps; what is left of the start is below 1e-4.
    """
    exact = [0.5 + 0.5 * 0.8**steps, 0.5 + 0.5 * 0.8 ** (steps + 1)]
    np.testing.assert_allclose(begun_at_zero(method), exact, atol=6 * 0.5 / SAMPLED**0.5)
    assert (steps < 39) == (exact[0] > 0.7)
