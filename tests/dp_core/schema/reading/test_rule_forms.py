"""A form of rules is one module: the form `never` works without another change."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dp_core.confidential.encoding import settle_zeros
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.expectations.suite import suite_document
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.reading.stated_rules import column_rule_reader
from dp_core.schema.reading.stated_rules.column_rule_reader import read_conditions
from dp_core.schema.reading.stated_rules.rule_conditions import join_conditions, rule_of
from dp_core.schema.rules.possible_codes import decode, with_possible_values

SCHEMA = {
    "version": "1",
    "title": "shifts",
    "columns": {
        "age": {"type": "integer", "min": "0", "max": "99", "bins": "10"},
        "hours": {"type": "integer", "min": "0", "max": "80", "bins": "8"},
        "sex": {"type": "category", "levels": ["a", "b"]},
    },
    "rules": ["never sex == a and hours - age > 5"],
}


class Never:
    """Conditions that never hold together."""

    pattern = re.compile("never (.+)")

    def read(self, node, match, schema):
        stated = read_conditions(node, match[1], schema)
        return rule_of(
            node, schema, match[0], join_conditions(node, [each.met for each in stated]), stated
        )


@pytest.fixture(autouse=True)
def _added(monkeypatch):
    before = column_rule_reader.forms()
    monkeypatch.setattr(column_rule_reader, "forms", lambda: (*before, Never()))


def test_rows_that_break_it_are_refused():
    schema = parse_schema(SCHEMA)
    # Ages 1 and 50, hours 70, sex a and b.
    codes = {
        name: np.array(own)
        for name, own in zip(schema.domain.columns, ([0, 5, 0], [6, 6, 6], [0, 0, 1]), strict=True)
    }
    units = {"age": np.array([1, 70, 1]), "hours": np.array([70, 70, 70])}
    (broken,) = settle_zeros(schema, codes, units)

    assert (broken.rule.text, broken.first) == (SCHEMA["rules"][0], (0,))
    assert SCHEMA["rules"][0] in str(suite_document(schema))
    assert schema.document["rules"] == SCHEMA["rules"]


def test_decoded_sets_obey_it():
    schema, rng = parse_schema(SCHEMA), np.random.default_rng(1)
    codes = rng.integers(np.array(schema.domain.sizes)[:, None], size=(3, 2000))
    data = Dataset(schema.domain, codes.astype(schema.domain.code_type))
    data = Dataset(schema.domain, data.codes[:, ~schema.zeros.violations(data)])
    frame = decode(schema, with_possible_values(schema, data, rng=rng), rng=rng).to_pandas()

    assert len(frame) > 1000
    assert ((frame.sex == "b") & (frame.hours - frame.age > 5)).any()
    assert not ((frame.sex == "a") & (frame.hours - frame.age > 5)).any()


def test_its_faults_are_found_as_those_of_other_rules():
    for rule in ("never sex == c", "never age < 0", "never if sex == a then age < 5"):
        with pytest.raises(BadInput):
            parse_schema(SCHEMA | {"rules": [rule]})
