from __future__ import annotations

import numpy as np
import pytest

from dp_core.client.household_values import in_households
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.metrics.marginal_error import HouseholdTally, Tally, tally_of
from tests.household_files import KINDS, counter_of, households, linked, pair_rows

CLIQUES = tuple(KINDS.values())


def linked_rows(file):
    """Return the pair rows in a domain that knows that they are pair rows."""
    rows = pair_rows(file)
    return Dataset(Domain(rows.domain.columns, rows.domain.sizes, linked().wide), rows.codes)


@pytest.fixture(scope="module")
def file():
    rng = np.random.default_rng(4)
    every = households()
    return [every[place] for place in rng.integers(0, len(every), 60)]


def test_sets_are_counted_as_the_file_is(file):
    data = linked_rows(file)
    tally = tally_of(data.domain, CLIQUES).add(data)
    exact = counter_of(file).count(CLIQUES)
    for clique in CLIQUES:
        np.testing.assert_array_equal(tally.count(clique), in_households(exact[clique].counts, 6))


def test_rows_are_households_and_persons_their_members(file):
    tally = HouseholdTally(linked_rows(file).domain, [("p",)]).add(linked_rows(file))
    assert tally.rows == len(file)
    assert tally.persons == sum(len(members) for _, members in file)


def test_a_piece_may_end_within_a_household(file):
    data = linked_rows(file)
    tally = HouseholdTally(data.domain, CLIQUES)
    for start in range(0, data.rows, 7):
        tally.add(Dataset(data.domain, data.codes[:, start : start + 7]))
    whole = HouseholdTally(data.domain, CLIQUES).add(data)
    assert (tally.rows, tally.persons) == (whole.rows, whole.persons)
    for clique in CLIQUES:
        np.testing.assert_array_equal(tally.count(clique), whole.count(clique))


def test_records_have_the_usual_tally():
    domain = Domain(("a",), (2,))
    assert type(tally_of(domain, [("a",)])) is Tally
    with pytest.raises(ValueError, match="pair rows"):
        HouseholdTally(domain, [("a",)])
