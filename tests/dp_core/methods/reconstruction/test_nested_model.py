"""Records of nested columns: each lies in its place, and undrawn areas get their shares."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from dp_core.client.released import Table
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, LinkedColumns
from dp_core.methods.reconstruction.joint.joint_model import DenseModel
from dp_core.methods.reconstruction.nested_model import (
    NestedModel,
    drawn_column,
    inner_model,
    without_others,
)
from dp_core.schema.structure.structural_zeros import Rule, StructuralZeros
from dp_core.tables.cliques import cliques_of, levels_within
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows
from dp_core.tables.linked_records import from_pair_rows
from dp_core.tables.nested_columns import NestedColumns

COUNTY_OF, REGION_OF = (1, 0, 1, 2, 2, 2), (0, 1, 0)
NESTED = NestedColumns(("region", "county", "district"), (REGION_OF, COUNTY_OF))
DOMAIN = Domain(("sex", "district", "region", "county", "age"), (2, 6, 2, 3, 4), nested=NESTED)
NOTHING = StructuralZeros()


@dataclass(frozen=True)
class Even:
    """Draws records of even columns, in place of a fitted model."""

    domain: Domain
    rows: int = 1000
    streams: bool = True
    tables: tuple[Table, ...] = ()

    def project(self, clique):
        raise KeyError(clique)

    def sample(self, rows, *, rng):
        codes = [rng.integers(0, size, rows) for size in self.domain.sizes]
        return Dataset(self.domain, np.stack(codes).astype(self.domain.code_type))


def table(clique, values=None):
    domain = DOMAIN.project(clique)
    return Table(domain, np.ones(domain.sizes) if values is None else np.array(values, float))


SHARES = (1.0, 5.0, 3.0, 10.0, 0.0, 20.0)
ONES = tuple(table((name,), SHARES if name == "district" else None) for name in DOMAIN.columns)


def model(drawn="district", zeros=NOTHING, tables=ONES):
    return NestedModel(DOMAIN, tables, Even(without_others(DOMAIN, drawn)), drawn, zeros)


@pytest.mark.parametrize("drawn", NESTED.columns)
@pytest.mark.parametrize("rows", [0, 1, 500])
def test_every_record_lies_in_its_place(drawn, rows):
    found = model(drawn).sample(rows, rng=np.random.default_rng(1))
    assert (found.domain, found.rows) == (DOMAIN, rows)
    assert np.array_equal(found.column("county"), np.array(COUNTY_OF)[found.column("district")])
    assert np.array_equal(found.column("region"), np.array(REGION_OF)[found.column("county")])


def test_the_drawn_column_is_as_it_was_drawn():
    found = model("county").sample(300, rng=np.random.default_rng(2))
    alone = model("county").inner.sample(300, rng=np.random.default_rng(2))
    for name in ("sex", "county", "age"):
        assert np.array_equal(found.column(name), alone.column(name))


def test_areas_that_were_not_drawn_get_their_share_within_a_record():
    shares = np.array(SHARES)
    for seed in range(20):
        found = model("county").sample(431, rng=np.random.default_rng(seed))
        numbers = np.bincount(found.column("district"), minlength=6)
        for county, block in enumerate(levels_within(NESTED, "district")):
            records = (found.column("county") == county).sum()
            expected = records * shares[block] / shares[block].sum()
            assert np.abs(numbers[block] - expected).max() < 1 + 1e-9


def test_areas_without_known_records_share_evenly():
    empty = tuple(
        table((name,), np.zeros(6) if name == "district" else None) for name in DOMAIN.columns
    )
    found = model("county", tables=empty).sample(600, rng=np.random.default_rng(3))
    numbers = np.bincount(found.column("district"), minlength=6)
    for block in levels_within(NESTED, "district"):
        assert np.ptp(numbers[block]) <= 1


def test_dealing_does_not_follow_the_order_of_the_records():
    found = model("county").sample(4000, rng=np.random.default_rng(4))
    inside = found.column("district")[found.column("county") == 1]
    # Of districts 0 and 2, one would come first if they were dealt in order.
    half = inside.size // 2
    first, second = (inside[:half] == 0).mean(), (inside[half:] == 0).mean()
    assert abs(first - second) < 6 * np.sqrt(0.25 * 0.75 * 4 / inside.size)


def test_pieces_of_a_large_set_have_the_larger_areas_too():
    pieces = model("county").series(3)
    assert len(pieces) == 3
    rng = np.random.default_rng(7)
    for piece in pieces:
        found = piece.sample(100, rng=rng)
        assert found.domain == DOMAIN
        assert np.array_equal(found.column("county"), np.array(COUNTY_OF)[found.column("district")])


def rule(district, age):
    return Rule(("district", "age"), (district, age), f"district: {district}, age: {age}")


def test_no_record_breaks_a_rule_about_an_area_that_was_not_drawn():
    zeros = StructuralZeros((rule((0, 3), (0, 1)), rule((5,), (2,))))
    found = model("county", zeros).sample(900, rng=np.random.default_rng(8))
    assert not zeros.violations(found).any()
    assert np.array_equal(found.column("county"), np.array(COUNTY_OF)[found.column("district")])
    assert (found.column("age") == 0).any()


def test_the_only_possible_area_is_found_among_many():
    nested = NestedColumns(("county", "district"), ((0,) * 500,))
    domain = Domain(("county", "district", "age"), (1, 500, 2), nested=nested)
    zeros = StructuralZeros((Rule(("district", "age"), (tuple(range(499)), (1,)), "rule"),))
    ones = tuple(
        Table(domain.project((n,)), np.ones(s))
        for n, s in zip(domain.columns, domain.sizes, strict=True)
    )
    inner = Even(without_others(domain, "county"))
    found = NestedModel(domain, ones, inner, "county", zeros).sample(
        60, rng=np.random.default_rng(9)
    )
    assert set(found.column("district")[found.column("age") == 1]) == {499}
    assert len(Counter(found.column("district").tolist())) > 20


def test_a_rule_that_leaves_no_area_is_told():
    zeros = StructuralZeros((rule((1,), (0, 1, 2, 3)),))
    with pytest.raises(
        BadInput, match="exclude every level of 'district' within one level of 'county'"
    ):
        model("county", zeros).sample(50, rng=np.random.default_rng(10))


def test_a_household_stays_in_one_area_if_a_rule_moves_it():
    linked = LinkedColumns(
        household_columns=("county", "district"),
        person_columns=("age",),
        min_members=1,
        max_members=3,
    )
    nested = NestedColumns(("county", "district"), ((0, 0, 0),))
    domain = Domain(linked.columns, (1, 3, 3, 2, 3), linked, nested)
    zeros = StructuralZeros((Rule(("district", "age"), ((0, 1), (1,)), "rule"),))
    inner_domain = without_others(domain, "county")
    assert inner_domain.linked is not None
    assert inner_domain.linked.household_columns == ("county",)
    rng = np.random.default_rng(11)
    sizes = rng.integers(1, 4, 200)
    homes = HouseholdRows(
        np.zeros((1, 200), np.uint16), sizes, rng.integers(0, 2, (1, sizes.sum())).astype(np.uint16)
    )
    data = to_pair_rows(inner_domain.linked, inner_domain, homes)
    ones = tuple(
        Table(domain.project((name,)), np.ones(size))
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    )
    whole = NestedModel(domain, ones, Even(inner_domain), "county", zeros)
    found = whole.placed(data, rng=rng)
    assert not zeros.violations(found).any()
    back = from_pair_rows(linked, found)
    assert np.array_equal(back.sizes, homes.sizes)
    assert np.array_equal(back.persons, homes.persons)
    again = to_pair_rows(linked, domain, back)
    assert np.array_equal(again.codes, found.codes)
    assert MEMBERS in domain.columns


def test_records_are_drawn_with_the_smallest_areas_that_have_all_tables():
    pairs = [table(pair) for pair in cliques_of(DOMAIN, 2)]
    assert drawn_column(DOMAIN, pairs) == "district"
    left = [each for each in pairs if each.clique != ("district", "age")]
    assert drawn_column(DOMAIN, left) == "county"
    assert drawn_column(DOMAIN, [each for each in pairs if "sex" in each.clique]) == "region"


def test_the_inner_model_has_one_of_the_levels():
    zeros = StructuralZeros((rule((0,), (0,)), Rule(("sex", "age"), ((0,), (0,)), "other")))
    every = (*ONES, *(table(pair) for pair in cliques_of(DOMAIN, 2)))
    fitted = DenseModel(DOMAIN, every, 100, zeros)
    inner = inner_model(fitted, "county")
    assert inner.domain.columns == ("sex", "county", "age")
    assert inner.domain.nested is None
    assert {each.clique for each in inner.tables} == {
        ("sex",),
        ("county",),
        ("age",),
        ("sex", "county"),
        ("sex", "age"),
        ("county", "age"),
    }
    assert [each.text for each in inner.zeros.rules] == ["other"]


def test_a_projection_is_the_sum_of_the_smallest_table_that_holds_it():
    values = np.arange(24.0).reshape(6, 4)
    found = model(tables=(*ONES[:4], table(("district", "age"), values)))
    assert found.project(("age",)) == pytest.approx(values.sum(axis=0))
    assert found.project(("age", "district")) == pytest.approx(values.T)
    assert found.project(("district",)) == pytest.approx(SHARES)
    with pytest.raises(KeyError, match="No table holds"):
        found.project(("sex", "age"))


@pytest.mark.parametrize("drawn", ["county", "district"])
def test_areas_beyond_16_bits_lie_in_their_place_and_get_their_share(drawn):
    counties, districts = 7, 70_000
    county_of = np.arange(districts) * counties // districts
    domain = Domain(
        ("county", "district", "a"),
        (counties, districts, 3),
        nested=NestedColumns(("county", "district"), (tuple(county_of.tolist()),)),
    )
    weights = np.zeros(districts)
    weights[[0, 4463, 69_998, 69_999]] = 1.0, 2.0, 1.0, 3.0  # 69,999 has the 16 bits of 4463
    tables = (
        *(
            Table(domain.project((name,)), np.ones(domain.size((name,))))
            for name in ("county", "a")
        ),
        Table(domain.project(("district",)), weights),
    )
    whole = NestedModel(domain, tables, Even(without_others(domain, drawn)), drawn, NOTHING)
    found = whole.sample(4000, rng=np.random.default_rng(1))
    areas = found.column("district")
    assert found.codes.dtype == np.uint32
    assert areas.max() > 2**16
    assert np.array_equal(found.column("county"), county_of[areas])
    if drawn == "county":
        last = np.bincount(areas, minlength=districts)[[69_998, 69_999]]
        assert abs(last[1] - 3 * last[0]) <= 4
