"""Synthetic households after their rules were obeyed: no rule of either table, or over both."""

from __future__ import annotations

import numpy as np
import pytest

from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.linked.linked_decoding import decode_tables
from dp_core.schema.linked.member_counts import decided_by_codes
from dp_core.schema.linked.possible_members import (
    households_with,
    with_donors,
    with_possible_members,
)
from dp_core.schema.rules.possible_codes import with_possible_values
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows
from tests.schema_texts import read

NUMBER = "{type: integer, min: 0, max: 29, edges: [0, 10, 20, 30]}"
TEXT = f"""\
version: 1
title: Rules over two tables
unit: {{table: homes, max_members: 4}}
rows_about: 1000
tables:
  homes:
    key: home
    columns:
      tenure: {{type: category, levels: [own, rent]}}
      a: {NUMBER}
      b: {NUMBER}
      c: {NUMBER}
  people:
    key: nr
    parent: homes
    link: home_id
    columns:
      x: {NUMBER}
      y: {NUMBER}
      z: {NUMBER}
rules:
"""
APART = ("a + 6 <= b", "b + 6 <= c", "x + 6 <= y", "y + 6 <= z")
"""Each leaves a code with the same code of its second column, and the two of a table together do
not: values 12 apart are in no one bin. So codes that break no structural zero have no values."""
BOTH = (
    "if tenure == own then z < 20",
    "if c >= 20 then x < 10",
    "if members >= 3 then y < 20",
    "if members == 1 then b < 20",
    "if tenure == rent and members >= 2 and c < 20 then x < 20",
)
OBEYED = {
    "a + 6 <= b": lambda of: of.a + 6 <= of.b,
    "b + 6 <= c": lambda of: of.b + 6 <= of.c,
    "x + 6 <= y": lambda of: of.x + 6 <= of.y,
    "y + 6 <= z": lambda of: of.y + 6 <= of.z,
    BOTH[0]: lambda of: (of.tenure != "own") | (of.z < 20),
    BOTH[1]: lambda of: (of.c < 20) | (of.x < 10),
    BOTH[2]: lambda of: (of.members < 3) | (of.y < 20),
    BOTH[3]: lambda of: (of.members != 1) | (of.b < 20),
    BOTH[4]: lambda of: (of.tenure != "rent") | (of.members < 2) | (of.c >= 20) | (of.x < 20),
}
RULES = (*APART, *BOTH)
SCHEMA = read(TEXT + "".join(f"  - {rule}\n" for rule in RULES))


def drawn(households, seed):
    """Return random pair rows of whole households that break no structural zero."""
    rng, linked = np.random.default_rng(seed), SCHEMA.linked
    found = []
    while len(found) < households:
        size = int(rng.integers(1, 5))
        home = np.array([[rng.integers(2)], *rng.integers(0, 3, (3, 1))], np.uint16)
        persons = rng.integers(0, 3, (3, size)).astype(np.uint16)
        rows = HouseholdRows(home, np.array([size]), persons)
        pairs = to_pair_rows(linked, SCHEMA.domain, rows)
        if not SCHEMA.zeros.violations(pairs).any():
            found.append(pairs.codes)
    return Dataset(SCHEMA.domain, np.concatenate(found, axis=1))


def broken_rules(data, seed):
    """Return the rules that the values of a set break, judged by themselves."""
    rows = from_pair_rows(SCHEMA.linked, data)
    two = decode_tables(SCHEMA, rows, rng=np.random.default_rng(seed))
    homes, people = two.households.to_pandas(), two.persons.to_pandas()
    homes["members"] = people.groupby("home_id").size().reindex(homes.home).to_numpy()
    joined = people.merge(homes, left_on="home_id", right_on="home", validate="many_to_one")
    assert len(joined) == len(people)
    assert {*joined.home} == {*homes.home}
    return [rule for rule, obeyed in OBEYED.items() if not obeyed(joined).all()]


def of_each_table(data, seed):
    """Return the set after each table alone was given possible codes."""
    rng, rows = np.random.default_rng(seed), from_pair_rows(SCHEMA.linked, data)
    homes, people = SCHEMA.household_schema, SCHEMA.person_schema
    mended = HouseholdRows(
        with_possible_values(homes, Dataset(homes.domain, rows.households), rng=rng).codes,
        rows.sizes,
        with_possible_values(people, Dataset(people.domain, rows.persons), rng=rng).codes,
    )
    return to_pair_rows(SCHEMA.linked, data.domain, mended)


def test_the_rules_of_these_tests_are_of_every_kind():
    assert {*OBEYED} == {*RULES}
    of_both = [rule for rule in SCHEMA.rules if decided_by_codes(rule, SCHEMA)]
    assert len(of_both) == len(BOTH)


@pytest.mark.parametrize("seed", range(5))
def test_every_drawn_set_obeys_every_rule(seed):
    data = drawn(300, seed)
    # Codes that break no structural zero may have no values, and mending each table alone breaks
    # rules over both.
    assert SCHEMA.zeros.violations(of_each_table(data, seed)).any()

    found = with_possible_members(SCHEMA, data, rng=np.random.default_rng(seed))

    assert not SCHEMA.zeros.violations(found).any()
    assert from_pair_rows(SCHEMA.linked, found).sizes.size == 300
    assert broken_rules(found, seed) == []


def test_households_that_obey_the_rules_stay_as_they_are():
    data = with_possible_members(SCHEMA, drawn(300, 7), rng=np.random.default_rng(7))
    again = with_possible_members(SCHEMA, data, rng=np.random.default_rng(8))
    assert again is data
    # Of the others, those of a number of members are replaced by such of as many.
    before = from_pair_rows(SCHEMA.linked, drawn(300, 7)).sizes
    np.testing.assert_array_equal(from_pair_rows(SCHEMA.linked, data).sizes, before)


def test_households_without_members_stay_so_while_others_are_replaced():
    schema = read(
        (TEXT + "".join(f"  - {rule}\n" for rule in RULES)).replace("4}", "4, min_members: 0}")
    )
    rows, rng = from_pair_rows(SCHEMA.linked, drawn(300, 7)), np.random.default_rng(7)
    at = np.sort(rng.choice(301, 60))
    # A vacant dwelling may break a rule about the household alone by its values, too.
    homes = np.insert(rows.households, at, rng.integers(0, 2, (4, 60)), axis=1)
    sizes = np.insert(rows.sizes, at, 0)
    pairs = to_pair_rows(
        schema.linked, schema.domain, HouseholdRows(homes.astype(np.uint16), sizes, rows.persons)
    )
    bad = households_with(schema.zeros.violations(pairs), sizes)
    assert (bad & (sizes == 0)).any()
    kept = with_donors(from_pair_rows(schema.linked, pairs), bad, rng=rng)
    data = to_pair_rows(schema.linked, schema.domain, kept)

    found = with_possible_members(schema, data, rng=rng)

    assert not schema.zeros.violations(found).any()
    np.testing.assert_array_equal(from_pair_rows(schema.linked, found).sizes, kept.sizes)
    homes = decode_tables(schema, from_pair_rows(schema.linked, found), rng=rng).households
    homes = homes.to_pandas()
    assert len(homes) == 360
    assert (homes.a + 6 <= homes.b).all()
    assert (homes.b + 6 <= homes.c).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_set_without_a_household_to_copy_gets_a_possible_one(seed):
    """Each set has one household; where it has no values by itself, there is no other."""
    for number in range(40):
        data = drawn(1, 100 * seed + number)
        found = with_possible_members(SCHEMA, data, rng=np.random.default_rng(number))
        assert broken_rules(found, number) == []
