"""The rule of a column is read from plain values; what contradicts itself is refused."""

import copy
import json

import pyarrow as pa
import pytest

from dp_core.kernel.coding.coding_rule import coding_rule
from dp_core.kernel.coding.encoder import RuleEncoder
from dp_core.kernel.errors import BadInput
from tests.vectors.make import AGE, BORN, CLOCK, SEX, codes_case

RULES = {each["name"]: each for each in (SEX, AGE, BORN, CLOCK)}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("sex", ["male", "1", "2", "", None, "3"], [0, 0, 1, 2, 2, 2]),
        ("age", ["14", "15", "99", "100", "", "x"], [0, 1, 1, 2, 2, None]),
        ("born", ["01.01.2000", "31.12.2000", "01.01.2001", "", "2000-01-01"], [0, 1, 2, 2, None]),
        ("start", ["00:14", "00:15", "01:39", "01:40", "7:30", "24:00"], [0, 1, 1, 2, None, 2]),
    ],
)
def test_a_rule_of_each_kind_gives_codes(name, values, expected):
    rule = json.loads(json.dumps(RULES[name]))
    assert codes_case(rule, values)["codes"] == expected


def test_stored_times_of_day_are_counted_in_the_unit_of_the_rule():
    for unit, kind in (("s", pa.time32), ("ms", pa.time32), ("us", pa.time64), ("ns", pa.time64)):
        seconds = pa.array([14 * 60 + 59, 15 * 60, None], pa.int64())
        factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        width = pa.int32() if kind is pa.time32 else pa.int64()
        stored = pa.compute.multiply(seconds, factor).cast(width).cast(kind(unit))
        assert RuleEncoder(coding_rule(CLOCK)).encode(stored).codes.tolist() == [0, 1, 2]


CHANGES = {
    "name": [("sex", 1), ("age", None)],
    "kind": [("sex", "ordinal"), ("sex", "integer"), ("age", "levels"), ("age", [])],
    "codes": [("sex", 2), ("sex", 5), ("age", 1), ("age", 3.0), ("age", True), ("age", -3)],
    "levels": [("sex", [["1"], ["1"]]), ("sex", "12"), ("sex", [1, 2]), ("sex", [[1], ["2"]])],
    "edges": [
        ("age", ["0", "100", "15"]),
        ("age", ["0", "0", "100"]),
        ("age", [0, 15, 100]),
        ("age", ["0", "x", "100"]),
        ("age", ["0", "14.5", "100"]),
        ("born", ["730120", "730300", "1460973/2"]),
        ("age", ["0", "1/0", "100"]),
        ("age", "0"),
        ("age", []),
    ],
    "low": [("age", "-1"), ("age", "100"), ("age", 0), ("age", None)],
    "high": [("age", "101"), ("age", "")],
    "missing": [("age", "yes"), ("age", None), ("age", [])],
    "missing_values": [("age", ""), ("age", [None]), ("age", None), ("sex", ["", "male"])],
    "out_of_range": [("age", "drop")],
    "format": [("born", 1), ("age", "%Y")],
    "parts": [
        ("age", CLOCK["parts"]),
        ("start", None),
        ("start", CLOCK["parts"] | {"weights": {"h": 60}}),
        ("start", CLOCK["parts"] | {"weights": {"h": 60, "m": -1}}),
        ("start", CLOCK["parts"] | {"last": "1439"}),
        ("start", CLOCK["parts"] | {"pattern": "(?P<h>"}),
        ("start", CLOCK["parts"] | {"more": 1}),
    ],
    "unknown": [("sex", 1), ("age", None)],
}


@pytest.mark.parametrize(
    ("key", "name", "value"),
    [(key, *change) for key, changes in CHANGES.items() for change in changes],
)
def test_a_rule_with_a_wrong_value_is_refused(key, name, value):
    rule = copy.deepcopy(RULES[name]) | {key: value}
    with pytest.raises(BadInput, match="kernel's document"):
        coding_rule(rule)


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name in RULES for key in RULES[name] if key != "format"]
)
def test_a_rule_without_a_key_is_refused(name, key):
    with pytest.raises(BadInput, match="kernel's document"):
        coding_rule({each: value for each, value in RULES[name].items() if each != key})
