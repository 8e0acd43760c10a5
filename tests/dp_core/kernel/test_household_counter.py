"""Counts of households and members in shares, against a count of every household by hand."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.linked_columns import household_shares
from tests.household_files import (
    KINDS,
    NO_MEMBER,
    NO_OTHER,
    counter_of,
    domain,
    households,
    linked,
    pair_rows,
)

FILES = st.lists(st.sampled_from(households(4)), max_size=6)


def by_hand(file, clique):
    """Return the fractions of households in each cell, from the households themselves."""
    found = defaultdict(Fraction)
    for h, members in file:
        pairs = [
            (one, other)
            for i, one in enumerate(members)
            for j, other in enumerate(members)
            if i != j
        ] or [(members[0] if members else (NO_MEMBER,) * 2, (NO_OTHER,) * 2)]
        for (p, q), (other_p, other_q) in pairs:
            codes = {
                "h": h,
                "members": len(members),
                "p": p,
                "q": q,
                "other.p": other_p,
                "other.q": other_q,
            }
            found[tuple(codes[name] for name in clique)] += Fraction(1, len(pairs))
    return dict(found)


@given(file=FILES, clique=st.sampled_from(list(KINDS.values())))
def test_a_table_in_shares_is_the_mean_over_each_households_pairs_times_the_shares(file, clique):
    table = counter_of(file, 4).count([clique])[clique]
    expected = np.zeros(table.domain.sizes, dtype=np.int64)
    for cell, value in by_hand(file, clique).items():
        assert (value * 12).denominator == 1
        expected[cell] = value * 12
    assert table.domain == domain(4).project(clique)
    assert table.counts.dtype == np.int64
    np.testing.assert_array_equal(table.counts, expected)


@given(file=FILES, clique=st.sampled_from(list(KINDS.values())))
def test_the_observed_cells_are_those_of_the_table_in_ascending_order(file, clique):
    counter = counter_of(file, 4)
    cells, counts = counter.observed(clique)
    table = counter.count([clique])[clique].counts
    assert cells.dtype == np.uint16
    assert counts.dtype == np.int64
    assert cells.shape == (len(counts), len(clique))
    np.testing.assert_array_equal(cells, np.argwhere(table))
    np.testing.assert_array_equal(counts, table[table > 0])


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_every_household_adds_exactly_the_shares_to_every_table(kind, most):
    clique, shares = KINDS[kind], linked(most).shares
    assert shares == household_shares(most)
    for household in households(most):
        assert counter_of([household], most).count([clique])[clique].counts.sum() == shares


def test_cliques_are_counted_together_and_each_once():
    class Asked(MemoryCounter):
        asked = ()

        def count(self, cliques):
            self.asked = (*self.asked, tuple(cliques))
            return super().count(cliques)

    pairs = Asked(pair_rows(households()))
    found = HouseholdCounter(pairs, linked()).count([("p",), ("p", "members"), ("p",), ()])
    assert [*found] == [("p",), ("p", "members"), ()]
    assert pairs.asked == ((("p", "members"), ("members",)),)


def test_a_file_without_households_has_empty_tables():
    counter = counter_of([])
    assert counter.count([()])[()].counts == 0
    cells, counts = counter.observed(("p", "other.p"))
    assert cells.shape == (0, 2)
    assert len(counts) == 0


def test_weights_that_give_households_different_shares_are_refused():
    class OnePerPair:
        shares, sizes, weights = 6, (0, 1, 2, 3), (1, 1, 1, 1)

    with pytest.raises(ValueError, match="do not add up"):
        HouseholdCounter(MemoryCounter(pair_rows([])), OnePerPair())


def test_a_column_of_members_with_other_codes_is_refused():
    data = Dataset(domain(4), np.zeros((6, 1), dtype=np.uint16))
    with pytest.raises(ValueError, match="another number of codes"):
        HouseholdCounter(MemoryCounter(data), linked(3)).count([("p",)])


def test_the_counter_shows_no_counts():
    assert repr(counter_of(households())) == "HouseholdCounter(6 shares, confidential)"
