"""Pair rows of households, and back."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import LinkedColumns
from dp_core.tables import household_rows
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows
from dp_core.tables.table_plan import count_codes
from tests.dp_core.schema.linked.households import PEOPLE, files, tables, wide


def one_by_one(linked, rows):
    """Return the pair rows as tuples, household by household: the definition."""
    domain, found, at = wide(linked), [], 0
    people = len(PEOPLE)
    nobody = tuple(size - 1 for size in domain.sizes[-2 * people : -people])
    no_other = tuple(size - 1 for size in domain.sizes[-people:])
    for home, size in zip(rows.households.T.tolist(), rows.sizes.tolist(), strict=True):
        members = [tuple(each) for each in rows.persons.T[at : at + size].tolist()]
        at += size
        pairs = list(itertools.permutations(members, 2))
        if size < 2:
            pairs = [((members or [nobody])[0], no_other)]
        found += [(*home, linked.sizes.index(size), *one, *two) for one, two in pairs]
    return found


@given(files())
def test_pair_rows_are_the_ordered_pairs_of_members_household_by_household(file):
    linked, rows = file
    data = to_pair_rows(linked, wide(linked), rows)

    assert list(map(tuple, data.codes.T.tolist())) == one_by_one(linked, rows)


@given(files())
def test_pair_rows_give_back_the_households_they_came_from(file):
    linked, rows = file
    found = from_pair_rows(linked, to_pair_rows(linked, wide(linked), rows))

    assert np.array_equal(found.households, rows.households)
    assert np.array_equal(found.sizes, rows.sizes)
    assert np.array_equal(found.persons, rows.persons)
    assert found.sizes.dtype == np.int64


@given(files())
def test_blocks_of_any_size_give_the_same_pair_rows(file):
    linked, rows = file
    whole = to_pair_rows(linked, wide(linked), rows).codes
    for most in (1, 3, 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(household_rows, "_BLOCK", most)
            assert np.array_equal(to_pair_rows(linked, wide(linked), rows).codes, whole)


@given(files(least=1))
def test_the_weights_give_each_person_and_each_household_their_part(file):
    linked, rows = file
    domain = wide(linked)
    data = to_pair_rows(linked, domain, rows)
    weights = np.array(linked.weights)[data.column("members")]

    def shares(*names):
        table = np.zeros(domain.project(names).sizes, dtype=np.int64)
        np.add.at(table, tuple(data.column(name) for name in names), weights)
        return table

    def counts(codes, sizes):
        return count_codes([np.ascontiguousarray(each) for each in codes], sizes, [(0, 1)])[0]

    # A table of household columns counts each household once, S times over.
    assert np.array_equal(
        shares("a", "b"), linked.shares * counts(rows.households, domain.project("ab").sizes)
    )
    # Every person of a household of s members has S/s shares, as the one and as the other member.
    of_person = linked.shares // rows.sizes.repeat(rows.sizes)
    expected = np.zeros(domain.project("xy").sizes, dtype=np.int64)
    np.add.at(expected, tuple(rows.persons), of_person)
    assert np.array_equal(shares("x", "y"), expected)
    alone = rows.sizes.repeat(rows.sizes) == 1
    also = np.zeros_like(expected)
    np.add.at(also, tuple(rows.persons[:, ~alone]), of_person[~alone])
    assert np.array_equal(shares("other.x", "other.y")[:-1, :-1], also)
    assert shares("other.x")[-1] == linked.shares * alone.sum()


def test_positions_and_numbers_of_persons_follow_from_the_sizes():
    rows = HouseholdRows(
        np.zeros((2, 3), np.uint16), np.array([2, 0, 3]), np.zeros((2, 5), np.uint16)
    )

    assert rows.household_of.tolist() == [0, 0, 2, 2, 2]
    assert rows.numbers.tolist() == [1, 2, 1, 2, 3]


def test_a_file_that_nobody_may_see_is_not_in_its_text():
    rows = HouseholdRows(
        np.full((2, 1), 7, np.uint16), np.array([1]), np.full((2, 1), 8, np.uint16)
    )

    assert repr(rows) == "HouseholdRows(2 and 2 columns)"


def changed(data, place, code):
    codes = data.codes.copy()
    codes[place] = code
    return Dataset(data.domain, codes)


def test_rows_that_are_no_whole_households_are_refused():
    linked = tables(1, 3)
    rows = HouseholdRows(np.zeros((2, 2), np.uint16), np.array([3, 1]), np.ones((2, 4), np.uint16))
    data = to_pair_rows(linked, wide(linked), rows)
    cut = Dataset(data.domain, np.ascontiguousarray(data.codes[:, 1:]))
    other_order = Dataset(data.domain.project(data.domain.columns[::-1]), data.codes)
    for wrong, said in (
        (cut, "whole households"),
        (other_order, "in the order of the schema"),
        (changed(data, (0, 1), 1), "all ordered pairs"),  # one row of another household column
        (changed(data, (5, 1), 0), "all ordered pairs"),  # another member that is nowhere else
        (changed(data, (5, 6), 1), "all ordered pairs"),  # a member beside a household of one
        (changed(data, (2, 6), 1), "whole households"),  # another size
    ):
        with pytest.raises(ValueError, match=said):
            from_pair_rows(linked, wrong)


def test_sizes_outside_the_domain_are_refused():
    linked = tables(1, 3)
    for sizes in ([4], [0, 1]):
        rows = HouseholdRows(
            np.zeros((2, len(sizes)), np.uint16),
            np.array(sizes),
            np.zeros((2, sum(sizes)), np.uint16),
        )
        with pytest.raises(ValueError, match="1 to 3 members"):
            to_pair_rows(linked, wide(linked), rows)


def test_households_and_persons_that_do_not_belong_together_are_refused():
    homes, people = np.zeros((2, 2), np.uint16), np.zeros((2, 3), np.uint16)
    with pytest.raises(ValueError, match="number of members"):
        HouseholdRows(homes, np.array([3]), people)
    with pytest.raises(ValueError, match="do not add up"):
        HouseholdRows(homes, np.array([1, 1]), people)


def test_households_in_areas_beyond_16_bits_come_back():
    linked = LinkedColumns(household_columns=("area",), person_columns=("b",), max_members=3)
    domain = Domain(linked.columns, (70_000, 3, 2, 3), linked)
    rows = HouseholdRows(
        np.array([[69_999, 4463, 65_536]], np.uint32),  # 69,999 has the 16 bits of 4463
        np.array([3, 1, 2]),
        np.array([[0, 1, 1, 0, 1, 0]], np.uint16),
    )
    data = to_pair_rows(linked, domain, rows)
    found = from_pair_rows(linked, data)

    assert data.codes.dtype == np.uint32
    assert data.column("area").tolist() == [69_999] * 6 + [4463] + [65_536] * 2
    assert np.array_equal(found.households, rows.households)
    assert np.array_equal(found.persons, rows.persons)
