from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dp_core.accounts.memory_session import MemorySession
from dp_core.client.curator import Curator
from dp_core.kernel.cost.currency import Currency, largest_limit
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.kernel import Kernel
from dp_core.methods.selection import densemarg
from dp_core.methods.selection.candidates.pairs import pairs_up_to
from dp_core.methods.selection.densemarg import DenseMarg, combine, greedy
from dp_core.methods.selection.one_way import OneWay
from tests.conftest import DatasetCounter
from tests.measured import method_inputs

DOMAIN = Domain(("a", "b", "c", "d"), (4, 4, 3, 30))


def curator_of(epsilon="1", kind="zcdp", rows=4000):
    """b repeats a nine times in ten; c and d are independent of everything."""
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, rows) for size in DOMAIN.sizes])
    codes[1] = np.where(rng.random(rows) < 0.9, codes[0], codes[1])
    counter = DatasetCounter(Dataset(DOMAIN, codes.astype(np.uint16)), [])
    limit = largest_limit(kind, Fraction(epsilon), Fraction("1e-9"))
    session = MemorySession(Currency(kind, limit), "add-remove")
    return Curator(Kernel(DOMAIN, counter, session)), session


def one_way(curator, cost):
    planned = OneWay().fixed_selection(DOMAIN)
    return curator.measure("one_way", planned.cliques, [cost * w for w in planned.weights])


def test_the_greedy_choice_and_its_errors_are_the_published_ones():
    noise = 1 / math.sqrt(math.pi * 0.1)
    order, errors = greedy(
        np.array([500.0, 300.0, 90.0, 400.0, 20.0, 60.0]), [12, 20, 15, 10, 50, 6], noise
    )
    assert order == [0, 3, 1, 5, 2]
    np.testing.assert_allclose(
        errors, [1370, 891.409489, 525.43231, 297.835525, 276.241657, 265.250877], rtol=1e-8
    )


def test_with_so_much_noise_that_no_pair_pays_none_is_chosen():
    assert greedy(np.array([5.0, 3.0]), [12, 20], 100.0) == ([], [8.0])


def select(method, curator, select_cost, measure_cost, known=()):
    return method.select(
        method_inputs(
            curator, DOMAIN, known=known, select_cost=select_cost, measure_cost=measure_cost
        )
    )


@pytest.mark.parametrize(
    ("gamma", "tables"),
    [
        (5000, ["abcd", "de"]),
        (500, ["abc", "abd", "cd", "de"]),
        (0, ["ab", "ac", "ad", "bc", "bd", "cd", "de"]),
    ],
)
def test_pairs_are_joined_where_the_union_is_small_and_none_is_lost(gamma, tables):
    domain = Domain(tuple("abcde"), (4, 5, 6, 7, 8))
    pairs = [*itertools.combinations("abcd", 2), ("d", "e")]
    assert ["".join(clique) for clique in combine(pairs, domain, gamma)] == tables


@pytest.mark.parametrize("kind", ["zcdp", "gaussian", "pure"])
@pytest.mark.parametrize("rule", ["balance", "greedy"])
def test_the_dependent_pair_is_found_and_exactly_the_share_is_spent(rule, kind):
    curator, session = curator_of("20", kind)
    limit = session.currency.limit
    known = one_way(curator, limit / 10)
    spent = session.spent()
    found = select(DenseMarg(rule=rule), curator, limit / 10, limit * 8 / 10, known)
    assert ("a", "b") in found.cliques
    assert session.spent() - spent <= limit / 10
    # Rounding a scale up to a float may leave a little of the share unspent, no more.
    assert session.spent() - spent > limit / 10 * Fraction(999, 1000)
    assert found.dependences.by_pair()[0]["a", "b"] > 1000


def test_without_one_way_tables_every_column_is_still_measured():
    curator, session = curator_of()
    limit = session.currency.limit
    found = select(DenseMarg(), curator, limit / 10, limit * 8 / 10)
    assert {column for clique in found.cliques for column in clique} == set(DOMAIN.columns)


def test_pairs_that_are_too_large_are_not_even_counted(monkeypatch):
    monkeypatch.setattr(densemarg, "pairs_up_to", lambda domain: pairs_up_to(domain, 100))
    needs = DenseMarg().needs(DOMAIN)
    assert ("c", "d") in needs
    assert ("a", "d") not in needs
    assert DenseMarg().statistic(DOMAIN).length == len(needs) == 4


def test_joined_tables_get_what_their_pairs_got():
    curator, session = curator_of("20")
    limit = session.currency.limit
    known = one_way(curator, limit / 10)
    found = select(DenseMarg(gamma=100), curator, limit / 10, limit * 8 / 10, known)
    assert sum(found.weights) == 1
    assert any({"a", "b"} <= set(clique) for clique in found.cliques)
