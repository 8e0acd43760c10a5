"""Public totals of a schema: what is read, and which faults are named."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from dp_core.schema.reading.totals_reader import contradiction
from dp_core.schema.structure.public_totals import decisive, known_counts, parts_of
from tests import linked_release

SEX = {"type": "category", "levels": {"1": "male", "2": "female"}}
COLUMNS = {
    "county": {"type": "category", "levels": ["a", "b"]},
    "district": {
        "type": "category",
        "levels": ["u", "v", "w"],
        "within": "county",
        "map": {"u": "a", "v": "a", "w": "b"},
    },
    "sex": SEX,
    "job": {"type": "ordinal", "levels": ["none", "some"], "missing": "level"},
    "age": {"type": "integer", "min": "0", "max": "99", "bins": "5"},
    "old": {"type": "category", "levels": ["no", "yes"], "follows": "age", "edges": ["40"]},
    "trade": {
        "type": "category",
        "groups": {"x": ["p", "q"], "y": ["r"]},
        "levels": {"private": "2"},
    },
}
COUNTY = {"county": {"a": "30", "b": "12"}, "source": "Census"}


def schema_of(*totals, **more):
    document = {"version": "1", "title": "Town", "columns": COLUMNS, "totals": list(totals)}
    return parse_schema(document | more)


def test_totals_are_read_and_written_again():
    district = {"district": [["v", "10"], ["u", "20"], ["w", "12"]], "source": "Register"}
    job = {"job": {"none": "2", "some": "40", "missing": "0"}, "source": "Survey"}
    schema = schema_of(COUNTY, district, {"sex": {"male": 20, "2": 22}, "source": "Census"}, job)
    assert [(each.column, each.counts, each.source) for each in schema.totals] == [
        ("county", (30, 12), "Census"),
        ("district", (20, 10, 12), "Register"),
        ("sex", (20, 22), "Census"),
        ("job", (2, 40, 0), "Survey"),
    ]
    assert parse_schema(schema.document) == schema


def test_totals_of_small_areas_imply_those_of_large_ones():
    district = {"district": {"u": "20", "v": "10", "w": "12"}, "source": "Register"}
    schema = schema_of(COUNTY, district)
    assert [each.column for each in decisive(schema.totals, schema.domain.nested)] == ["district"]
    alone = schema_of(district)
    known = known_counts(alone.totals, alone.domain)
    assert {name: each.tolist() for name, each in known.items()} == {
        "district": [20, 10, 12],
        "county": [30, 12],
    }


def test_a_file_may_hold_the_totals(tmp_path):
    (tmp_path / "areas.csv").write_text("county,total\nb,12\na,30\n")
    (tmp_path / "s.yaml").write_text(
        "version: 1\ntitle: Town\ncolumns:\n  county: {type: category, levels: [a, b]}\n"
        "  sex: {type: category, levels: [m, f]}\n"
        "totals:\n  - {county: areas.csv, source: Census}\n"
    )
    assert load_schema(tmp_path / "s.yaml").totals[0].counts == (30, 12)


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        ([], "has no totals; add some"),
        ([{"county": {"a": "30", "b": "12"}}], "the key 'source' is missing"),
        ([COUNTY | {"source": " "}], "source"),
        ([{"source": "Census"}], "must name one column with its totals"),
        ([COUNTY | {"sex": {"male": "1", "female": "41"}}], "must name one column"),
        ([{"county": {"a": "30"}, "source": "C"}], "there is no total for 'b'"),
        ([{"county": {"a": "30", "b": "-1"}, "source": "C"}], "must be at least 0"),
        ([{"county": {"a": "30", "b": "1.5"}, "source": "C"}], "is not a whole number"),
        ([{"county": {"a": "0", "b": "0"}, "source": "C"}], "add up to 0"),
        ([{"county": {"a": "1", "b": "1", "c": "1"}, "source": "C"}], "'c' is not a level"),
        ([{"county": [["a", "1"], ["a", "1"]], "source": "C"}], "given twice"),
        ([COUNTY, COUNTY], "repeats the totals of 'county'"),
        ([{"conty": {"a": "1"}, "source": "C"}], "there is no column 'conty'"),
        ([{"age": {"0": "1"}, "source": "C"}], "is not a category or an ordinal"),
        ([{"old": {"no": "1", "yes": "2"}, "source": "C"}], "follows another column"),
        ([{"trade": {"p": "1", "q": "2", "r": "3"}, "source": "C"}], "are chosen privately"),
        ([{"job": {"none": "1", "some": "1"}, "source": "C"}], "there is no total for `missing`"),
        ([COUNTY, {"sex": {"male": "20", "female": "20"}, "source": "C"}], "add up to 40, but"),
        ([COUNTY, {"district": {"u": "20", "v": "11", "w": "11"}, "source": "C"}], "the totals"),
    ],
)
def test_a_fault_is_named(totals, said):
    with pytest.raises(BadInput) as raised:
        schema_of(*totals)
    assert said in raised.value.message
    assert len(raised.value.faults) == 1


def test_an_impossible_level_has_no_records():
    with pytest.raises(BadInput, match="'b' is impossible under the schema's rules"):
        schema_of(
            {"sex": {"male": "1", "female": "2"}, "source": "C"},
            COUNTY | {"county": {"a": "2", "b": "1"}},
            columns={name: COLUMNS[name] for name in ("county", "sex")},
            impossible=[{"county": ["b"]}],
        )


def test_totals_of_persons_are_refused():
    totals = [{"work": {"employed": "10", "not employed": "12"}, "source": "C"}]
    totals.insert(0, {"tenure": {"own": "10", "rent": "12"}, "source": "C"})
    with pytest.raises(BadInput, match=r"totals\[2\]: 'work' is a column of persons"):
        parse_schema({**linked_release.SCHEMA, "totals": totals})


def test_parts_of_totals_add_up_and_have_the_sizes_of_the_pieces():
    counts, sizes = [7, 0, 1, 92, 3, 11], [40, 40, 33, 1]
    parts = parts_of(counts, sizes)
    assert [int(part.sum()) for part in parts] == sizes
    assert sum(parts).tolist() == counts
    assert min(int(part.min()) for part in parts) == 0


@pytest.mark.parametrize("women", [12, 11])
def test_totals_that_contradict_impossible_combinations_are_refused_before_anything_is_paid(women):
    # The men of the file cannot live in county a, so all others of it must be women.
    men = 42 - women
    sex = {"sex": {"male": men, "female": women}, "source": "Register"}
    county = {"county": {"a": 12, "b": 30}, "source": "Census"}
    rule = [{"district": ["u", "v"], "sex": "1"}]
    if women == 12:
        assert len(schema_of(county, sex, impossible=rule).totals) == 2
        return
    with pytest.raises(BadInput, match="no records have these totals and those of 'county'"):
        schema_of(county, sex, impossible=rule)


# -- totals that no records can have

NAMES = ("a", "b", "c")
LEVELS = {"type": "category", "levels": ["0", "1"]}
SMALL = dict.fromkeys(NAMES, LEVELS)


def small_schema(totals, impossible, columns=SMALL, **more):
    document = {"version": "1", "title": "Town", "columns": columns, "impossible": impossible}
    stated = [{name: counts, "source": "Census"} for name, counts in totals.items()]
    return parse_schema(document | {"totals": stated} | more)


def exists(possible, ones, records):
    """Whether records in possible cells can have these numbers of records with code 1."""
    cells = np.argwhere(possible)
    chosen = itertools.combinations_with_replacement(range(len(cells)), records)
    return any((cells[list(each)].sum(axis=0) == ones).all() for each in chosen)


@pytest.mark.parametrize("columns", [2, 3])
def test_totals_are_refused_if_no_records_have_them_and_only_then(columns):
    rng, refused, read = np.random.default_rng(5), 0, 0
    for _ in range(150):
        records = int(rng.integers(1, 5))
        possible = rng.random((2,) * columns) < 0.6
        ones = rng.integers(0, records + 1, size=columns)
        rules = [
            {name: str(code) for name, code in zip(NAMES, cell, strict=False)}
            for cell in np.argwhere(~possible).tolist()
        ]
        totals = {
            name: {"0": str(records - one), "1": str(one)}
            for name, one in zip(NAMES, ones.tolist(), strict=False)
        }
        if not possible.any():
            continue
        try:
            small_schema(totals, rules)
            found = True
        except BadInput:
            found = False
        assert found == exists(possible, ones, records), (rules, totals)
        read, refused = read + found, refused + (not found)
    assert min(read, refused) > 20


def test_a_contradiction_of_three_lists_is_named_with_its_columns():
    # Each pair of lists can be met: only the three together contradict the rules.
    rules = [{"a": "0", "b": "0", "c": "0"}, {"a": "0", "b": "0", "c": "1"}]
    rules += [{"a": "0", "c": "0"}, {"b": "0", "c": "0"}]
    totals = {name: {"0": "5", "1": "5"} for name in NAMES}
    with pytest.raises(BadInput, match=r"totals\[3\]: .* those of 'a' and those of 'b', because"):
        small_schema(totals, rules)
    assert len(small_schema(totals | {"c": {"0": "0", "1": "10"}}, rules[2:]).totals) == 3


def test_columns_without_totals_tie_those_with_totals():
    columns = SMALL | {"d": {"type": "integer", "min": "0", "max": "9"}}
    # By way of d, a = 1 requires b = 1.
    rules = [{"a": "1", "d": "<5"}, {"d": ">=5", "b": "0"}]
    totals = {"a": {"0": "4", "1": "6"}, "b": {"0": "5", "1": "5"}}
    with pytest.raises(BadInput, match="no records have these totals and those of 'a'"):
        small_schema(totals, rules, columns)
    assert len(small_schema(totals | {"b": {"0": "4", "1": "6"}}, rules, columns).totals) == 2
    # A single list: no record has a = 1.
    rules[1] = {"d": ">=5", "a": "1"}
    with pytest.raises(BadInput, match="no record can have a = '1', because"):
        small_schema({"a": {"0": "4", "1": "6"}}, rules, columns)


def test_rules_that_count_members_contradict_totals_of_households():
    totals = [{"tenure": {"own": "10", "rent": "12"}, "source": "Census"}]
    document = {
        **linked_release.SCHEMA,
        "totals": totals,
        "rules": ["at least three age >= 18"],
        "impossible": [{"members": ">=3", "tenure": "own"}],
    }
    with pytest.raises(BadInput, match=r"totals\[1\]: no record can have tenure = 'own'"):
        parse_schema(document)
    document["rules"] = ["at least two age >= 18"]
    assert parse_schema(document).totals


def test_many_areas_and_columns_are_judged_by_their_distinct_levels():
    areas = [str(number) for number in range(20_000)]
    columns = {
        "area": {"type": "category", "levels": areas},
        "sex": LEVELS,
        "job": {"type": "category", "levels": [str(number) for number in range(20)]},
    }
    totals = {
        "area": [[area, "5"] for area in areas],
        "sex": {"0": "60000", "1": "40000"},
        "job": {str(number): "5000" for number in range(20)},
    }
    # Women have the first seven jobs at most, and only there.
    rules = [{"sex": "1", "job": [str(number) for number in range(7, 20)], "area": areas[::2]}]
    began = time.process_time()
    schema = small_schema(totals, rules, columns)
    assert not contradiction(schema.totals, schema)
    assert time.process_time() - began < 60
    rules[0]["area"] = areas[:-1]
    with pytest.raises(BadInput, match="and those of 'sex'"):
        small_schema(totals, rules, columns)
