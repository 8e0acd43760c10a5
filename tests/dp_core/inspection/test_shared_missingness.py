"""Columns that are missing together are named once, unless a rule says so or a row differs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dp_core.schema.reading.schema_file import parse_schema
from tests.checked_files import check_frame

NAMES = ("a", "b", "c", "d")


def schema(rules=()):
    columns = {
        name: {"type": "category", "levels": ["1", "2"], "missing": "level"} for name in NAMES
    }
    columns["n"] = {"type": "integer", "min": 0, "max": 9, "bins": 5, "missing": "level"}
    document = {"version": 1, "title": "t", "unit": "row", "columns": columns}
    return parse_schema(document | ({"rules": [*rules]} if rules else {}))


def frame(rows=100):
    rng = np.random.default_rng(0)
    gone = rng.random(rows) < 0.4
    found = {name: np.where(gone, "", rng.choice(["1", "2"], rows)) for name in NAMES}
    found["n"] = np.where(rng.random(rows) < 0.4, "", "3")
    return pd.DataFrame(found)


def hint(found, rules=()):
    check = check_frame(found, schema(rules))
    assert check.fits
    hints = [one for one in check.of("hint") if one.kind == "missing-together"]
    assert len(hints) <= 1
    return hints[0] if hints else None


def test_columns_that_are_missing_in_the_same_rows_are_named_with_a_rule():
    data = frame()
    found = hint(data)
    assert found.rows == int((data["a"] == "").sum())
    assert found.message == f"a, b, c, d are missing in the same {found.rows} rows."
    # The rules that it proposes fit the file, and end the hint.
    proposed = [f"if a is missing then {name} is missing" for name in "bcd"]
    proposed += [f"if a is not missing then {name} is not missing" for name in "bcd"]
    assert f"`{proposed[0]}` and `{proposed[3]}`" in found.fix
    assert hint(data, proposed) is None


@pytest.mark.parametrize("name", NAMES)
def test_one_row_more_or_less_is_not_the_same(name):
    data = frame()
    data.loc[data.index[data["a"] == ""][3], name] = "1"
    assert name not in hint(data).message.partition(" are ")[0].split(", ")


def test_the_same_number_of_other_rows_is_not_the_same():
    data = frame()
    for shift, name in enumerate(NAMES):
        data[name] = np.roll(data[name].to_numpy(), shift)
    assert hint(data) is None


def test_two_columns_and_small_files_have_no_hint():
    data = frame()
    data["c"], data["d"] = "1", "2"
    assert hint(data) is None
    assert hint(frame(5)) is None
