"""The generated files of an audit: what is in them, and that each pair is of neighbours."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from dp_core.audit.configurations import Configuration, plan_of
from dp_core.audit.report import UNITS
from dp_core.audit.tiny_files import ABOVE, BELOW, HIGHEST, LOST, LOWEST, SETTLED, TinyFiles
from tests.full import some


def files_of(relation, method="fdh", schema="survey"):
    plan = plan_of(Configuration("x", method, {}, schema), relation, epsilon="4", delta="1e-6")
    schema = plan.spec.schema.stored
    return schema, TinyFiles(schema.columns, schema.zeros, schema.unit, relation, 1, schema.rules)


def rows_of(units):
    return Counter(tuple(row) for unit in units for row in unit.tolist())


@pytest.mark.parametrize("relation", UNITS)
@pytest.mark.parametrize(
    ("method", "schema"),
    some(
        [("fdh", "survey"), ("modips", "private"), ("privsyn", "ruled")],
        lambda case: case[0] != "modips",
    ),
)
def test_the_files_of_a_pair_differ_in_the_rows_of_one_unit(relation, method, schema):
    _, files = files_of(relation, method, schema)
    pairs = [pair for name in files.named for pair in files.pairs(name)]
    assert len(pairs) > 20
    k, moved = relation.max_rows, []
    for pair in pairs:
        one, other = rows_of(pair.one), rows_of(pair.other)
        gone, come = (one - other).total(), (other - one).total()
        assert max(gone, come) <= k
        if relation.neighbours == "add-remove":
            assert not (gone and come)
            assert abs(len(pair.one) - len(pair.other)) == 1
        else:
            assert len(pair.one) == len(pair.other)
        moved.append(gone + come)
    # Some come as near to the bound as there is: all rows of a unit, on both files.
    assert max(moved) == (k if relation.neighbours == "add-remove" else 2 * k)


def test_values_beyond_the_bounds_and_missing_ones_become_the_codes_of_the_schema():
    schema, files = files_of(UNITS[0])
    coded = files.code(((LOWEST,), (HIGHEST,), (ABOVE,), (BELOW,), (LOST,), (SETTLED,)))
    lowest, highest, above, below, lost, settled = (unit[0].tolist() for unit in coded)
    columns = schema.domain.columns
    missing = [column.missing_code for column in schema.columns]
    age, marital, income, moved = (
        columns.index(name) for name in ("age", "marital", "income", "moved")
    )
    assert above[age] == highest[age] != lowest[age] == below[age]
    assert above[moved] == highest[moved] != lowest[moved] == below[moved]
    assert above[income] == below[income] == missing[income]  # out of range means missing
    assert [lost[each] for each in (age, marital, income)] == [
        missing[each] for each in (age, marital, income)
    ]
    assert settled[marital] == missing[marital]  # it broke the structural zero


def test_a_person_keeps_no_more_rows_than_the_limit_whatever_the_others_have():
    _, files = files_of(UNITS[2])
    crowd = (LOWEST,) * 4 + (HIGHEST,) * 4
    (alone,) = files.code((crowd,))
    among = files.code((crowd, (LOWEST,), crowd))
    assert [len(unit) for unit in (alone, *among)] == [3, 3, 1, 3]
    np.testing.assert_array_equal(alone, among[0])


def test_rows_that_break_a_rule_between_columns_are_settled():
    schema, files = files_of(UNITS[0], "privsyn", "ruled")
    poor = ("40", "1", "single", "39.99", "2001-01-01")
    enough = ("40", "1", "single", "40", "2001-01-01")
    married = ("3", "1", "married", "199.99", "2001-01-01")
    coded = files.code(((poor,), (enough,), (married,)))
    income = schema.domain.columns.index("income")
    missing = schema.column("income").missing_code
    assert [unit[0, income] == missing for unit in coded] == [True, False, True]
