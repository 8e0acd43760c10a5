"""Code lists: read, grouped by public rule, kept by content, and refused with a sentence."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dp_core.confidential.encoding import Encoder
from dp_core.errors import BadInput
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.definition import Level
from dp_core.schema.reading.domain_reader import groups_of_codes
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.schema.reading.schema_file import load_schema, parse_schema
from dp_core.schema.rules.possible_codes import decode
from tests.schema_texts import assert_reads_back

TRADES = """\
code,label,parent,note
A,Farming,,n1
A1,Crops,A,
A11,"Wheat, rye",A1,
A12,Maize,A1,
A2,Animals,A,
A21,Cattle,A2,
B,Trade,,
B1,Shops,B,
B11,Food,B1,
B12,Books,B1,
"""


def schema_of(folder, column="{type: category, codes: trades.csv}", trades=TRADES):
    (folder / "trades.csv").write_text(trades)
    (folder / "s.yaml").write_text(f"version: 1\ntitle: t\ncolumns:\n  trade: {column}\n")
    return load_schema(folder / "s.yaml")


def refusal(folder, column="{type: category, codes: trades.csv}", trades=TRADES):
    with pytest.raises(BadInput) as caught:
        schema_of(folder, column, trades)
    assert len(caught.value.message) < 400
    return caught.value.message


def levels(schema):
    return {level.text: texts for level, texts in zip_levels(schema.column("trade"))}


def zip_levels(column):
    return zip(column.levels, column.stands_for, strict=True)


def test_without_a_group_every_code_is_a_level(tmp_path):
    column = schema_of(tmp_path).column("trade")

    assert column.size == 10
    assert column.levels[2] == Level("A11", "Wheat, rye")
    assert column.stands_for[2] == ("A11",)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("1", {"A": ("A", "A1", "A11", "A12", "A2", "A21"), "B": ("B", "B1", "B11", "B12")}),
        ("2", {"A1": ("A1", "A11", "A12"), "A2": ("A2", "A21"), "B1": ("B1", "B11", "B12")}),
        (
            "{depth: 1, keep: [A1, B12]}",
            {
                "A": ("A", "A2", "A21"),
                "A1": ("A1", "A11", "A12"),
                "B": ("B", "B1", "B11"),
                "B12": ("B12",),
            },
        ),
        # A code that is kept above the groups takes only what no group below it does.
        (
            "{depth: 2, keep: [B]}",
            {
                "A1": ("A1", "A11", "A12"),
                "A2": ("A2", "A21"),
                "B": ("B",),
                "B1": ("B1", "B11", "B12"),
            },
        ),
    ],
)
def test_codes_become_their_groups(tmp_path, group, expected):
    schema = schema_of(tmp_path, f"{{type: category, codes: trades.csv, group: {group}}}")

    assert levels(schema) == expected


def test_values_of_the_file_become_groups_and_come_back_as_their_labels(tmp_path):
    schema = schema_of(tmp_path, "{type: ordinal, codes: trades.csv, group: 2, missing: level}")
    found = Encoder(schema.column("trade")).encode(pa.array(["B12", "A1", "A21", None, "B", "C"]))

    # A heading above the groups is none of them, and C is no code at all.
    assert found.codes.tolist() == [2, 0, 1, 3, 0, 0]
    assert found.bad is not None
    assert found.bad.tolist() == [False, False, False, False, True, True]
    data = Dataset(schema.domain, np.array([[2, 0, 1, 3]], dtype=np.uint16))
    written = decode(schema, data, rng=np.random.default_rng(1)).column("trade").to_pylist()
    assert written == ["Shops", "Crops", "Animals", None]


def test_the_document_holds_the_list_and_needs_no_file(tmp_path):
    schema = schema_of(
        tmp_path, "{type: category, codes: trades.csv, group: {depth: 1, keep: [A1]}}"
    )
    (tmp_path / "trades.csv").unlink()
    assert_reads_back(schema)
    assert "Wheat, rye" in schema.document["columns"][0]["trade"]["codes"]["csv"]


def test_any_change_of_the_list_changes_the_hash(tmp_path):
    hashes = {
        schema_hash(schema_of(tmp_path, column, trades))
        for column, trades in (
            ("{type: category, codes: trades.csv}", TRADES),
            ("{type: category, codes: trades.csv}", TRADES.replace("Maize", "Corn")),
            ("{type: category, codes: trades.csv}", TRADES.replace("Maize,A1", "Maize,A2")),
            ("{type: category, codes: trades.csv, group: 1}", TRADES),
            ("{type: category, codes: trades.csv, group: {depth: 1, keep: [A1]}}", TRADES),
        )
    }

    assert len(hashes) == 5


def test_a_label_that_several_levels_have_gets_its_code_in_front(tmp_path):
    column = schema_of(tmp_path, trades=TRADES.replace("Crops", "Farming")).column("trade")

    assert [level.label for level in column.levels[:3]] == ["A Farming", "A1 Farming", "Wheat, rye"]


def test_levels_form_groups_by_the_hierarchy(tmp_path):
    schema = schema_of(
        tmp_path, "{type: category, codes: trades.csv, group: {depth: 2, keep: [A]}}"
    )

    assert groups_of_codes(schema.column("trade"), {}) == {"Farming": (0, 1, 2), "Trade": (3,)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("code,label", "key,label"), "the first line must name the columns code and label"),
        (("A12,Maize", "A11,Maize"), "line 5: code 'A11' is given twice, first on line 4."),
        (("Maize,A1", "Maize,A9"), "line 5: the parent 'A9' of code 'A12'"),
        (("A,Farming,", "A,Farming,A11"), "code 'A'"),
        (("A12,Maize", ",Maize"), "line 5: "),
        (('"Wheat, rye"', "Wheat, rye"), "line 4: has 5 values"),
        (('"Wheat, rye"', '"Wheat'), "CSV"),
        ((TRADES, ""), "is empty"),
        ((TRADES, "code,label\n"), "lists no code"),
        ((TRADES, "code;label\nA;b\n"), "separate the columns by commas"),
        (("code,label,parent,note", "code,label,parent,code"), "two columns are named 'code'"),
    ],
)
def test_a_bad_list_is_refused_with_its_line(tmp_path, change, said):
    message = refusal(tmp_path, trades=TRADES.replace(*change))

    assert message.startswith("trades.csv")
    assert said in message


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("{type: category, codes: trade.csv}", "Did you mean 'trades.csv'?"),
        ("{type: category, codes: trades.csv, levels: [A]}", "give levels or codes, not both"),
        ("{type: category, levels: [A], group: 1}", "codes: FILE.csv"),
        ("{type: integer, min: 0, max: 9, codes: trades.csv}", "type category"),
        ("{type: category, codes: trades.csv, group: 4}", "must be at most 3"),
        ("{type: category, codes: trades.csv, group: 0}", "must be at least 1"),
        ("{type: category, codes: trades.csv, group: {keep: [A]}}", "'depth' is missing"),
        ("{type: category, codes: trades.csv, group: {depth: 1, keep: [A3]}}", "keep: 'A3' is not"),
        ("{type: category, codes: trades.csv, missing_values: [A11]}", "and a missing value"),
        ("{type: category, codes: trades.csv, missing_values: [Maize]}", "and a missing value"),
        ("{type: category, codes: [A, B]}", "must be a single value"),
    ],
)
def test_a_column_that_uses_a_list_wrongly_is_refused(tmp_path, column, said):
    message = refusal(tmp_path, column)

    assert message.startswith("s.yaml, line 4")
    assert said in message


def test_codes_of_unequal_depth_are_refused_until_they_are_kept(tmp_path):
    trades = TRADES + "C,Other,,\n"

    message = refusal(tmp_path, "{type: category, codes: trades.csv, group: 2}", trades)

    assert "code 'C' is at depth 1" in message
    kept = schema_of(
        tmp_path, "{type: category, codes: trades.csv, group: {depth: 2, keep: [C]}}", trades
    )
    assert levels(kept)["C"] == ("C",)


def test_a_list_without_parents_has_no_groups(tmp_path):
    message = refusal(
        tmp_path, "{type: category, codes: trades.csv, group: 1}", "code,label\nA,a\n"
    )

    assert "groups need a hierarchy" in message


def test_a_list_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "trades.csv").write_bytes(b"code,label\nA,caf\xe9\n")
    (tmp_path / "s.yaml").write_text(
        "version: 1\ntitle: t\ncolumns:\n  trade: {type: category, codes: trades.csv}\n"
    )

    with pytest.raises(BadInput, match=r"trades\.csv, line 2: is not UTF-8"):
        load_schema(tmp_path / "s.yaml")


def test_a_document_names_no_file():
    columns = {"x": {"type": "category", "codes": "trades.csv"}}

    with pytest.raises(BadInput, match="no folder"):
        parse_schema({"version": 1, "title": "t", "columns": columns})


def test_identifiers_are_neither_read_nor_released():
    schema = parse_schema(
        {
            "version": 1,
            "title": "t",
            "ignore": ["weight"],
            "columns": {"x": {"type": "category", "levels": ["a"]}, "key": {"role": "id"}},
        }
    )

    assert schema.domain.columns == ("x",)
    assert schema.ignore == ("weight", "key")
    assert parse_schema(schema.document) == schema


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"key": {"role": "id"}}, "no column"),
        ({"key": {"role": "id", "levels": ["a"]}}, "neither read nor released"),
        ({"key": {"role": "key"}}, "'key' is not one of id, weight"),
    ],
)
def test_identifiers_that_say_more_are_refused(columns, said):
    with pytest.raises(BadInput, match=said):
        parse_schema({"version": 1, "title": "t", "columns": columns})
