"""Questions about areas within one another are answered from tables of any level."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dp_core.analysis.query.answering import ask
from dp_core.analysis.query.query_answer import NUMBERS, _texts
from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.structure.public_totals import PublicTotals
from tests.dp_core.analysis.query.survey import noisy_tables, pooled

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


def measured(*cliques, noise="gaussian", rng=None, schema=SCHEMA, rows=None):
    """Tables of the file, with noise of scale 3 if there is a generator."""
    cliques = [DOMAIN.project(clique).columns for clique in cliques]
    tables = noisy_tables(DOMAIN, FILE, cliques, noise=noise, scale=SCALE, rng=rng)
    return pooled(schema, tables, rows=rows)


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


def test_a_county_is_pooled_from_its_table_and_those_of_its_districts():
    apart = {name: measured(("age", name)) for name in ("county", "district")}
    both = measured(("age", "county"), ("age", "district"))
    question = "count by county where age >= 40"
    cells, found = answers(both, question)
    for (name,), cell in cells.items():
        margins = {key: answers(each, question)[0][name,].margin for key, each in apart.items()}
        variances = 1 / sum(1 / margin**2 for margin in margins.values())
        assert cell.margin == pytest.approx(math.sqrt(variances), rel=0.1)
        assert cell.margin < min(margins.values())
    assert any("combines the tables of county and the sums over district" in n for n in found.notes)


def test_answers_of_all_levels_add_up():
    sources = measured(("age", "region"), ("age", "county"), ("age", "district"), ("age",))
    whole = answers(sources, "count by age")[0]
    for level in ("region", "county", "district"):
        parts = answers(sources, f"count by age, {level}")[0]
        for (age,), cell in whole.items():
            total = sum(each.estimate for key, each in parts.items() if key[0] == age)
            assert total == pytest.approx(cell.estimate)


REPEATS = 200
NEAR = 3.5 * math.sqrt(0.95 * 0.05 / REPEATS)
"""Three and a half standard errors of a coverage, if the answers of a file count as one answer."""


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_pooled_intervals_cover_and_are_narrower_than_those_of_the_best_table(noise):
    """Fixed seed. The errors have the stated size, which is smaller than that of the best table."""
    rng, truth = np.random.default_rng(12), counts_of("county", 3)
    cliques, question = [("age", "county"), ("age", "district")], "count by county where age >= 40"
    single = [ask(measured(clique, noise=noise), question).cells for clique in cliques]
    best = np.array([min(one.margin for one in cells) for cells in zip(*single, strict=True)])
    errors, margins = np.zeros((REPEATS, 3)), np.zeros(3)
    for repeat in range(REPEATS):
        found = ask(measured(*cliques, noise=noise, rng=rng), question).cells
        errors[repeat] = [cell.estimate - true for cell, true in zip(found, truth, strict=True)]
        margins = np.array([cell.margin for cell in found])
    assert (np.abs(errors) <= margins).mean() == pytest.approx(0.95, abs=NEAR)
    assert (margins < 0.95 * best).all()
    # Relative to the stated variance; that of the best table is 1.3 times or more.
    spread = np.square(errors * 1.96 / margins).mean()
    assert 0.8 < spread < 1.2
    assert not 0.8 < np.square(errors * 1.96 / best).mean() < 1.2


def counts_of(name, size):
    return np.bincount(FILE[name][FILE["age"] >= 2], minlength=size)


TOTALS = {"a": counted(county="a"), "b": counted(county="b"), "c": counted(county="c")}


def with_totals(numbers, *cliques, **changes):
    totals = PublicTotals("county", tuple(numbers.values()), "Census 2021, Table 3")
    return measured(*cliques, schema=dataclasses.replace(SCHEMA, totals=(totals,)), **changes)


def test_a_public_total_answers_exactly_and_names_its_source():
    sources = with_totals(TOTALS, ("age", "district"), rng=np.random.default_rng(3))
    cells, found = answers(sources, "count by county")
    for (name,), number in zip(cells, TOTALS.values(), strict=True):
        cell = cells[name,]
        assert (cell.low, cell.estimate, cell.high) == (number, number, number)
    assert any("exact" in note and "Census 2021, Table 3" in note for note in found.notes)
    assert not any("weighted" in note for note in found.notes)
    for question in ("count", "count by region", "share by region", "count where region = south"):
        cells, found = answers(sources, question)
        assert all(cell.margin == 0 for cell in cells.values()), question
    cells, found = answers(sources, "count by district")
    # b1 is the only district of its county.
    assert [name for (name,), cell in cells.items() if cell.margin == 0] == ["b1"]
    assert any("taken as exact" in note for note in found.notes)


def test_counts_without_a_margin_are_whole_numbers_in_the_text():
    cell = {"determined": True, "estimate": 1093.0, "margin": 0.0, "low": 1093.0, "high": 1093.0}
    assert _texts(cell, "records", 0.0, NUMBERS) == ("1,093", "0", "1,093", "1,093")
    cell |= {"margin": 4.5, "low": 1088.5, "high": 1097.5}
    assert _texts(cell, "records", 4.5, NUMBERS) == ("1,093.0", "4.5", "1,088.5", "1,097.5")


def test_a_public_total_needs_no_table_of_its_column():
    cells, _ = answers(with_totals(TOTALS, ("age",)), "count by county")
    assert [cell.estimate for cell in cells.values()] == [*TOTALS.values()]


def test_an_answer_from_a_total_that_noise_hides_is_exact_only_if_the_total_is():
    """Fixed seed: the total is off by two deviations of the noise, too little to be noticed."""
    off = round(2 * SCALE)
    wrong = {**TOTALS, "a": TOTALS["a"] + off, "b": TOTALS["b"] - off}
    sources = with_totals(wrong, ("county",), ("district",), rng=np.random.default_rng(5))
    assert sources.totals
    for question, exact in (("count by county", True), ("count by district", False)):
        cells, found = answers(sources, question)
        note = next(each for each in found.notes if "Census 2021" in each)
        assert "not compared with" in note
        assert ("exact if they are" in note) == exact
    cells, _ = answers(sources, "count by county")
    assert cells["a",].margin == 0
    assert cells["a",].estimate == TOTALS["a"] + off


def test_totals_that_noise_does_not_explain_are_not_used():
    wrong = {**TOTALS, "a": TOTALS["a"] + 90}
    sources = with_totals(wrong, ("age", "district"))
    assert sources.totals == ()
    cells, found = answers(sources, "count by county")
    assert cells["a",].estimate == pytest.approx(TOTALS["a"])
    assert any("not used" in note and "Census 2021" in note for note in found.notes)


def test_a_public_number_of_records_contradicts_other_totals():
    wrong = {**TOTALS, "a": TOTALS["a"] + 1}
    assert with_totals(TOTALS, ("age",), rows=float(ROWS)).totals
    assert with_totals(wrong, ("age",), rows=float(ROWS)).totals == ()


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
