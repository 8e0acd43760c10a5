"""Cells of a codebook in CSV are read as meant, or the draft says that they are not."""

from pathlib import Path

import pytest

from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook_draft import draft_from_codebook
from dp_core.schema.codebooks.codebook_file import read_codebook
from dp_core.schema.codebooks.codebook_table import doubt_of, read_plain_json, split_levels
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.strict_yaml import Document, parse

HEADER = "variable,label,type,values,min,max,missing"


def draft_of(folder: Path, *rows: str, header: str = HEADER) -> str:
    """Return the draft from a codebook of these rows."""
    path = folder / "c.csv"
    path.write_text("\n".join((header, *rows, "")), encoding="utf-8")
    return draft_from_codebook(read_codebook(path))


def column_of(text: str):
    """Return the first column of a draft with a title."""
    titled = text.replace("title: ", "title: Panel ", 1)
    return parse_schema(Document(Path("s.yaml"), parse(titled, source="s.yaml"))).columns[0]


@pytest.mark.parametrize(
    ("cell", "levels"),
    [
        ("<=50K; >50K", {"<=50K": "", ">50K": ""}),
        ("<=5; 6; 7; >=8", {"<=5": "", "6": "", "7": "", ">=8": ""}),
        ("<=5, 6, 7, >=8", {"<=5": "", "6": "", "7": "", ">=8": ""}),
        ("<=50K | >50K", {"<=50K": "", ">50K": ""}),
        ("!=5; =5", {"!=5": "", "=5": ""}),
        ("<=50K=up to 50K; >50K=over 50K", {"<=50K": "up to 50K", ">50K": "over 50K"}),
        ("1=<=50K; 2=>50K", {"1": "<=50K", "2": ">50K"}),
        ('"<=50K"=low; ">50K"=high', {"<=50K": "low", ">50K": "high"}),
        ('"a=b"; "c;d"=both; e', {"a=b": "", "c;d": "both", "e": ""}),
        ('"6,7", "8"', {"6,7": "", "8": ""}),
        ("'1'=male; '2'=female", {"1": "male", "2": "female"}),
        ("don't; won't", {"don't": "", "won't": ""}),
        ('5"; 6"', {'5"': "", '6"': ""}),
        ("1 - male / 2 - female", {"1": "male", "2": "female"}),
        ("1 - male | 2 - female", {"1": "male", "2": "female"}),
        ("male | female", {"male": "", "female": ""}),
        ("1=a|b; 2=c", {"1": "a|b", "2": "c"}),
        ("1 => male; 2 => female", {"1": "male", "2": "female"}),
        ("1=yes, always, 2=no", {"1": "yes, always", "2": "no"}),
        ("0–9; 10–19", {"0–9": "", "10–19": ""}),
        ("08:00-12:00; 12:00-16:00", {"08:00-12:00": "", "12:00-16:00": ""}),
        ("1, a=b | 2, I agree, fully", {"1": "a=b", "2": "I agree, fully"}),
        ("0=; 1=once", {"0": "", "1": "once"}),
    ],
)
def test_a_list_of_levels_is_read_as_meant_and_without_a_doubt(cell, levels):
    assert dict(split_levels(cell)) == levels
    assert doubt_of(cell, split_levels(cell)) == ""


@pytest.mark.parametrize(
    "cell", ["male/female", "male / female", "female male", "1=male 2=female", "0 - 9; 10 - 19"]
)
def test_a_list_that_may_be_meant_otherwise_gets_a_comment(cell, tmp_path):
    text = draft_of(tmp_path, f"sex,Sex,category,{cell},,,")

    (comment,) = [line for line in text.splitlines() if line.startswith("  # ")]
    assert cell in comment
    assert "To complete (1 of 1 columns): sex." in text


@pytest.mark.parametrize(
    "cells", ["97=refused; 99=unknown,12,18", "12-18; 97=refused; 99=unknown,,"]
)
def test_a_number_with_labelled_codes_keeps_its_type_and_bounds(cells, tmp_path):
    text = draft_of(tmp_path, f"age,Age,integer,{cells},")

    column = column_of(text)
    assert (column.kind, column.minimum, column.maximum) == ("integer", 12, 18)
    assert "# do 97 (refused), 99 (unknown) mean missing?" in text
    assert 'missing_values: ["", "97", "99"]' in text


@pytest.mark.parametrize(
    ("row", "kind", "asks"),
    [
        ("age,Age,number,-1=refused,0,99.5,", "number", True),
        ("days,Days,integer,0=none; 30=all,0,30,", "integer", True),
        ("sex,Sex,integer,1=male; 2=female,1,2,", "category", False),
        ("sex,Sex,integer,1=male; 2=female,,,", "category", False),
        ("sex,Sex,integer,1=male; 2=female; 9=refused,1,2,", "category", True),
        ("age,Age,integer,12-17; 18-64,,,", "category", False),
    ],
)
def test_codes_make_a_category_if_they_are_all_values_between_the_bounds(row, kind, asks, tmp_path):
    text = draft_of(tmp_path, row)

    assert column_of(text).kind == kind
    assert ("missing? If so" in text) == asks


def test_a_row_with_more_fields_than_the_header_is_refused_by_its_line(tmp_path):
    with pytest.raises(BadInput) as caught:
        draft_of(tmp_path, 'note,"two\nlines",text,,,,', "sex,Sex,category,1=male, 2=female,,,")

    assert "Line 4 of c.csv has 8 fields, but the header has 7." in caught.value.message
    assert "min: 0, max: 9" in draft_of(tmp_path, "age,Age,integer,,0,9")  # fewer are blank


@pytest.mark.parametrize(
    ("row", "comments"),
    [
        ('h,H,number,,"1,2",2,', ["min: # the codebook has '1,2', not a number, such as 0.5"]),
        ('i,I,number,,0,"1,000,000",', ["max: # the codebook has '1,000,000', not a number"]),
        ("a,A,integer,,twelve,1.5,", ["min: # the codebook has 'twelve', not a whole number of"]),
        ("b,B,date,,01.02.1990,01/02/2020,", ["max: # the codebook has '01/02/2020', not a"]),
        ("c,C,integer,,0.0,1e2,", ["max: # the codebook has '1e2', not a whole number of at"]),
        (
            "a,A,integer,,18,12,",
            [f"{end}: # the codebook has min '18' and max '12'; min must not be larger"
             for end in ("min", "max")],
        ),
        ('x,X,,,"1,2",2,', ["min: # the codebook has '1,2'", "max: # the codebook has '2'"]),
    ],
)  # fmt: skip
def test_a_bound_that_cannot_be_read_is_named_with_the_rule(row, comments, tmp_path):
    lines = [" ".join(line.split()) for line in draft_of(tmp_path, row).splitlines()]

    for comment in comments:
        assert any(comment in line for line in lines)


def test_headings_that_are_not_read_are_named(tmp_path):
    text = draft_of(tmp_path, "age,Alter,int,0-9", header="variable,Bezeichnung,Typ,Werte")

    assert "# Not read: Bezeichnung, Typ, Werte." in text.splitlines()
    path = tmp_path / "c.json"
    path.write_text('[{"name": "age", "kind": "integer", "low": 0, "top": 9}]')
    assert "# Not read: top." in draft_from_codebook(read_codebook(path)).splitlines()
    assert "Not read" not in draft_of(tmp_path, "age,Age,integer,,0,9,")


def test_a_variable_that_is_described_twice_is_refused_unless_the_rows_agree(tmp_path):
    one, other = "age,Age,integer,,0,99,", "age,Age,integer,,12,18,"

    with pytest.raises(BadInput, match="line 3: describes 'age' again, with another min than line"):
        draft_of(tmp_path, one, other)
    assert "min: 0, max: 99" in draft_of(tmp_path, one, one)


def test_levels_may_stand_in_several_rows_of_a_variable(tmp_path):
    text = draft_of(tmp_path, "sex,Sex,category,1=male,,,", ",,,2=female,,,")

    assert [level.label for level in column_of(text).levels] == ["male", "female"]


def test_a_repeated_column_of_json_is_named_in_the_draft(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(
        '[{"name": "a", "min": 0, "max": 9}, {"name": "a", "min": 0, "max": 5},'
        ' {"name": "b", "min": 0, "max": 9}, {"name": "b", "min": 0, "max": 9}]'
    )

    assert "the first is used: a." in draft_from_codebook(read_codebook(path))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("w,W,weight,,0,5,", "type: number, role: weight, min: 0, max: 5"),
        ("i,I,id,,,,", "{role: id,"),
        ("i,I,identifier,,,,", "{role: id,"),
        ("a,A,integer(4),,0,9,", "type: integer, min: 0, max: 9"),
        ("a,A,intger,,0,9,", "# the codebook's type 'intger' is unknown. Did you mean 'integer'?"),
        ("a,A,Zahl,,0,9,", "# the codebook's type 'Zahl' is unknown."),
    ],
)
def test_types_of_other_tools_are_known_or_named(row, words, tmp_path):
    assert words in draft_of(tmp_path, row)


def test_a_time_of_day_is_no_date(tmp_path):
    assert "Did you mean" not in draft_of(tmp_path, "t,T,time,,,,")


def test_nullable_is_the_opposite_of_required(tmp_path):
    header = "variable,type,min,max,nullable"

    assert "missing: level" in draft_of(tmp_path, "age,integer,0,9,yes", header=header)
    assert "missing: level" not in draft_of(tmp_path, "age,integer,0,9,no", header=header)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("text", ["variable,label\nage,Größe\n", '{"columns": "ä"}'])
def test_a_codebook_that_is_not_utf_8_is_refused_without_a_row_about_data(encoding, text, tmp_path):
    (tmp_path / "c.csv").write_bytes(text.encode(encoding))

    with pytest.raises(BadInput, match=r"is not UTF-8.*[Ss]ave it as UTF-8") as caught:
        read_codebook(tmp_path / "c.csv")
    assert caught.value.row is None


def test_xml_may_be_utf_16(tmp_path):
    (tmp_path / "c.xml").write_bytes('<?xml version="1.0"?><html/>'.encode("utf-16"))

    with pytest.raises(BadInput, match="not DDI"):
        read_codebook(tmp_path / "c.xml")


@pytest.mark.parametrize(
    ("row", "levels"),
    [
        ("q,Q,ordinal,,1,5,", 5),
        ("q,Q,category,1-500,,,9", 499),
    ],
)
def test_codes_between_bounds_are_levels_of_a_category(row, levels, tmp_path):
    assert len(column_of(draft_of(tmp_path, row)).levels) == levels


def test_more_codes_than_a_person_reads_are_left_to_state(tmp_path):
    assert "levels:        # [the file's texts]" in draft_of(tmp_path, "q,Q,category,1-5000,,,")


def test_a_list_of_levels_that_lacks_codes_between_the_bounds_gets_a_comment(tmp_path):
    text = draft_of(tmp_path, "q,Q,ordinal,1=bad; 5=good,1,5,4")

    assert "  # min and max allow 2, 3, which the codebook's list of levels lacks" in text


def test_a_text_with_a_bound_is_not_ignored(tmp_path):
    text = draft_of(tmp_path, 'age,Age,text,,18,"1,20",')

    assert "max:           # the codebook has '1,20'" in text
    assert "ignore: []" in text


def test_the_formula_of_a_computed_field_is_no_list_of_levels(tmp_path):
    text = draft_of(tmp_path, 'bmi,BMI,calc,"round([w]/([h]*[h]),1)",10,60,')

    assert "bmi: {type: number, min: 10, max: 60" in text


def test_json_keys_of_a_single_level_say_nothing_of_a_variable():
    columns = [
        {"name": "age", "min": "0", "max": "99", "type": "integer", "category": "About"},
        {"name": "q", "type": "category", "levels": ["0", "1"], "values": ["a", "b"], "code": "Q"},
        {"name": "w", "type": "integer", "min": "1", "max": "5", "missing": ["9", "n/a, no"]},
    ]
    book = read_plain_json({"columns": columns}, "book.json")
    age, q, w = book.variables
    assert (age.kind, age.levels) == ("integer", ())
    assert [level.text for level in q.levels] == ["0", "1"]
    assert {"9", "n/a, no"} <= {*w.missing_values}
    assert {"category", "code"} <= {*book.unread}
