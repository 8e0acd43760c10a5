import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.kernel.codes import stored_type
from dp_core.kernel.counting import cell_counts
from dp_core.kernel.counting.cell_counts import TablePlan, count_tables
from dp_core.tables import table_plan
from dp_core.tables.table_plan import count_codes, parts_of, plan_tables


@st.composite
def coded_tables(draw):
    """Sizes, columns of codes, and some cliques in any order."""
    sizes = draw(
        st.lists(st.sampled_from([1, 2, 3, 7, 40, 256, 300, 70_000]), min_size=1, max_size=5)
    )
    rows = draw(st.integers(0, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = [rng.integers(0, size, rows, dtype=stored_type(size)) for size in sizes]
    clique = st.lists(st.integers(0, len(sizes) - 1), unique=True, max_size=3).map(tuple)
    cliques = draw(st.lists(clique, max_size=6))
    cliques = [c for c in cliques if math.prod(sizes[axis] for axis in c) <= 10**6]
    return sizes, columns, cliques


def by_histogram(columns, sizes, clique):
    rows = len(columns[0])
    cell = np.zeros(rows, np.int64)
    for axis in clique:
        cell = cell * sizes[axis] + columns[axis]
    shape = [sizes[axis] for axis in clique]
    return np.bincount(cell, minlength=math.prod(shape)).reshape(shape)


@given(coded_tables())
@settings(deadline=None, max_examples=40)
def test_counts_are_those_of_a_plain_histogram(case):
    sizes, columns, cliques = case
    for clique, counts in zip(cliques, count_codes(columns, sizes, cliques), strict=True):
        assert counts.dtype == np.int64
        assert np.array_equal(counts, by_histogram(columns, sizes, clique))


@given(coded_tables(), st.integers(0, 200))
@settings(deadline=None, max_examples=20)
def test_any_cut_of_the_rows_gives_the_same_counts(case, cut):
    sizes, columns, cliques = case
    whole = count_codes(columns, sizes, cliques)
    upper = count_codes([column[:cut] for column in columns], sizes, cliques)
    lower = count_codes([column[cut:] for column in columns], sizes, cliques)
    for full, some, rest in zip(whole, upper, lower, strict=True):
        assert np.array_equal(full, some + rest)


@given(coded_tables())
@settings(deadline=None, max_examples=20)
def test_counting_then_projecting_equals_projecting_then_counting(case):
    sizes, columns, cliques = case
    for clique in filter(None, cliques):
        (joint,) = count_codes(columns, sizes, [clique])
        for place, axis in enumerate(clique):
            (alone,) = count_codes(columns, sizes, [(axis,)])
            others = tuple(set(range(len(clique))) - {place})
            assert np.array_equal(joint.sum(axis=others), alone)


def test_many_rows_cross_every_boundary_of_blocks_and_passes(monkeypatch):
    monkeypatch.setattr(cell_counts, "BLOCK_BYTES", 3 * 5000)
    monkeypatch.setattr(cell_counts, "LONG_BYTES", 3 * 12_000)
    monkeypatch.setattr(cell_counts, "PASS_CELLS", 200)
    rng = np.random.default_rng(1)
    sizes = [5, 70, 300, 40]
    columns = [rng.integers(0, size, 30_001).astype(np.uint16) for size in sizes]
    cliques = [(0, 1), (3, 2), (2, 1), (2, 0, 1), (2,), ()]  # every kind of counter
    for clique, counts in zip(cliques, count_codes(columns, sizes, cliques), strict=True):
        assert np.array_equal(counts, by_histogram(columns, sizes, clique))


def test_a_column_where_all_rows_are_equal_is_counted():
    columns = [np.zeros(200_003, np.uint8), np.full(200_003, 255, np.uint8)]
    (counts,) = count_codes(columns, [2, 256], [(1, 0)])
    assert counts[255, 0] == counts.sum() == 200_003


def test_small_cliques_share_tables_and_large_ones_do_not():
    pairs = tuple(itertools.combinations(range(8), 2))
    plan = plan_tables((2,) * 8, pairs)
    assert len(plan.tables) == 1
    assert len(plan_tables((90,) * 8, pairs).tables) == len(pairs)


def test_every_clique_lies_in_its_table():
    sizes = (2, 3, 5, 8, 13, 21, 34, 55)
    cliques = (*itertools.permutations(range(8), 2), (), (3,), (7, 6, 5))
    plan = plan_tables(sizes, cliques)
    for clique, number in zip(plan.cliques, plan.chosen, strict=True):
        assert set(clique) <= set(plan.tables[number])


def shared_plainly(sizes, cliques):
    """Return the tables of the greedy search, found by trying every column and every clique."""
    asked = sorted(
        {tuple(sorted(c)) for c in cliques}, key=lambda c: -math.prod(sizes[a] for a in c)
    )
    tables = []
    while lacking := [c for c in asked if not any({*c} <= {*table} for table in tables)]:
        table = [*lacking[0]]
        while True:
            room = table_plan.GROUP_CELLS // math.prod(sizes[axis] for axis in table)
            gains = {
                axis: sum({*c} - {*table} == {axis} for c in lacking) / (np.log2(size) + 0.01)
                for axis, size in enumerate(sizes)
                if axis not in table and size <= room
            }
            best = max(gains, key=lambda axis: gains[axis], default=None)
            if best is None or gains[best] == 0:
                break
            table.append(best)
        tables.append(tuple(sorted(table)))
    return tuple(tables)


@pytest.mark.parametrize("most", [1, 300, 10**9])
def test_parts_of_a_plan_together_count_every_clique(most):
    rng = np.random.default_rng(3)
    sizes = tuple(int(size) for size in rng.integers(1, 9, 8))
    columns = [rng.integers(0, size, 200, np.uint8) for size in sizes]
    cliques = ((), *itertools.combinations(range(8), 2), (5, 1, 7))
    plan = plan_tables(sizes, cliques)
    parts = list(parts_of(plan, most))
    assert sum(part.cells for part in parts) == plan.cells
    assert all(part.cells <= most or len(part.tables) == 1 for part in parts)
    found = {
        clique: table
        for part in parts
        for clique, table in zip(
            part.cliques, part.project(count_tables(columns, part)), strict=True
        )
    }
    for clique, table in zip(cliques, count_codes(columns, sizes, cliques), strict=True):
        np.testing.assert_array_equal(found.pop(clique), table)
    assert not found


@pytest.mark.parametrize("seed", range(30))
def test_tables_are_those_of_the_plain_greedy_search(seed):
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 11))
    sizes = tuple(rng.choice([1, 2, 3, 5, 8, 20, 90, 300], number).tolist())
    orders = rng.integers(0, min(number, 3) + 1, 20)
    cliques = {tuple(rng.permutation(number)[:order].tolist()) for order in orders}
    if seed % 2:
        cliques.update(itertools.combinations(range(number), 2))
    cliques = tuple(sorted(cliques))
    plan = plan_tables(sizes, cliques)
    assert plan.tables == shared_plainly(sizes, cliques)
    assert all({*c} <= {*plan.tables[at]} for c, at in zip(cliques, plan.chosen, strict=True))


def test_codes_that_are_not_in_the_domain_are_refused_rather_than_written_beside_the_table():
    with pytest.raises(ValueError, match="not below its size"):
        count_codes([np.array([0, 3], np.uint8)], [3], [(0,)])


def test_cliques_too_large_or_repeated_are_refused():
    with pytest.raises(ValueError, match=r"2\*\*31"):
        plan_tables((2**16, 2**16), ((0, 1),))
    with pytest.raises(ValueError, match="repeats"):
        plan_tables((2, 2), ((1, 1),))


@pytest.mark.parametrize(
    ("cliques", "tables", "chosen"),
    [(((0, 1),), ((0,),), (0,)), (((0,),), ((0, 0),), (0,)), (((0,),), ((0, 2),), (0,))],
)
def test_a_plan_whose_tables_do_not_contain_its_cliques_once_is_refused(cliques, tables, chosen):
    with pytest.raises(ValueError, match="clique"):
        TablePlan((2, 2), cliques, tables, chosen)


def test_the_largest_clique_allowed_is_planned():
    assert plan_tables((2**16, 2**15), ((0, 1),)).cells == 2**31


def test_columns_of_differing_length_are_refused():
    plan = plan_tables((2, 2), ((0, 1),))
    with pytest.raises(ValueError, match="differ in length"):
        count_tables([np.zeros(3, np.uint8), np.zeros(2, np.uint8)], plan)
