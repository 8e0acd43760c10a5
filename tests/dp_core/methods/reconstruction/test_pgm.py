from __future__ import annotations

import itertools
import logging
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.client.released import Table
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import pgm
from dp_core.methods.reconstruction.graphical import targets as targets_of_tables
from dp_core.methods.reconstruction.graphical.answers import Answers
from dp_core.methods.reconstruction.graphical.junction_fit import fit_tree
from dp_core.methods.reconstruction.graphical.junction_tree import (
    JunctionTree,
    adjacency,
    tree_cells,
    within,
)
from dp_core.methods.reconstruction.graphical.targets import targets
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import summed
from tests.measured import NONE, noisy_table

DOMAIN = Domain(tuple("abcdefg"), (2, 3, 2, 4, 3, 1, 3))
FACTORS = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("d", "e"), ("b", "f"), ("g",)]


def product_of(cliques, domain=DOMAIN, seed=0, total=100_000):
    """Return the joint table of a random graphical model."""
    rng = np.random.default_rng(seed)
    log = np.zeros(domain.sizes)
    for clique in cliques:
        shape = [size if name in clique else 1 for name, size in zip(*_axes(domain), strict=True)]
        log = log + rng.normal(0, 1, domain.project(clique).sizes).reshape(shape)
    joint = np.exp(log)
    return joint * (total / joint.sum())


def _axes(domain):
    return domain.columns, domain.sizes


def measured(joint, cliques, domain=DOMAIN, scale=1e-3, seed=None):
    rng = np.random.default_rng(seed)
    found = []
    for clique in cliques:
        values = summed(joint, domain, clique)
        noisy = np.rint(values if seed is None else values + rng.normal(0, scale, values.shape))
        found.append(noisy_table(domain.project(clique), noisy.astype(np.int64), scale=scale))
    return found


def fit(
    measurements,
    domain=DOMAIN,
    zeros=NONE,
    rows=None,
    sweeps=pgm.SWEEPS,
    tolerance=pgm.TOLERANCE,
    smoothing=targets_of_tables.SMOOTHING,
    **options,
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pgm, "SWEEPS", sweeps)
        patch.setattr(pgm, "TOLERANCE", tolerance)
        patch.setattr(targets_of_tables, "SMOOTHING", smoothing)
        return Pgm(**options).fit(
            domain, measurements, rows=rows, zeros=zeros, rng=np.random.default_rng(0)
        )


CLOSE = {"sweeps": 500, "tolerance": 1e-12}


@pytest.mark.parametrize("shrink", [True, False])
def test_without_noise_it_is_the_model_of_largest_entropy_on_every_table(shrink):
    joint = product_of(FACTORS)
    model = fit(measured(joint, FACTORS), shrink=shrink, **CLOSE)
    for size in (1, 2, 3, 4):
        for clique in itertools.combinations(DOMAIN.columns[::-1], size):
            # Measured tables were rounded to whole records.
            np.testing.assert_allclose(
                model.project(clique), summed(joint, DOMAIN, clique), atol=2.5
            )


def test_what_was_not_measured_is_even_and_independent():
    joint = product_of([("a", "b"), ("c",)])
    model = fit(measured(joint, [("a", "b"), ("c",)]))
    np.testing.assert_allclose(model.project(("d",)), model.rows / 4)
    expected = np.multiply.outer(model.project(("b",)), model.project(("e",))) / model.rows
    np.testing.assert_allclose(model.project(("b", "e")), expected)
    expected = np.multiply.outer(model.project(("b",)), model.project(("c",))) / model.rows
    np.testing.assert_allclose(model.project(("b", "c")), expected)


def test_noise_is_drawn_towards_the_columns():
    joint = product_of([(name,) for name in DOMAIN.columns], total=2000)
    noisy = measured(joint, [("d", "e"), ("d",), ("e",)], scale=30.0, seed=1)
    truth = summed(joint, DOMAIN, ("d", "e"))
    errors = [
        np.abs(fit(noisy, rows=2000, **options).project(("d", "e")) - truth).sum()
        for options in (
            {"shrink": True},
            {"shrink": False, "smoothing": 1.0},
            {"shrink": False, "smoothing": 1e-4, **CLOSE},
        )
    ]
    assert errors[0] < 0.7 * errors[2]
    assert errors[1] < 0.7 * errors[2]


def test_more_sweeps_come_nearer():
    joint = product_of(list(itertools.combinations(DOMAIN.columns[:5], 2)), seed=2)
    pairs = list(itertools.combinations(DOMAIN.columns[:5], 2))
    few, many = (
        max(np.abs(model.project(pair) - summed(joint, DOMAIN, pair)).max() for pair in pairs)
        for model in (fit(measured(joint, pairs), sweeps=sweeps) for sweeps in (2, 50))
    )
    assert many < few / 10
    early = fit(measured(joint, pairs), tolerance=100.0)
    late = fit(measured(joint, pairs), sweeps=1)
    np.testing.assert_array_equal(early.tables[0].values, late.tables[0].values)


def test_a_fit_that_begins_where_the_last_one_ended_is_there_at_once():
    pairs = list(itertools.combinations(DOMAIN.columns[:5], 2))
    given = measured(product_of(pairs, seed=2), pairs)

    def fitted(pairs, start, sweeps):
        wanted, total = targets(DOMAIN, given[: len(pairs)], rows=None, zeros=NONE)
        tree = JunctionTree.of(DOMAIN, [target.domain.columns for target in wanted])
        return fit_tree(
            tree, wanted, total=total, zeros=NONE, start=start, sweeps=sweeps, tolerance=1e-5
        )

    def furthest(one, two):
        found = zip(one.tables, two.tables, strict=True)
        return max(np.abs(mine.values - other.values).max() for mine, other in found)

    last = fitted(pairs, None, 500)
    again = fitted(pairs, last.potentials, 500)
    assert again.sweeps == 1 < last.sweeps
    assert furthest(again, last) < 0.1
    # One sweep from nothing is far off; from a fit of all tables but one it is nearer.
    most = fitted(pairs[:-1], None, 500).potentials
    cold, warm = (furthest(fitted(pairs, start, 1), last) for start in (None, most))
    assert cold > 1000
    assert warm < cold / 5


@pytest.mark.full  # the package takes ten seconds to import
@pytest.mark.slow
def test_it_fits_as_the_authors_package_does():
    domain = Domain(tuple("abcd"), (2, 3, 4, 2))
    joint = np.random.default_rng(0).poisson(60, domain.sizes).astype(float)
    cliques = [("a",), ("b",), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    noisy = measured(joint, cliques, domain, scale=6.0, seed=4)
    ours = fit(noisy, domain, shrink=False, smoothing=1e-4, **CLOSE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax
        import mbi

        jax.config.update("jax_enable_compilation_cache", False)
        jax.config.update("jax_enable_x64", True)
        peer = mbi.estimation.MirrorDescent().estimate(
            mbi.Domain(domain.columns, domain.sizes),
            [mbi.LinearMeasurement(each.values.ravel(), each.clique, 6.0) for each in noisy],
            known_total=float(ours.rows),
            iters=800,
        )
        for pair in itertools.combinations(domain.columns, 2):
            theirs = np.asarray(peer.project(pair).datavector(flatten=False))
            np.testing.assert_allclose(ours.project(pair), theirs, atol=1e-4 * ours.rows)


def test_a_rule_without_room_in_the_tree_is_kept_by_mending(monkeypatch):
    monkeypatch.setattr(Pgm, "max_cells", 24)
    rules = StructuralZeros((Rule(("a", "d", "e"), ((0,), (1, 2), (0,)), "wide"),))
    model = fit(measured(product_of([]), [(name,) for name in DOMAIN.columns]), zeros=rules)
    assert all(len(table.clique) == 1 for table in model.tables)
    assert not rules.violations(model.sample(5000, rng=np.random.default_rng(0))).any()


def test_what_is_too_large_is_refused_and_named(monkeypatch):
    pairs = list(itertools.combinations(DOMAIN.columns, 2))
    assert Pgm().memory(DOMAIN, pairs, 1000) > 0
    monkeypatch.setattr(Pgm, "max_cells", 100)
    with pytest.raises(BadInput, match="reconstruct: gum"):
        Pgm().memory(DOMAIN, pairs, 1000)
    monkeypatch.setattr(Pgm, "max_cells", 10)
    with pytest.raises(BadInput, match="independent"):
        Pgm().check(DOMAIN)


def test_tables_that_were_paid_for_are_left_out_rather_than_the_release_lost(caplog, monkeypatch):
    monkeypatch.setattr(Pgm, "max_cells", 60)
    pairs = list(itertools.combinations(DOMAIN.columns, 2))
    with caplog.at_level(logging.WARNING):
        model = fit(measured(product_of(FACTORS), pairs))
    assert "no room" in caplog.text
    assert sum(table.values.size for table in model.tables) <= 60
    np.testing.assert_allclose(
        model.project(("g",)), summed(product_of(FACTORS), DOMAIN, ("g",)), atol=5
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sets(st.sampled_from(DOMAIN.columns), min_size=1, max_size=4), max_size=6))
def test_a_junction_tree_holds_the_cliques_and_has_the_running_intersection(sets):
    cliques = [tuple(name for name in DOMAIN.columns if name in one) for one in sets]
    tree = JunctionTree.of(DOMAIN, cliques)
    assert {name for clique in tree.cliques for name in clique} == set(DOMAIN.columns)
    assert all(tree.holder(clique) is not None for clique in cliques)
    for place in range(1, len(tree.cliques)):
        earlier = {name for clique in tree.cliques[:place] for name in clique}
        shared = earlier & set(tree.cliques[place])
        assert shared <= set(tree.cliques[tree.parents[place]])
        assert set(tree.separators[place]) == shared
    assert tree.cells == tree_cells(DOMAIN, adjacency(DOMAIN, cliques))
    assert JunctionTree.ordered(DOMAIN, tree.cliques) == tree


def test_a_cycle_gets_a_chord_where_it_costs_least():
    domain = Domain(tuple("abcd"), (10, 2, 10, 2))
    cycle = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    tree = JunctionTree.of(domain, cycle)
    assert set(tree.cliques) == {("a", "b", "d"), ("b", "c", "d")}
    assert tree.cells == 80
    assert within(domain, cycle, most_cells=79) == cycle[:3]


def test_answers_come_from_any_tree_alike():
    joint = product_of(FACTORS, seed=7)
    cliques = JunctionTree.of(DOMAIN, FACTORS).cliques
    for first in cliques:
        order = [first]
        left = [clique for clique in cliques if clique != first]
        while left:
            best = max(left, key=lambda c: max(len(set(c) & set(one)) for one in order))
            left.remove(best)
            order.append(best)
        tree = JunctionTree.ordered(DOMAIN, order)
        tables = [Table(DOMAIN.project(clique), summed(joint, DOMAIN, clique)) for clique in order]
        answers = Answers(tree, tables)
        for clique in itertools.combinations(DOMAIN.columns, 3):
            np.testing.assert_allclose(
                answers.table(clique), summed(joint, DOMAIN, clique), rtol=1e-9
            )
