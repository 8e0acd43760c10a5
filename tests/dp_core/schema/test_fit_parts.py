"""Schemas with equal parts give equal verdicts, and a schema of some parts fits if the whole does.

The data here are all rows that a small schema can have, one by one, so that verdicts are compared
on every file.
"""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from dp_core.confidential.encoding import settle_zeros
from dp_core.schema.fit_parts import fit_parts
from dp_core.schema.reading.restricted_schema import restricted_schema
from dp_core.schema.reading.schema_file import parse_schema
from tests import panel_files

SETTLED = {"missing": "level", "out_of_range": "missing"}
COLUMNS = {
    "a": {"type": "category", "levels": ["x", "y"], **SETTLED},
    "b": {"type": "category", "levels": ["r", "s"], **SETTLED},
    "c": {"type": "category", "levels": ["k", "l"]},
    "d": {"type": "category", "levels": ["m", "n"]},
}
RULES = (
    {"c": "k", "b": "s"},  # sets b to missing
    {"b": "s", "a": "x"},  # sets a to missing
    {"a": "missing", "c": "k"},  # stops the release, unless `a` was set to missing too late
    {"c": "l", "d": "m"},  # can only stop
)


def schema_of(columns=COLUMNS, **keys):
    stated = [{name: definition} for name, definition in columns.items()]
    return parse_schema({"version": "1", "title": "T", "columns": stated, **keys})


def with_rules(rules, columns=COLUMNS):
    return schema_of(columns, impossible=[[{k: v} for k, v in rule.items()] for rule in rules])


def fitting_rows(schema):
    """Return which rows, among all that the columns can have, fit the schema, as a text of bits."""
    found = []
    for row in product(range(2), repeat=len(COLUMNS)):
        values = dict(zip(COLUMNS, row, strict=True))
        codes = {name: np.array([values[name]]) for name in schema.domain.columns}
        found.append(not any(broken.refused for broken in settle_zeros(schema, codes)))
    return "".join(map(str, map(int, found)))


def test_every_order_of_rules_with_another_verdict_is_another_schema():
    """Sixteen rows and all orders of four rules: equal parts never have different verdicts."""
    verdicts = {}
    for rules in permutations(RULES):
        schema = with_rules(rules)
        verdicts.setdefault(fit_parts(schema), set()).add(fitting_rows(schema))
    assert all(len(each) == 1 for each in verdicts.values())
    assert len(set.union(*verdicts.values())) > 1


def test_every_schema_of_some_parts_fits_if_the_whole_does():
    whole = with_rules(RULES)
    compared = 0
    for size in range(len(RULES)):
        for rules in permutations(RULES, size):
            less = with_rules(rules)
            if fit_parts(less) <= fit_parts(whole):
                pairs = zip(fitting_rows(whole), fitting_rows(less), strict=True)
                assert all(one <= other for one, other in pairs)
                compared += 1
    assert compared > 0
    # Without the rule that settles first, the others refuse rows that the whole accepts.
    assert not fit_parts(with_rules(RULES[1:])) <= fit_parts(whole)


@pytest.mark.parametrize("size", range(1, len(COLUMNS) + 1))
def test_a_schema_with_some_of_the_columns_has_no_other_parts(size):
    whole = with_rules(RULES)
    for names in permutations(COLUMNS, size):
        assert fit_parts(restricted_schema(whole, names)) <= fit_parts(whole)


def test_words_and_bins_are_no_part_and_bounds_and_rules_are():
    columns = COLUMNS | {"e": {"type": "integer", "min": "0", "max": "9"}}
    parts = fit_parts(schema_of(columns))
    for keys in ({"title": "U"}, {"description": "D"}, {"rows_about": "77"}):
        assert fit_parts(schema_of(columns, **keys)) == parts
    e = columns["e"]
    for same in ({**e, "bins": "5"}, {**e, "description": "age"}, {**e, "edges": ["0", "3", "10"]}):
        assert fit_parts(schema_of(columns | {"e": same})) == parts
    relabelled = {**COLUMNS["c"], "levels": [{"k": "one"}, {"l": "two"}]}
    assert fit_parts(schema_of(columns | {"c": relabelled})) == parts
    for other in ({**e, "max": "8"}, {**e, "missing": "level"}):
        assert fit_parts(schema_of(columns | {"e": other})) - parts
    for keys in (
        {"missing_values": ["?"]},
        {"rules": ["if e < 3 then c = k"]},
        {"unit": {"column": "person", "max_rows": "2"}},
    ):
        assert fit_parts(schema_of(columns, **keys)) - parts


@pytest.mark.parametrize("key", ["impossible", "rules"])
def test_labels_by_which_a_rule_names_levels_count(key):
    stated = {"impossible": [[{"c": "one"}, {"d": "m"}]], "rules": ["if c = one then d = n"]}
    found = [
        fit_parts(
            schema_of(COLUMNS | {"c": {"type": "category", "levels": levels}}, **{key: stated[key]})
        )
        for levels in ([{"k": "one"}, {"l": "two"}], [{"k": "two"}, {"l": "one"}])
    ]
    assert found[0] != found[1]


def test_labels_of_a_dependent_column_that_a_rule_names_count():
    def found(levels):
        group = {
            "type": "category",
            "levels": levels,
            "follows": "c",
            "map": [{"k": "1"}, {"l": "2"}],
        }
        return fit_parts(schema_of(COLUMNS | {"g": group}, rules=["if g = one then d = m"]))

    assert found([{"1": "one"}, {"2": "two"}]) != found([{"1": "two"}, {"2": "one"}])


def test_the_edges_at_which_a_dependent_column_changes_count():
    """Each edge asks whether all persons of a group are younger."""

    def found(edge):
        columns = {
            "age": {"type": "integer", "min": "0", "max": "9"},
            "group": {"type": "category", "levels": ["0", "1"], "follows": "age", "edges": [edge]},
        }
        return fit_parts(schema_of(columns))

    assert len({found(str(edge)) for edge in range(1, 10)}) == 9


def test_all_columns_of_a_panel_that_keeps_one_row_are_one_part():
    """Which row of a person is kept depends on all columns, and rules are judged afterwards."""
    whole = parse_schema(panel_files.panel_document(repeated="keep_one"))
    columns = {name: each for name, each in panel_files.COLUMNS.items() if name != "health"}
    less = parse_schema(panel_files.panel_document(columns=columns, repeated="keep_one"))
    assert len(fit_parts(whole)) == len(fit_parts(less)) == 1
    assert fit_parts(whole) != fit_parts(less)


def test_some_columns_of_a_panel_without_repeated_rows_have_no_other_parts():
    whole = parse_schema(panel_files.panel_document())
    for name in whole.names:
        assert fit_parts(restricted_schema(whole, [name])) <= fit_parts(whole)
