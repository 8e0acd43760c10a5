"""The forest that implies other pairs, against exact dependences, and when `auto` measures it."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.methods.selection.auto import Auto
from dp_core.methods.selection.candidates.implied_pairs import Implied
from dp_core.methods.selection.one_way import OneWay
from dp_core.spec.trial import trial_plan
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.tables.structural_zeros import StructuralZeros
from dp_core.wall.accounting.currency import Currency, largest_limit
from dp_core.wall.curator import Curator
from dp_core.wall.ledger.session import MemorySession

ROWS = 20_000
DOMAIN = Domain(tuple("abcdefghijkl"), (3,) * 12)
CHAIN = tuple(itertools.pairwise(DOMAIN.columns))
PAIRS = tuple(itertools.combinations(DOMAIN.columns, 2))
DELTA = Fraction("1e-9")


def chain():
    """Return codes of which each column repeats the one before it in a third of the records."""
    rng = np.random.default_rng(1)
    codes = [rng.integers(0, 3, ROWS)]
    while len(codes) < len(DOMAIN):
        codes.append(np.where(rng.random(ROWS) < 0.35, codes[-1], rng.integers(0, 3, ROWS)))
    return np.stack(codes).astype(np.uint16)


def factor():
    """Return codes of which each repeats one hidden column in part of the records."""
    rng = np.random.default_rng(2)
    hidden, own = rng.integers(0, 3, ROWS), rng.integers(0, 3, (len(DOMAIN), ROWS))
    return np.where(rng.random(own.shape) < 0.35, hidden, own).astype(np.uint16)


def selected(codes, *, method, epsilon="0.4", zeros=None):
    currency = Currency("zcdp", largest_limit("zcdp", Fraction(epsilon), DELTA))
    session = MemorySession(currency, "add-remove")
    curator = Curator(DOMAIN, MemoryCounter(Dataset(DOMAIN, codes)), session)
    planned = OneWay().planned(DOMAIN)
    known = curator.measure(
        "one_way", planned.cliques, [currency.limit / 10 * weight for weight in planned.weights]
    )
    selection = method.select(
        curator,
        known,
        domain=DOMAIN,
        cost=currency.limit / 20,
        measure_cost=currency.limit * Fraction(17, 20),
        zeros=zeros or StructuralZeros(),
        rng=np.random.default_rng(0),
    )
    return [clique for clique in selection.cliques if len(clique) > 1], session


def dependence(codes):
    """Return the exact L1 distance of each pair from independence, in records."""
    place = {name: codes[at].astype(int) for at, name in enumerate(DOMAIN.columns)}
    found = {}
    for one, two in PAIRS:
        table = np.bincount(3 * place[one] + place[two], minlength=9).reshape(3, 3)
        product = np.outer(table.sum(axis=1), table.sum(axis=0)) / ROWS
        found[one, two] = float(np.abs(table - product).sum())
    return found


def test_the_strongest_forest_of_a_chain_is_the_chain_and_explains_most_of_the_other_pairs():
    found = Implied.of(dependence(chain()), ROWS)

    assert set(found.forest) == set(CHAIN)
    assert set(found.left) == set(PAIRS) - set(CHAIN)
    assert found.explains(ROWS)


def test_no_forest_explains_pairs_with_a_common_factor():
    assert not Implied.of(dependence(factor()), ROWS).explains(ROWS)


def test_a_pair_without_a_path_is_left_as_it_is():
    found = Implied.of({("a", "b"): 50.0, ("c", "d"): 40.0}, 100)

    assert (found.left, found.others) == ({}, 0.0)
    assert not found.explains(100)


def test_pairs_that_depend_more_than_usual_ones_are_not_left_to_a_forest():
    strong = {("a", "b"): 90.0, ("b", "c"): 90.0, ("a", "c"): 81.0}
    weak = {("a", "b"): 27.0, ("b", "c"): 27.0, ("a", "c"): 7.29}

    assert not Implied.of(strong, 100).explains(100)
    assert Implied.of(weak, 100).explains(100)


def test_only_the_edges_of_a_chain_are_measured_if_the_model_implies_the_other_pairs():
    pairs, session = selected(chain(), method=Auto(implying=10_000))
    every, as_before = selected(chain(), method=Auto())

    assert sorted(pairs) == sorted(CHAIN)
    assert len(every) > len(CHAIN)
    assert [charge.step.cost for charge in session.charges] == [
        charge.step.cost for charge in as_before.charges
    ]


def test_pairs_with_a_common_factor_are_all_measured():
    pairs, _ = selected(factor(), method=Auto(implying=10_000))

    assert {pair for pair in pairs if len(pair) == 2} == set(PAIRS)


def test_with_little_noise_a_chain_is_measured_by_all_pairs():
    pairs, _ = selected(chain(), method=Auto(implying=10_000), epsilon="20")

    assert len(pairs) > len(CHAIN)


def test_a_forest_with_more_cells_than_the_model_may_have_is_not_measured_alone():
    pairs, _ = selected(chain(), method=Auto(implying=9 * len(CHAIN) - 1))

    assert len(pairs) > len(CHAIN)


@pytest.mark.parametrize(
    ("mode", "sets", "implies"),
    [
        ("shared", 1, True),
        ("split", 2, True),
        ("posterior", 2, False),
        ("noise-aware", 2, False),
    ],
)
def test_a_forest_may_imply_pairs_only_of_sets_that_a_model_of_it_makes(mode, sets, implies):
    plan = trial_plan(DOMAIN, "auto", Fraction(1), DELTA, sets=sets, mode=mode)

    assert bool(plan.spec.selector.implying) == implies
