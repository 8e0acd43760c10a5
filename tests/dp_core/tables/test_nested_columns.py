"""Columns within one another: maps over several levels, and the cliques that remain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import LinkedColumns
from dp_core.tables.cliques import (
    cliques_of,
    levels_within,
    nestings,
    number_of_cliques,
    with_larger,
)
from dp_core.tables.nested_columns import NestedColumns

# District 0 lies in county 1, and so on; the counties' order is not that of the districts.
COUNTY_OF, REGION_OF = (1, 0, 1, 2, 2, 2), (0, 1, 0)
PLACES = NestedColumns(("region", "county", "district"), (REGION_OF, COUNTY_OF))


def test_the_first_column_has_the_largest_areas():
    assert (PLACES.upper, PLACES.lowest) == (("region", "county"), "district")
    assert [PLACES.depth(name) for name in (*PLACES.columns, "age")] == [0, 1, 2, 0]
    assert [PLACES.above(name) for name in (*PLACES.columns, "age")] == [
        None,
        "region",
        "county",
        None,
    ]


def test_a_map_over_two_levels_is_one_map_after_the_other():
    assert PLACES.map("county", "district").tolist() == list(COUNTY_OF)
    assert PLACES.map("region", "county").tolist() == list(REGION_OF)
    expected = [REGION_OF[county] for county in COUNTY_OF]
    assert PLACES.map("region", "district").tolist() == expected


def test_every_area_is_once_among_the_children():
    counties = levels_within(PLACES, "district")
    assert [each.tolist() for each in counties] == [[1], [0, 2], [3, 4, 5]]
    assert [each.tolist() for each in levels_within(PLACES, "county")] == [[0, 2], [1]]


def test_fewer_levels_keep_the_map_between_them():
    assert PLACES.among(PLACES.columns) is PLACES
    left = PLACES.among({"district", "age", "region"})
    assert left == NestedColumns(("region", "district"), ((1, 0, 1, 0, 0, 0),))
    assert PLACES.among({"county", "age"}) is None


def test_a_table_of_small_areas_also_has_the_larger_ones():
    assert with_larger(PLACES, ("age", "county")) == ("age", "county", "region")
    assert set(with_larger(PLACES, ("district",))) == {*PLACES.columns}
    assert with_larger(PLACES, ("age", "region")) == ("age", "region")
    assert with_larger(PLACES, ("age",)) == ("age",)


def test_two_levels_are_together_only_if_both_are_there():
    assert PLACES.together(("age", "region", "district"))
    assert not PLACES.together(("age", "region"))
    assert not PLACES.together(())


def test_a_rule_for_each_level_is_broken_by_rows_in_another_place():
    outer, inner = nestings(PLACES)
    assert (outer.columns, inner.columns) == (("region", "county"), ("county", "district"))
    assert inner.text == "district lies within county"
    districts = np.array([0, 1, 2, 3], dtype=np.uint16)
    counties = np.array([1, 0, 2, 1], dtype=np.uint8)
    assert inner.breaks(counties, districts).tolist() == [False, False, True, True]
    assert nestings(None) == ()


@pytest.mark.parametrize("columns", [("a",), ("a", "b", "c")])
def test_the_number_of_maps_fits_the_number_of_columns(columns):
    with pytest.raises(ValueError, match="nested columns but"):
        NestedColumns(columns, ((0,),))


def domain_of(nested, linked=None):
    columns = ("age", "region", "sex", "county", "job", "district")
    if linked is not None:
        columns += linked.others
    return Domain(columns, (4, 2, 2, 3, 3, 6, *((2,) * (len(columns) - 6))), linked, nested)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4])
def test_a_clique_has_at_most_one_of_the_levels(order):
    domain = domain_of(PLACES)
    found = list(cliques_of(domain, order))
    every = itertools.combinations(domain.columns, order)
    assert found == [clique for clique in every if len({*clique} & {*PLACES.columns}) < 2]
    assert number_of_cliques(domain, order) == len(found)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_cliques_of_linked_tables_have_at_most_one_of_the_levels(order):
    linked = LinkedColumns(
        household_columns=("age", "region", "county", "district"),
        person_columns=("sex", "job"),
        min_members=1,
        max_members=3,
    )
    domain = domain_of(PLACES, linked)
    found = list(cliques_of(domain, order))
    assert number_of_cliques(domain, order) == len(found) == len({*found})
    assert all(len({*clique} & {*PLACES.columns}) < 2 for clique in found)
    plain = {*cliques_of(domain_of(None, linked), order)}
    assert {*found} == {clique for clique in plain if not PLACES.together(clique)}


def test_a_part_of_a_domain_has_no_levels_within_one_another():
    domain = domain_of(PLACES)
    assert domain.project(("region", "county")).nested is None
