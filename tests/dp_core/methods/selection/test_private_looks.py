"""The distances of pairs from products of noisy columns: exact values, charges, noise, the rule."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from unittest.mock import Mock

import networkx
import numpy as np
import pytest

from benchmarks.trial import trial_plan
from dp_core.client.noise_scale import sensitivities
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.mechanisms.private_choice import NoisyMaxEvent
from dp_core.kernel.privacy import Relation
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.budget.chance import HALF_NORMAL, Chance
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.candidates import private_looks
from dp_core.methods.selection.candidates.model_errors import GRID, table_distances
from dp_core.methods.selection.candidates.pairs import dependences
from dp_core.methods.selection.candidates.private_looks import (
    Gains,
    joined_columns,
    look_at_products,
    look_at_wide,
    matched_columns,
    strongest_forest,
)
from dp_core.methods.selection.selector import Dependences
from tests.measured import NONE, curator_of, select_in_memory

DOMAIN = Domain(tuple("abcdef"), (2, 3, 4, 2, 5, 3))
PAIRS = tuple(itertools.combinations(DOMAIN.columns, 2))


def records(rows=4_000, *, keep=0.7, seed=0):
    """Return records in which each column follows the one before it, in part."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in DOMAIN.sizes]
    for place in range(1, len(DOMAIN)):
        follows = rng.random(rows) < keep
        codes[place] = np.where(follows, codes[place - 1] % DOMAIN.sizes[place], codes[place])
    return Dataset(DOMAIN, np.stack(codes).astype(np.uint16))


def asked(data, *, limit=1, kind="zcdp", neighbours="add-remove", noise=0.0, seed=0):
    """Return a curator of the data, the session that pays, and columns with noise of that size."""
    curator, session = curator_of(data, Fraction(limit), kind, neighbours)
    exact = MemoryCounter(data).count([(name,) for name in data.domain.columns])
    rng = np.random.default_rng(seed)
    columns = {
        name: np.maximum(exact[name,].counts + rng.normal(0, noise, size), 0.0)
        for name, size in zip(data.domain.columns, data.domain.sizes, strict=True)
    }
    noises = dict.fromkeys(columns, noise)
    return curator, session, Gains(data.rows, columns, noises, 0.0, data.domain, NONE)


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
@pytest.mark.parametrize("noise", [0.0, 30.0])
def test_with_hardly_noise_it_is_the_distance_from_the_product_of_the_columns(kind, noise):
    data = records()
    curator, _, gains = asked(data, limit=10**12, kind=kind, noise=noise)
    found = look_at_products(curator, DOMAIN, PAIRS, gains, Fraction(10**12))
    tables = MemoryCounter(data).count(PAIRS)
    for pair, value, added in zip(PAIRS, found.asked.values, found.asked.added, strict=True):
        one, two = pair
        product = np.multiply.outer(gains.columns[one], gains.columns[two])
        product /= gains.columns[one].sum()
        distance = np.abs(tables[pair].counts - product).sum()
        # Each of at most 20 cells of the product is rounded to the grid.
        assert value / GRID == pytest.approx(distance, abs=20 / 2 / GRID + 1)
        sizes = [DOMAIN.size((name,)) for name in pair]
        assert added == pytest.approx(HALF_NORMAL * noise * math.hypot(*sizes))
        if distance > 20 * added + 200:
            assert found.dependence[pair] == pytest.approx(distance, rel=0.03)
    assert found.asked.unit == GRID


@pytest.mark.parametrize(
    ("neighbours", "change"), [("add-remove", GRID), ("replace-one", 2 * GRID)]
)
@pytest.mark.parametrize("kind", ["zcdp", "pure"])
def test_all_distances_are_one_charge_of_all_the_cost(kind, neighbours, change):
    curator, session, gains = asked(records(), limit=9, kind=kind, neighbours=neighbours)
    found = look_at_products(curator, DOMAIN, PAIRS, gains, Fraction(9, 2))
    (charge,) = session.charges
    assert (charge.step.stage, charge.step.name) == ("select", "distances")
    assert charge.step.cost == session.spent() == Fraction(9, 2)
    event = charge.step.event
    if kind == "pure":
        assert isinstance(event, LaplaceEvent)
        assert event.l1_sensitivity == 15 * change
        assert event.scale >= Fraction(15 * change) / Fraction(9, 2)
    else:
        assert isinstance(event, GaussianEvent)
        assert event.l2_sensitivity_squared == 15 * change**2
        assert float(event.scale) ** 2 >= 15 * change**2 / 9 * (1 - 1e-12)
    assert found.asked.stddev == curator.statistic_noise(
        table_distances(PAIRS, [gains.product(pair) for pair in PAIRS]), Fraction(9, 2)
    ).stddev  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_row_changes_the_distances_by_as_much_as_is_charged_and_no_more(seed):
    data = records(40, seed=seed)
    _, _, gains = asked(data, noise=4.0, seed=seed)
    distances = table_distances(PAIRS, [gains.product(pair) for pair in PAIRS])
    before, largest = distances.exact(MemoryCounter(data)), 0
    rng = np.random.default_rng(seed)
    for place in range(data.rows):
        codes = np.delete(data.codes, place, axis=1)
        moved = distances.exact(MemoryCounter(Dataset(DOMAIN, codes))) - before
        largest = max(largest, int(np.abs(moved).max()))
        assert np.abs(moved).sum() <= sensitivities(distances, Relation("add-remove"))[0]
        assert np.square(moved).sum() <= sensitivities(distances, Relation("add-remove"))[1]
        other = data.codes.copy()
        other[:, place] = rng.integers(0, DOMAIN.sizes)
        moved = distances.exact(MemoryCounter(Dataset(DOMAIN, other))) - before
        assert np.abs(moved).max() <= distances.largest_change("replace-one")
    assert largest == GRID == distances.largest_change("add-remove")


def test_nothing_is_asked_if_noise_would_hide_the_usual_dependence():
    data = records(1_000)
    for part, told in ((1.1, True), (0.9, False)):
        curator, session, gains = asked(data)
        # The variance is inversely proportional to the cost.
        limit = 15 / 2 / (2 * usual(data.rows)) ** 2 * part
        found = look_at_products(curator, DOMAIN, PAIRS, gains, Fraction(limit))
        assert (found is not None) == told == bool(session.charges)


def test_nothing_is_asked_of_pairs_too_large_for_memory(monkeypatch):
    curator, session, gains = asked(records())
    monkeypatch.setattr(private_looks, "_MOST_CELLS", sum(map(DOMAIN.size, PAIRS)) - 1)
    assert look_at_products(curator, DOMAIN, PAIRS, gains, Fraction(1)) is None
    assert look_at_products(curator, DOMAIN, (), gains, Fraction(1)) is None
    assert not session.charges


@pytest.mark.parametrize(("rows", "step"), [(40_000, "distances"), (200, "indif")])
def test_auto_asks_for_the_distances_where_they_tell(rows, step):
    parts = {"one_way": Fraction(1, 10), "look": Fraction(1, 20), "measure": Fraction(17, 20)}
    selection, session = select_in_memory(Auto(), records(rows), Fraction(1, 50), **parts)
    assert [charge.step.name for charge in session.charges][-1] == step
    assert session.spent() == Fraction(1, 50) * Fraction(3, 20)
    assert selection.dependences.pairs == PAIRS


def test_what_the_columns_noise_adds_is_taken_off_the_dependence():
    exact = (300.0, 0.0)
    added = (40.0, 90.0)
    values = [round(GRID * math.hypot(*each)) for each in zip(exact, added, strict=True)]
    asked = Dependences((("a", "b"), ("a", "c")), (*values,), GRID * 1.0, GRID, added)
    found, stddev = asked.by_pair()
    assert [*found.values()] == pytest.approx(exact, abs=0.5)
    assert stddev > 1.0 == asked.noise
    plain = Dependences((("a", "b"),), (7,), 3.0)
    assert plain.by_pair() == ({("a", "b"): 7.0}, 3.0)


EIGHT_COLUMNS = Domain(tuple("abcdefgh"), (2, 3, 4, 2, 5, 3, 2, 4))
EVERY = tuple(itertools.combinations(EIGHT_COLUMNS.columns, 2))


def chain(keep, rows=4_000, seed=0):
    """Return records in which each column follows the one two places before, in part."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in EIGHT_COLUMNS.sizes]
    for place in range(2, len(EIGHT_COLUMNS)):
        follows = rng.random(rows) < keep * (0.6 + 0.05 * place)
        codes[place] = np.where(
            follows, codes[place - 2] % EIGHT_COLUMNS.sizes[place], codes[place]
        )
    return Dataset(EIGHT_COLUMNS, np.stack(codes).astype(np.uint16))


def scored(data, *, limit=1, kind="zcdp", neighbours="add-remove"):
    """Return a curator of the data, the session that pays, and scores from the exact tables."""
    curator, session = curator_of(data, Fraction(limit), kind, neighbours)
    exact = MemoryCounter(data).count([(name,) for name in data.domain.columns])
    columns = [exact[name,].counts.astype(float) for name in data.domain.columns]
    return curator, session, Gains.expect(
        data.domain, columns, np.ones(len(columns)), curator, Fraction(limit, 2), NONE
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
@pytest.mark.parametrize("keep", [0.0, 0.9])
def test_with_hardly_noise_it_is_the_spanning_tree_of_the_largest_scores(kind, keep):
    data = chain(keep)
    curator, _, gains = scored(data, limit=10**9, kind=kind)
    scores = gains.of(EVERY).exact(MemoryCounter(data))
    graph = networkx.Graph()
    graph.add_weighted_edges_from((*pair, each) for pair, each in zip(EVERY, scores, strict=True))
    wanted = {frozenset(edge) for edge in networkx.maximum_spanning_tree(graph).edges}
    forest = strongest_forest(curator, EIGHT_COLUMNS, gains, Fraction(10**9, 3), max_cells=99)
    assert {frozenset(edge) for edge in forest} == wanted
    assert set(forest) <= set(EVERY)


def test_a_score_is_the_distance_from_independence_less_what_measuring_leaves():
    data = chain(0.9)
    curator, _, gains = scored(data)
    table = MemoryCounter(data).count([("a", "c")])["a", "c"].counts
    product = np.multiply.outer(table.sum(axis=1), table.sum(axis=0)) / data.rows
    chance = np.minimum(np.sqrt(2 / np.pi * product), 2 * product) + product**0.75
    noise = curator.count_noise(Fraction(1, 2) / 16).mean_absolute
    left = np.minimum(noise, chance).sum() + HALF_NORMAL * math.hypot(2, 4)
    (score,) = gains.of([("a", "c")]).exact(MemoryCounter(data))
    assert score / GRID == pytest.approx(np.abs(table - product).sum() - left, abs=0.5)


@pytest.mark.parametrize(
    ("neighbours", "sensitivity"), [("add-remove", GRID), ("replace-one", 2 * GRID)]
)
def test_every_edge_is_a_choice_of_the_same_cost(neighbours, sensitivity):
    curator, session, gains = scored(chain(0.5), neighbours=neighbours)
    forest = strongest_forest(curator, EIGHT_COLUMNS, gains, Fraction(1, 3), max_cells=99)
    events = [grant.step.event for grant in session.charges]
    assert [grant.step.cost for grant in session.charges] == [Fraction(1, 21)] * 7
    assert all(isinstance(event, NoisyMaxEvent) for event in events)
    assert {event.sensitivity for event in events} == {sensitivity}
    assert networkx.is_tree(networkx.Graph(forest))
    assert session.spent() == Fraction(1, 3)


def test_a_row_changes_no_score_by_more_than_is_charged():
    data = chain(0.9, rows=60)
    _, _, gains = scored(data)
    before = gains.of(EVERY).exact(MemoryCounter(data))
    for place in range(data.rows):
        fewer = Dataset(EIGHT_COLUMNS, np.delete(data.codes, place, axis=1))
        after = gains.of(EVERY).exact(MemoryCounter(fewer))
        assert np.abs(after - before).max() <= GRID


def test_columns_whose_pairs_are_all_too_large_are_left_out():
    domain = Domain(tuple("abcd"), (40, 2, 30, 3))
    assert joined_columns(domain, 60) == ("b", "d", "c")
    assert joined_columns(domain, 5) == ()
    rng = np.random.default_rng(0)
    data = Dataset(domain, np.stack([rng.integers(0, 2, 500)] * 4).astype(np.uint16))
    curator, session, gains = scored(data)
    forest = strongest_forest(curator, domain, gains, Fraction(1, 3), max_cells=60)
    assert set(forest) == {("b", "c"), ("b", "d")}
    assert session.spent() == Fraction(1, 3)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("many", [False, True])
def test_all_pairs_are_scored_only_where_usual_pairs_depend(neighbours, many):
    data = chain(0.9)
    curator, session, gains = scored(data, limit=10**9, neighbours=neighbours)
    columns = [gains.columns[name] for name in EIGHT_COLUMNS.columns]
    seen = []

    def depend(typical):
        seen.append(typical)
        return many

    cost = Fraction(10**9, 3)
    chance = Chance.of(EIGHT_COLUMNS, columns, data.rows)
    every = dependences(EVERY)
    found = look_at_wide(
        curator, EIGHT_COLUMNS, every, gains, chance, cost, max_cells=99, many_depend=depend
    )
    assert session.spent() == cost
    assert {grant.step.stage for grant in session.charges} == {"select"}
    names = [grant.step.name for grant in session.charges]
    forest = [f"edge {number}" for number in range(1, 8)]
    assert names == ["usual pairs", *([] if many else forest), "indif"]
    usual = matched_columns(EIGHT_COLUMNS, 99)
    assert usual == (("a", "e"), ("b", "f"), ("c", "g"), ("d", "h"))
    exact = dependences(usual).exact(MemoryCounter(data)).mean()
    by_chance = np.mean([chance.pair(pair) for pair in usual])
    assert seen == pytest.approx([np.sqrt(exact**2 - by_chance**2)], rel=0.05)
    assert len(found.asked.pairs) == (len(EVERY) if many else 7)
    assert found.typical == (None if many else seen[0])


@pytest.mark.parametrize(("errors", "clear"), [(2.4, False), (2.6, True)])
def test_usual_pairs_that_may_depend_by_chance_are_not_enough(monkeypatch, errors, clear):
    data = chain(0.0)
    curator, _, gains = scored(data, limit=10**9)
    chance = Chance.of(
        EIGHT_COLUMNS, [gains.columns[name] for name in EIGHT_COLUMNS.columns], data.rows
    )
    usual = matched_columns(EIGHT_COLUMNS, 99)
    mean = np.mean([chance.pair(pair) for pair in usual]) + errors * 1_000 / 2
    told = Dependences(usual, (round(mean),) * 4, 1_000.0)
    monkeypatch.setattr(private_looks, "ask_dependences", Mock(return_value=told))
    seen = []
    private_looks.look_at_wide(
        curator,
        EIGHT_COLUMNS,
        dependences(EVERY),
        gains,
        chance,
        Fraction(10**9, 3),
        max_cells=99,
        many_depend=lambda typical: bool(seen.append(typical)),
    )
    assert bool(seen) == clear


def wide(codes):
    """Return what `auto` selects of a file of 66 columns, and the session that paid."""
    domain = Domain(tuple(f"c{place:02d}" for place in range(66)), (3,) * 66)
    limit = largest_limit("zcdp", Fraction(1), Fraction("1e-9"))
    parts = {"one_way": Fraction(1, 10), "look": Fraction(1, 20), "measure": Fraction(17, 20)}
    data = Dataset(domain, codes.astype(np.uint16))
    selection, session = select_in_memory(Auto(), data, limit, **parts)
    return selection, session.spent() / limit


def test_of_a_wide_file_whose_pairs_all_depend_all_are_scored():
    rng = np.random.default_rng(1)
    hidden = rng.integers(0, 3, 5_000)
    codes = np.where(rng.random((66, 5_000)) < 0.6, hidden, rng.integers(0, 3, (66, 5_000)))
    selection, spent = wide(codes)
    assert len(selection.dependences.pairs) == 66 * 65 // 2
    assert sum(len(clique) == 2 for clique in selection.cliques) > 100
    assert spent == Fraction(3, 20)


def test_the_currency_of_a_wide_file_can_pay_for_choices():
    domain = Domain(tuple(f"c{place}" for place in range(65)), (5,) * 65)
    for candidates, kinds in (("auto", {"mixed", "zcdp"}), ("all", {"gaussian"})):
        plan = trial_plan(
            domain,
            "auto",
            Fraction(1),
            Fraction("1e-9"),
            sets=1,
            select={"candidates": candidates},
        )
        assert plan.currency.kind in kinds
    narrow = Domain(tuple("abc"), (5,) * 3)
    assert Auto().choices(narrow) == 0 == Auto(order=1, candidates="forest").choices(domain)
    assert Auto(candidates="forest").choices(narrow) == 2
    assert Auto().largest_choice(narrow) is None


def test_a_forecast_of_a_wide_file_lists_the_pairs_of_a_forest_only():
    domain = Domain(tuple(f"c{place}" for place in range(65)), (5,) * 65)
    limit = largest_limit("zcdp", Fraction(1), Fraction("1e-9"))
    terms = {"one_way": limit / 10, "measure": limit * Fraction(17, 20)}
    relation = Relation("add-remove")
    least, most = Auto().forecast(domain, 50_000, Currency("zcdp", limit), relation, **terms)
    assert 0 < least.two < most.two < 1
