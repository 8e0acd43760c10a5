import datetime
import gzip
import os
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.confidential.encoding import Encoder
from dp_core.errors import BadInput, SchemaViolation
from dp_core.inspection.column_tally import MOST_TEXTS
from dp_core.inspection.findings import EXAMPLES
from tests.checked_files import check_files, check_frame
from tests.schema_texts import column, read

MANY = 50


def found_in(definition, values, extra=""):
    """Return what is found in a frame of one column, by kind."""
    check = check_frame(pd.DataFrame({"age": values}), read(column(definition, extra=extra)))
    assert len({(one.severity, one.kind) for one in check.findings}) == len(check.findings)
    return {one.kind: one for one in check.findings}


def texts(finding):
    return {one.text: one.rows for one in finding.examples}


SEX = "{type: category, levels: {1: male, 2: female}}"


@pytest.mark.parametrize(
    ("value", "kind", "fix"),
    [
        ("male", "labels", "Write '1' in these rows too"),
        ("NA", "missing-codes", 'missing_values: ["", "NA"]'),
        ("-9", "missing-codes", 'missing_values: ["", "-9"]'),
        (".", "missing-codes", 'missing_values: ["", "."]'),
        ("3", "levels", "from public knowledge"),
    ],
)
def test_a_text_that_is_no_level_is_told_why_and_counted(value, kind, fix):
    finding = found_in(SEX, ["1", "2", value, value])[kind]

    assert (finding.severity, finding.rows, finding.column) == ("refusal", 2, "age")
    assert fix in finding.fix
    assert texts(finding) == {repr(value): 2}


def test_spaces_around_a_level_that_is_no_number_are_found():
    finding = found_in("{type: category, levels: [a, b]}", ["a", "b", "a "])["spaces"]

    assert (finding.severity, finding.fix) == ("refusal", "Remove the spaces in the file.")


@pytest.mark.parametrize(
    ("levels", "values", "mend"),
    [
        ("[female male]", ["male", "female", "male"], "write `female, male` if"),
        ("[not married married, other]", ["married", "not married", "other"], "`not married, ma"),
    ],
)
def test_a_level_that_joins_texts_of_the_file_asks_for_a_comma(levels, values, mend):
    found = found_in(f"{{type: category, levels: {levels}}}", values)

    assert "Is a comma missing?" in found["comma"].fix
    assert mend in found["comma"].fix
    assert "levels" not in found


def test_a_level_of_which_one_word_occurs_is_not_taken_for_several():
    found = found_in("{type: category, levels: [not married]}", ["married", "not married"])
    assert "comma" not in found


@pytest.mark.parametrize(
    ("raw", "kind", "line"),
    [
        (b"age\n1\n\n2,3\n4,5\n", "damaged", "line 4"),
        (b'\xef\xbb\xbfage\n"1\n"\n2,3\n', "damaged", "line 4"),
        (b"age\n1\n\xfc\n", "encoding", "line 3"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_rows_that_cannot_be_read_are_one_finding_with_its_line(packed, raw, kind, line, tmp_path):
    path = tmp_path / ("f.csv.gz" if packed else "f.csv")
    path.write_bytes(gzip.compress(raw) if packed else raw)

    check = check_files([str(path)], read(column("{type: integer, min: 0, max: 9}")))

    (finding,) = check.findings
    assert (finding.severity, finding.kind) == ("refusal", kind)
    assert line in f"{finding.message} {finding.examples[0].text}"


def test_other_capital_letters_and_near_levels_are_named():
    regions = "{type: category, levels: [North, South]}"

    assert "'North'" in found_in(regions, ["north", "South"])["case"].fix
    assert "'South'" in found_in(regions, ["Sooth", "South"])["levels"].fix


@pytest.mark.parametrize(
    ("values", "kind", "fix"),
    [
        (["1,5", "2"], "decimal-comma", "decimal points"),
        (["1,500", "2"], "thousands", "thousands"),
        (["1.234,5", "2"], "thousands", "thousands"),
        (["12 kg", "2"], "unit", "unit"),
        (["$12", "2"], "unit", "unit"),
        (["?", "2"], "missing-codes", 'missing_values: ["", "?"]'),
        (["abc", "2"], "unreadable", "type: category"),
        (["12 %", "2"], "unit", "unit"),
        (["12€", "2"], "unit", "unit"),
        (["(12)", "2"], "brackets", "as in -12"),
        (["7-", "2"], "brackets", "as in -12"),
        (["90+", "2"], "open-ended", "type: ordinal"),
        (["<5", "2"], "open-ended", "type: ordinal"),
        (["10-14", "2"], "open-ended", "type: ordinal"),
        (["65 and over", "2"], "open-ended", "type: ordinal"),
        (["'3'", "2"], "quotes", "quotation marks"),
        (['"3', "2"], "quotes", "quotation marks"),
        (["3\0", "2"], "control", "control characters"),
        (["\u22125", "2"], "characters", "ASCII"),
        (["1\u00a0234", "2"], "thousands", "thousands"),
        (["1\u202f234,5", "2"], "thousands", "thousands"),
        (["12\u00a0kg", "2"], "unit", "unit"),
        (["1\u00a0234,50 \u20ac", "2"], "unit", "unit"),
        (["-$12", "2"], "unit", "unit"),
        (["#7", "2"], "unreadable", "type: category"),
    ],
)
def test_a_text_that_is_no_number_is_told_why(values, kind, fix):
    found = found_in("{type: number, min: 0, max: 9999, bins: 4}", values)

    assert fix in found[kind].fix
    assert ("one unit" in found[kind].fix) == (kind == "unit")
    assert texts(found[kind]) == {(ascii if kind == "characters" else repr)(values[0]): 1}


def test_decimals_in_whole_numbers_ask_for_the_type_number():
    found = found_in("{type: integer, min: 0, max: 9}", ["1.5", "2"])
    assert "type: number" in found["fractions"].fix


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        (["31.12.2020", "01.02.2021"], ["%d.%m.%Y"]),
        (["12/31/2020"], ["%m/%d/%Y"]),
        (["01/02/2020"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["20201231"], ["%Y%m%d"]),
    ],
)
def test_dates_get_the_formats_that_fit_all_of_them(values, formats):
    found = found_in("{type: date, min: 1990-01-01, max: 2030-12-31, bins: year}", values)
    assert [form for form in ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d") if form in
            found["dates"].fix] == formats  # fmt: skip


def test_a_format_that_the_check_proposes_makes_the_file_fit():
    definition = "{type: date, min: 1990-01-01, max: 2030-12-31, bins: year%s}"
    values = ["31.12.2020", "01.02.2021"]

    assert "dates" in found_in(definition % "", values)
    assert "dates" not in found_in(definition % ', format: "%d.%m.%Y"', values)


def test_values_out_of_range_show_the_ends_and_the_likely_code_for_missing():
    found = found_in("{type: integer, min: 0, max: 99}", [*range(50), 999, 999, -9])
    finding = found["out-of-range"]

    assert finding.rows == 3
    assert "-9 to 999" in finding.message
    assert texts(finding) == {"999": 2, "-9": 1}
    assert '"999"' in finding.fix
    assert "means missing" not in found_in("{type: integer, min: 0, max: 80}", [75, 80, 88])[
        "out-of-range"].fix  # fmt: skip


def test_a_missing_value_is_settled_by_a_level_of_its_own():
    values = ["1", "", None]

    assert found_in("{type: integer, min: 0, max: 9}", values)["missing"].severity == "refusal"
    settled = found_in("{type: integer, min: 0, max: 9, missing: level}", values)["missing"]
    assert (settled.severity, settled.rows) == ("settled", 2)


def test_rows_that_break_a_rule_are_shown_with_their_values():
    text = (
        "version: 1\ntitle: t\ncolumns:\n"
        "  age: {type: integer, min: 0, max: 99, edges: [0, 15, 100]}\n"
        "  status: {type: category, levels: [single, married]}\n"
        "impossible:\n  - {age: '<15', status: married}\n"
    )
    frame = pd.DataFrame({"age": [20, 3, 200, 4], "status": ["married"] * 3 + ["single"]})

    (rule,) = [one for one in check_frame(frame, read(text)).findings if one.kind == "impossible"]

    assert rule.rows == 1  # the row with age 200 is not counted: its value is not in the schema
    assert [one.text for one in rule.examples] == ["row 2: age 3, status married"]


def test_a_rule_is_checked_although_another_column_is_absent_or_wrong():
    text = (
        "version: 1\ntitle: t\ncolumns:\n"
        "  age: {type: integer, min: 0, max: 99, edges: [0, 15, 100]}\n"
        "  status: {type: category, levels: [single, married]}\n"
        "  sex: {type: category, levels: [m, f]}\n"
        "  town: {type: category, levels: [a, b]}\n"
        "impossible:\n  - {age: '<15', status: married}\n"
    )
    frame = pd.DataFrame({"age": [3], "status": ["married"], "sex": ["x"]})

    kinds = {one.kind for one in check_frame(frame, read(text)).findings}

    assert kinds == {"impossible", "levels", "column-missing"}


def test_integers_that_no_double_tells_apart_are_two_values():
    schema = read(column(f"{{type: integer, min: 0, max: {2**53 + 3}, bins: 3}}"))
    frame = pd.DataFrame({"age": [2**53, 2**53 + 1] * MANY})

    assert "constant" not in {one.kind for one in check_frame(frame, schema).findings}


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_bin_of_one_value_causes_no_hint(kind):
    last = 1001 if kind == "integer" else 1000
    schema = read(column(f"{{type: {kind}, min: 0, max: 1000, edges: [0, 1, 500, {last}]}}"))
    frame = pd.DataFrame({"age": [0] * 99 * MANY + [7, 300, 501, 999] * (MANY // 4)})

    assert "one-bin" not in {one.kind for one in check_frame(frame, schema).findings}


@pytest.mark.parametrize(
    ("definition", "values", "kind"),
    [
        ("{type: integer, min: 0, max: 24611, bins: 20}", [5, 7, 900, 20000] * MANY, "category"),
        ("{type: category, levels: [a, b]}", ["a"] * MANY, "constant"),
        ("{type: integer, min: 0, max: 9}", [3] * MANY, "constant"),
        ("{type: category, levels: [a, b, c]}", ["a", "b"] * MANY, "unused-levels"),
        ("{type: number, min: 0, max: 1000, bins: 2}", np.linspace(0, 99, MANY), "one-bin"),
        ("{type: integer, min: 0, max: 100000, bins: 9}", list(range(MANY * 3)), "identifier"),
        ("{type: integer, min: 0, max: 1000, bins: 9}", [*range(40)] * 3 + [999] * 2,
         "missing-codes"),
    ],
)  # fmt: skip
def test_a_hint_does_not_stop_a_release(definition, values, kind):
    schema = read(column(definition))
    check = check_frame(pd.DataFrame({"age": values}), schema)

    assert check.fits
    assert [one.severity for one in check.findings if one.kind == kind] == ["hint"]
    few = check_frame(pd.DataFrame({"age": values[:3]}), schema)
    assert few.findings == ()


def test_an_ordinary_column_gets_no_hint():
    values = np.random.default_rng(1).integers(0, 80, 5000)
    assert check_frame(
        pd.DataFrame({"age": values}), read(column("{type: integer, min: 0, max: 79}"))
    ).findings == ()  # fmt: skip


def test_an_identifier_as_category_is_recognised_and_its_texts_are_bounded():
    values = pa.array([f"person {number}" for number in range(MOST_TEXTS + 500)])
    check = check_frame(pa.table({"age": values}), read(column("{type: category, levels: [a]}")))
    found = {one.kind: one for one in check.findings}

    assert "role: id" in found["identifier"].fix
    assert found["levels"].rows == len(values)
    assert len(found["levels"].examples) == EXAMPLES


def test_a_column_under_another_spelling_is_named_and_its_values_are_checked(tmp_path):
    (tmp_path / "f.csv").write_text(" AGE \n200\n")
    check = check_files(["f.csv"], read(column("{type: integer, min: 0, max: 99}")), tmp_path)
    found = {one.kind: one for one in check.findings}

    assert set(found) == {"column-name", "out-of-range"}
    assert "' AGE '" in found["column-name"].message


def test_separators_and_encodings_are_named_with_the_command_that_mends_them(tmp_path):
    schema = read(column("{type: category, levels: [a, b]}", extra="ignore: [x]\n"))
    for name, raw, part in (
        ("s.csv", b"age;x\na;1\n", "semicolons"),
        ("t.csv", b"age\tx\na\t1\n", "tabs"),
        ("u.csv", "age,x\na,1\n".encode("utf-16"), "iconv -f utf-16"),
        ("l.csv", b"age,x\na,1\nb\xe9,2\n", "iconv -f windows-1252"),
        ("h.csv", b"ag\xe9,x\na,1\n", "iconv -f windows-1252"),
    ):
        (tmp_path / name).write_bytes(raw)
        check = check_files([name], schema, tmp_path)
        refusals = " ".join(f"{one.message} {one.fix}" for one in check.of("refusal"))
        assert part in refusals, name
    assert "line 3" in " ".join(
        one.message for one in check_files(["l.csv"], schema, tmp_path).findings
    )


def test_files_of_no_known_kind_say_how_to_convert_them(tmp_path):
    schema = read(column("{type: category, levels: [a]}"))
    for suffix, words in ((".xlsx", "read_excel"), (".sav", "read_spss"), (".dta", "read_stata")):
        (tmp_path / f"f{suffix}").write_bytes(b"x")
        with pytest.raises(BadInput, match=words):
            check_files([f"f{suffix}"], schema, tmp_path)


def test_a_check_writes_nothing(tmp_path):
    (tmp_path / "f.csv").write_text("id,age\n1,3\n1,4\n")
    schema = read(
        "version: 1\ntitle: t\nunit: {column: id, max_rows: 1}\ncolumns:\n"
        "  age: {type: integer, min: 0, max: 9}\n"
    )
    before = {path: os.stat(path).st_mtime_ns for path in (tmp_path, tmp_path / "f.csv")}

    check = check_files(["f.csv"], schema, tmp_path)

    assert check.fits
    assert {path: os.stat(path).st_mtime_ns for path in before} == before


def test_the_answer_says_that_it_is_confidential_in_text_and_in_json():
    check = check_frame(
        pd.DataFrame({"age": ["x"]}), read(column("{type: integer, min: 0, max: 9}"))
    )
    assert check.to_json()["confidential"] is True
    assert str(check).startswith("Confidential")
    assert check.to_json()["findings"][0]["examples"] == [{"text": "'x'", "rows": 1}]


def test_a_frame_is_any_frame_or_a_dictionary_of_columns():
    schema = read(column("{type: integer, min: 0, max: 9, missing: level}"))
    columns = {"age": [1, None, 3]}
    frame = pd.DataFrame(columns)
    for one in (columns, frame, pa.table(columns), pa.table(columns).to_reader()):
        found = check_frame(one, schema)
        assert (found.fits, found.rows) == (True, 3)
    for wrong, says in (
        ({"a": frame, "b": frame}, "several frames"),
        ([1], "list"),
        (pd.Series([1], name="age"), "Series"),
        (pa.chunked_array([[1]]), "ChunkedArray"),
        (pa.array([1]), "Int64Array"),
        (None, "None"),
    ):
        with pytest.raises(TypeError, match=f"A frame was expected, not {says}"):
            check_frame(wrong, schema)


def test_a_frame_without_columns_is_a_finding():
    (finding,) = check_frame(
        pd.DataFrame(), read(column("{type: integer, min: 0, max: 9}"))
    ).findings
    assert finding.kind == "header"


def test_mixed_cells_have_the_texts_of_stored_values():
    schema = read(column("{type: category, levels: [7, 12345678901, 'true', 2000-01-01, x]}"))
    cells = [
        7.0,
        12345678901.0,
        True,
        datetime.date(2000, 1, 1),
        Decimal("7.00"),
        "x",
        np.float32(7),
    ]
    assert check_frame(pd.DataFrame({"age": pd.Series(cells, dtype=object)}), schema).fits
    (found,) = check_frame({"age": pd.Series(["x", 1j], dtype=object)}, schema).of("refusal")
    assert found.message == "The column is stored as complex, which cannot be read."
    short = pa.table({"age": pa.array(np.array([7], np.float16))})
    (found,) = check_frame(short, schema).of("refusal")
    assert "float of 32 or 64 bits" in found.fix  # it is a number already


def test_floats_that_cannot_tell_levels_apart_are_a_finding():
    schema = read(column(f"{{type: category, levels: [1, {2**53}]}}"))
    (found,) = check_frame({"age": [1.0]}, schema).of("refusal")
    assert found.kind == "stored-type"
    assert "stored as double, which cannot tell such numbers apart" in found.message


@pytest.mark.parametrize("kind", ["object", "category"])
def test_texts_that_may_stand_for_levels_are_shown_beside_other_mistakes(kind):
    schema = read(column("{type: category, levels: [f, m], missing: level}"))
    cells = pd.Series(["f", "true", "x", "true", None, "m"], dtype=kind)
    check = check_frame({"age": cells}, schema)
    shown = {one.kind: {each.text: each.rows for each in one.examples} for one in check.findings}
    assert shown["stored-type"] == {"'true'": 2}
    assert shown["levels"] == {"'x'": 1}
    assert not check.fits
    with pytest.raises(SchemaViolation) as refused:
        Encoder(schema.column("age")).encode(pa.array(["f", "false"]))
    assert "false" not in refused.value.message


@pytest.mark.parametrize("columns", [{"age": [1, 2], "sex": ["f"]}, {"age": 1, "sex": "f"}])
def test_a_dictionary_that_is_no_frame_is_refused_in_one_sentence(columns):
    schema = read(column("{type: integer, min: 0, max: 9}"))
    with pytest.raises(ValueError, match="A dictionary of columns needs lists of one length"):
        check_frame(columns, schema)


def test_a_set_has_no_order_of_rows():
    with pytest.raises(TypeError, match="A dictionary of columns needs lists of one length"):
        check_frame({"age": {1, 2}}, read(column("{type: integer, min: 0, max: 9}")))


@pytest.mark.parametrize("rows", [1, 30])
def test_row_names_without_a_column_name_are_named(rows, tmp_path):
    lines = [f'"{row}","{row % 9}",m' for row in range(rows)]
    (tmp_path / "f.csv").write_text("\n".join(['"age","sex"', *lines, ""]))
    schema = read(column("{type: integer, min: 0, max: 9}", extra="ignore: [sex]\n"))
    (finding,) = check_files(["f.csv"], schema, tmp_path).findings

    assert "one field more than the header, which has 2" in finding.message
    assert "row.names = FALSE" in finding.fix


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_rows_with_more_or_fewer_fields_are_one_finding(suffix, tmp_path):
    rows = ["1,a", "2", "3,a,b", '"4","a\nb"', "", "5,a", *["6"] * 20]
    text = "\n".join(["age,x", *rows]) + "\n"
    path = tmp_path / f"f.{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix == "csv.gz" else text.encode())
    schema = read(column("{type: integer, min: 0, max: 9}", extra="ignore: [x]\n"))

    (finding,) = check_files([path.name], schema, tmp_path).of("refusal")

    assert finding.message == "22 rows have more or fewer fields than the header, which has 2."
    assert [one.text for one in finding.examples[:3]] == [
        "row 2 (line 3), 1 field: 2",
        "row 3 (line 4), 3 fields: 3,a,b",
        "row 6 (line 9), 1 field: 6",
    ]
    assert len(finding.examples) == EXAMPLES


def test_constant_columns_are_one_finding_that_names_their_values():
    text = (
        "version: 1\ntitle: t\ncolumns:\n"
        "  region: {type: category, levels: [north, south]}\n"
        "  year: {type: integer, min: 2020, max: 2030}\n"
    )
    frame = pd.DataFrame({"region": ["north"] * MANY, "year": [2025] * MANY})
    (finding,) = (one for one in check_frame(frame, read(text)).findings if one.kind == "constant")
    assert [one.text for one in finding.examples] == ["region: 'north'", "year: 2025"]
