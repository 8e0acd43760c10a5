"""Draws of the table of all columns, if it is all that was measured."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.method_inputs import FitInputs
from dp_core.methods.replicates.posterior.posterior_tables import PosteriorTables, measured_tables
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.measured import noisy_table

NOTHING = StructuralZeros()
SPARSE = Domain(tuple("abcdefgh"), (2,) * 8)


def sparse(rng, rows=700):
    """Return a table of 256 cells, most of which are empty."""
    shares = rng.dirichlet(np.full(SPARSE.size(), 0.08))
    return rng.multinomial(rows, shares).reshape(SPARSE.sizes)


def posterior(counts, noise, rng, *, domain=SPARSE, zeros=NOTHING, others=()):
    """Return the posterior of a noisy table of all columns, and the noisy table."""
    noisy = counts + np.rint(rng.laplace(0, noise / 2**0.5, counts.shape)).astype(np.int64)
    released = [noisy_table(domain, noisy, scale=max(noise, 1e-4)), *others]
    return PosteriorTables.of(domain, released, sets=5, rows=None, zeros=zeros, rng=rng), noisy


def distance(found, counts):
    """Return the mean total variation distance of all pairs."""
    every = [
        np.abs(
            summed(found, SPARSE, clique) / found.sum()
            - summed(counts, SPARSE, clique) / counts.sum()
        ).sum()
        for clique in itertools.combinations(SPARSE.columns, 2)
    ]
    return float(np.mean(every)) / 2


def test_without_noise_the_centre_and_every_draw_are_the_file():
    rng = np.random.default_rng(1)
    counts = sparse(rng)
    found, _ = posterior(counts, 0.0, rng)
    for tables in (found.central_tables(), found.draw(1), found.draw(5)):
        np.testing.assert_array_equal(tables[-1].values, counts)


@pytest.mark.parametrize("noise", [1.4, 7.0])
def test_the_centre_is_nearer_than_the_table_without_its_negative_cells(noise):
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        counts = sparse(rng)
        found, noisy = posterior(counts, noise, rng)
        central = found.central_tables()[-1]
        assert (central.values == np.rint(central.values)).all()
        cut = np.maximum(noisy, 0)
        ratios.append(distance(central.values, counts) / distance(cut, counts))
    assert np.mean(ratios) < 0.8


def test_intervals_of_pairs_cover():
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        counts = sparse(rng)
        found, _ = posterior(counts, 1.4, rng)
        sets = [found.draw(number)[-1].values for number in range(1, 6)]
        for clique in itertools.combinations(SPARSE.columns, 2):
            drawn = np.array([summed(each, SPARSE, clique) for each in sets])
            half = 2.776 * np.sqrt(1.2 * drawn.var(axis=0, ddof=1))
            off = np.abs(drawn.mean(axis=0) - summed(counts, SPARSE, clique))
            inside.append(off <= half + 0.5)
    assert np.mean(inside) > 0.9


def test_impossible_cells_are_empty():
    domain, rng = Domain(("a", "b"), (3, 4)), np.random.default_rng(2)
    counts = rng.integers(0, 40, domain.sizes)
    counts[0, 1] = 0
    zeros = StructuralZeros((Rule(("a", "b"), ((0,), (1,)), ""),))
    found, _ = posterior(counts, 10.0, rng, domain=domain, zeros=zeros)
    for tables in (found.central_tables(), found.draw(2)):
        assert tables[-1].values[0, 1] == 0


def test_methods_get_the_margins_too_and_other_measurements_are_used():
    rng = np.random.default_rng(3)
    counts = sparse(rng)
    whole = noisy_table(SPARSE, counts, scale=1.0)
    tables, total = measured_tables(FitInputs(SPARSE, [whole], None, StructuralZeros(), rng))
    assert [len(table.clique) for table in tables] == [1] * 8 + [2] * 28 + [8]
    for table in tables:
        np.testing.assert_allclose(
            table.values, summed(tables[-1].values, SPARSE, table.clique), atol=1e-6
        )
        assert table.values.sum() == pytest.approx(total)
    one = noisy_table(SPARSE.project(("a",)), summed(counts, SPARSE, ("a",)), scale=1.0)
    found, _ = posterior(counts, 1.0, rng, others=[one])
    assert found.joint is None
    assert len(found.central_tables()) > 1
