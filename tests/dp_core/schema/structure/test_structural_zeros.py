from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros

DOMAIN = Domain(("a", "b", "c", "d"), (4, 5, 3, 1))


def dataset(shares, rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    codes = [
        rng.choice(size, rows, p=np.asarray(share) / np.sum(share))
        for size, share in zip(DOMAIN.sizes, shares, strict=True)
    ]
    return Dataset(DOMAIN, np.array(codes, dtype=np.uint16))


EVEN = [np.ones(size) for size in DOMAIN.sizes]


def columns_of(data):
    return [
        np.bincount(data.column(n), minlength=s) for n, s in zip("abcd", DOMAIN.sizes, strict=True)
    ]


@st.composite
def rules(draw, domain=DOMAIN):
    columns = draw(st.sets(st.sampled_from(domain.columns), min_size=1))
    ordered = tuple(draw(st.permutations(sorted(columns))))
    codes = tuple(
        tuple(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))))
        for size in domain.project(ordered).sizes
    )
    return Rule(ordered, codes, "drawn")


@given(st.lists(rules(), max_size=4), st.data())
def test_rules_for_fewer_codes_exclude_the_same_cells(found, data):
    zeros = StructuralZeros(tuple(found))
    kept = {}
    for name, size in zip(DOMAIN.columns[:3], DOMAIN.sizes, strict=False):
        start = data.draw(st.integers(0, size - 1))
        kept[name] = range(start, data.draw(st.integers(start + 1, size)))
    sizes = (*(len(codes) for codes in kept.values()), 1)
    expected = zeros.mask(DOMAIN)[tuple(slice(each.start, each.stop) for each in kept.values())]
    np.testing.assert_array_equal(
        zeros.of_codes(kept).mask(Domain(DOMAIN.columns, sizes)), expected
    )


ZEROS = st.lists(rules(), min_size=1, max_size=4).map(lambda found: StructuralZeros(tuple(found)))


@given(ZEROS, st.integers(0, 1000), st.sampled_from([1, 2, 200]))
def test_every_row_is_possible_after_repair_and_the_input_is_left_alone(zeros, seed, rows):
    data = dataset(EVEN, rows=rows, seed=seed)
    assume(not zeros.mask(DOMAIN).all())
    before = data.codes.copy()
    found = zeros.repair(data, rng=np.random.default_rng(1))
    assert not zeros.violations(found).any()
    assert found.rows == data.rows
    np.testing.assert_array_equal(data.codes, before)
    again = zeros.repair(data, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(found.codes, again.codes)


@given(ZEROS)
def test_the_mask_and_the_violations_say_the_same(zeros):
    data = dataset(EVEN, rows=300)
    np.testing.assert_array_equal(zeros.mask(DOMAIN)[tuple(data.codes)], zeros.violations(data))


def test_repair_moves_no_table_of_a_column_where_there_are_partners():
    data = dataset([[2, 6, 1, 1], [4, 3, 1, 1, 1], [1, 1, 1], [1]])
    zeros = StructuralZeros(
        (
            Rule(("a", "b"), ((0,), (0, 1)), "14 % of the rows"),
            Rule(("b", "c"), ((2,), (0,)), "shares a column with it"),
        )
    )
    found = zeros.repair(data, rng=np.random.default_rng(1))
    assert zeros.violations(data).mean() > 0.15
    assert not zeros.violations(found).any()
    for one, other in zip(columns_of(data), columns_of(found), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_rule_of_three_columns_is_repaired_without_moving_their_tables():
    data = dataset(EVEN)
    zeros = StructuralZeros((Rule(("a", "b", "c"), ((0, 1), (0, 1, 2), (0, 1)), "three"),))
    found = zeros.repair(data, rng=np.random.default_rng(1))
    assert not zeros.violations(found).any()
    for one, other in zip(columns_of(data), columns_of(found), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_without_partners_are_repaired_all_the_same():
    # Nearly all have a = 0 and b = 0, which exclude each other: no exchange can keep the tables.
    data = dataset([[97, 1, 1, 1], [97, 1, 1, 1, 0], [1, 1, 1], [1]])
    zeros = StructuralZeros((Rule(("a", "b"), ((0,), (0,)), "most of the rows"),))
    assert not zeros.violations(zeros.repair(data, rng=np.random.default_rng(1))).any()


def test_possible_data_are_returned_as_they_are():
    data = dataset([[1, 0, 0, 0], *EVEN[1:]])
    zeros = StructuralZeros((Rule(("a", "b"), ((1,), (0,)), "no such a"),))
    assert zeros.repair(data, rng=np.random.default_rng(1)) is data


def test_rows_of_which_none_is_possible_change_only_what_the_rules_demand():
    data = Dataset(DOMAIN, np.array([[0, 0], [3, 4], [1, 2], [0, 0]], dtype=np.uint16))
    equal = tuple(Rule(("a", "b"), ((a,), (b,)), "") for a in range(4) for b in range(5) if a != b)
    found = StructuralZeros(equal).repair(data, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(found.codes[2:], data.codes[2:])
    np.testing.assert_array_equal(found.column("a"), found.column("b"))
    assert (found.codes != data.codes).any(axis=0).all()


def test_more_rows_than_are_searched_are_repaired_by_those_that_are():
    data = dataset([[1, 0, 0, 0], [1, 0, 0, 0, 0], *EVEN[2:]], rows=500)
    zeros = StructuralZeros((Rule(("a", "b"), ((0,), (0,)), "all rows"),))
    assert not zeros.violations(zeros.repair(data, rng=np.random.default_rng(1))).any()


def test_a_possible_record_is_found_where_a_first_way_out_is_a_dead_end():
    """Of 2^8 records one obeys the rules: all ones."""
    domain = Domain(tuple("abcdefgh"), (2,) * 8)
    first = [Rule(("a", name), ((1,), (0,)), "") for name in "bcdefgh"]
    zeros = StructuralZeros((*first, Rule(("a", "h"), ((0,), (0, 1)), "")))
    codes = np.zeros(8, dtype=np.uint16)
    for seed in range(20):
        found = zeros.possible_record(domain, codes, rng=np.random.default_rng(seed))
        np.testing.assert_array_equal(found, 1)


@pytest.mark.parametrize(
    "rules",
    [
        (Rule(("a",), ((0, 1, 2, 3),), "all"),),
        (
            Rule(("a", "b"), ((0, 1), (0, 1, 2, 3, 4)), ""),
            Rule(("a", "c"), ((2, 3), (0, 1, 2)), ""),
        ),
    ],
)
def test_rules_that_leave_no_row_are_refused(rules):
    zeros = StructuralZeros(rules)
    with pytest.raises(BadInput, match="impossible"):
        zeros.repair(dataset(EVEN), rng=np.random.default_rng(1))


def test_rules_that_share_columns_make_one_block():
    zeros = StructuralZeros(
        (
            Rule(("c", "a"), ((0,), (0,)), ""),
            Rule(("d",), ((0,),), ""),
            Rule(("b", "a"), ((0,), (0,)), ""),
        )
    )
    assert zeros.blocks(DOMAIN, most_cells=60) == (("a", "b", "c"), ("d",))
    # What is too large stays out, the smaller rules first.
    assert zeros.blocks(DOMAIN, most_cells=59) == (("a", "c"), ("d",))
    assert StructuralZeros().blocks(DOMAIN, most_cells=60) == ()


@given(ZEROS, st.integers(1, 80))
def test_blocks_are_disjoint_small_and_hold_every_rule_that_could_be_held(zeros, most_cells):
    blocks = zeros.blocks(DOMAIN, most_cells=most_cells)
    held = [name for block in blocks for name in block]
    assert len(held) == len(set(held))
    assert all(DOMAIN.size(block) <= most_cells for block in blocks)
    for rule in zeros.rules:
        if most_cells >= DOMAIN.size():
            assert any(set(rule.columns) <= set(block) for block in blocks)


@given(ZEROS)
def test_levels_that_no_possible_row_has_become_rules_and_no_others(zeros):
    found = zeros.with_empty_levels(DOMAIN, most_cells=DOMAIN.size())
    impossible = zeros.mask(DOMAIN)
    np.testing.assert_array_equal(found.mask(DOMAIN), impossible)
    for axis, name in enumerate(DOMAIN.columns):
        held = {column for rule in zeros.rules for column in rule.columns}
        others = tuple(i for i in range(len(DOMAIN)) if i != axis)
        if name in held and not impossible.all():
            np.testing.assert_array_equal(
                found.mask(DOMAIN.project((name,))), impossible.all(axis=others)
            )


@given(ZEROS)
def test_implied_pairs_exclude_no_possible_record(zeros):
    """Every record that the rules allow obeys the implied rules as well, and no other does more."""
    implied = zeros.with_implied_pairs(DOMAIN)
    every = Dataset(DOMAIN, np.indices(DOMAIN.sizes).reshape(4, -1).astype(np.uint16))
    before, after = zeros.violations(every), implied.violations(every)
    assert (before <= after).all()
    assert (after <= before).all()


def test_columns_that_are_missing_under_one_condition_are_missing_together():
    domain = Domain(("age", "pay", "hours", "sex"), (4, 3, 5, 2))  # the last code is missing
    zeros = StructuralZeros(
        tuple(
            Rule(("age", column), (ages, codes), f"{column} of {ages}")
            for column, size in (("pay", 3), ("hours", 5))
            for ages, codes in (((0,), tuple(range(size - 1))), ((1, 2, 3), (size - 1,)))
        )
    )
    implied = zeros.with_implied_pairs(domain)
    impossible = implied.mask(domain.project(("pay", "hours")))
    assert not zeros.mask(domain.project(("pay", "hours"))).any()
    wanted = np.zeros((3, 5), dtype=bool)
    wanted[2, :4] = wanted[:2, 4] = True
    np.testing.assert_array_equal(impossible, wanted)
    assert not implied.mask(domain.project(("pay", "sex"))).any()
    assert {*implied.cliques} == {("age", "pay"), ("age", "hours"), ("pay", "hours")}


def test_without_a_common_column_nothing_is_implied():
    zeros = StructuralZeros((Rule(("a", "b"), ((0,), (1,)), "one"), Rule(("c",), ((0,),), "two")))
    assert zeros.with_implied_pairs(DOMAIN) is zeros
