"""What the library cannot judge is found on a row of legal values."""

from dataclasses import replace

import pytest

from dp_core.errors import BadInput
from dp_core.schema.expectations.offered import Expectation
from tasks.validation.trial import try_expectations
from tests.schema_texts import read
from tests.tasks.validation.test_own_expectations import CASES, HEAD


def test_what_the_library_can_judge_passes_whether_the_row_meets_it_or_not():
    lines = [f"  - {name}: {{{words}}}\n" for name, _, *both in CASES for words in both]
    try_expectations(read(HEAD + "".join(lines)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("expect_column_values_to_match_strftime_format", {"strftime_format": "%Q%"}),
        ("expect_column_values_to_match_regex", {"regex": "("}),
        ("expect_column_values_to_be_in_set", {"value_set": 5}),
    ],
)
def test_what_it_cannot_judge_is_named(name, arguments):
    wrong = Expectation(name=name, arguments={"column": "c", **arguments})
    schema = read(f"{HEAD}  - expect_table_row_count_to_equal: {{value: 4}}\n")
    schema = replace(schema, expectations=(*schema.expectations, wrong))
    with pytest.raises(BadInput, match=f"cannot judge {name} with") as caught:
        try_expectations(schema)
    assert caught.value.exit_code == 2
