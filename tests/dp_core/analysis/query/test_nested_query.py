"""Questions about areas within one another are answered from tables of any level."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.sources import pooled_sources
from dp_core.errors import BadInput
from dp_core.schema.privacy import Relation
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.wall.released import Measurement

COUNTY_OF = {"a1": "a", "a2": "a", "b1": "b", "c1": "c", "c2": "c", "c3": "c"}
REGION_OF = {"a": "north", "b": "south", "c": "south"}
SCHEMA = parse_schema(
    {
        "version": "1",
        "title": "Districts",
        "columns": {
            "age": {"type": "integer", "min": "0", "max": "79", "bins": "4"},
            "district": {
                "type": "category",
                "levels": [*COUNTY_OF],
                "within": "county",
                "map": COUNTY_OF,
            },
            "region": {"type": "category", "levels": ["north", "south"]},
            "county": {
                "type": "category",
                "levels": ["a", "b", "c"],
                "within": "region",
                "map": REGION_OF,
            },
            "coast": {
                "type": "category",
                "levels": ["yes", "no"],
                "follows": "county",
                "map": {"a": "yes", "b": "no", "c": "yes"},
            },
        },
    }
)
DOMAIN = SCHEMA.domain
SCALE = 3.0
ROWS = 2000


def records():
    rng = np.random.default_rng(6)
    nested = SCHEMA.nested
    assert nested is not None
    district = rng.integers(0, 6, ROWS)
    county = nested.map("county", "district")[district]
    region = nested.map("region", "county")[county]
    age = rng.binomial(3, 0.2 + 0.4 * region)
    return {"age": age, "district": district, "county": county, "region": region}


FILE = records()


def measured(*cliques):
    found = []
    for clique in cliques:
        domain = DOMAIN.project(clique)
        cells = np.ravel_multi_index([FILE[name] for name in domain.columns], domain.sizes)
        values = np.bincount(cells, minlength=domain.size()).reshape(domain.sizes)
        found.append(
            Measurement(
                domain,
                values,
                noise="gaussian",
                scale=SCALE,
                stage="measure",
                replicate=0,
                grant=1,
            )
        )
    return pooled_sources(SCHEMA, found, rows=None, relation=Relation("add-remove"))


def answers(sources, text):
    found = ask(sources, text)
    assert found.undetermined is None, found.undetermined
    labels = {name: SCHEMA.column(name).code_labels() for name in found.columns}
    return {
        tuple(
            labels[name][code] for name, code in zip(found.columns, cell.codes, strict=True)
        ): cell
        for cell in found.cells
    }, found


def counted(**where):
    kept = np.ones(ROWS, dtype=bool)
    for name, label in where.items():
        code = [level.text for level in SCHEMA.column(name).levels].index(label)
        kept &= FILE[name] == code
    return int(kept.sum())


def test_larger_areas_are_sums_of_smaller_ones_with_their_noise():
    cells, found = answers(measured(("age", "district")), "count by region where age >= 40")
    old = FILE["age"] >= 2
    for (name,), number in ((("north",), 2), (("south",), 4)):
        code = 0 if name == "north" else 1
        assert cells[name,].estimate == pytest.approx((old & (FILE["region"] == code)).sum())
        # 2 bins of age in each of its districts.
        margin = 1.96 * SCALE * math.sqrt(2 * number)
        assert cells[name,].margin == pytest.approx(margin, rel=0.1)
    assert any("sum over its district areas" in note for note in found.notes)


def test_the_next_level_that_was_measured_answers():
    both = measured(("age", "county"), ("age", "district"))
    cells, found = answers(both, "share by region where age >= 40")
    assert any("sum over its county areas" in note for note in found.notes)
    assert sum(cell.estimate for cell in cells.values()) == pytest.approx(1)


def test_a_level_with_its_own_table_answers_alone():
    both = measured(("age", "region"), ("age", "district"))
    _, found = answers(both, "count by region where age >= 40")
    assert not any("areas" in note for note in found.notes)


def test_two_levels_in_one_question_need_no_table_of_both():
    cells, _ = answers(measured(("district",)), "count by region, district")
    expected = {
        (REGION_OF[county], district): counted(district=district)
        for district, county in COUNTY_OF.items()
    }
    assert {key: cell.estimate for key, cell in cells.items()} == pytest.approx(expected)


@pytest.mark.parametrize("region", ["north", "south"])
def test_a_condition_on_a_larger_area_keeps_the_areas_in_it(region):
    cells, _ = answers(measured(("county",)), f"count by county where region = {region}")
    inside = [county for county, upper in REGION_OF.items() if upper == region]
    assert [*cells] == [(county,) for county in inside]
    assert cells[inside[0],].estimate == pytest.approx(counted(county=inside[0]))


def test_areas_elsewhere_contradict_each_other():
    with pytest.raises(BadInput, match="contradict each other"):
        ask(measured(("district",)), "count where county = a and region = south")


def test_a_column_that_follows_a_larger_area_is_answered_too():
    cells, _ = answers(measured(("age", "district")), "count by coast, region")
    expected = {
        ("yes", "north"): counted(county="a"),
        ("no", "south"): counted(county="b"),
        ("yes", "south"): counted(county="c"),
    }
    assert {key: cell.estimate for key, cell in cells.items()} == pytest.approx(expected)


def test_what_no_level_was_measured_with_is_not_determined():
    found = ask(measured(("age",), ("district",)), "count by region where age >= 40")
    assert found.undetermined is not None
    # The advice names the column that was asked about, not a smaller one.
    assert found.undetermined.needed is None or "district" not in found.undetermined.needed.columns
    assert "region" in found.undetermined.sentence


def test_larger_areas_never_answer_for_smaller_ones():
    found = ask(measured(("age", "region")), "count by county where age >= 40")
    assert found.undetermined is not None


def test_every_pair_of_levels_agrees_with_the_smaller_one():
    sources = measured(("district",))
    for upper, lower in itertools.combinations(("region", "county", "district"), 2):
        pairs, _ = answers(sources, f"count by {lower}, {upper}")
        alone, _ = answers(sources, f"count by {lower}")
        assert {key[0]: cell.estimate for key, cell in pairs.items()} == pytest.approx(
            {key[0]: cell.estimate for key, cell in alone.items()}
        )
