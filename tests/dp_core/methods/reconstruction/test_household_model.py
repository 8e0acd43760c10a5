"""Households and their members are drawn so that they agree with the tables of pair rows."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.errors import BadInput
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import MEMBERS
from dp_core.methods.reconstruction.kernels import member_copies
from dp_core.methods.reconstruction.kernels.member_moves import add_members, move_members
from dp_core.methods.reconstruction.linked import household_model
from dp_core.methods.reconstruction.linked.counted_members import CountedMembers, with_counts
from dp_core.methods.reconstruction.linked.household_model import (
    HouseholdModel,
    arrays,
    implied_by_size,
    with_agreeing_empty,
    with_agreeing_members,
)
from dp_core.methods.reconstruction.linked.member_targets import MemberTargets
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.structure.member_rules import MemberRule, broken_households
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.tables.cliques import cliques_of
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows

LINKED = LinkedTables(
    households="homes",
    persons="people",
    key="home",
    link="home",
    person_key="nr",
    max_members=4,
    household_columns=("tenure",),
    person_columns=("age", "work"),
)
DOMAIN = Domain(LINKED.columns, (2, 4, 3, 2, 4, 3), LINKED.wide)
NO_ZEROS = StructuralZeros()
NOT_COUNTED = arrays(CountedMembers.of(DOMAIN, ()))


def households(number: int = 3000, seed: int = 1) -> HouseholdRows:
    """Return households whose members are mostly of the same age, and work by age and tenure."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 4], number, p=[0.3, 0.4, 0.2, 0.1])
    tenure = rng.integers(0, 2, number)
    of = np.repeat(np.arange(number), sizes)
    shared = rng.integers(0, 3, number)
    age = np.where(rng.random(of.size) < 0.8, shared[of], rng.integers(0, 3, of.size))
    work = (rng.random(of.size) < np.array([0.1, 0.8, 0.4])[age] + 0.1 * tenure[of]).astype(int)
    return HouseholdRows(
        tenure[None].astype(np.uint16), sizes, np.stack([age, work]).astype(np.uint16)
    )


def table(rows: HouseholdRows, clique: tuple[str, ...], whole: Domain = DOMAIN) -> Table:
    """Return the exact table of a clique, in households."""
    linked = whole.linked
    data = to_pair_rows(linked, whole, rows)
    domain = whole.project(clique)
    weights = np.array(linked.weights)[data.column(MEMBERS)] / linked.shares
    index = np.ravel_multi_index([data.column(name).astype(int) for name in clique], domain.sizes)
    cells = np.bincount(index, weights=weights, minlength=domain.size())
    return Table(domain, cells.reshape(domain.sizes))


def exact_tables(rows: HouseholdRows) -> tuple[Table, ...]:
    """Return the exact tables of all columns and of all pairs that a method may choose."""
    return tuple(
        table(rows, clique)
        for clique in (*((name,) for name in DOMAIN.columns), *cliques_of(DOMAIN, 2))
    )


def fitted(rows: HouseholdRows, zeros: StructuralZeros = NO_ZEROS) -> HouseholdModel:
    return HouseholdModel(DOMAIN, exact_tables(rows), rows.sizes.size, zeros)


def distance(one: Table, other: Table) -> float:
    return float(np.abs(one.values - other.values).sum() / (2 * one.values.sum()))


def test_exact_tables_of_all_four_kinds_are_matched():
    real = households()
    drawn = from_pair_rows(LINKED, fitted(real).sample(3000, rng=np.random.default_rng(2)))

    assert drawn.sizes.size == 3000
    for clique in cliques_of(DOMAIN, 2):
        assert distance(table(real, clique), table(drawn, clique)) < 0.01


EMPTY = replace(LINKED, min_members=0, household_columns=("tenure", "income"))
VACANT = Domain(EMPTY.columns, (2, 3, 5, 4, 3, 4, 3), EMPTY.wide)
NO_INCOME = Rule((MEMBERS, "income"), ((0,), (1, 2)), "no income")
"""Vacant dwellings have the first code of income, which few other households have."""
VACANT_ZEROS = StructuralZeros(
    (
        NO_INCOME,
        Rule((MEMBERS, "age"), ((0,), (0, 1, 2)), "no member", derived=True),
        Rule((MEMBERS, "age"), ((1, 2, 3, 4), (3,)), "no member", derived=True),
    )
)


def with_vacant(number: int = 3000) -> HouseholdRows:
    """Return households of which a fifth is vacant, most of them of the second tenure."""
    rows, rng = households(number), np.random.default_rng(9)
    at = np.sort(rng.choice(number + 1, number // 4))
    income = np.where(rng.random(number) < 0.1, 0, rng.integers(1, 3, number))
    homes = np.stack([rows.households[0], income])
    vacant = np.stack([rng.random(at.size) < 0.8, np.zeros(at.size)])
    return HouseholdRows(
        np.insert(homes, at, vacant, axis=1).astype(np.uint16),
        np.insert(rows.sizes, at, 0),
        rows.persons,
    )


def vacant_tables(rows: HouseholdRows) -> dict[tuple[str, ...], Table]:
    cliques = (*((name,) for name in VACANT.columns), *cliques_of(VACANT, 2))
    return {clique: table(rows, clique, VACANT) for clique in cliques}


def test_households_without_members_are_drawn_and_the_tables_of_the_others_are_matched():
    real = with_vacant()
    tables = vacant_tables(real)
    model = HouseholdModel(VACANT, tuple(tables.values()), real.sizes.size, VACANT_ZEROS)
    data = model.sample(real.sizes.size, rng=np.random.default_rng(2))
    drawn = from_pair_rows(EMPTY, data)

    assert not VACANT_ZEROS.violations(data).any()
    assert (drawn.sizes == 0).sum() == (real.sizes == 0).sum() == 750
    for clique in cliques_of(VACANT, 2):
        assert distance(tables[clique], table(drawn, clique, VACANT)) < 0.01


def test_a_table_without_room_for_the_empty_households_is_made_to_agree():
    """Otherwise the unmeasured table of tenure and income would move dwellings between tenures."""
    real = with_vacant()
    tables = vacant_tables(real)
    tenure, income = (tables[name,].values for name in ("tenure", "income"))
    free = np.outer(tenure, income) / tenure.sum()
    assert free[1, 0] < tables["tenure", MEMBERS].values[1, 0]
    tables["tenure", "income"] = Table(VACANT.project(("tenure", "income")), free)
    model = HouseholdModel(VACANT, tuple(tables.values()), real.sizes.size, VACANT_ZEROS)
    drawn = from_pair_rows(EMPTY, model.sample(real.sizes.size, rng=np.random.default_rng(2)))

    for name in ("tenure", "income"):
        clique = (name, MEMBERS)
        assert distance(tables[clique], table(drawn, clique, VACANT)) < 0.005
    agreeing = {
        each.clique: each.values
        for each in with_agreeing_empty(VACANT, list(vacant_tables(real).values()), VACANT_ZEROS)
    }
    for clique, exact in vacant_tables(real).items():
        np.testing.assert_allclose(agreeing[clique], exact.values, atol=1)


def test_a_set_may_have_no_household_with_members():
    rows = HouseholdRows(
        np.zeros((2, 40), np.uint16), np.zeros(40, int), np.zeros((2, 0), np.uint16)
    )
    model = HouseholdModel(VACANT, tuple(vacant_tables(rows).values()), 40, VACANT_ZEROS)
    drawn = from_pair_rows(EMPTY, model.sample(40, rng=np.random.default_rng(1)))

    assert drawn.sizes.tolist() == [0] * 40


def test_counts_of_the_compiled_loops_are_those_of_the_pair_rows():
    rows = households(200)
    tables = (*exact_tables(rows), table(rows, (MEMBERS, "age", "work")))
    targets = MemberTargets.of(DOMAIN, tables, NO_ZEROS, rows.sizes.size)
    gap = -targets.wanted
    add_members(*_arguments(rows), *_listings(targets)[:2], gap)

    assert gap.size == sum(
        each.values.size for each in tables if set(each.clique) & set(LINKED.person_columns)
    )
    np.testing.assert_allclose(gap, 0, atol=1e-9)


def test_a_sweep_reduces_the_error_by_about_what_it_says():
    real, other = households(300, seed=1), households(300, seed=2)
    # The same households with members of another file, cut to their number.
    persons = other.persons[:, np.arange(real.persons.shape[1]) % other.persons.shape[1]]
    start = HouseholdRows(real.households, real.sizes, persons)
    targets = MemberTargets.of(DOMAIN, exact_tables(real), NO_ZEROS, 300)
    gap, worth = -targets.wanted, 1 / (targets.wanted + 1)
    arguments, listings = _arguments(start), _listings(targets)
    add_members(*arguments, *listings[:2], gap)
    before = float((gap**2 * worth).sum())
    width = np.array([3, 2])
    order = np.random.default_rng(0).permutation(persons.shape[1])
    gained, broken = move_members(
        *arguments, order, width, *listings, targets.forbidden, NOT_COUNTED, gap, worth
    )
    again = -targets.wanted
    add_members(*arguments, *listings[:2], again)

    assert not broken
    assert gained > 0.5 * before
    np.testing.assert_allclose(gap, again, atol=1e-9)
    assert before - float((gap**2 * worth).sum()) == pytest.approx(gained, rel=0.01)


def test_no_member_breaks_a_rule_over_both_tables():
    real = households()
    never = Rule(("tenure", "age", "work"), ((0,), (0, 2), (1,)), "no work")
    zeros = StructuralZeros((never,))
    drawn = fitted(real, zeros).sample(3000, rng=np.random.default_rng(4))

    assert not zeros.violations(drawn).any()


def test_another_household_takes_the_place_of_one_that_may_have_no_member():
    real = households(100)
    assert {*real.households[0]} == {0, 1}
    rules = tuple(Rule(("tenure", "age"), ((0,), (code,)), "none") for code in range(3))
    zeros = StructuralZeros(rules)
    drawn = from_pair_rows(LINKED, fitted(real, zeros).sample(100, rng=np.random.default_rng(1)))

    assert drawn.sizes.size == 100
    assert {*drawn.households[0]} == {1}
    assert {*drawn.sizes} == {*real.sizes}


def test_rules_that_tie_three_columns_of_a_child_leave_the_fitted_number_of_children(monkeypatch):
    """No single change leads from an adult to a child: age, work and relation change together.

    After the copies, counts and error are those of all members counted anew.
    """
    copy, calls = member_copies.copy_members, []

    def counted(like, *members):
        found = np.zeros_like(like)
        add_members(*members, found)
        return found

    def checked(of, persons, households_of, start, sizes, order, donors, own, pairs, *rest):
        gap, worth = rest[-2:]
        members = of, persons, households_of, start, sizes, own, pairs
        wanted, error = counted(gap, *members) - gap, float((gap**2 * worth).sum())
        gained = copy(of, persons, households_of, start, sizes, order, donors, own, pairs, *rest)
        np.testing.assert_allclose(gap, counted(gap, *members) - wanted, atol=1e-8)
        assert gained == pytest.approx(error - float((gap**2 * worth).sum()), rel=1e-8)
        calls.append(gained)
        return gained

    monkeypatch.setattr(member_copies, "copy_members", checked)
    linked = replace(LINKED, person_columns=("age", "work", "relation"))
    whole = Domain(linked.columns, (2, 4, 3, 3, 3, 4, 4, 4), linked.wide)
    ties = [(("age", name), ((0,), (1, 2))) for name in ("work", "relation")]
    ties += [(("age", name), ((1, 2), (0,))) for name in ("work", "relation")]
    zeros = StructuralZeros(tuple(Rule(*tie, "a child") for tie in ties))
    rng = np.random.default_rng(1)
    plain = households(2000)
    child = (plain.numbers > 1) & (rng.random(plain.numbers.size) < 0.15)
    persons = np.where(child, 0, rng.integers(1, 3, (3, child.size))).astype(np.uint16)
    real = HouseholdRows(plain.households, plain.sizes, persons)
    cliques = (*((name,) for name in whole.columns), *cliques_of(whole, 2))
    tables = {clique: table(real, clique, whole) for clique in cliques}
    model = HouseholdModel(whole, tuple(tables.values()), 2000, zeros)
    drawn = from_pair_rows(linked, model.sample(2000, rng=np.random.default_rng(2)))

    assert len(calls) > 1
    assert calls[0] > 0
    wanted = tables["age",].values
    assert 0.05 < wanted[0] / wanted.sum() < 0.08
    assert table(drawn, ("age",), whole).values[0] == pytest.approx(wanted[0], rel=0.03)


def test_rules_that_leave_no_household_a_member_are_refused():
    rules = tuple(Rule(("tenure", "age"), ((0, 1), (code,)), "none") for code in range(3))
    model = fitted(households(100), StructuralZeros(rules))

    with pytest.raises(BadInput, match="No synthetic household has members that obey every rule"):
        model.sample(100, rng=np.random.default_rng(1))


# Of the ages, 0 stands for the one member whom every household has, and 1 for at most one more.
ONE = MemberRule(text="one", columns=("age",), codes=((0,),), least=1, most=1)
MORE = MemberRule(text="more", columns=("age",), codes=((1,),), most=1)
WORKING = MemberRule(text="working", columns=("age", "work"), codes=((0, 1), (1,)), least=1)
COUNTED = (ONE, MORE, WORKING)


def counted_households(number: int = 3000, seed: int = 1) -> HouseholdRows:
    """Return households that obey `COUNTED`; the members of other codes often work alike."""
    rng = np.random.default_rng(seed)
    rows = households(number, seed)
    place = rows.numbers
    second = (place == 2) & (rng.random(place.size) < 0.6)
    age = np.where(place == 1, 0, np.where(second, 1, 2))
    alike = rng.random(number) < 0.5
    work = np.where(rng.random(place.size) < 0.7, alike[rows.household_of], age == 2).astype(int)
    found = np.stack([age, np.where(place == 1, 1, work)]).astype(np.uint16)
    return HouseholdRows(rows.households, rows.sizes, found)


def broken_rules(rows: HouseholdRows, rules: tuple[MemberRule, ...] = COUNTED) -> int:
    return int(broken_households(rules, LINKED.person_columns, rows).sum())


def test_every_household_obeys_the_rules_that_count_its_members():
    real = counted_households()
    assert not broken_rules(real)
    tables = exact_tables(real)
    model = HouseholdModel(DOMAIN, tables, 3000, NO_ZEROS, COUNTED)
    drawn = from_pair_rows(LINKED, model.sample(3000, rng=np.random.default_rng(2)))

    assert not broken_rules(drawn)
    for clique in cliques_of(DOMAIN, 2):
        assert distance(table(real, clique), table(drawn, clique)) < 0.01
    # Without the rules the same tables do not imply them.
    free = HouseholdModel(DOMAIN, tables, 3000, NO_ZEROS)
    assert broken_rules(from_pair_rows(LINKED, free.sample(3000, rng=np.random.default_rng(2))))


@pytest.mark.parametrize("seed", range(5))
def test_members_who_may_not_work_are_no_reason_to_break_a_rule_that_counts(seed):
    """The tables want four working adults; a child may not work, and only one adult may live there.

    A member who becomes a child has to stop working, which takes two changes.
    """
    number = 18
    sizes = np.full(number, 4)
    persons = np.stack([np.full(4 * number, 2), np.ones(4 * number)]).astype(np.uint16)
    wanted = HouseholdRows(np.zeros((1, number), np.uint16), sizes, persons)
    adult = MemberRule(text="adult", columns=("age",), codes=((1, 2),), least=1, most=1)
    zeros = StructuralZeros((Rule(("age", "work"), ((0,), (1,)), "a child works"),))
    model = HouseholdModel(DOMAIN, exact_tables(wanted), number, zeros, (adult,))
    drawn = model.sample(number, rng=np.random.default_rng(seed))

    assert not broken_rules(from_pair_rows(LINKED, drawn), (adult,))
    assert not zeros.violations(drawn).any()


def test_no_move_makes_a_household_break_a_rule():
    real, other = counted_households(300, seed=1), counted_households(300, seed=2)
    persons = with_counts(
        other.persons[:, np.arange(real.persons.shape[1]) % other.persons.shape[1]].astype(int),
        real.sizes,
        COUNTED,
        LINKED.person_columns,
        [np.ones(3), np.ones(2)],
        rng=np.random.default_rng(0),
    )
    start = HouseholdRows(real.households, real.sizes, persons.astype(np.uint16))
    bad = broken_households(COUNTED, LINKED.person_columns, start)
    targets = MemberTargets.of(DOMAIN, exact_tables(households(300)), NO_ZEROS, 300)
    gap, worth = -targets.wanted, 1 / (targets.wanted + 1)
    arguments, listings = _arguments(start), _listings(targets)
    add_members(*arguments, *listings[:2], gap)
    counted = arrays(CountedMembers.of(DOMAIN, COUNTED))
    rng = np.random.default_rng(1)
    for _ in range(5):
        _, broken = move_members(
            *arguments, rng.permutation(persons.shape[1]), np.array([3, 2]), *listings,
            targets.forbidden, counted, gap, worth,
        )  # fmt: skip
        moved = HouseholdRows(real.households, real.sizes, arguments[1].astype(np.uint16))
        now = broken_households(COUNTED, LINKED.person_columns, moved)
        assert not (now & ~bad).any()
        assert broken or not now.any()
        bad = now
    assert not bad.any()
    assert (arguments[1] != persons).any()


@pytest.mark.parametrize("rules", [(ONE,), (MORE, ONE), (ONE, MORE), (WORKING,), COUNTED])
def test_the_first_values_obey_the_rules(rules):
    real = households(500)
    persons = with_counts(
        real.persons.astype(np.int64),
        real.sizes,
        rules,
        LINKED.person_columns,
        [np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.5])],
        rng=np.random.default_rng(0),
    )
    found = HouseholdRows(real.households, real.sizes, persons.astype(np.uint16))

    assert broken_rules(real, rules) > 50
    assert not broken_rules(found, rules)
    # Values of households that obey the rules stay as they are.
    kept = ~broken_households(rules, LINKED.person_columns, real)[real.household_of]
    if len(rules) == 1:
        assert np.array_equal(persons[:, kept], real.persons[:, kept])


def test_a_household_that_cannot_obey_is_replaced_by_another_one():
    """Households of the first tenure have nobody of the age that every household has."""
    zeros = StructuralZeros((Rule(("tenure", "age"), ((0,), (0,)), "nobody"),))
    model = HouseholdModel(DOMAIN, exact_tables(counted_households(200)), 200, zeros, (ONE,))
    drawn = from_pair_rows(LINKED, model.sample(200, rng=np.random.default_rng(1)))

    assert drawn.sizes.size == 200
    assert {*drawn.households[0]} == {1}
    assert not broken_rules(drawn, (ONE,))


def test_tables_of_two_members_agree_with_those_of_one():
    rng = np.random.default_rng(6)
    real = exact_tables(households())
    noisy = tuple(
        Table(each.domain, np.maximum(each.values + rng.normal(0, 30, each.values.shape), 0))
        if set(each.clique) & set(LINKED.others)
        else each
        for each in real
    )
    exact = {each.clique: each.values for each in real}
    for each in with_agreeing_members(DOMAIN, noisy):
        if len(each.clique) == 2 and each.clique[1] in LINKED.others:
            name = each.clique[0]
            np.testing.assert_allclose(each.values.sum(axis=1), exact[(name,)], rtol=1e-3)
            np.testing.assert_allclose(each.values[:, -1], exact[(MEMBERS, name)][0])
            if each.clique == ("age", "other.age"):
                together = each.values[:, :-1]
                np.testing.assert_allclose(together, together.T, rtol=1e-3)


def test_without_a_table_of_three_the_dependence_is_the_same_in_households_of_each_size():
    tables = exact_tables(households())
    exact = {each.clique: each.values for each in tables}
    found = {each.clique: each.values for each in implied_by_size(DOMAIN, tables)}

    assert set(found) == {
        ("tenure", MEMBERS, "age"), ("tenure", MEMBERS, "work"), (MEMBERS, "age", "work"),
    }  # fmt: skip
    joint = found[MEMBERS, "age", "work"]
    for axis, margin in ((0, ("age", "work")), (1, (MEMBERS, "work")), (2, (MEMBERS, "age"))):
        np.testing.assert_allclose(joint.sum(axis=axis), exact[margin], rtol=1e-3)
    odds = joint[:, 0, 0] * joint[:, 1, 1] / (joint[:, 0, 1] * joint[:, 1, 0])
    np.testing.assert_allclose(odds, odds[0], rtol=1e-3)


def test_a_large_set_is_drawn_at_once():
    assert not fitted(households(10)).streams


def test_a_table_that_was_not_fitted_cannot_be_given():
    model = fitted(households(50))

    with pytest.raises(KeyError, match="together"):
        model.project(("tenure", "age", "work"))


def test_no_clique_repeats_another_in_the_other_member():
    pairs = list(cliques_of(DOMAIN, 2))
    own = (*LINKED.household_columns, MEMBERS, *LINKED.person_columns)

    assert [pair for pair in pairs if pair[1] not in LINKED.others] == [
        *itertools.combinations(own, 2)
    ]
    assert [pair for pair in pairs if pair[1] in LINKED.others] == [
        ("age", "other.age"), ("age", "other.work"), ("work", "other.work"),
    ]  # fmt: skip


def _arguments(rows: HouseholdRows) -> tuple[np.ndarray, ...]:
    codes = np.vstack([rows.households.astype(np.int64), rows.sizes - 1])
    start = np.cumsum(rows.sizes) - rows.sizes
    return codes, rows.persons.astype(np.int64), rows.household_of, start, rows.sizes


def _listings(targets: MemberTargets) -> list[tuple[np.ndarray, ...]]:
    listed = (targets.own, targets.pairs, targets.rules)
    return [household_model.arrays(each) for each in listed]
