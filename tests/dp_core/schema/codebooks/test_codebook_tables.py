"""Cells of a codebook in CSV are read as meant, or the draft says that they are not."""

from pathlib import Path

import pytest

from dp_core.documents.strict_yaml import Document, parse
from dp_core.errors import BadInput
from dp_core.schema.codebooks.codebook_draft import draft_from_codebook
from dp_core.schema.codebooks.codebook_file import read_codebook
from dp_core.schema.codebooks.level_list import doubt_of, split_levels
from dp_core.schema.reading.schema_file import parse_schema

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
        ("0=; 1=once", {"0": "", "1": "once"}),
    ],
)
def test_a_list_of_levels_is_read_as_meant_and_without_a_doubt(cell, levels):
    assert dict(split_levels(cell)) == levels
    assert doubt_of(cell, split_levels(cell)) == ""


def test_levels_with_signs_come_through_the_draft(tmp_path):
    column = column_of(draft_of(tmp_path, "income,Income,category,<=50K; >50K,,,"))

    assert [level.text for level in column.levels] == ["<=50K", ">50K"]


@pytest.mark.parametrize(
    "cell", ["male/female", "male / female", "female male", "1=male 2=female", "0 - 9; 10 - 19"]
)
def test_a_list_that_may_be_meant_otherwise_gets_a_comment(cell, tmp_path):
    text = draft_of(tmp_path, f"sex,Sex,category,{cell},,,")

    (comment,) = [line for line in text.splitlines() if line.startswith("  # ")]
    assert cell in comment
    assert "1 of 1 columns are to be completed: sex." in text


def test_a_number_with_labelled_codes_keeps_its_type_and_bounds(tmp_path):
    text = draft_of(tmp_path, "age,Age,integer,97=refused; 99=unknown,12,18,")

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
    ],
)
def test_codes_make_a_category_if_they_are_all_values_between_the_bounds(row, kind, asks, tmp_path):
    text = draft_of(tmp_path, row)

    assert column_of(text).kind == kind
    assert ("missing? If so" in text) == asks


def test_a_row_with_more_fields_than_the_header_is_refused_by_its_line(tmp_path):
    with pytest.raises(BadInput) as caught:
        draft_of(tmp_path, 'note,"two\nlines",text,,,,', "sex,Sex,category,1=male, 2=female,,,")

    assert "c.csv, line 4: has 8 fields, the header 7" in caught.value.message
    assert "min: 0, max: 9" in draft_of(tmp_path, "age,Age,integer,,0,9")  # fewer are blank
