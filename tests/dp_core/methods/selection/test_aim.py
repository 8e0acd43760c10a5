from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction import pgm
from dp_core.methods.reconstruction.graphical.junction_tree import JunctionTree
from dp_core.methods.reconstruction.pgm import Pgm
from dp_core.methods.selection import aim
from dp_core.methods.selection.aim import Aim
from dp_core.methods.selection.candidates.model_errors import (
    GRID,
    RoundModel,
    among,
    overlap_weights,
    table_distances,
    tables_up_to,
)
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from tests.exact_tables import counts_of
from tests.measured import NONE, curator_of, select_in_memory

DOMAIN = Domain(("a", "b", "c", "d"), (2, 3, 4, 2))
COST = Fraction(1, 10)


def dependent(rows=2000, seed=0, domain=DOMAIN):
    rng = np.random.default_rng(seed)
    cells = rng.choice(domain.size(), rows, p=rng.dirichlet(np.full(domain.size(), 0.5)))
    return Dataset(domain, np.stack(np.unravel_index(cells, domain.sizes)).astype(np.uint16))


def run(data, limit, kind="zcdp", zeros=NONE, neighbours="add-remove", **options):
    return select_in_memory(
        Aim(**options),
        data,
        Fraction(limit),
        kind=kind,
        neighbours=neighbours,
        look=COST,
        measure=1 - COST,
        zeros=zeros,
    )


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_both_budgets_are_spent_exactly_and_at_the_same_pace(kind, neighbours):
    selection, session = run(dependent(), 2, kind, neighbours=neighbours)
    spent = {"select": Fraction(0), "measure": Fraction(0)}
    parts = {"select": [], "measure": []}
    for grant in session.charges:
        spent[grant.step.stage] += grant.step.cost
    assert spent == {"select": 2 * COST, "measure": 2 * (1 - COST)}
    steps = [grant.step for grant in session.charges][len(DOMAIN) :]
    for step in steps:
        parts[step.stage].append(step.cost)
    left = (1 - COST) * 2 * Fraction(9, 10)
    assert [cost / (2 * COST) for cost in parts["select"]] == [c / left for c in parts["measure"]]
    rounds = [measurement.round for measurement in selection.measured]
    assert rounds == [1] * len(DOMAIN) + list(range(2, 2 + len(parts["select"])))


def test_with_hardly_noise_every_pair_is_right(monkeypatch):
    monkeypatch.setattr(pgm, "SWEEPS", 500)
    monkeypatch.setattr(pgm, "TOLERANCE", 1e-9)
    data = dependent()
    selection, _ = run(data, 10**9)
    model = Pgm().fit(
        DOMAIN, selection.measured, rows=None, zeros=NONE, rng=np.random.default_rng(0)
    )
    for pair in itertools.combinations(DOMAIN.columns, 2):
        np.testing.assert_allclose(model.project(pair), counts_of(data, pair), atol=5)


@pytest.mark.parametrize(("kind", "faster"), [("zcdp", 4), ("pure", 2)])
def test_the_pace_quickens_where_a_round_brought_only_noise(kind, faster):
    even = Dataset(DOMAIN, dependent(1).codes.repeat(0, axis=1))
    _, session = run(even, 1, kind, pace=20)
    costs = [g.step.cost for g in session.charges if g.step.stage == "select"]
    ratios = {later / earlier for earlier, later in itertools.pairwise(costs[:-1])}
    assert ratios <= {1, faster}
    assert faster in ratios
    assert len(costs) < 80
    assert costs[-1] >= costs[-2], "the last round is no sliver"


def test_a_steady_pace_takes_the_rounds_announced():
    _, session = run(dependent(50_000), 10**4, pace=1)
    costs = [g.step.cost for g in session.charges if g.step.stage == "select"]
    assert costs[0] == 10**4 * COST / 4


def test_the_model_never_outgrows_its_room(monkeypatch):
    domain = Domain(tuple("abcdef"), (3,) * 6)
    larger, _ = run(dependent(domain=domain), 10**6, pace=3)
    cliques = [measurement.clique for measurement in larger.measured]
    assert JunctionTree.of(domain, cliques).cells > 60
    monkeypatch.setattr(Aim, "max_cells", 60)
    selection, _ = run(dependent(domain=domain), 10**6, pace=3)
    cliques = [measurement.clique for measurement in selection.measured]
    assert JunctionTree.of(domain, cliques).cells <= 60


def test_larger_tables_are_measured_when_the_workload_is_larger(monkeypatch):
    selection, _ = run(dependent(), 10**6, order=3)
    assert max(len(measurement.clique) for measurement in selection.measured) == 3
    selection, _ = run(dependent(), 10**6, order=1)
    assert max(len(measurement.clique) for measurement in selection.measured) == 1
    monkeypatch.setattr(aim, "_MOST_TABLES", 3)
    selection, _ = run(dependent(), 10**6, order=3)
    assert max(len(measurement.clique) for measurement in selection.measured) == 2


@pytest.mark.parametrize("option", ["order", "pace"])
def test_an_option_that_makes_no_sense_is_named(option):
    with pytest.raises(ValueError, match=option):
        Aim(**{option: 0})


def test_candidates_and_their_weights():
    found = tables_up_to(DOMAIN, 2, max_cells=8)
    assert found[:4] == (("a",), ("b",), ("c",), ("d",))
    assert set(found[4:]) == {("a", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("c", "d")}
    pairs = list(itertools.combinations(DOMAIN.columns, 2))
    assert overlap_weights([("a",), ("a", "b")], pairs) == [1, 2]
    # |r & s| summed over the workload, by hand: a is in two tables, b in one, d in none.
    workload = [("a", "b"), ("a", "c")]
    assert overlap_weights([("a",), ("b",), ("a", "c"), ("d",)], workload) == [2, 1, 3, 1]


def test_scores_are_the_distances_of_the_models_answers_less_the_noise():
    data = dependent()
    counter = MemoryCounter(data)
    curator, _ = curator_of(data, Fraction(10**9))
    columns = curator.measure(
        "one_way", [(name,) for name in DOMAIN.columns], [Fraction(10**6)] * 4
    )
    model = RoundModel(DOMAIN, NONE, rows=None, max_cells=100)
    model.refit(columns)
    pairs = [("a", "b"), ("b", "d")]
    scores = table_distances(
        pairs, [model.answer(pair) for pair in pairs], weights=[3, 2], noise=1.5
    )
    exact = scores.compute(counter.count(pairs))
    for place, (pair, weight) in enumerate(zip(pairs, (3, 2), strict=True)):
        one, two = (counts_of(data, (name,)) for name in pair)
        distance = np.abs(counts_of(data, pair) - np.multiply.outer(one, two) / data.rows).sum()
        expected = weight * (distance - 1.5 * DOMAIN.size(pair))
        assert exact[place] / GRID == pytest.approx(expected, abs=weight)
    assert among(scores, [1]).compute(counter.count(pairs))[0] == exact[1]
    assert among(scores, [1]).largest_change("add-remove") == 2 * GRID


def test_impossible_cells_are_known_to_the_rounds():
    data = dependent()
    zeros = StructuralZeros((Rule(("b",), ((1,),), "no b = 1"),))
    kept = Dataset(DOMAIN, data.codes[:, data.column("b") != 1])
    selection, _ = run(kept, 10**6, zeros=zeros)
    model = RoundModel(DOMAIN, zeros, rows=None, max_cells=2**10)
    model.refit(selection.measured)
    assert model.answer(("b",))[1] == 0
    assert model.total == kept.rows
