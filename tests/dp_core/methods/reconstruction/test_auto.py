from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.interactions import steps_of_a_record
from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.questions.linear_questions import Interaction
from dp_core.methods import registry
from dp_core.methods.reconstruction import auto
from dp_core.methods.reconstruction.auto import AutoReconstruction
from dp_core.methods.reconstruction.estimates.implied_pairs import counted
from dp_core.methods.reconstruction.gum import GumModel
from dp_core.methods.reconstruction.pgm import GraphicalModel
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.measured import NONE, noisy_sums, noisy_table

SMALL = Domain(tuple("abcde"), (2, 3, 2, 4, 2))
LARGE = Domain(tuple("abcde"), (40, 50, 30, 20, 25))


def tables_of(domain, cliques, rows=4000):
    """Exact tables of independent, even columns."""
    return [
        noisy_table(each, np.full(each.sizes, round(rows / each.size())))
        for each in map(domain.project, cliques)
    ]


def fitted(domain, released, method=AutoReconstruction(), zeros=NONE):  # noqa: B008
    return method.fit(domain, released, rows=4000, zeros=zeros, rng=np.random.default_rng(0))


def test_a_small_graph_is_a_graphical_model_and_a_large_one_is_moved_records():
    pairs = list(itertools.combinations("abcde", 2))
    assert isinstance(fitted(SMALL, tables_of(SMALL, pairs)), GraphicalModel)
    assert isinstance(fitted(LARGE, tables_of(LARGE, pairs)), GumModel)
    assert isinstance(fitted(LARGE, tables_of(LARGE, [("a", "b"), ("b", "c")])), GraphicalModel)


def test_a_rule_over_many_columns_counts_among_what_the_model_has_to_hold():
    rule = Rule(tuple("abcde"), ((0,), (0,), (0,), (0,), (0,)), "never all first")
    zeros = StructuralZeros((rule,))
    assert isinstance(fitted(LARGE, tables_of(LARGE, [("a", "b")]), zeros=zeros), GumModel)


@pytest.mark.parametrize(("domain", "kind"), [(SMALL, GraphicalModel), (LARGE, GumModel)])
def test_given_tables_are_those_of_the_model_whichever_method_draws_it(domain, kind):
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, size, 4000) for size in domain.sizes]
    codes[1] = np.where(rng.random(4000) < 0.6, codes[0] % domain.sizes[1], codes[1])
    data = Dataset(domain, np.stack(codes).astype(np.uint16))
    cliques = [*((name,) for name in "abcde"), *itertools.combinations("abcde", 2)]
    tables = [Table(domain.project(clique), counted(data, clique)) for clique in cliques]
    method = AutoReconstruction()
    model = method.of_tables(domain, tables, rows=4000, zeros=NONE)
    assert type(model) is kind
    for table in tables:
        assert np.abs(model.project(table.clique) - table.values).max() < 2.0
    again = method.restore(domain, model.tables, rows=4000, zeros=NONE)
    drawn = [each.sample(500, rng=np.random.default_rng(3)).codes for each in (model, again)]
    np.testing.assert_array_equal(*drawn)


def test_without_pairs_records_are_drawn_at_once_and_restored_so():
    tables = [Table(each, np.full(each.sizes, 80.0)) for each in map(SMALL.project, "abcde")]
    model = AutoReconstruction().of_tables(SMALL, tables, rows=160, zeros=NONE)
    assert isinstance(model, GumModel)
    again = AutoReconstruction().restore(SMALL, model.tables, rows=160, zeros=NONE)
    assert type(again) is GumModel


@pytest.mark.parametrize(("domain", "kind"), [(SMALL, GraphicalModel), (LARGE, GumModel)])
def test_a_model_is_restored_by_the_method_that_made_it(domain, kind):
    released = tables_of(domain, list(itertools.combinations("abcde", 2)))
    of = Interaction(("a", "b"), domain.sizes[:2])
    released.append(
        noisy_sums(of, np.zeros(of.length, dtype=np.int64), scale=steps_of_a_record(of), grant=2)
    )
    method = AutoReconstruction()
    model = fitted(domain, released)
    again = method.restore(domain, model.tables, rows=model.rows, zeros=NONE, released=released)
    assert type(again) is type(model) is kind
    drawn = [each.sample(500, rng=np.random.default_rng(3)).codes for each in (model, again)]
    np.testing.assert_array_equal(*drawn)


def test_a_graph_with_too_many_cells_is_moved_records(monkeypatch):
    monkeypatch.setattr(auto, "MOST_CELLS", 5)
    assert isinstance(fitted(SMALL, tables_of(SMALL, [("a", "b")])), GumModel)


def test_memory_is_that_of_whichever_method_needs_more():
    pairs = list(itertools.combinations("abcde", 2))
    method = AutoReconstruction()
    for name, domain, rows in (("pgm", SMALL, 1000), ("gum", LARGE, 10**7)):
        one = registry.find("reconstruction", name)().memory(domain, pairs, rows)
        assert one <= method.memory(domain, pairs, rows) < 2 * one + 2**27


def test_what_was_measured_beyond_its_margins_counts_among_what_the_model_has_to_hold():
    released = tables_of(LARGE, [*((name,) for name in "abcde"), ("a", "b")])
    assert isinstance(fitted(LARGE, released), GraphicalModel)
    for pair in itertools.combinations("abcde", 2):
        of = Interaction(pair, LARGE.project(pair).sizes)
        values = np.zeros(of.length, dtype=np.int64)
        released.append(
            noisy_sums(of, values, scale=steps_of_a_record(of), grant=len(released) + 1)
        )
    assert isinstance(fitted(LARGE, released), GumModel)


def test_a_graph_that_many_tables_would_be_fitted_to_for_long_is_moved_records(monkeypatch):
    pairs = list(itertools.combinations("abcde", 2))
    tables = len(pairs) + 5  # and those of the columns
    monkeypatch.setattr(auto, "_MOST_VISITS", 96 * tables)
    assert isinstance(fitted(SMALL, tables_of(SMALL, pairs)), GraphicalModel)
    monkeypatch.setattr(auto, "_MOST_VISITS", 96 * tables - 1)
    assert isinstance(fitted(SMALL, tables_of(SMALL, pairs)), GumModel)


def test_a_forest_is_a_graph_however_many_tables_it_has(monkeypatch):
    forest = [("a", "b"), ("b", "c"), ("d", "e")]
    cells = sum(SMALL.size(pair) for pair in forest)
    monkeypatch.setattr(auto, "_MOST_VISITS", cells)
    assert isinstance(fitted(SMALL, tables_of(SMALL, forest)), GraphicalModel)
    monkeypatch.setattr(auto, "_MOST_VISITS", cells - 1)
    assert isinstance(fitted(SMALL, tables_of(SMALL, forest)), GumModel)
