from __future__ import annotations

import itertools
from fractions import Fraction
from operator import itemgetter

import networkx
import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection import mst
from dp_core.methods.selection.budget.workload import shares
from dp_core.methods.selection.mst import Mst
from tests.measured import curator_of, method_inputs

DOMAIN = Domain(("a", "b", "c", "d", "e"), (2, 3, 4, 2, 5))


def chain(rows=4000, keep=0.8, seed=0):
    """Return records in which each column mostly follows the one before, less and less so."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, 2, rows)]
    for place, size in enumerate(DOMAIN.sizes[1:]):
        follows = rng.random(rows) < keep - 0.15 * place
        codes.append(np.where(follows, codes[-1] % size, rng.integers(0, size, rows)))
    return Dataset(DOMAIN, np.stack(codes).astype(np.uint16))


def select(data, limit=10**9, kind="zcdp", neighbours="add-remove", one_way=True):
    curator, session = curator_of(data, Fraction(limit), kind, neighbours)
    known = ()
    if one_way:
        columns = [(name,) for name in data.domain.columns]
        known = curator.measure("one_way", columns, [Fraction(limit, 30)] * len(columns))
    before = session.spent()
    selection = Mst().select(
        method_inputs(
            curator,
            data.domain,
            known=known,
            select_cost=Fraction(limit, 3),
            measure_cost=Fraction(limit, 3),
        )
    )
    return selection, session, session.spent() - before


def dependence(data):
    found = {}
    for one, two in itertools.combinations(data.domain.columns, 2):
        table = np.zeros(data.domain.project((one, two)).sizes)
        np.add.at(table, (data.column(one), data.column(two)), 1)
        product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0)) / data.rows
        found[one, two] = float(np.abs(table - product).sum())
    return found


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
def test_with_hardly_noise_it_is_the_tree_of_largest_dependence(kind):
    data = chain()
    graph = networkx.Graph()
    graph.add_weighted_edges_from((*pair, weight) for pair, weight in dependence(data).items())
    expected = {frozenset(edge) for edge in networkx.maximum_spanning_tree(graph).edges}
    selection, _, _ = select(data, kind=kind)
    assert {frozenset(clique) for clique in selection.cliques} == expected


def test_scores_move_twice_as_far_where_a_row_is_replaced():
    scales = []
    for neighbours in ("add-remove", "replace-one"):
        _, session, _ = select(chain(200), limit=1, neighbours=neighbours)
        events = [g.step.event for g in session.charges if g.step.stage == "select"]
        scales.append({event.sensitivity for event in events})
    assert scales == [{16}, {32}]


def test_the_budget_is_divided_as_suits_the_noise():
    data = chain(500)
    for kind, allocation in (("zcdp", "rho"), ("pure", "epsilon")):
        selection, _, _ = select(data, kind=kind)
        sizes = [DOMAIN.size(clique) for clique in selection.cliques]
        assert selection.weights == shares(sizes, allocation)


def test_a_column_whose_pairs_are_all_too_large_is_measured_by_itself(monkeypatch):
    monkeypatch.setattr(mst, "MOST_CELLS", 9)
    selection, _, spent = select(chain(500))
    assert ("e",) in selection.cliques
    assert all(DOMAIN.size(clique) <= 9 for clique in selection.cliques)
    assert spent == Fraction(10**9, 3)
    monkeypatch.setattr(mst, "MOST_CELLS", 3)
    alone, _, spent = select(chain(500))
    assert set(alone.cliques) == {(name,) for name in DOMAIN.columns}
    assert spent == 0


def test_a_wide_pair_is_not_taken_for_its_chance_deviations():
    domain = Domain(("a", "b", "c", "d"), (60, 60, 2, 2))
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, size, 2000) for size in domain.sizes]
    codes[3] = np.where(rng.random(2000) < 0.6, codes[2], codes[3])
    codes[2] = np.where(rng.random(2000) < 0.3, codes[0] % 2, codes[2])
    codes[3] = np.where(rng.random(2000) < 0.2, codes[1] % 2, codes[3])
    data = Dataset(domain, np.stack(codes).astype(np.uint16))
    assert max(dependence(data).items(), key=itemgetter(1))[0] == ("a", "b")
    assert ("a", "b") not in select(data, limit=10)[0].cliques


def test_without_one_way_tables_it_says_what_it_needs():
    with pytest.raises(BadInput, match="one_way"):
        select(chain(100), one_way=False)
