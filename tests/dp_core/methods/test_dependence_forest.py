"""A forest of dependent pairs, and what the other pairs add to it."""

import itertools
import math

import networkx
import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.methods.dependence_forest import Forest, residual_dependence, spanning_forest

ROWS = 1_000.0
NAMES = tuple("abcdef")
FIVES = Domain(NAMES, (5,) * 6)
TOP = 2 * ROWS * (1 - 1 / 5)


def pairs_of(graph):
    return [(one, two) for one, two in itertools.combinations(sorted(graph), 2)]


def random_forest(strengths, *, seed=3):
    """Two trees of 12 columns, with the strength of each edge."""
    graph = networkx.random_labeled_tree(12, seed=seed)
    graph.remove_edge(*next(iter(graph.edges)))
    graph = networkx.relabel_nodes(graph, {at: f"v{at:02}" for at in range(12)})
    return graph, {
        tuple(sorted(edge)): float(own) for edge, own in zip(graph.edges, strengths, strict=True)
    }


def chain(strength):
    """The dependence of all pairs of six columns in a chain, in records."""
    return {
        (a, b): TOP * strength ** (NAMES.index(b) - NAMES.index(a))
        for a, b in itertools.combinations(NAMES, 2)
    }


def test_the_spanning_forest_is_the_heaviest():
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations("abcde", 2)) + list(itertools.combinations("xyz", 2))
    weights = {pair: float(rng.random()) for pair in pairs}
    graph = networkx.Graph()
    graph.add_weighted_edges_from((*pair, each) for pair, each in weights.items())
    wanted = {frozenset(edge) for edge in networkx.maximum_spanning_edges(graph, data=False)}
    found = spanning_forest(weights)
    assert {frozenset(edge) for edge in found} == wanted
    assert list(found) == sorted(found, key=lambda pair: -weights[pair])
    assert spanning_forest({}) == ()


def test_strengths_multiply_along_paths():
    rng = np.random.default_rng(3)
    graph, edges = random_forest(rng.uniform(0.05, 0.9, 10))
    forest = Forest.of(edges)
    for one, two in pairs_of(graph):
        wanted = 0.0
        if networkx.has_path(graph, one, two):
            path = itertools.pairwise(networkx.shortest_path(graph, one, two))
            wanted = math.prod(edges[tuple(sorted(edge))] for edge in path)
        assert forest.path_strength((one, two)) == pytest.approx(wanted)
    assert forest.path_strength(("v00", "elsewhere")) == 0.0


def test_an_edge_serves_the_pairs_whose_path_it_is_part_of():
    rng = np.random.default_rng(3)
    graph, edges = random_forest(rng.uniform(0.05, 0.9, 10))
    wanted = dict.fromkeys(edges, 0.0)
    for one, two in pairs_of(graph):
        if not networkx.has_path(graph, one, two):
            continue
        names = networkx.shortest_path(graph, one, two)
        path = [tuple(sorted(edge)) for edge in itertools.pairwise(names)]
        implied = math.prod(edges[edge] for edge in path)
        for edge in path:
            wanted[edge] += implied / len(path) / edges[edge]
    assert Forest.of(edges).reach() == pytest.approx(wanted)
    assert Forest.of({}).reach() == {}


def test_in_a_chain_other_pairs_add_only_the_guard():
    found = residual_dependence(FIVES, chain(0.8), ROWS)
    edges = set(itertools.pairwise(NAMES))
    for pair, own in chain(0.8).items():
        assert found.dependence[pair] == pytest.approx(own if pair in edges else 0.1 * own)
    assert set(found.reach) == edges
    assert min(found.reach.values()) > 1.3
    assert found.unseen == pytest.approx(0.0, abs=1e-9)


def test_a_pair_beyond_the_chain_keeps_what_it_adds():
    further = chain(0.8) | {("a", "f"): TOP * 0.75}
    found = residual_dependence(FIVES, further, ROWS)
    assert found.dependence["a", "f"] == pytest.approx(TOP * (0.75 - 0.8**5))


def test_where_no_forest_fits_every_pair_counts_as_it_is():
    alike = dict.fromkeys(itertools.combinations(NAMES, 2), 0.2 * TOP)
    found = residual_dependence(FIVES, alike, ROWS)
    assert found.dependence == alike
    assert set(found.reach.values()) == {1.0}


def test_a_forest_that_fits_in_part_counts_in_part():
    # Pairs outside the chain depend more than it implies, so it explains about half of them.
    strength = {
        pair: own * (1.0 if pair in set(itertools.pairwise(NAMES)) else 1.85)
        for pair, own in chain(0.5).items()
    }
    found = residual_dependence(FIVES, strength, ROWS)
    full = 0.85 / 1.85
    trust = (1 - full - 0.4) / 0.3
    assert 0 < trust < 1
    own, said = strength["a", "c"], TOP * 0.25
    wanted = (1 - trust) * own + trust * (own - said)
    assert found.dependence["a", "c"] == pytest.approx(wanted)
    one = Forest.of({edge: 0.5 for edge in itertools.pairwise(NAMES)}).reach()["a", "b"]
    assert found.reach["a", "b"] == pytest.approx(1 + trust * (one - 1))


def test_a_forest_alone_counts_in_full_and_tells_of_the_pairs_that_nobody_looked_at():
    edges = {edge: 0.5 * TOP for edge in itertools.pairwise(NAMES)}
    found = residual_dependence(FIVES, edges, ROWS)
    assert found.dependence == edges
    others = sum(own for pair, own in chain(0.5).items() if pair not in edges)
    assert found.unseen == pytest.approx(others)


def test_columns_of_one_level_are_no_fault():
    domain = Domain(("a", "b", "c"), (1, 3, 2))
    found = residual_dependence(domain, {("a", "b"): 0.0, ("a", "c"): 0.0, ("b", "c"): 90.0}, ROWS)
    assert found.dependence["b", "c"] == 90.0
