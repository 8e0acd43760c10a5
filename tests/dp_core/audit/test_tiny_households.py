"""The generated files of households: what is in them, and that each pair is of neighbours."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dp_core.audit.configurations import configurations, plan_of
from dp_core.audit.report import HOUSEHOLDS
from dp_core.audit.tiny_households import (
    ALONE,
    BEYOND,
    CHILD,
    OLD,
    POOR,
    RICH,
    SETTLED,
    UNKNOWN,
    VACANT,
    Household,
    TinyHouseholds,
    household_like,
)
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.tables.linked_records import from_pair_rows


def files_of(relation):
    first = next(each for each in configurations() if each.schema == "vacant")
    schema = plan_of(first, relation, epsilon="4", delta="1e-6").spec.schema
    stated = schema.columns, schema.zeros, schema.rules, schema.unit, schema.linked
    return schema, TinyHouseholds(*stated, relation, 1)


def shares_of(schema, units):
    """Return the shares of each combination of codes."""
    found = Counter()
    place = schema.domain.axes((MEMBERS,))[0]
    for unit in units:
        for row in unit.tolist():
            found[tuple(row)] += schema.linked.weights[row[place]]
    return found


@pytest.mark.parametrize("relation", HOUSEHOLDS)
def test_the_files_of_a_pair_differ_in_the_shares_of_one_household(relation):
    schema, files = files_of(relation)
    pairs = [pair for name in files.named for pair in files.pairs(name)]
    assert len(pairs) > 50
    moved = []
    for pair in pairs:
        one, other = shares_of(schema, pair.one), shares_of(schema, pair.other)
        gone, come = (one - other).total(), (other - one).total()
        if relation.neighbours == "add-remove":
            assert sorted((gone, come)) == [0, relation.shares]
        else:
            assert gone == come <= relation.shares
        moved.append(gone + come)
    assert max(moved) == relation.shares * (1 + (relation.neighbours == "replace-one"))
    sizes = {len(unit) for pair in pairs for unit in pair.one}
    assert sizes == {1, 2, 6}  # of no member or one, of two, and of three


def test_members_above_the_limit_are_left_out_by_the_household_alone():
    schema, files = files_of(HOUSEHOLDS[0])
    crowd = Household(RICH, (OLD, OLD, CHILD, BEYOND, CHILD))
    (alone,) = files.code((crowd,))
    among = files.code((ALONE, crowd, Household(POOR, (CHILD,) * 3, numbered=False)))
    np.testing.assert_array_equal(among[1], alone)
    (kept,) = files.code((Household(RICH, (OLD, OLD, CHILD)),))
    np.testing.assert_array_equal(alone, kept)
    # Without numbers members are in the order of the file, which is the other way round.
    (last,) = files.code((Household(RICH, crowd.members, numbered=False),))
    (ages,) = schema.domain.axes(("age",))
    assert {*last[:, ages]} == {*files.code((Household(RICH, (CHILD, BEYOND)),))[0][:, ages]}


def test_a_household_without_members_is_one_pair_row_with_the_codes_for_none():
    schema, files = files_of(HOUSEHOLDS[0])
    (unit,) = files.code((VACANT,))
    none = {name: schema.domain.size((name,)) - 1 for name in schema.domain.columns[2:]}
    found = dict(zip(schema.domain.columns, unit[0].tolist(), strict=True))
    assert unit.shape == (1, len(schema.domain))
    assert {name: found[name] for name in none} == none | {MEMBERS: 0}
    assert any(VACANT in file for file in files.named.values())
    assert any(
        abs(len(pair.one) - len(pair.other)) == 1
        for name in files.named
        for pair in files.pairs(name)
        if pair.name.endswith("no member")
    )


def test_values_beyond_the_bounds_and_broken_rules_become_the_codes_of_the_schema():
    schema, files = files_of(HOUSEHOLDS[0])
    (unit,) = files.code((Household(UNKNOWN, (BEYOND, SETTLED)),))
    income, age, work = schema.domain.axes(("income", "age", "work"))
    first, second = unit[0], unit[1]
    assert first[income] == schema.column("income").missing_code
    assert first[age] == schema.column("age").bins - 1
    assert second[age] == 0
    assert second[work] == schema.column("work").missing_code != first[work]


def test_the_search_makes_whole_possible_households_of_every_size():
    schema, _ = files_of(HOUSEHOLDS[0])
    rng = np.random.default_rng(2)
    unit, sizes, seen = np.zeros((1, 0), np.uint16), Counter(), set()
    for _ in range(400):
        unit = household_like(schema, unit, rng)
        data = Dataset(schema.domain, np.ascontiguousarray(unit.T))
        assert not schema.zeros.violations(data).any()
        rows = from_pair_rows(schema.linked, data)
        (size,) = rows.sizes.tolist()
        sizes[size] += 1
        seen.add(unit.tobytes())
    assert min(sizes[size] for size in (0, 1, 2, 3)) > 30
    assert len(seen) > 150
