from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.metrics import marginal_error
from dp_core.metrics.marginal_error import (
    Tally,
    average_tvd,
    batches,
    occupied_cells,
    record_keys,
    small_cliques,
    tvd,
    within_limit,
)


def dataset(rows: int, sizes: tuple[int, ...], seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    domain = Domain(tuple("abcdefgh"[: len(sizes)]), sizes)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes]).astype(np.uint16)
    return Dataset(domain, codes)


def test_tvd_is_half_of_the_l1_of_normalised_tables():
    assert tvd([3, 1], [1, 1]) == 0.25
    assert tvd([[2, 0], [0, 0]], [[0, 0], [0, 7]]) == 1
    assert tvd([1, 2, 3], [10, 20, 30]) == pytest.approx(0, abs=1e-15)


def test_a_table_without_mass_is_far_from_one_with_mass_only():
    assert tvd([0, 0], [1, 0]) == 1
    assert tvd([0, 0], [0, 0]) == 0


def test_tables_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="cannot be compared"):
        tvd([1, 2], [[1, 2]])


@pytest.mark.parametrize("compiled_visits", [1, 1 << 17])
@given(
    rows=st.integers(0, 60),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple),
    cuts=st.lists(st.integers(0, 60), max_size=3),
)
def test_a_tally_counts_the_same_however_the_data_arrive(compiled_visits, rows, sizes, cuts):
    data = dataset(rows, sizes, 1)
    cliques = [
        clique
        for ways in range(len(sizes) + 1)
        for clique in itertools.permutations(data.domain.columns, ways)
    ]
    tally = Tally(data.domain, cliques)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginal_error, "_COMPILED_VISITS", compiled_visits)
        for start, stop in itertools.pairwise([0, *sorted(min(cut, rows) for cut in cuts), rows]):
            tally.add(Dataset(data.domain, data.codes[:, start:stop]))

    assert tally.rows == rows
    for clique in cliques:
        expected = np.zeros(data.domain.project(clique).sizes, dtype=np.int64)
        for row in data.codes.T:
            expected[tuple(int(row[axis]) for axis in data.domain.axes(clique))] += 1
        np.testing.assert_array_equal(tally.count(clique), expected)


def test_average_tvd_agrees_with_the_definition():
    first, second = dataset(200, (2, 3, 4, 2), 1), dataset(150, (2, 3, 4, 2), 2)
    for ways in (1, 2, 3):
        cliques = list(itertools.combinations(first.domain.columns, ways))
        a, b = Tally(first.domain, cliques).add(first), Tally(first.domain, cliques).add(second)
        distances = [
            np.abs(a.count(c) / first.rows - b.count(c) / second.rows).sum() / 2 for c in cliques
        ]
        found = average_tvd(first, second, ways)

        assert found.mean == pytest.approx(np.mean(distances), rel=1e-12)
        assert found.worst == pytest.approx(max(distances), rel=1e-12)
        assert (found.tables, found.skipped) == (len(cliques), 0)


def test_the_same_data_are_at_distance_zero():
    data = dataset(100, (3, 3, 3), 3)

    assert average_tvd(data, data, 2).mean == 0


def test_tables_above_the_limit_are_left_out_and_counted(monkeypatch):
    first, second = dataset(50, (2, 30, 30), 1), dataset(50, (2, 30, 30), 2)
    monkeypatch.setattr(within_limit, "__kwdefaults__", {"cell_limit": 100})
    found = average_tvd(first, second, 2)

    assert (found.tables, found.skipped) == (2, 1)
    monkeypatch.setattr(within_limit, "__kwdefaults__", {"cell_limit": 1})
    empty = average_tvd(first, second, 2)
    assert math.isnan(empty.mean)
    assert (empty.tables, empty.skipped) == (0, 3)


def test_datasets_of_different_domains_are_refused():
    with pytest.raises(ValueError, match="different domains"):
        average_tvd(dataset(5, (2, 2), 1), dataset(5, (2, 3), 1), 1)


def test_many_triples_are_sampled_without_repetition_and_always_the_same():
    domain = Domain(tuple(f"c{index}" for index in range(40)), (2,) * 40)
    sample = small_cliques(domain, 3, most=300)

    assert sample == small_cliques(domain, 3, most=300)
    assert len(set(sample)) == 300
    assert all(list(clique) == sorted(clique, key=domain.columns.index) for clique in sample)


def test_batches_keep_the_order_and_lose_nothing():
    domain = Domain(("a", "b", "c"), (4000, 4000, 3))
    cliques = small_cliques(domain, 2)

    assert tuple(itertools.chain.from_iterable(batches(domain, cliques))) == cliques
    assert len(list(batches(domain, cliques))) > 1
    assert within_limit(domain, cliques, cell_limit=12_000) == ((("a", "c"), ("b", "c")), 1)


@pytest.mark.parametrize("ways", [1, 2, 3])
def test_a_mostly_empty_table_has_the_same_distance_by_its_occupied_cells(monkeypatch, ways):
    first, second = (dataset(rows, (40, 6, 3, 5), rows) for rows in (70, 90))
    dense = average_tvd(first, second, ways)
    monkeypatch.setattr(marginal_error, "_EMPTY_CELLS", 0)
    monkeypatch.setattr(marginal_error, "_CELLS_PER_RECORD", 0)
    monkeypatch.setattr(marginal_error, "Tally", None)
    sparse = average_tvd(first, second, ways)
    assert sparse.mean == pytest.approx(dense.mean, rel=1e-12)
    assert sparse.worst_clique == dense.worst_clique
    assert (sparse.tables, sparse.skipped) == (dense.tables, dense.skipped)


def test_cells_are_numbered_in_their_order_among_those_that_occur():
    first, second = (dataset(rows, (7, 4), rows) for rows in (9, 6))
    numbers = occupied_cells(("b", "a"), [first, second])
    cells = [
        list(zip(data.column("b").tolist(), data.column("a").tolist(), strict=True))
        for data in (first, second)
    ]
    order = sorted({*cells[0], *cells[1]})
    for found, own in zip(numbers, cells, strict=True):
        assert found.tolist() == [order.index(cell) for cell in own]


def test_a_large_table_is_compared_without_the_cells_that_are_empty_in_both():
    first, second = np.zeros((2, 300, 300), dtype=np.int64)
    first[3, 5], first[299, 299], second[3, 5], second[0, 0] = 6, 2, 1, 1
    assert tvd(first, second) == (abs(0.75 - 0.5) + 0.25 + 0.5) / 2
    assert tvd(first, first * 0) == 1


def test_keys_tell_records_of_a_domain_that_no_number_holds():
    data = dataset(200, (60_000,) * 8, 5)
    twice = Dataset(data.domain, np.ascontiguousarray(data.codes[:, ::-1]))
    one, two = record_keys(data.domain.columns, (data, twice))
    assert np.unique(one).size == 200
    assert (one == two[::-1]).all()
