"""Files whose content does not match their names."""

import bz2
import gzip
import lzma
import pickle

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


BINARY = bytes(range(256)) * 4
TEXT = "age,sex\n1,m\n2,f\n" * 3


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (bz2.compress(ROWS), "compressed with bzip2"),
        (lzma.compress(ROWS), "compressed with xz"),
        (b"(\xb5/\xfd" + BINARY, "compressed with zstd"),
        (b"\x04\x22M\x18" + BINARY, "compressed with lz4"),
        (b"7z\xbc\xaf\x27\x1c" + BINARY, "a 7z archive"),
        (b"ARROW1\x00\x00" + BINARY, "a Feather or Arrow file"),
        (b"<stata_dta><header>" + BINARY, "a Stata file"),
        (bytes(12) + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf" + BINARY, "a SAS file"),
        (b"SQLite format 3\x00" + BINARY, "a SQLite database"),
        (pickle.dumps({"age": [1, 2]}), "a Python pickle"),
        (b"X\n\x00\x00\x00\x03" + BINARY, "an R file"),
        (b"RDX3\nX\n\x00" + BINARY, "an R file"),
        (b"d.csv" + bytes(252) + b"ustar\x0000" + bytes(248) + ROWS, "a tar archive"),
        (b"-----BEGIN PGP MESSAGE-----\n\nhQEMA\n", "encrypted or signed with PGP"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
        (b"PAR1" + BINARY, "a Parquet file"),
        (b"PK\x03\x04" + BINARY, "an Excel workbook"),
        (BINARY, "not text, despite its name: it has control characters"),
        (b"measured\n" + BINARY, "not text, despite its name: it has control characters"),
        (TEXT.encode("utf-16"), "it seems to be utf-16."),
        (TEXT.encode("utf-16-le"), "it seems to be utf-16le."),
        (TEXT.encode("utf-16-be"), "it seems to be utf-16be."),
        (TEXT.encode("utf-32"), "it seems to be utf-32."),
        (TEXT.encode("utf-32-be"), "it seems to be utf-32be."),
        (TEXT.encode("cp037"), "it seems to be ibm037."),
        (b"age,sex,M\x81ller\n1,m,0\n", "its encoding is unknown"),
        ("age,sex,café\n1,m,0\n".encode("cp1252"), "it seems to be windows-1252."),
    ],
)
@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "packed.csv.gz"])
def test_the_unpacked_start_says_what_a_file_is(tmp_path, name, raw, words):
    check = found(tmp_path, name, gzip.compress(raw) if name.startswith("packed") else raw)
    (finding,) = check.findings
    assert words in finding.message
    assert str(check).replace("\n", " ").isprintable()
    assert not finding.column


def test_another_kind_of_file_is_named_in_place_of_parquet(tmp_path):
    for raw, words in ((PACKED, "not a Parquet file"), (b"PK\x03\x04", "an Excel workbook")):
        (finding,) = found(tmp_path, "d.parquet", raw).findings
        assert words in finding.message


@pytest.mark.parametrize("header", ["PAR1,age,sex", "BZh91AY&SY,age,sex", "RDX2,age,sex"])
def test_a_column_that_is_called_like_another_kind_of_file_is_a_column(tmp_path, header):
    check = found(tmp_path, "d.csv", f"{header}\n0,1,m\n0,2,f\n".encode())
    assert [one.kind for one in check.findings] == ["column-unknown"]


def test_a_file_that_is_packed_twice_is_unpacked_once(tmp_path):
    (finding,) = found(tmp_path, "d.csv.gz", gzip.compress(PACKED)).findings
    assert finding.fix == "Unpack it once."


@pytest.mark.parametrize("mark", [";", "\t", "|", " "])
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("above", ["", "sep={mark}\n", "Town survey\n\n"])
@pytest.mark.parametrize("index", [False, True])
def test_the_separator_is_judged_before_quotation_marks(tmp_path, mark, quoted, above, index):
    rows = [["age", "sex"], ["1", "m"], ["2", "f"]]
    cells = [[*[str(n)] * index, *row] for n, row in enumerate(rows)]
    text = above.format(mark=mark) + "\n".join(
        mark.join(f'"{cell}"' if quoted else cell for cell in row) for row in cells
    )
    (finding,) = found(tmp_path, "d.csv", text.encode()).findings
    words = {";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}
    assert finding.kind == "separator"
    assert f"separated by {words[mark]}, not by commas" in finding.message
    assert ("Remove the lines above" in finding.fix) == bool(above)


def test_control_characters_of_a_file_are_escaped(tmp_path):
    check = found(tmp_path, "d.csv", b"age,sex,\x1b[31mred\n1,m,0\n")
    assert "\x1b" not in str(check)
    check = found(tmp_path, "d.csv", ROWS + b"1\x00,m\n2,\x1b[31m\n3,m,\x07\x9b\n")
    assert str(check).replace("\n", " ").isprintable()


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


@pytest.mark.parametrize("raw", [b"1,m\n2,f\n", b"1,m,7\n2,f,8\n", b"x\ny\n"])
def test_a_file_without_a_header_is_one_finding(tmp_path, raw):
    (finding,) = found(tmp_path, "d.csv", raw).findings
    assert finding.message == "The header names none of the schema's columns."
    assert "`columns`" not in finding.fix
