"""Files whose content does not match their names."""

import gzip

import pytest

from tests.checked_files import check_files
from tests.schema_texts import read

SCHEMA = read(
    "version: 1\ntitle: t\ncolumns:\n  age: {type: integer, min: 0, max: 9}\n"
    "  sex: {type: category, levels: [m, f]}\n"
)
ROWS = b"age,sex\n1,m\n2,f\n"
PACKED = gzip.compress(ROWS, mtime=0)  # with the time, a test would have another name each second


def found(tmp_path, name, raw):
    (tmp_path / name).write_bytes(raw)
    return check_files([str(tmp_path / name)], SCHEMA)


@pytest.mark.parametrize(
    ("name", "raw", "message", "fix"),
    [
        ("d.csv", b"PK\x03\x04" + bytes(range(99)), "an Excel workbook", "save it as CSV"),
        ("d.csv", b"\xd0\xcf\x11\xe0" + bytes(99), "an old Excel workbook", "save it as CSV"),
        ("d.csv", PACKED, "compressed with gzip", ".csv.gz"),
        ("d.csv.gz", ROWS, "not compressed", "Rename it to .csv."),
        ("d.csv", b"PAR1" + bytes(99), "a Parquet file", ".parquet"),
        ("d.csv", b"%PDF-1.7\n", "a PDF document", "save it as CSV"),
        ("d.csv", b"\n<!DOCTYPE html><html>", "a web page", "Download the file itself"),
        ("d.csv", b'[{"age": 1}]', "a JSON file", "Convert it"),
        ("d.csv", b"Town survey\n\n" + ROWS, "column names are on line 3", "lines above them"),
    ],
)
def test_another_kind_of_file_is_one_finding(tmp_path, name, raw, message, fix):
    check = found(tmp_path, name, raw)
    (finding,) = check.findings
    assert not check.fits
    assert message in finding.message
    assert fix in finding.fix


@pytest.mark.parametrize(
    "raw",
    [ROWS.replace(b"\n", b",\n"), b",age,sex\n0,1,m\n1,2,f\n"],
    ids=["comma at the line ends", "index without a name"],
)
def test_a_column_without_a_name_is_reported_by_its_place(tmp_path, raw):
    check = found(tmp_path, "d.csv", raw)
    (finding,) = check.findings
    place = 1 if raw.startswith(b",") else 3
    assert finding.message == f"Column {place} of the file has no name."


@pytest.mark.parametrize(("name", "raw"), [("d.csv", ROWS), ("d.csv.gz", PACKED)])
def test_a_file_whose_content_matches_its_name_fits(tmp_path, name, raw):
    assert found(tmp_path, name, raw).fits
