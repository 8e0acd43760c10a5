"""Predictions along paths of measured pairs: exact in a chain, and used by the posterior."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.replicates.posterior.pair_prior import Column, Pair
from dp_core.methods.replicates.posterior.path_predictions import (
    path_predictions,
    with_path_predictions,
)
from dp_core.methods.replicates.posterior.posterior_tables import PosteriorTables
from dp_core.schema.structure.structural_zeros import StructuralZeros
from tests.measured import noisy_table

SIZES = (3, 4, 2, 5, 3, 4)
CHAIN = Domain(tuple("abcdef"), SIZES)
LINKS = tuple(itertools.pairwise(CHAIN.columns))
PAIRS = tuple(itertools.combinations(CHAIN.columns, 2))
TOTAL = 1_000_000.0


def chain_tables(seed=4):
    """Return the expected tables of all columns and pairs of a Markov chain, in records."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(SIZES[0], 6.0))
    ones, steps = [shares], []
    for size in SIZES[1:]:
        steps.append(rng.dirichlet(np.full(size, 1.5), size=len(ones[-1])))
        ones.append(ones[-1] @ steps[-1])
    found = {(name,): TOTAL * each for name, each in zip(CHAIN.columns, ones, strict=True)}
    for first, last in itertools.combinations(range(len(SIZES)), 2):
        along = np.diag(ones[first])
        for step in steps[first:last]:
            along = along @ step
        found[CHAIN.columns[first], CHAIN.columns[last]] = TOTAL * along
    return found


INDEPENDENT = {(a, b): np.outer(chain_tables()[a,], chain_tables()[b,]) / TOTAL for a, b in PAIRS}


def known(tables, measured):
    """Return all pairs of the chain, of which some were measured with hardly any noise."""
    columns = {
        name: Column.of(tables[name,], np.arange(tables[name,].size, dtype=float))
        for name in CHAIN.columns
    }
    return {
        (a, b): Pair(
            columns[a],
            columns[b],
            TOTAL,
            *((dependence_of(tables, (a, b)), 1e-4) if (a, b) in measured else ()),
        )
        for a, b in PAIRS
    }


def dependence_of(tables, clique):
    one, other = (tables[name,] for name in clique)
    return tables[clique] - np.multiply.outer(one, other) / TOTAL


def exact(tables, cliques):
    return [
        noisy_table(CHAIN.project(clique), np.rint(tables[clique]).astype(np.int64), scale=1e-3)
        for clique in cliques
    ]


def test_the_links_of_a_chain_predict_every_other_pair_exactly():
    tables = chain_tables()
    pairs = known(tables, LINKS)
    found = {
        name: pairs[name].table(told.mean)
        for name, told in path_predictions(CHAIN, pairs, INDEPENDENT).items()
    }
    assert {*found} == {*PAIRS} - {*LINKS}
    for clique, predicted in found.items():
        assert predicted == pytest.approx(dependence_of(tables, clique), abs=2.0)


def test_a_pair_is_predicted_without_its_own_measurement():
    tables = chain_tables()
    pairs = known(tables, PAIRS)
    before = path_predictions(CHAIN, pairs, INDEPENDENT)
    assert {*before} == {*PAIRS} - {*LINKS}
    other = {**pairs, ("a", "d"): Pair(pairs["a", "d"].one, pairs["a", "d"].other, TOTAL)}
    after = path_predictions(CHAIN, other, INDEPENDENT)["a", "d"].mean
    assert after == pytest.approx(before["a", "d"].mean, abs=1.0)


def test_paths_follow_the_noisy_dependences_if_every_measured_pair_has_one():
    tables = chain_tables()
    loud = ("a", "c")
    pairs = known(tables, PAIRS)
    # Its table looks more dependent than those of the links, as noise can make it.
    pairs[loud] = replace(pairs[loud], observed=8.0 * dependence_of(tables, loud))
    assert loud not in path_predictions(CHAIN, pairs, INDEPENDENT)
    looks = {pair: float(np.abs(dependence_of(tables, pair)).sum()) for pair in PAIRS}
    told = {pair: replace(each, dependence=(looks[pair], 10.0)) for pair, each in pairs.items()}
    found = told[loud].table(path_predictions(CHAIN, told, INDEPENDENT)[loud].mean)
    assert found == pytest.approx(dependence_of(tables, loud), abs=2.0)


def test_no_predicted_count_is_negative_however_noisy_the_links_are():
    rng, tables = np.random.default_rng(2), chain_tables()
    pairs = known(tables, LINKS)
    for link in LINKS:
        pair = pairs[link]
        noise = pair.table(pair.coordinates(rng.normal(0, 3e4, INDEPENDENT[link].shape)))
        pairs[link] = replace(pair, observed=pair.observed + noise, variance=9e8)
    for clique, told in path_predictions(CHAIN, pairs, INDEPENDENT).items():
        assert (INDEPENDENT[clique] + pairs[clique].table(told.mean) > -1.0).all(), clique


def test_columns_that_no_path_joins_have_no_prediction():
    measured = (("a", "b"), ("b", "c"), ("d", "e"), ("e", "f"))
    found = path_predictions(CHAIN, known(chain_tables(), measured), INDEPENDENT)
    assert {*found} == {("a", "c"), ("d", "f")}


def test_a_path_may_lead_through_a_column_of_very_many_levels():
    rng = np.random.default_rng(7)
    domain = Domain(("a", "many", "c"), (3, 600, 2))
    first = rng.dirichlet([2.0] * 3, size=600)
    last = rng.dirichlet([2.0] * 2, size=600)
    shares = rng.dirichlet([5.0] * 600)
    joint = TOTAL * np.einsum("b,ba,bc->abc", shares, first, last)
    ones = [joint.sum(axis=(1, 2)), joint.sum(axis=(0, 2)), joint.sum(axis=(0, 1))]
    pairs = {("a", "many"): joint.sum(axis=2), ("many", "c"): joint.sum(axis=0)}
    columns = dict(
        zip(domain.columns, [Column.of(n, np.arange(n.size) * 1.0) for n in ones], strict=True)
    )
    by_name = dict(zip(domain.columns, ones, strict=True))
    without = {
        (x, y): np.outer(by_name[x], by_name[y]) / TOTAL
        for x, y in itertools.combinations(domain.columns, 2)
    }
    told = {
        (x, y): Pair(
            columns[x],
            columns[y],
            TOTAL,
            *((pairs[x, y] - without[x, y], 1e-4) if (x, y) in pairs else ()),
        )
        for x, y in without
    }
    found = path_predictions(domain, told, without)["a", "c"].mean
    true = joint.sum(axis=1) - without["a", "c"]
    assert told["a", "c"].table(found) == pytest.approx(true, abs=0.02 * np.abs(true).max())


def test_one_measured_pair_predicts_nothing_and_changes_nothing():
    pairs = known(chain_tables(), LINKS[:1])
    assert path_predictions(CHAIN, pairs, INDEPENDENT) == {}
    assert with_path_predictions(CHAIN, pairs, INDEPENDENT) == pairs


def test_without_noise_an_unmeasured_pair_of_a_chain_is_what_the_others_imply():
    tables = chain_tables()
    hidden = ("a", "c")
    measured = [pair for pair in PAIRS if pair != hidden]
    found = PosteriorTables.of(
        CHAIN,
        exact(tables, [*((name,) for name in CHAIN.columns), *measured]),
        sets=5,
        rows=int(TOTAL),
        zeros=StructuralZeros(),
        dependences={pair: float(np.abs(dependence_of(tables, pair)).sum()) for pair in PAIRS},
        dependence_stddev=100.0,
        rng=np.random.default_rng(1),
    )
    true = dependence_of(tables, hidden)
    wrong = found.pairs[hidden].mean - true
    assert np.abs(wrong).sum() < 0.01 * np.abs(true).sum()
