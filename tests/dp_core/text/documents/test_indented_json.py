from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_core.text.indented_json import indented_json

SINGLE = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.sampled_from(["},\n{", "},\n    {", "\u2028", "], [", "{}"])
)  # fmt: skip
FLAT = st.dictionaries(st.text(max_size=3), SINGLE, max_size=3)
VALUES = st.recursive(
    SINGLE | st.lists(FLAT, max_size=4) | st.lists(SINGLE, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(VALUES)
def test_the_text_is_that_of_json_with_an_indent(value):
    assert indented_json(value) == json.dumps(value, ensure_ascii=False, indent=2)


def test_a_tuple_is_a_list():
    assert indented_json(({"a": 1}, {"a": 2})) == indented_json([{"a": 1}, {"a": 2}])


@pytest.mark.parametrize("put", [lambda x: x, lambda x: [x], lambda x: [{"a": x}, {"a": 1}]])
def test_numbers_that_json_lacks_are_refused(put):
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON"):
            indented_json(put(number))


@pytest.mark.parametrize("value", [{1: "a"}, [{1: "a"}, {2: "b"}], {"a": object()}, {"a": {1}}])
def test_other_keys_and_values_are_refused(value):
    with pytest.raises(TypeError):
        indented_json(value)
