import datetime

import numpy as np
import pyarrow as pa
import pytest

from dp_core.confidential.coding import write_codes
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.original_values import original_values
from dp_core.confidential.source import open_source
from dp_core.kernel.counting.dataset import Dataset
from dp_core.plan.chosen_domain import Chosen, with_choices
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from dp_core.schema.rules.possible_codes import decode

SCHEMA = """\
version: 1
title: People
missing_values: ["", "?"]
columns:
  sex: {type: category, levels: {1: male, 2: female}}
  health: {type: ordinal, levels: [poor, good], missing: level}
  age: {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100], out_of_range: clip, missing: level}
  income: {type: number, min: 0, max: 50000, bins: 2, out_of_range: missing, missing: level}
  born: {type: date, min: 1950-01-01, max: 2020-12-31, bins: year, missing: level}
  married: {type: category, levels: [no, yes], missing: level, out_of_range: missing}
impossible:
  - {age: "<15", married: yes}
"""
FILE = """\
sex,health,age,income,born,married
1,good,30,100.25,1990-05-06,yes
2,?,130,60000,,no
2,poor,7,49999.5,2012-01-31,yes
1,good,?,?,1950-01-01,?
"""


@pytest.fixture
def read(tmp_path):
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "data.csv").write_text(FILE)
    schema = load_schema(tmp_path / "schema.yaml")
    source = open_source("data.csv", tmp_path, schema.domain.columns, schema.ignore)
    return source, schema


def test_values_are_the_files_own_in_the_words_of_a_release(read):
    found = original_values(*read, ["sex", "health", "age", "income", "born", "married"])

    assert found.to_pydict() == {
        "sex": ["male", "female", "female", "male"],
        "health": ["good", None, "poor", "good"],
        "age": [30, 99, 7, None],
        "income": [100.25, None, 49999.5, None],
        "born": [
            datetime.date(1990, 5, 6),
            None,
            datetime.date(2012, 1, 31),
            datetime.date(1950, 1, 1),
        ],
        # A child of seven who is married: the rule's last column is set to missing.
        "married": ["yes", "no", None, None],
    }


def test_types_are_those_of_a_synthetic_set_and_the_order_is_as_asked(read):
    source, schema = read
    drawn = decode(
        schema,
        Dataset(schema.domain, np.zeros((6, 3), np.uint16)),
        rng=np.random.default_rng(1),
    )

    found = original_values(source, schema, ["born", "health", "income"])

    assert found.column_names == ["born", "health", "income"]
    for name in found.column_names:
        assert found.column(name).type == drawn.column(name).type


def test_what_validation_refuses_is_refused(read, tmp_path):
    _, schema = read
    (tmp_path / "bad.csv").write_text(FILE.replace("1,good,30", "3,good,30"))
    bad = open_source("bad.csv", tmp_path, schema.domain.columns, schema.ignore)

    with pytest.raises(ValueError, match="does not fit"):
        original_values(bad, schema, ["sex"])


def test_own_values_encode_to_the_codes_of_the_release(read):
    source, schema = read
    found = original_values(source, schema, ["age", "income", "born"])

    for name in found.column_names:
        column = schema.column(name)
        whole = found.column(name).combine_chunks()
        first = Encoder(column).encode(pa.array(whole.to_pylist(), whole.type))
        assert first.bad is None
        assert [int(code) for code in first.codes] == {
            "age": [1, 2, 0, 3],
            "income": [0, 2, 1, 2],
            "born": [40, 71, 62, 0],
        }[name]


def test_a_persons_rows_are_those_that_a_release_uses_though_bins_were_chosen_later(tmp_path):
    rng = np.random.default_rng(5)
    ages, jobs = rng.integers(0, 100, 600), rng.choice(list("abcd"), 600)
    rows = "".join(
        f"{i // 6},{age},{job}\n" for i, (age, job) in enumerate(zip(ages, jobs, strict=True))
    )
    (tmp_path / "data.csv").write_text(f"who,age,job\n{rows}")
    schema = parse_schema(
        {
            "version": "1",
            "title": "t",
            "unit": {"column": "who", "max_rows": "2"},
            "columns": {
                "age": {"type": "integer", "min": "0", "max": "99", "bins": {"private": "2"}},
                "job": {
                    "type": "category",
                    "levels": {"private": "1"},
                    "groups": {"x": ["a", "b"], "y": ["c", "d"]},
                },
            },
        }
    )
    source = open_source("data.csv", tmp_path, schema.reads, schema.ignore)
    store = write_codes(source, schema.stored, tmp_path / "codes")
    used = np.concatenate([store.read(chunk)[0] for chunk in range(store.chunks)])
    choices = {"age": Chosen((50,), ((0, 1), (50, 1))), "job": Chosen((1,))}
    found = original_values(source, with_choices(schema, choices), ["age"])
    assert found.column("age").to_pylist() == used.tolist()
