"""Public totals that no records can have are refused before anything is paid."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from dp_core.errors import BadInput
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.reading.totals_reader import contradiction
from tests import linked_release

NAMES = ("a", "b", "c")
LEVELS = {"type": "category", "levels": ["0", "1"]}
COLUMNS = dict.fromkeys(NAMES, LEVELS)


def schema_of(totals, impossible, columns=COLUMNS, **more):
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
            schema_of(totals, rules)
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
        schema_of(totals, rules)
    assert len(schema_of(totals | {"c": {"0": "0", "1": "10"}}, rules[2:]).totals) == 3


def test_columns_without_totals_tie_those_with_totals():
    columns = COLUMNS | {"d": {"type": "integer", "min": "0", "max": "9"}}
    # By way of d, a = 1 requires b = 1.
    rules = [{"a": "1", "d": "<5"}, {"d": ">=5", "b": "0"}]
    totals = {"a": {"0": "4", "1": "6"}, "b": {"0": "5", "1": "5"}}
    with pytest.raises(BadInput, match="no records have these totals and those of 'a'"):
        schema_of(totals, rules, columns)
    assert len(schema_of(totals | {"b": {"0": "4", "1": "6"}}, rules, columns).totals) == 2
    # A single list: no record has a = 1.
    rules[1] = {"d": ">=5", "a": "1"}
    with pytest.raises(BadInput, match="no record can have a = '1', because"):
        schema_of({"a": {"0": "4", "1": "6"}}, rules, columns)


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
    schema = schema_of(totals, rules, columns)
    assert not contradiction(schema.totals, schema)
    assert time.process_time() - began < 60
    rules[0]["area"] = areas[:-1]
    with pytest.raises(BadInput, match="and those of 'sex'"):
        schema_of(totals, rules, columns)
