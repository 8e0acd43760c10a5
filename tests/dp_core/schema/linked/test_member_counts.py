"""Structural zeros of rules that count members, against all small households."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.errors import BadInput, ReleaseError
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.schema.linked import possible_members
from dp_core.schema.linked.linked_decoding import decode_tables
from dp_core.schema.linked.possible_members import (
    households_with,
    possible_household,
    with_donors,
    with_possible_members,
)
from dp_core.schema.rules.possible_codes import with_possible_values
from dp_core.schema.structure.member_rules import (
    MemberRule,
    broken_households,
    households_that_break,
)
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.cliques import cliques_of
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows
from tests.dp_core.schema.linked.test_possible_members import APART
from tests.dp_core.schema.linked.test_possible_members import TEXT as PAIRS
from tests.member_rules import REFERENCE, RULES, SPOUSE, schema_with, text_with
from tests.schema_texts import read

STATED = {"privacy": {"epsilon": "1", "delta": "1e-9"}, "method": "auto"}
CASES = {
    "reference": (REFERENCE,),
    "the usual rules": RULES,
    "two of them": ("exactly two age >= 65", "at least one job == full"),
    "two columns": ("exactly one relation == reference and age >= 18", SPOUSE),
    "together": (REFERENCE, "at least one relation == spouse", "at most one age >= 18"),
    "no single households": (REFERENCE, "at least one relation == child"),
    "with a rule of one person": (
        REFERENCE,
        "if relation == reference then age >= 65",
        "at most one age >= 18",
    ),
    "with a rule of both tables": (REFERENCE, "if tenure == own then relation != child"),
    "with the size": (REFERENCE, "if members == 2 then relation != child"),
}


def all_households(schema, size):
    """Return all households of a size, in each order of the members."""
    linked, domain = schema.linked, schema.domain
    codes = [range(domain.size((name,))) for name in linked.person_columns]
    persons = [*itertools.product(*codes)]
    chosen = [*itertools.combinations_with_replacement(persons, size)]
    people = np.array(chosen, np.uint16).reshape(-1, len(codes)).T
    homes = np.repeat([[0, 1]], len(chosen), axis=1).astype(np.uint16)
    return HouseholdRows(
        homes, np.full(2 * len(chosen), size), np.tile(people, 2)[:, : 2 * size * len(chosen)]
    )


def of_rules(schema, *, derived):
    """Return the structural zeros that follow from rules that count members, or the others."""
    texts = {rule.text for rule in schema.member_rules}
    together = "; ".join(rule.text for rule in schema.member_rules)
    return StructuralZeros(
        tuple(
            rule
            for rule in schema.zeros.rules
            if (rule.text in texts or rule.text == together) == derived
        )
    )


@pytest.mark.parametrize("name", CASES)
def test_no_possible_household_has_an_impossible_pair_and_no_size_is_excluded_in_vain(name):
    schema = schema_with(*CASES[name])
    linked = schema.linked
    implied, others = of_rules(schema, derived=True), of_rules(schema, derived=False)
    assert implied
    seen = []
    for size in (1, 2, 3):
        rows = all_households(schema, size)
        pairs = to_pair_rows(linked, schema.domain, rows)
        bad = households_with(others.violations(pairs), rows.sizes)
        bad |= broken_households(linked.rules, linked.person_columns, rows)
        excluded = households_with(implied.violations(pairs), rows.sizes)

        assert not (excluded & ~bad).any()
        if not bad.all():
            seen.append(size)
        # Which members a household of one may have is known exactly.
        if size == 1 and name != "two columns":
            held = households_with(others.violations(pairs), rows.sizes)
            assert (excluded | held).tolist() == bad.tolist()
    never = schema.zeros.mask(schema.domain.project((MEMBERS,)))
    assert [size for size in (1, 2, 3) if not never[size - 1]] == seen


def test_two_references_are_no_pair():
    schema = schema_with(REFERENCE, "at most one age >= 65")
    relation = schema.zeros.mask(schema.domain.project(("relation", "other.relation")))
    age = schema.zeros.mask(schema.domain.project(("age", "other.age")))

    assert np.argwhere(relation).tolist() == [[0, 0]]
    assert np.argwhere(age).tolist() == [[3, 3]]
    # A household of one has its reference, and no other member.
    alone = schema.zeros.mask(schema.domain.project((MEMBERS, "relation")))
    assert np.argwhere(alone).tolist() == [[0, 1], [0, 2]]


def test_a_single_member_has_no_value_that_a_reference_person_cannot_have():
    """The rule names relation alone; age follows from relation, and job from age."""
    schema = schema_with(
        REFERENCE, "if relation == reference then age >= 18", "if job == full then age < 18"
    )
    age = schema.zeros.mask(schema.domain.project((MEMBERS, "age")))
    job = schema.zeros.mask(schema.domain.project((MEMBERS, "job")))

    assert np.argwhere(age).tolist() == [[0, 0], [0, 1]]
    assert np.argwhere(job).tolist() == [[0, 2]]


def test_a_rule_counts_the_members_who_meet_all_its_conditions():
    rule = MemberRule(text="r", columns=("x", "y"), codes=((1,), (0, 2)), least=1, most=2)
    persons = np.array([[1, 1, 0, 1, 1, 1, 1], [0, 1, 2, 1, 2, 0, 0]], np.uint16)
    rows = HouseholdRows(np.zeros((0, 3), np.uint16), np.array([3, 1, 3]), persons)

    assert rule.counts(("x", "y"), persons).tolist() == [
        *(True, False, False, False, True, True, True)
    ]  # fmt: skip
    assert households_that_break(rule, ("x", "y"), rows).tolist() == [False, True, True]


def with_vacant(*rules):
    """Return the schema with some rules, in which households may be without members."""
    return read(text_with(*rules).replace("max_members: 4", "max_members: 4, min_members: 0"))


@pytest.mark.parametrize("name", CASES)
def test_a_household_without_members_obeys_every_rule_that_counts_members(name):
    """Nor does it change which members other households may have."""
    schema, plain = with_vacant(*CASES[name]), schema_with(*CASES[name])
    linked = schema.linked
    rows = HouseholdRows(
        np.array([[0, 1]], np.uint16), np.zeros(2, int), np.zeros((3, 0), np.uint16)
    )

    assert not broken_households(linked.rules, linked.person_columns, rows).any()
    assert not schema.zeros.violations(to_pair_rows(linked, schema.domain, rows)).any()
    occupied = schema.with_members
    for clique in cliques_of(plain.domain, 2):
        np.testing.assert_array_equal(
            occupied.zeros.mask(occupied.domain.project(clique)),
            plain.zeros.mask(plain.domain.project(clique)),
        )


def test_rules_that_only_households_without_members_obey_are_refused():
    with pytest.raises(BadInput, match="no household of any size can obey"):
        with_vacant("at least three age >= 65", "at most one age >= 18")


@pytest.mark.parametrize("seed", range(3))
def test_a_household_that_is_made_where_none_is_possible_has_members(seed):
    schema = with_vacant(*RULES)
    rows = possible_household(schema, rng=np.random.default_rng(seed))
    plan = memory_plan(schema, STATED)

    assert rows.sizes[0] > 0
    assert not broken_households(schema.linked.rules, schema.linked.person_columns, rows).any()
    assert plan.spec.schema.linked.min_members == 0


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_household_that_is_found_obeys_all_rules(name, seed):
    schema = schema_with(*CASES[name])
    linked = schema.linked
    rows = possible_household(schema, rng=np.random.default_rng(seed))

    assert rows.sizes.size == 1
    assert not broken_households(linked.rules, linked.person_columns, rows).any()
    assert not schema.zeros.violations(to_pair_rows(linked, schema.domain, rows)).any()


def test_rules_that_leave_no_household_with_the_columns_of_the_household_are_refused_by_the_plan():
    schema = schema_with(
        REFERENCE,
        "if tenure == own then relation != reference",
        "if tenure == rent then relation != reference",
    )
    with pytest.raises(BadInput, match="No household was found that obeys all rules") as caught:
        memory_plan(schema, STATED)
    assert caught.value.exit_code == 2
    assert memory_plan(schema_with(*RULES), STATED).spec.schema.member_rules


def test_where_other_values_break_a_rule_another_household_takes_the_place():
    """Codes that no structural zero excludes may have no values, and then get others."""
    counting = "exactly one x < 10"
    rules = [*APART[2:], counting]
    schema = read(PAIRS + "".join(f"  - {rule}\n" for rule in rules))
    linked, rng = schema.linked, np.random.default_rng(1)
    sizes = rng.integers(1, 3, 400)
    persons = rng.integers(0, 3, (3, sizes.sum())).astype(np.uint16)
    drawn = HouseholdRows(rng.integers(0, 2, (4, 400)).astype(np.uint16), sizes, persons)
    pairs = to_pair_rows(linked, schema.domain, drawn)
    good = ~households_with(schema.zeros.violations(pairs), sizes)
    good &= ~broken_households(linked.rules, linked.person_columns, drawn)
    kept = with_donors(drawn, ~good, rng=rng)
    pairs = to_pair_rows(linked, schema.domain, kept)
    person = schema.person_schema
    values = with_possible_values(person, Dataset(person.domain, kept.persons), rng=rng)
    mended = HouseholdRows(kept.households, kept.sizes, values.codes)
    assert broken_households(linked.rules, linked.person_columns, mended).any()

    found = from_pair_rows(linked, with_possible_members(schema, pairs, rng=rng))
    assert not broken_households(linked.rules, linked.person_columns, found).any()
    table = decode_tables(schema, found, rng=rng).persons.to_pandas()
    assert (table["x"] + 6 <= table["y"]).all()
    assert (table["y"] + 6 <= table["z"]).all()
    assert ((table["x"] < 10).groupby(table["home_id"]).sum() == 1).all()


def test_a_set_with_a_broken_rule_is_not_written():
    schema = schema_with(REFERENCE)
    linked = schema.linked
    persons = np.array([[2, 3], [0, 0], [0, 0]], np.uint16)
    rows = HouseholdRows(np.zeros((1, 1), np.uint16), np.array([2]), persons)
    pairs = to_pair_rows(linked, schema.domain, rows)

    with pytest.raises(ReleaseError, match="break the rule `exactly one relation == reference`"):
        with_possible_members(schema, pairs, rng=np.random.default_rng(0))


def test_where_no_household_can_take_the_place_one_that_obeys_all_rules_is_made():
    schema = schema_with(REFERENCE, "if relation == reference then age >= 30")
    linked = schema.linked
    found = possible_members._all_alike(
        schema, linked, schema.domain, 3, rng=np.random.default_rng(0)
    )
    rows = from_pair_rows(linked, found)

    assert rows.sizes.size == 3
    assert not broken_households(linked.rules, linked.person_columns, rows).any()
    assert not schema.zeros.violations(found).any()
