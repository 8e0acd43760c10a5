"""Single values that are changed until records are nearest to all tables together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.methods.reconstruction.kernels.descent import Gaps, descend
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Domain
from dp_core.wall.released import Table

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


def mend(codes, wanted, *, sweeps=3, most_visits=10**6, domain=DOMAIN):
    data = Dataset(domain, codes)
    gaps = Gaps.of(data, wanted)
    rng = np.random.default_rng(0)
    changed = descend(data, gaps, sweeps=sweeps, most_visits=most_visits, rng=rng)
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
    again = mend(codes, wanted, most_visits=0)[1]
    np.testing.assert_allclose(gaps.cost, again.cost, atol=1e-12)


def test_records_that_have_the_tables_of_a_large_file_stay():
    """One record is a tiny part of a large cell, and sums of such parts may not drift."""
    domain = Domain(("a", "b"), (2, 2))
    codes = records(2_000_000, 1, domain)
    before = codes.copy()
    wanted = [table(codes, clique, domain) for clique in (("a",), ("a", "b"))]
    assert mend(codes, wanted, most_visits=200_000, domain=domain)[0] == 0
    assert (codes == before).all()


@pytest.mark.parametrize(("visits", "most"), [(0, 0), (4 * 7 + 3, 4 * 7)])
def test_no_more_values_are_visited_than_there_may_be(visits, most):
    wanted = [table(records(300, 1), clique) for clique in CLIQUES]
    codes = records(300, 2)
    before = codes.copy()
    changed = mend(codes, wanted, most_visits=visits)[0]
    assert changed == (codes != before).sum() <= most
    assert (changed > 0) == (most > 0)


def test_a_cells_cost_is_what_one_more_record_there_adds():
    domain = Domain(("a",), (5,))
    held = np.array([[0, 0, 1, 1, 1, 2, 2, 2, 2, 3]], dtype=np.uint16)
    wanted = [Table(domain, np.array([6.0, 0.0, 0.5, 2.5, 1.0]))]
    gaps = mend(held.copy(), wanted, most_visits=0, domain=domain)[1]
    for code in range(5):
        more = np.append(held, [[code]], axis=1).astype(np.uint16)
        added = distance(more, wanted, domain) - distance(held, wanted, domain)
        assert gaps.cost[code] == pytest.approx(added, rel=1e-12)
