"""A type of column is one module: the type `time` of `added_time` works without another change."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.bundle.files.codebook import field
from dp_core.confidential.encoding import Encoder, rule_rows, settle_zeros
from dp_core.confidential.sources.common_types import is_readable, stored_type
from dp_core.errors import BadInput
from dp_core.inference.questions.question import threshold_condition
from dp_core.kernel.coding.problems import Problem
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.column_types import registry
from dp_core.schema.column_types.registry import column_type, words
from dp_core.schema.decoding import codes_of
from dp_core.schema.draft import draft_table
from dp_core.schema.expectations.suite import rules_of, suite_document
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.file_rules import file_rules
from dp_core.schema.rules.possible_codes import decode, with_possible_values
from tests.checked_files import check_frame
from tests.dp_core.schema.column_types.added_time import TYPE

ROOT = Path(__file__).parents[4]
SCHEMA = {
    "version": "1",
    "title": "shifts",
    "columns": {
        "start": {
            "type": "time",
            "min": "06:00",
            "max": "21:59",
            "bins": "16",
            "missing": "level",
            "out_of_range": "missing",
        },
        "end": {
            "type": "time",
            "min": "06:00",
            "max": "23:59",
            "edges": ["06:00", "12:00", "18:00", "24:00"],
        },
        "sex": {"type": "category", "levels": ["a", "b"]},
    },
    "rules": ["start <= end", "if sex == a then start >= 07:30", "end - start <= 600"],
    "impossible": [{"start": ">=20:00", "sex": "b"}],
}
READS_OTHER_FORMS = (
    "dp_core/schema/codebooks/",
    "dp_core/inspection/public_profile.py",
    "dp_core/kernel/",
)
"""What proposes types for the columns of a codebook or of public data; and the kernel, to whose few
kinds of values each type compiles its columns."""


@pytest.fixture(autouse=True)
def _added(monkeypatch):
    monkeypatch.setitem(registry._types(), "time", TYPE)
    registry.words.cache_clear()
    yield
    registry.words.cache_clear()


@pytest.fixture
def schema():
    return parse_schema(SCHEMA)


def test_the_file_is_read_from_texts_and_from_stored_times(schema):
    encoder = Encoder(schema.column("start"))
    of_texts = encoder.encode(pa.array(["06:30", "x", "", None, "23:00", "21:59:30"]))
    of_stored = encoder.encode(pa.array([6 * 3600, None, 22 * 3600 - 1], pa.time32("s")))

    assert of_texts.bad.tolist() == [False, True, False, False, False, False]
    assert of_texts.codes[~of_texts.bad].tolist() == [0, 16, 16, 16, 15]
    assert of_texts.problems == {Problem.MISSING: 2, Problem.RANGE: 1, Problem.TYPE: 1}
    assert of_stored.codes.tolist() == [0, 16, 15]


def test_decoded_times_have_their_codes_and_obey_the_rules(schema):
    rng = np.random.default_rng(1)
    codes = rng.integers(np.array(schema.domain.sizes)[:, None], size=(3, 500))
    data = Dataset(schema.domain, codes.astype(schema.domain.code_type))
    kept = ~schema.zeros.violations(data)
    data = Dataset(schema.domain, data.codes[:, kept])
    data = with_possible_values(schema, data, rng=rng)
    table = decode(schema, data, rng=rng).combine_chunks()
    arrays = {column.name: table[column.name].chunk(0) for column in schema.columns}
    found = [codes_of(column, arrays[column.name]) for column in schema.columns]
    units = {name: TYPE.values_in(arrays[name]).astype(np.int64) for name in ("start", "end")}

    assert data.rows > 100
    assert np.array_equal(np.stack(found), data.codes)
    rules = file_rules(schema)
    codes = dict(zip(schema.domain.columns, found, strict=True))
    rows = rule_rows(rules, codes, units)
    assert not any(rule.breaks(rows).any() for rule in rules.row_rules)
    assert settle_zeros(schema, codes, units) == []


def test_the_codebook_and_the_suite_describe_it(schema):
    described = field(schema.column("end"))
    stated = [each["kwargs"] for each in suite_document(schema)["expectations"]]
    (bounds,) = (each for each in stated if each["column"] == "end" and "min_value" in each)

    assert (described["type"], described["constraints"]["minimum"]) == ("time", "06:00")
    assert described["bins"][0]["label"] == "06:00 to 11:59"
    assert (bounds["min_value"], bounds["max_value"]) == (360, 1439)


def test_a_question_and_a_rule_compare_times_with_times_only(schema):
    assert threshold_condition(schema.column("end"), "<", "12:00").codes == (0,)
    with pytest.raises(BadInput, match="compare times with times, or with a time such as 07:30"):
        parse_schema(SCHEMA | {"rules": ["start <= 5"]})


def test_a_file_that_stores_it_is_readable():
    assert is_readable(pa.time64("us"))
    assert not is_readable(pa.duration("s"))


def test_the_storage_of_an_extension_type_is_read_only_if_it_has_the_values():
    def stored(name, kind):
        return stored_type(pa.field("x", kind, metadata={"ARROW:extension:name": name}))

    assert not is_readable(stored("pandas.period", pa.int64()))
    assert is_readable(stored("arrow.bool8", pa.int8()))
    assert is_readable(stored("wkt", pa.string()))
    assert stored_type(pa.field("x", pa.int64())) == pa.int64()


def test_the_check_of_a_file_says_how_it_is_written(schema):
    frame = pd.DataFrame({"start": ["7.30"], "end": ["09:00"], "sex": ["a"]})
    (found,) = (one for one in check_frame(frame, schema).findings if one.column == "start")

    assert found.kind == "unreadable"
    assert "HH:MM" in found.fix
    assert "date" not in found.fix


def test_a_set_of_its_values_is_compared_as_numbers():
    own = [{"expect_column_values_to_not_be_in_set": {"column": "end", "value_set": ["07:30"]}}]
    *_, rule = rules_of(parse_schema(SCHEMA | {"expectations": own}))

    assert (rule.kwargs["value_set"], rule.compares_texts) == ([450], False)


def test_periods_of_another_type_are_refused_with_its_own(monkeypatch):
    monkeypatch.setattr(type(TYPE), "periods", ("hour",))
    wrong = SCHEMA["columns"]["start"] | {"bins": "year"}
    with pytest.raises(BadInput, match="'year' is for dates; write hour"):
        parse_schema(SCHEMA | {"columns": SCHEMA["columns"] | {"start": wrong}})


def test_a_draft_proposes_it_and_shows_an_example():
    text = draft_table("shifts", [("start", pa.time32("s"))])

    assert "#   {type: time, min: 00:00" in text
    assert "  start:\n    type: time\n" in text


def test_the_page_of_schemas_names_every_type_and_its_keys():
    page = (ROOT / "docs/schema.md").read_text(encoding="utf-8")

    for word in set(words()) - {"time"}:
        assert f"`{word}`" in page
        assert [key for key in column_type(word).keys if f"`{key}`" not in page] == []


def test_no_module_asks_whether_a_column_is_of_a_concrete_type():
    known = {*words()}
    found = []
    for path in sorted(ROOT.glob("dp_core/**/*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(READS_OTHER_FORMS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and ".kind" in ast.unparse(node.left):
                sides = [each for side in node.comparators for each in ast.walk(side)]
                named = {each.value for each in sides if isinstance(each, ast.Constant)}
                if named & known:
                    found.append(f"{name}:{node.lineno}")

    assert found == []
