"""Posterior tables with public records: nearer with records that fit, as before with others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.prior import PublicPrior, as_codes
from dp_core.methods.replicates.posterior.posterior_tables import PosteriorTables
from dp_core.methods.replicates.posterior.public_predictions import with_public_predictions
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_table

DOMAIN = Domain(tuple("abcdefgh"), (2, 3, 4, 2, 3, 5, 2, 4))
PAIRS = tuple(itertools.combinations(DOMAIN.columns, 2))
ROWS = 8000
SCALE = 120.0


def records(seed, rows=ROWS, of=1):
    """Return codes of a latent class model of four classes; `of` names the population."""
    model, rng = np.random.default_rng([of, 0]), np.random.default_rng(seed)
    group = rng.integers(0, 4, rows)
    columns = []
    for size in DOMAIN.sizes:
        shares = model.dirichlet(np.full(size, 0.7), 4)[group].cumsum(axis=1)
        columns.append(np.minimum((rng.random(rows)[:, None] > shares).sum(axis=1), size - 1))
    return np.stack(columns)


def counts(codes, clique):
    sizes = DOMAIN.project(clique).sizes
    place = np.ravel_multi_index([codes[axis] for axis in DOMAIN.axes(clique)], sizes)
    return np.bincount(place, minlength=int(np.prod(sizes))).reshape(sizes)


def measured(codes, rng):
    """Return noisy tables of all columns and of every second pair."""
    cliques = [*((name,) for name in DOMAIN.columns), *PAIRS[::2]]
    return [
        noisy_table(
            DOMAIN.project(clique),
            counts(codes, clique)
            + np.rint(rng.normal(0, SCALE, DOMAIN.project(clique).sizes)).astype(np.int64),
            scale=SCALE,
        )
        for clique in cliques
    ]


def posterior(released, public):
    rng = np.random.default_rng(1)
    return PosteriorTables.of(
        DOMAIN, released, sets=3, rows=None, zeros=StructuralZeros(), public=public, rng=rng
    )


def prior(*sets, apart=False):
    return PublicPrior(DOMAIN, tuple(as_codes(list(codes)) for codes in sets), apart)


def error(found, codes, pairs):
    tables = {table.clique: table.values for table in found.central_tables()}
    return np.mean([np.abs(tables[pair] - counts(codes, pair)).sum() for pair in pairs])


@pytest.fixture(scope="module", params=[11, 12])
def case(request):
    """Return a file, its noisy tables, and its posterior without public records."""
    codes = records(request.param)
    released = measured(codes, np.random.default_rng(request.param + 100))
    return codes, released, posterior(released, None)


@pytest.mark.parametrize("pairs", [PAIRS[::2], PAIRS[1::2]], ids=["measured", "not measured"])
def test_records_of_the_same_population_bring_tables_nearer(case, pairs):
    codes, released, without = case
    found = posterior(released, prior(records(31)))
    assert error(found, codes, pairs) < 0.85 * error(without, codes, pairs)


def test_some_columns_are_enough(case):
    codes, released, without = case
    kept = DOMAIN.project(tuple("abcd"))
    public = PublicPrior(kept, (as_codes(list(records(31)[:4])),), False)
    found = posterior(released, public)
    told = [pair for pair in PAIRS if set(pair) <= set("abcd")]
    assert error(found, codes, told) < error(without, codes, told)


def test_the_noise_between_sets_adds_to_the_error_of_a_prediction(case):
    _, _, without = case
    pairs = {clique: each.pair for clique, each in without.pairs.items()}
    columns = {name: each.middle for name, each in without.columns.items()}
    expected = {(a, b): np.multiply.outer(columns[a], columns[b]) / without.total for a, b in pairs}
    possible = {clique: np.ones(each.shape, dtype=bool) for clique, each in expected.items()}
    sets = [records(seed) for seed in (31, 32, 33)]
    told = [
        with_public_predictions(prior(*sets, apart=apart), pairs, columns, expected, possible)
        for apart in (False, True)
    ]
    for clique, pair in pairs.items():
        sampling, both = (each[clique].errors[-1] for each in told)
        assert sampling == pytest.approx(pair.shape / ROWS)
        assert (both > sampling).all()


def test_the_result_does_not_depend_on_the_order_of_public_records(case):
    _, released, _ = case
    codes = records(31)
    one, other = (posterior(released, prior(each)) for each in (codes, codes[:, ::-1]))
    for before, after in zip(one.central_tables(), other.central_tables(), strict=True):
        assert np.array_equal(before.values, after.values)
