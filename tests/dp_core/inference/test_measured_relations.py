"""What the measured tables can carry, by hand-made examples."""

import pytest

from dp_core.inference.measured_relations import (
    needed_groups,
    unmeasured_groups,
    unmeasured_sentence,
)
from dp_core.tables.nested_columns import NestedColumns


def test_a_model_of_main_effects_needs_pairs():
    groups = needed_groups(["y"], [[], ["a"], ["b"]])
    assert groups == (("y", "a"), ("y", "b"), ("a", "b"))
    assert needed_groups(["y"], [[]]) == (("y",),)


def test_an_interaction_needs_all_its_columns_with_the_outcome():
    assert needed_groups(["y"], [["a", "b", "c"]])[-1] == ("y", "a", "b", "c")
    # A function of one column is no interaction, and the outcome of itself is no pair.
    assert needed_groups(["y"], [["a", "a"]]) == (("y", "a"),)
    assert needed_groups(["y"], [["y"]]) == (("y",),)


def test_a_group_is_held_by_any_table_with_all_its_columns():
    groups = needed_groups(["y"], [["a"], ["b"], ["a", "b"]])
    assert unmeasured_groups(groups, {0: [("b", "c", "a", "y")]}) == ()
    assert unmeasured_groups(groups, {0: [("y", "a"), ("b", "a")]}) == (("y", "b"), ("y", "a", "b"))
    assert unmeasured_groups(groups, {}) == groups


def test_sets_with_tables_of_their_own_need_them_all():
    group = (("y", "a"),)
    assert unmeasured_groups(group, {1: [("y", "a")], 2: [("a", "y", "b")]}) == ()
    assert unmeasured_groups(group, {1: [("y", "a")], 2: [("b",)]}) == group
    assert unmeasured_groups(group, {0: [("y", "a")], 1: [], 2: []}) == ()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ([], ""),
        ([("y", "a")], "No measured table holds y with a: there"),
        ([("y",)], "No measured table holds y: there"),
        (
            [("y", "a"), ("y", "b"), ("y", "a", "b")],
            "holds y with a, y with b, or y, a and b together: there",
        ),
        ([("y", str(number)) for number in range(9)], "y with 5, or 3 more: there"),
    ],
)
def test_what_is_missing_is_one_sentence(missing, said):
    sentence = unmeasured_sentence(missing)
    assert said in sentence
    assert sentence.count(". ") == 0


def test_a_table_of_small_areas_has_the_relations_of_larger_ones():
    nested = NestedColumns(("region", "county"), ((0, 0, 1),))
    groups = (("y", "region"), ("region", "county"), ("y", "county"))
    small, large = {0: [("county", "y")]}, {0: [("y", "region"), ("county",)]}
    assert unmeasured_groups(groups, small, nested) == ()
    assert unmeasured_groups(groups, small) == groups[:2]
    assert unmeasured_groups(groups, large, nested) == (("y", "county"),)
    assert unmeasured_groups(groups[:1], {1: [("county", "y")], 2: [("y",)]}, nested) == groups[:1]
