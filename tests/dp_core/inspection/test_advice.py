"""Every advice of a check is a change that the schema does not have yet, and that helps."""

import itertools
import re
import unicodedata

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.errors import BadInput, similar
from dp_core.inspection.advice import with_change
from dp_core.inspection.findings import EXAMPLES
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.strict_yaml import parse, plain
from tests.checked_files import check_files, check_frame
from tests.schema_texts import FLATS, column, read

TYPES = {
    "integer": "type: integer, min: 0, max: 99",
    "integer with bins": "type: integer, min: 0, max: 99, bins: 10",
    "integer with edges": "type: integer, min: 0, max: 99, edges: [0, 15, 65, 100]",
    "large integer": "type: integer, min: 0, max: 9007199254740993, bins: 4",
    "private integer": "type: integer, min: 0, max: 99, bins: {private: 5}",
    "number": "type: number, min: 0, max: 99, bins: 5",
    "number with decimals": "type: number, min: 0, max: 99, bins: 5, decimals: 2",
    "weight": "type: number, min: 0, max: 99, bins: 5, role: weight",
    "date": "type: date, min: 1990-01-01, max: 2030-12-31, bins: year",
    "date in a format": (
        'type: date, min: 1990-01-01, max: 2030-12-31, bins: year, format: "%d.%m.%Y"'
    ),
    "category": "type: category, levels: {1: male, 2: female}",
    "words": "type: category, levels: [North, Café, New York, not married married]",
    "ordinal": "type: ordinal, levels: [1, 2, 3]",
}  # fmt: skip
POLICIES = tuple(
    ", ".join(part for part in parts if part)
    for parts in itertools.product(
        ("", "missing: level"),
        ("", "out_of_range: clip", "out_of_range: missing"),
        ("", 'missing_values: ["", NA, "-9", "999", "999999"]'),
    )
)
GOOD = {
    "integer": ["0", "7", "42"],
    "large integer": ["0", "9007199254740993"],
    "number": ["0.5", "7", "42.25"],
    "weight": ["0.5", "7", "42.25"],
    "date": ["2001-02-03", "2020-12-31"],
    "date in a format": ["03.02.2001", "31.12.2020"],
    "category": ["1", "2"],
    "words": ["North", "New York"],
    "ordinal": ["1", "2", "3"],
}
FAULTS = (
    "", " ", "NA", "-9", "-9.0", "999", "999.0", "999999.00", "1/2", "1.5", "1.50", "1,5", "1,500",
    "1.234,5", "1e3", "2.5e1", "1e400", "100000000000000000000", "-100000000000000000000.0", "inf",
    "12 kg", "$12", "?", "abc", "01", "1.0", "1 ", " 2", "male", "Male", "north", "NORTH",
    "Cafe\u0301", "New\u00a0York", "married", "not married", "3", "Sooth", "31.12.2020",
    "12/31/2020", "01/02/2020", "20201231", "2020-02-30", "30.02.2020", "2020-12-31", "0001-01-01",
    "9999-12-31", "2050-01-01", "12.2020",
)  # fmt: skip


def reread(schema, change, name="age"):
    return parse_schema(with_change(schema.document, name, change))


def told(check):
    return {
        (one.severity, one.kind, one.column, one.message, one.examples)
        for each in check.findings
        for one in each.each or (each,)
    }


def expect_useful_advice(schema, judge):
    """Check with a function of the schema; apply every advice, and expect another finding."""
    check = judge(schema)
    (own,) = schema.document["columns"]
    definition = own["age"]
    for finding in (one for each in check.findings for one in each.each or (each,)):
        for change in finding.changes:
            other = reread(schema, change)  # the schema takes the keys
            before = (finding.severity, finding.kind, finding.column, finding.message,
                      finding.examples)  # fmt: skip
            assert before not in told(judge(other)), (finding, change)
        written = [with_change(schema.document, "age", each) for each in finding.changes]
        for keys, removed in advised(finding.fix) if finding.severity != "settled" else ():
            assert any(definition.get(key) != value for key, value in keys.items()), finding
            if keys.keys() & {"edges", "bins", "missing_values", "format", "out_of_range"}:
                kept = {key: value for key, value in definition.items() if key != removed} | keys
                as_printed = {**schema.document, "columns": [{"age": kept}]}
                parse_schema(as_printed)  # whoever writes what the sentence says is not refused
                assert as_printed in written, finding
    return check


def advised(sentence):
    """Return the keys that a sentence writes out, each with the key that it removes."""
    found = re.findall("`([a-z_]+: [^`]*)`(?: instead of `([a-z]+)`)?", sentence)
    return [
        (plain(parse(f"{{{text}}}", source="advice")), removed)
        for text, removed in found
        if "..." not in text
    ]


def definition_of(name, policy):
    stated = ", ".join(part for part in (TYPES[name], policy) if part)
    try:
        return read(column(f"{{{stated}}}"))
    except BadInput:
        return None  # such as a weight that may be missing


CASES = [
    (name, policy)
    for name, policy in itertools.product(TYPES, POLICIES)
    if definition_of(name, policy) is not None
]


@pytest.mark.parametrize(("name", "policy"), CASES)
def test_an_advice_changes_the_finding(name, policy):
    schema = definition_of(name, policy)
    for fault in FAULTS:
        values = pd.DataFrame({"age": [*good_of(name), fault]})
        expect_useful_advice(schema, lambda one, frame=values: check_frame(frame, one))
        only = pd.DataFrame({"age": [fault] * 3})
        expect_useful_advice(schema, lambda one, frame=only: check_frame(frame, one))


def good_of(name):
    key = next(key for key in sorted(GOOD, key=len, reverse=True) if key == name or key in name)
    return GOOD[key] * 9


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    case=st.sampled_from(CASES),
    faults=st.lists(st.sampled_from(FAULTS), min_size=2, max_size=5, unique=True),
    good=st.booleans(),
)
def test_an_advice_changes_the_finding_about_several_faults(case, faults, good):
    schema = definition_of(*case)
    frame = pd.DataFrame({"age": (good_of(case[0]) if good else []) + faults * 3})
    expect_useful_advice(schema, lambda one: check_frame(frame, one))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("integer with bins", pa.array([1, 2, 99, 100, -9, None] * 9, pa.int64())),
        ("integer with bins", pa.array([1.0, 2.5, float("inf"), float("nan")] * 9)),
        ("integer", pa.array([2**63 + 7, 1], pa.uint64())),
        ("number", pa.array([0.1, 999.0, -1.0] * 9, pa.float32())),
        ("number", pa.array(["1.50", "99.01", "100.00"]).cast(pa.decimal128(9, 2))),
        ("date", pa.array([20201231, 20200101] * 9, pa.int64())),
        ("date", pa.array([-900000, 18000, 4000000], pa.int32()).cast(pa.date32())),
        ("date in a format", pa.array([18000 * 86400, 40000 * 86400], pa.timestamp("s", "UTC"))),
        ("category", pa.array([1, 2, 3, 9] * 9, pa.int8())),
        ("category", pa.array([1.0, 2.0, 3.5, None] * 9)),
        ("ordinal", pa.array([True, False] * 9)),
    ],
)
def test_an_advice_changes_the_finding_in_every_storage(name, values, policy):
    if (schema := definition_of(name, policy)) is not None:
        table = pa.table({"age": values})
        expect_useful_advice(schema, lambda one: check_frame(table, one))


def test_labels_are_listed_only_if_the_file_has_no_codes():
    schema = read(column("{type: category, levels: {1: male, 2: female}}"))
    for values, expected in (
        (["male", "female"] * 9, "list them: `levels: [male, female]`"),
        (["1", "female"] * 9, "Write '2' in these rows too."),
    ):
        (finding,) = check_frame(pd.DataFrame({"age": values}), schema).of("refusal")
        assert expected in finding.fix


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("word", ["Café", "Zürich", "Ångström", "São Paulo", "한국"])
def test_letters_that_are_encoded_otherwise_are_normalised(word, form):
    other = "NFD" if form == "NFC" else "NFC"
    level, text = unicodedata.normalize(form, word), unicodedata.normalize(other, word)
    schema = read(column(f"{{type: category, levels: [{level}, x]}}"))

    (finding,) = check_frame(pd.DataFrame({"age": [text, "x"] * 9}), schema).of("refusal")

    assert finding.kind == "composition"
    assert [one.text for one in finding.examples] == [ascii(text)]
    assert f'unicodedata.normalize("{form}", text)' in finding.fix
    assert unicodedata.normalize(form, text) == level


@pytest.mark.parametrize(
    ("level", "text"),
    [
        ("18-29", "18\u201329"),
        ("Cafe", "\u0421afe"),
        ("AB", "\u0391\u0392"),
        ("O'Neil", "O\u2019Neil"),
    ],
)
def test_other_characters_that_look_the_same_are_replaced(level, text):
    schema = read(column(f"{{type: category, levels: [{level}, x]}}"))

    (finding,) = check_frame(pd.DataFrame({"age": [text, "x"] * 9}), schema).of("refusal")

    assert finding.kind == "composition"
    assert [one.text for one in finding.examples] == [ascii(text)]
    assert finding.fix == f"Replace {text!a} by {level!a} in the file; they look alike."
    assert ascii(text) in similar(text, [level])


def test_a_column_name_and_a_misspelling_that_look_alike_say_how_they_differ(tmp_path):
    name = unicodedata.normalize("NFD", "Größe")
    schema = read(
        "version: 1\ntitle: t\ncolumns:\n  Größe: {type: integer, min: 0, max: 9}\n"
    )  # composed
    (tmp_path / "f.csv").write_text(f"{name}\n3\n")

    (finding,) = check_files(["f.csv"], schema, tmp_path).findings

    assert finding.kind == "column-name"
    assert ascii(name) in finding.message
    assert 'normalize("NFC"' in finding.fix
    assert "Did you mean" not in similar(name, ["Größe"])
    assert ascii(name) in similar(name, ["Größe"])


@pytest.mark.parametrize("text", ["New\u00a0York", "New  York", "New\u2009York", " New York"])
def test_other_spaces_are_shown(text):
    schema = read(column("{type: category, levels: [New York, x]}"))
    (finding,) = check_frame(pd.DataFrame({"age": [text, "New York"] * 9}), schema).of("refusal")

    assert finding.kind == "spaces"
    assert [one.text for one in finding.examples] == [ascii(text)]
    assert "Replace" in finding.fix or "Remove the spaces" in finding.fix


@pytest.mark.parametrize(
    ("own", "texts", "words"),
    [
        ("", ["2020-01-31", "31.01.2020"], "all dates of the file as in 2024-02-15"),
        (', format: "%d.%m.%Y"', ["2020-01-31", "31.01.2020"], "of the file as in 15.02.2024"),
        (', format: "%d.%m.%Y"', ["2020-01-31", "31/01/2020"], '"%Y-%m-%d"`, which fits most'),
        ("", ["01/02/2020", "2020-01-31"], "all dates of the file as in 2024-02-15"),
        ("", ["2020/01/31", "2020-01-31"], 'Write `format: "%Y/%m/%d"`.'),
        ("", ["31.01.2020", "01/31/2020", "2020-01-31"], "all dates of the file as in 2024-02-15"),
        ("", ["unknown", "2020-01-31"], 'write `missing: level, missing_values: ["", "unknown"]`'),
        ("", ["not yet", "2020-01-31"], 'write `missing: level, missing_values: ["", "not yet"]`'),
        (', format: "%d/%m/%Y"', ["01/13/2020", "13/01/2020"], "of the file as in 15/02/2024"),
        ("", ["2020-02-30", "2020-01-31"], "No such days exist if dates are written as 2024-02-15"),
        ("", ["31.01.2020", "30.01.2020", "2020/01/31"], '"%d.%m.%Y"`, which fits most'),
    ],
)  # fmt: skip
def test_two_formats_of_dates_do_not_ask_for_one_another(own, texts, words):
    schema = read(column(f"{{type: date, min: 1990-01-01, max: 2030-12-31, bins: year{own}}}"))
    check = expect_useful_advice(
        schema, lambda one: check_frame(pd.DataFrame({"age": texts * 9}), one)
    )
    assert words in check.of("refusal")[0].fix


BIG = 10**20
STORED = {
    "text": pa.array([str(BIG), str(BIG + 1), "5"]),
    "dictionary": pa.array([str(BIG), str(BIG + 1), "5"]).dictionary_encode(),
    "decimal": pa.array([BIG, BIG + 1, 5], pa.decimal128(30, 0)),
    "whole decimal": pa.array([f"{BIG}.0", f"{BIG + 1}.0", "5"]).cast(pa.decimal128(30, 1)),
    "unsigned": pa.array([2**64 - 1, 2**63 + 1, 5], pa.uint64()),
    "float": pa.array([1e20, -1e20, 5.0]),
}


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("storage", STORED)
def test_a_number_of_any_size_is_shown_with_all_its_digits(storage, kind):
    schema = read(column(f"{{type: {kind}, min: 0, max: 9007199254740991, bins: 4}}"))
    values = STORED[storage]
    (finding,) = check_frame(pa.table({"age": values}), schema).of("refusal")

    expected = {
        str(int(value)) if storage in ("float", "whole decimal") else str(value)
        for value in values.to_pylist()
        if str(value) not in ("5", "5.0")
    }
    assert {one.text for one in finding.examples} == expected
    assert "9223372036854775807" not in finding.message
    assert "the schema allows 0 to 9007199254740991;" in finding.message
    ends = sorted(expected | {"5"}, key=lambda text: float(text))
    assert ends[-1].lstrip("-")[:12] in finding.message


@pytest.mark.parametrize("storage", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_the_ends_of_the_values_are_exact(storage, kind, tmp_path):
    schema = read(column(f"{{type: {kind}, min: 0, max: 99, bins: 4}}"))
    table = pa.table({"age": pa.array([7, 2**53 + 1, -(2**62) - 1], pa.int64())})
    if storage == "csv":
        pyarrow.csv.write_csv(table, tmp_path / "f.csv")
    else:
        pyarrow.parquet.write_table(table, tmp_path / "f.parquet")
    (finding,) = check_files([f"f.{storage}"], schema, tmp_path).of("refusal")

    assert f"from {-(2**62) - 1} to {2**53 + 1}." in finding.message


def several(definition, number, extra=""):
    rows = "".join(f"  c{n}: {definition}\n" for n in range(number))
    return read(f"version: 1\ntitle: t\n{extra}columns:\n{rows}")


@pytest.mark.parametrize(
    ("definition", "values", "kind"),
    [
        ("{type: number, min: 0, max: 9, bins: 3}", ["1,5", "2"], "decimal-comma"),
        ("{type: integer, min: 0, max: 9}", ["NA", "2"], "missing-codes"),
        ("{type: integer, min: 0, max: 9}", ["99", "2"], "out-of-range"),
        ("{type: integer, min: 0, max: 9}", ["", "2"], "missing"),
        ("{type: integer, min: 0, max: 9, missing: level}", ["", "2"], "missing"),
        ("{type: category, levels: [a, b]}", ["a ", "b"], "spaces"),
        ("{type: category, levels: [a, b]}", ["x", "b", "a"], "levels"),
        ("{type: category, levels: [a, b, c, d]}", ["a", "b"], "unused-levels"),
        ("{type: date, min: 2000-01-01, max: 2020-12-31, bins: year}", ["31.12.2019"], "dates"),
    ],
)
def test_the_same_mistake_in_many_columns_is_one_finding(definition, values, kind):
    schema = several(definition, 18)
    frame = pd.DataFrame({f"c{n}": values * 30 for n in range(18)})
    check = check_frame(frame, schema)

    (finding,) = [one for one in check.findings if one.kind == kind]

    assert "18 columns" in finding.message
    assert finding.column == ""
    assert len(finding.each) == 18
    assert len(check.to_json()["findings"][check.findings.index(finding)]["each"]) == 18
    assert "c0" in str(check)
    assert str(check).count("c17") <= 1


def test_different_texts_in_two_columns_are_two_findings():
    schema = several("{type: category, levels: [a, b]}", 2)
    frame = pd.DataFrame({"c0": ["a", "b", "x"], "c1": ["a", "b", "y"]})
    assert [one.column for one in check_frame(frame, schema).of("refusal")] == ["c0", "c1"]


def test_levels_that_never_occur_are_all_in_json():
    schema = several(f"{{type: category, levels: [{', '.join(f'v{n}' for n in range(40))}]}}", 3)
    check = check_frame(pd.DataFrame({f"c{n}": ["v0", "v1"] * 30 for n in range(3)}), schema)

    (finding,) = check.findings

    assert len(finding.examples) == 3 * 38
    assert f"{3 * 38 - EXAMPLES} more" in str(check)


HEADER = "c0,c1,c2\n"
MIXED = read(
    "version: 1\ntitle: t\ncolumns:\n  c0: {type: integer, min: 0, max: 9}\n"
    "  c1: {type: category, levels: [a, b]}\n  c2: {type: number, min: 0, max: 9, bins: 3}\n"
)
LOOSE = read(
    "version: 1\ntitle: t\nout_of_range: missing\ncolumns:\n"
    "  c0: {type: category, levels: [1, 2], missing: level}\n"
    "  c1: {type: category, levels: [a, b], missing: level}\n"
    "  c2: {type: category, levels: [2.5, 3], missing: level}\n"
)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("again", [1, 4])
def test_a_header_that_is_repeated_in_the_file_is_one_finding(again, mark, tmp_path):
    rows = "1,a,2.5\n2,b,3\n" * 20
    (tmp_path / "f.csv").write_text(HEADER + rows + (mark + HEADER + rows) * again)

    for schema, severity in ((MIXED, "refusal"), (LOOSE, "settled")):
        check = check_files(["f.csv"], schema, tmp_path)
        (finding,) = [one for one in check.findings if one.severity != "hint"]
        assert (finding.severity, finding.kind, finding.rows) == (
            severity,
            "header-repeated",
            again,
        )
        assert "row 41" in finding.message
        assert check.fits == (severity == "settled")


@pytest.mark.parametrize("again", ["C0,C1,C2\n", " c0 ,C1,c2\n", "c0,c1,c2\nC0,C1,C2\n"])
def test_a_repeated_header_in_other_capital_letters_is_one_finding(again, tmp_path):
    (tmp_path / "f.csv").write_text(f"{HEADER}1,a,2.5\n{again}2,b,3\n")
    (finding,) = check_files(["f.csv"], MIXED, tmp_path).findings
    assert (finding.kind, finding.rows) == ("header-repeated", again.count("\n"))


def test_other_mistakes_are_found_beside_a_repeated_header(tmp_path):
    (tmp_path / "f.csv").write_text(f"{HEADER}1,a,2\n{HEADER}x,b,3\nc0,b,4\n")
    found = {one.kind: one for one in check_files(["f.csv"], MIXED, tmp_path).of("refusal")}

    assert found["header-repeated"].rows == 1
    assert found["unreadable"].rows == 2  # x, and c0 in a row that is no header


def test_a_level_that_is_called_like_its_column_is_no_header(tmp_path):
    (tmp_path / "f.csv").write_text("age\nage\nother\n")
    schema = read(column("{type: category, levels: [age, other]}"))
    assert check_files(["f.csv"], schema, tmp_path).findings == ()


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_private_bins_are_not_asked_for_private_bins(kind):
    definition = f"{{type: {kind}, min: 0, max: 400000, bins: {{private: 12}}}}"
    values = [0] * 3000 + [*range(100)]
    check = check_frame(pd.DataFrame({"age": values}), read(column(definition)))
    assert "private" not in " ".join(one.fix for one in check.findings)


@pytest.mark.parametrize(("others", "share"), [(0, "100 %"), (1, "99.9 %"), (20, "99.0 %")])
def test_a_share_of_100_percent_is_said_of_all_rows_only(others, share):
    values = [*np.linspace(1, 90, 2000), *[950.0] * others]
    check = check_frame(
        pd.DataFrame({"age": values}), read(column("{type: number, min: 0, max: 1000, bins: 2}"))
    )
    (finding,) = [one for one in check.findings if one.kind == "one-bin"]
    assert f" {share} of the values" in finding.message


@pytest.mark.parametrize(
    ("definition", "heap", "spread"),
    [
        ("{type: integer, min: 0, max: 199999, bins: 20}", 0, range(1, 199999, 97)),
        ("{type: integer, min: 0, max: 99, bins: 10}", 40, range(0, 99)),
        ("{type: integer, min: 0, max: 999, edges: [0, 500, 1000]}", 999, range(0, 998)),
        ("{type: number, min: 0, max: 100, bins: 4}", 0.0, np.linspace(0.1, 99, 800)),
        ("{type: number, min: 0, max: 100, bins: 4, decimals: 2}", 50.5, np.linspace(1, 99, 800)),
        ("{type: number, min: 0, max: 53, bins: 20, decimals: 2}", 52.14, np.linspace(1, 53, 200)),
        ("{type: number, min: 0, max: 50000, bins: 20}", 1250.1, np.geomspace(1, 40000, 2000)),
        ("{type: number, min: 0, max: 100, bins: 4, decimals: 1}", 100.0, np.linspace(1, 99, 800)),
        (
            "{type: number, min: 0, max: 53, bins: {private: 10}, decimals: 2}",
            52.14,
            np.linspace(1, 53, 200),
        ),
        ("{type: number, min: 0, max: 90, bins: {private: 7}}", 52.14, np.linspace(1, 53, 200)),
        ("{type: integer, min: 0, max: 99999, bins: {private: 6}}", 1250, range(0, 99999, 450)),
    ],
)
def test_a_value_that_many_rows_share_gets_a_bin_by_the_advice(definition, heap, spread):
    frame = pd.DataFrame({"age": [heap] * len(spread) + list(spread)})
    check = expect_useful_advice(read(column(definition)), lambda one: check_frame(frame, one))
    (finding,) = [one for one in check.findings if one.kind == "heaped"]
    assert f"of the values are {heap:g};" in finding.message


@pytest.mark.parametrize("text", ["01.02.24", "1.2.24", "24-02-15", "02/15/24", "150224"])
@pytest.mark.parametrize("form", ["", ', format: "%d.%m.%Y"'])
def test_years_of_two_digits_are_the_reason(text, form):
    schema = read(column(f"{{type: date, min: 1990-01-01, max: 2030-12-31, bins: year{form}}}"))
    (finding,) = check_frame(pd.DataFrame({"age": [text] * 30}), schema).of("refusal")

    assert finding.fix.startswith("Years of two digits leave the century open.")
    assert finding.fix.endswith(f"as in {'15.02.2024' if form else '2024-02-15'}.")


def test_a_column_without_values_is_no_identifier():
    schema = read(column("{type: integer, min: 0, max: 999, bins: 10, missing: level}"))
    some = {"age": [*range(200), *[None] * 100]}
    for frame, identifiers in ((pd.DataFrame({"age": [None] * 300}), 0), (pd.DataFrame(some), 1)):
        found = check_frame(frame, schema).findings
        assert sum(each.kind == "identifier" for each in found) == identifiers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2023", "years alone"),
        ("45657", "day numbers of Excel"),
        ("45657.0", "day numbers of Excel"),
        ("2", "by another type"),
        ("123", "by another type"),
        ("12345678", "by another type"),
        ("998877", "one date format"),
    ],
)
def test_numbers_in_a_column_of_dates_are_no_short_years(text, words):
    schema = read(column("{type: date, min: 1990-01-01, max: 2030-12-31, bins: year}"))
    (finding,) = check_frame(pd.DataFrame({"age": [text] * 30}), schema).of("refusal")

    assert words in finding.fix
    assert "century" not in finding.fix


@pytest.mark.parametrize("text", ["0000-00-00", "9999-12-31", "31.12.9999", "00/00/0000"])
def test_days_that_are_no_days_may_mean_missing(text):
    schema = read(column("{type: date, min: 1990-01-01, max: 2030-12-31, bins: year}"))
    frame = pd.DataFrame({"age": [text] * 3 + ["2024-02-15"] * 30})
    check = expect_useful_advice(schema, lambda one: check_frame(frame, one))

    assert f'missing_values: ["", "{text}"]' in check.of("refusal")[0].fix


@pytest.mark.parametrize("bins", [10, 20, 100])
def test_several_values_that_many_rows_share_get_one_list_of_edges(bins):
    schema = read(column(f"{{type: integer, min: 0, max: 999, bins: {bins}}}"))
    values = [*range(1000)] * 2 + [405] * 900 + [121] * 700 + [380] * 800
    check = expect_useful_advice(
        schema, lambda one: check_frame(pd.DataFrame({"age": values}), one)
    )
    (finding,) = [one for one in check.findings if one.kind == "heaped"]
    edges = [int(edge) for edge in finding.changes[0]["edges"]]

    assert edges == sorted({*edges, 0, 121, 122, 380, 381, 405, 406, 1000})
    assert finding.fix.count("instead of `bins`") == 1


@pytest.mark.parametrize("number", [3, 9, 10])
def test_a_few_numbers_are_a_category(number):
    values = [5 + 10 * place for place in range(number)] * 30
    check = check_frame(
        pd.DataFrame({"age": values}), read(column("{type: integer, min: 0, max: 99, bins: 10}"))
    )
    assert [one.kind for one in check.findings] == ["category"]


def test_a_value_that_may_mean_missing_gets_no_bin():
    schema = read(column("{type: integer, min: 0, max: 999, bins: 10}"))
    frame = pd.DataFrame({"age": [*range(98)] * 9 + [999] * 400})
    check = expect_useful_advice(schema, lambda one: check_frame(frame, one))
    assert "heaped" not in [one.kind for one in check.findings]
    assert "missing-codes" in [one.kind for one in check.findings]


@pytest.mark.parametrize(
    "values",
    [
        ["-99", "-9", "3", "NA", "."],
        ["-99", "999", "3", "NA", "."],
        ["-1", "N/A", "3", "-9", "4"],
        ["99", "?", "1", "2", "3"],
        ["999", "-9", "refused", "1", "2"],
    ],
)
@pytest.mark.parametrize(
    "definition", ["type: integer, max: 30", "type: number, max: 100, bins: 5"]
)
def test_advice_of_one_finding_keeps_what_another_one_advises(definition, values):
    schema = read(column(f"{{{definition}, min: 0, missing_values: ['-99']}}"))
    frame = pd.DataFrame({"age": values * 9})
    check = expect_useful_advice(schema, lambda one: check_frame(frame, one))
    listed = {
        tuple(change["missing_values"])
        for finding in check.findings
        for change in finding.changes
        if "missing_values" in change
    }

    (codes,) = listed
    assert "-99" in codes
    other = reread(schema, {"missing": "level", "missing_values": codes})
    assert check_frame(frame, other).fits


def test_linked_tables_get_no_advice_that_their_schema_refuses(tmp_path):
    schema = read(FLATS)
    rows = "".join(f"{n},{1 + n % 2},{n % 19},{n % 3},x\n" for n in range(300))
    (tmp_path / "h.csv").write_text(f"hh,district,income,children,street\n{rows}")
    check = check_files(["h.csv"], schema.household_schema, tmp_path, whole=schema)
    (finding,) = [one for one in check.findings if one.kind == "one-bin"]
    # the reader refuses private bins
    assert finding.fix == "State `edges` that divide it instead of `bins`."

    rows = "".join(f"{n},{n},{40 if n % 3 else n % 90},m,none,1,x\n" for n in range(300))
    (tmp_path / "p.csv").write_text(f"number,hh,age,sex,job,passport,street\n{rows}")
    check = check_files(["p.csv"], schema.person_schema, tmp_path, whole=schema)
    (finding,) = [one for one in check.findings if one.kind == "heaped"]
    changed = parse_schema(with_change(schema.document, "age", finding.changes[0]))
    assert 41 in changed.column("age").edges


def test_the_identifier_of_a_repeated_header_is_no_person(tmp_path):
    schema = read(
        "version: 1\ntitle: t\nunit: {column: id, max_rows: 1}\ncolumns:\n"
        "  age: {type: integer, min: 0, max: 9}\n"
    )
    parts = ["".join(f"p{n},{n % 9}\n" for n in range(first, first + 9)) for first in (0, 10, 20)]
    (tmp_path / "f.csv").write_text("".join(f"id,age\n{part}" for part in parts))

    (finding,) = [
        one for one in check_files(["f.csv"], schema, tmp_path).findings if one.severity != "hint"
    ]
    assert (finding.kind, finding.rows) == ("header-repeated", 2)
