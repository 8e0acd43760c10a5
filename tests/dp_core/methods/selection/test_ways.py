from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.selection.ways import Ways
from tests.measured import curator_of

DOMAIN = Domain(("a", "b", "c", "d"), (2, 2, 3, 3))


def cells(selection, domain=DOMAIN):
    return sum(domain.size(clique) for clique in selection.cliques)


@pytest.mark.parametrize(("order", "tables", "stored"), [(2, 6, 37), (3, 4, 60), (1, 4, 10)])
def test_all_tables_of_an_order_have_the_published_numbers_of_cells(order, tables, stored):
    planned = Ways(orders=(order,)).fixed_selection(DOMAIN)
    assert len(planned.cliques) == tables
    assert cells(planned) == stored


@pytest.mark.parametrize(("order", "stored"), [(2, 1_125), (3, 15_000), (4, 131_250)])
def test_ten_columns_of_five_levels_have_the_published_numbers_of_cells(order, stored):
    domain = Domain(tuple("abcdefghij"), (5,) * 10)
    assert cells(Ways(orders=(order,)).fixed_selection(domain), domain) == stored


@pytest.mark.parametrize(
    ("sizes", "order", "independent"),
    [
        ((2, 2, 3, 3), 2, 20),
        ((2, 2, 3, 3), 3, 32),
        ((5,) * 10, 2, 761),
        ((5,) * 10, 3, 8_441),
        ((5,) * 10, 4, 62_201),
    ],
)
def test_the_independent_cells_are_the_rank_of_all_tables_together(sizes, order, independent):
    # Of every set of columns inside a table the cells that its smaller tables leave open.
    domain = Domain(tuple("abcdefghij"[: len(sizes)]), sizes)
    sets = {()}
    for clique in Ways(orders=(order,)).fixed_selection(domain).cliques:
        for size in range(1, len(clique) + 1):
            sets |= set(itertools.combinations(clique, size))
    free = sum(int(np.prod([size - 1 for size in domain.project(s).sizes])) for s in sets)
    assert free == independent


def test_several_orders_come_small_first_and_each_once():
    planned = Ways(orders=(3, 1, 9)).fixed_selection(DOMAIN)
    assert [len(clique) for clique in planned.cliques] == [1] * 4 + [3] * 4 + [4]
    assert sum(planned.weights) == 1


def test_the_allocation_is_the_one_asked_for():
    equal = Ways(orders=(1,), allocation="equal").fixed_selection(DOMAIN)
    assert equal.weights == (Fraction(1, 4),) * 4
    rho = Ways(orders=(1,)).fixed_selection(DOMAIN)
    assert rho.weights[0] < rho.weights[2]


@pytest.mark.parametrize(("neighbours", "sensitivity"), [("add-remove", 1), ("replace-one", 2)])
def test_equal_shares_cost_the_number_of_tables_over_epsilon(neighbours, sensitivity):
    planned = Ways(allocation="equal").fixed_selection(DOMAIN)
    codes = np.zeros((4, 10), dtype=np.uint16)
    curator, session = curator_of(Dataset(DOMAIN, codes), Fraction(2), "pure", neighbours)
    sets, epsilon = 5, Fraction(2)
    for replicate in range(1, sets + 1):
        costs = [epsilon / sets * weight for weight in planned.weights]
        for item in curator.measure("measure", planned.cliques, costs, replicate=replicate):
            assert item.scale == pytest.approx(sensitivity * sets * 6 / 2, rel=1e-12)
    assert session.spent() == epsilon


@pytest.mark.parametrize("orders", [(), (0,), (2, 2), (-1, 2)])
def test_orders_that_mean_nothing_are_refused(orders):
    with pytest.raises(BadInput, match=r"select\.orders"):
        Ways(orders=orders).fixed_selection(DOMAIN)


def test_too_many_tables_and_too_large_ones_are_refused_with_the_limit_and_another_method():
    many = Domain(tuple(f"c{i}" for i in range(60)), (2,) * 60)
    with pytest.raises(BadInput, match=r"34220 tables .*20000.*privsyn"):
        Ways(orders=(3,)).fixed_selection(many)
    with pytest.raises(BadInput, match=r"1e\+08 cells.*4194304.*privsyn"):
        Ways().check(Domain(("a", "b"), (10_000, 10_000)))
