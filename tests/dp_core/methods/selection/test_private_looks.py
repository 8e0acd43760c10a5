"""The distances of pairs from products of noisy columns: exact values, charges, noise, the rule."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.mechanisms.additive_noise import GaussianEvent, LaplaceEvent
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.vetted import sensitivities
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.budget.chance import HALF_NORMAL
from dp_core.methods.selection.budget.dependence import usual
from dp_core.methods.selection.candidates import private_looks
from dp_core.methods.selection.candidates.model_errors import GRID
from dp_core.methods.selection.candidates.private_looks import look_at_products, product_distances
from dp_core.methods.selection.candidates.strongest_forest import Gains
from dp_core.methods.selection.selector import Dependences
from tests.measured import curator_of, select_in_memory

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
    return curator, session, Gains(data.rows, columns, dict.fromkeys(columns, noise), 0.0)


@pytest.mark.parametrize("kind", ["zcdp", "pure"])
@pytest.mark.parametrize("noise", [0.0, 30.0])
def test_with_hardly_noise_it_is_the_distance_from_the_product_of_the_columns(kind, noise):
    data = records()
    curator, _, gains = asked(data, limit=10**12, kind=kind, noise=noise)
    found = look_at_products(curator, DOMAIN, PAIRS, gains, Fraction(10**12))
    tables = MemoryCounter(data).count(PAIRS)
    for pair, value, added in zip(PAIRS, found.asked.values, found.asked.added, strict=True):
        one, two = pair
        product = np.multiply.outer(gains.columns[one], gains.columns[two]) / data.rows
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
        product_distances(PAIRS, gains), Fraction(9, 2)
    ).stddev  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_row_changes_the_distances_by_as_much_as_is_charged_and_no_more(seed):
    data = records(40, seed=seed)
    _, _, gains = asked(data, noise=4.0, seed=seed)
    distances = product_distances(PAIRS, gains)
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
    assert selection.note["noise_stddev"] == pytest.approx(selection.dependences.noise)


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
