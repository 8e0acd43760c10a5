"""Single values that are changed until records are nearest to all tables together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.methods.reconstruction.kernels import descent
from dp_core.methods.reconstruction.kernels.descent import Gaps, descend
from tests.full import at_full_size

DOMAIN = Domain(("a", "b", "c", "d"), (3, 4, 1, 2))
CLIQUES = (("a", "b"), ("b", "a"), ("a", "c", "d"), ("d",))


def records(rows, seed, domain=DOMAIN):
    rng = np.random.default_rng(seed)
    weights = [rng.dirichlet(np.ones(size)) for size in domain.sizes]
    drawn = [rng.choice(len(each), size=rows, p=each) for each in weights]
    return np.array(drawn, dtype=np.uint16)


def table(codes, clique, domain=DOMAIN):
    counts = np.zeros(domain.project(clique).sizes)
    np.add.at(counts, tuple(codes[axis] for axis in domain.axes(clique)), 1)
    return Table(domain.project(clique), counts)


def distance(codes, wanted, domain=DOMAIN):
    """Return what is to fall."""
    held = [table(codes, each.clique, domain).values for each in wanted]
    return sum(
        float(((found - each.values) ** 2 / (each.values + 1)).sum())
        for found, each in zip(held, wanted, strict=True)
    )


def mend(codes, wanted, *, sweeps=3, domain=DOMAIN, enough=0.0):
    data = Dataset(domain, codes)
    gaps = Gaps.of(data, wanted)
    rng = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descent, "ENOUGH", enough)
        changed = descend(data, gaps, sweeps=sweeps, rng=rng)
    return changed, gaps


def test_no_change_of_one_value_brings_records_nearer_in_the_end():
    wanted = [table(records(60, 1), clique) for clique in CLIQUES]
    codes = records(60, 2)
    before = distance(codes, wanted)
    assert mend(codes, wanted, sweeps=100)[0] > 0
    least = distance(codes, wanted)
    assert least < 0.5 * before
    for row, (column, size) in itertools.product(range(60), enumerate(DOMAIN.sizes)):
        for code in range(size):
            other = codes.copy()
            other[column, row] = code
            assert distance(other, wanted) > least - 1e-5
    assert mend(codes, wanted)[0] == 0


def test_the_gaps_afterwards_are_those_of_the_records():
    wanted = [table(records(300, 1), clique) for clique in CLIQUES]
    codes = records(300, 2)
    gaps = mend(codes, wanted)[1]
    again = mend(codes, wanted, sweeps=0)[1]
    np.testing.assert_allclose(gaps.cost, again.cost, atol=1e-12)
    assert again.error == pytest.approx(distance(codes, wanted))


def test_a_cells_cost_is_what_one_more_record_there_adds():
    domain = Domain(("a",), (5,))
    held = np.array([[0, 0, 1, 1, 1, 2, 2, 2, 2, 3]], dtype=np.uint16)
    wanted = [Table(domain, np.array([6.0, 0.0, 0.5, 2.5, 1.0]))]
    gaps = mend(held.copy(), wanted, sweeps=0, domain=domain)[1]
    start = gaps.base[0]
    for code in range(5):
        more = np.append(held, [[code]], axis=1).astype(np.uint16)
        added = distance(more, wanted, domain) - distance(held, wanted, domain)
        assert gaps.cost[start + np.uint64(code)] == pytest.approx(added, rel=1e-12)


WIDE = Domain(("a", "b", "c", "d"), (600, 5, 9, 17))
"""The first column has too many values to compare them all."""
WIDE_CLIQUES = (("a",), ("a", "b"), ("c", "a"), ("b", "c", "d"), ("d",))


def far(rows=4000):
    """Return records, and tables of other records."""
    wanted = [table(records(rows, 1, WIDE), clique, WIDE) for clique in WIDE_CLIQUES]
    return records(rows, 2, WIDE), wanted


def test_the_result_does_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(descent, "_FEW_LOOKUPS", 0)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(descent, "threads", lambda threads=threads: threads)
        codes, wanted = far()
        mend(codes, wanted, domain=WIDE)
        found.append(codes)
    assert (found[0] != far()[0]).any()
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_sweeps_end_when_they_gain_little():
    swept = []
    for enough in (0.0, 1e9):
        codes, wanted = far()
        changed, gaps = mend(codes, wanted, sweeps=3, domain=WIDE, enough=enough)
        swept.append(changed)
        expected = sum((t.values / (t.values + 1)).sum() for t in wanted)
        assert gaps.expected == pytest.approx(expected)
    codes, wanted = far()
    assert mend(codes, wanted, sweeps=1, domain=WIDE)[0] == swept[1] < swept[0]


def gains(codes, wanted, column, row):
    """Return by how much the error falls with each value of a record, by counting again."""
    before = distance(codes, wanted, WIDE)
    found = []
    for code in range(WIDE.sizes[column]):
        other = codes.copy()
        other[column, row] = code
        found.append(before - distance(other, wanted, WIDE))
    return np.array(found)


@pytest.mark.parametrize("column", [0, 3])
def test_the_best_value_of_a_record_is_found(column):
    """With many values: if a record more in its cells reduces the error by itself."""
    codes, wanted = far(300)
    gaps = Gaps.of(Dataset(WIDE, codes), wanted)
    found = best_values(codes, gaps, column)
    moved = 0
    for row in range(0, 300, 10 if at_full_size() else 25):
        gain = gains(codes, wanted, column, row)
        old = codes[column, row]
        assert gain[found[row]] >= 0
        if column == 3:
            assert gain[found[row]] == pytest.approx(max(gain.max(), 0), abs=1e-5)
            moved += found[row] != old
            continue
        left = np.delete(codes, row, axis=1)
        entering = gain.max() + distance(left, wanted, WIDE) - distance(codes, wanted, WIDE)
        if gain.max() > 1e-5 and entering > 0:
            assert gain[found[row]] == pytest.approx(gain.max(), abs=1e-9)
            moved += 1
    assert moved > 3


def best_values(codes, gaps, column):
    """Return what the compiled loops find for each record of a column."""
    low, high = gaps.first_copy[column], gaps.first_copy[column + 1]
    own = (gaps.others[low:high], gaps.strides[low:high], gaps.base[low : high + 1])
    costs = (gaps.cost, gaps.growth)
    size, width, rows = WIDE.sizes[column], gaps.width[column], codes.shape[1]
    found = codes[column].copy()
    if column == 3:
        descent._compare_all(codes, column, size, width, *own, *costs, found, 0, rows)
        return found
    lists = descent._with_missing(own[2], width, size, size, gaps.cost)
    for row in range(rows):
        other, cost = codes.copy(), gaps.cost.copy()
        descent._change_listed(other, column, row, row + 1, width, *lists, *own, cost, gaps.growth)
        found[row] = other[column, row]
    return found


def test_lists_hold_the_values_that_lack_most_records():
    codes, wanted = far(300)
    gaps = Gaps.of(Dataset(WIDE, codes), wanted)
    low, high = gaps.first_copy[:2]
    base, width = gaps.base[low : high + 1], gaps.width[0]
    listed, lengths = descent._with_missing(base, width, 600, 16, gaps.cost)
    runs = gaps.cost[base[0] : base[-1]].reshape(-1, width)[:, :600]
    assert len(runs) == len(lengths) == 1 + 5 + 9
    assert max(lengths) == 16
    for run, own, length in zip(runs, listed, lengths, strict=True):
        lacking = np.sort(run[run < 0])
        np.testing.assert_array_equal(np.sort(run[own[:length]]), lacking[:16])
        assert len(set(own[:length].tolist())) == length
