import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.errors import BadInput
from dp_core.schema.column_types.registry import typed_words
from dp_core.schema.draft import draft_schema
from dp_core.schema.reading.schema_file import load_schema


def load_draft(path, *replacements):
    text = draft_schema(path)
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    completed = path.parent / "draft.yaml"
    completed.write_text(text)
    return load_schema(completed)


TITLE = ("title: ", "title: Survey ")


@pytest.fixture
def survey(tmp_path):
    path = tmp_path / "survey.csv"
    path.write_bytes(
        b'\xef\xbb\xbfage,"home, town",yes,caf\xc3\xa9\r\n3157,Leeds,x,y\r\n4498,\xff\r\n'
    )
    return path


def test_a_draft_of_a_csv_names_its_columns_and_nothing_of_its_rows(survey):
    text = draft_schema(survey)

    assert [line for line in text.splitlines() if line.startswith("  ")] == [
        "  age:",
        f"    type:          # {typed_words()}; then its other keys",
        '  "home, town":',
        f"    type:          # {typed_words()}; then its other keys",
        "  yes:",
        f"    type:          # {typed_words()}; then its other keys",
        '  "café":',
        f"    type:          # {typed_words()}; then its other keys",
    ]
    for value in ("3157", "Leeds", "4498"):
        assert value not in text


def test_rows_of_a_csv_do_not_change_its_draft(survey):
    before = draft_schema(survey)
    survey.write_bytes(survey.read_bytes().split(b"\n")[0] + b"\n" + b"\x00\xff\xfe" * 100)

    assert draft_schema(survey) == before


def test_an_uncompleted_draft_is_refused_with_the_key_to_complete(survey):
    with pytest.raises(BadInput) as caught:
        load_draft(survey)
    lines = (survey.parent / "draft.yaml").read_text(encoding="utf-8").splitlines()
    title = next(number for number, line in enumerate(lines, 1) if line.startswith("title:"))
    line = lines.index("  age:") + 2
    assert f"line {title}, title: has no value" in caught.value.message
    assert f"line {line}, columns.age.type: has no value" in caught.value.message
    with pytest.raises(BadInput, match=r"columns.age.type: has no value; write one of category"):
        load_draft(survey, TITLE)


def test_a_completed_draft_is_a_schema(survey):
    schema = load_draft(survey, TITLE, ("    type: ", "    levels: [a, b]\n    type: category"))

    assert schema.domain.columns == ("age", "home, town", "yes", "café")


@pytest.fixture
def parquet(tmp_path):
    path = tmp_path / "survey.parquet"
    columns = {
        "count": pa.array([1717, 2], pa.int16()),
        "income": pa.array([1717.5, None]),
        "price": pa.array([None, None], pa.decimal128(5, 2)),
        "town": pa.array(["Leeds", "York"]),
        "region": pa.array(["Leeds", "York"]).dictionary_encode(),
        "owner": pa.array([True, False]),
        "born": pa.array([0, 1], pa.date32()),
        "seen": pa.array([0, 1], pa.timestamp("us")),
        "list": pa.array([[1], [2]]),
        "raw": pa.array([b"1", b"2"]),
    }
    pq.write_table(pa.table(columns), path)
    return path


def test_a_draft_of_a_parquet_file_takes_its_types_and_no_values(parquet):
    text = draft_schema(parquet)
    lines = text.splitlines()

    def drafted(name: str) -> str:
        return lines[lines.index(f"  {name}:") + 1].split("#")[0].strip()

    assert {name: drafted(name) for name in ("count", "income", "price", "town", "region")} == {
        "count": "type: integer",
        "income": "type: number",
        "price": "type: number",
        "town": "type: category",
        "region": "type: category",
    }
    assert {drafted("born"), drafted("seen")} == {"type: date"}
    assert "  owner: {type: category, levels: [false, true]}" in lines
    assert {"- list", "- raw"} <= {line.partition("#")[0].strip() for line in lines}
    for value in ("1717", "Leeds", "York"):
        assert value not in text


def test_what_a_parquet_draft_leaves_open_is_refused(parquet):
    with pytest.raises(BadInput, match=r"columns.count.min: has no value"):
        load_draft(parquet, TITLE)
    numbers = (("min: ", "min: 0 "), ("max: ", "max: 9 "))
    with pytest.raises(BadInput, match=r"columns.town.levels: has no value"):
        load_draft(parquet, TITLE, *numbers)
    levels = ("    levels:   ", "    levels: [a] ")
    with pytest.raises(BadInput, match=r"columns.born.min: '0' is not a date"):
        load_draft(parquet, TITLE, *numbers, levels)


def test_compressed_headers_are_read(tmp_path):
    path = tmp_path / "survey.csv.gz"
    path.write_bytes(gzip.compress(b"age,sex\n31,m\n", mtime=0))

    assert "  age:\n" in draft_schema(path)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.csv", b"", "is empty"),
        ("a.parquet", b"", "is empty"),
        ("a.csv", b"\n1,2\n", "first line is blank"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\x00", "not UTF-8"),
        ("a.csv", b"a,b\x00\x01\n", "control characters"),
        ("a.csv", b"a,\n", "column 2 has no name"),
        ("a.csv", b"kim,x,kim\n", "columns 1 and 3 have the same name"),
        ("a.csv", b"a;b;c\n", "separated by ';'"),
        ("a.csv", b'"a";"b";"c"\n"kim";1;2\n', "separated by ';'"),
        ("a.csv", b'"a"\t"b"\n"kim"\t1\n', r"separated by '\t'"),
        ("a.csv", b"a\tb\n", r"separated by '\t'"),
        ("a.csv", b"31,kim,1.5\n44,lee,2\n", "looks like data"),
        ("a.csv", b'"a,b\n1,2\n', "not a CSV header"),
        ("a.csv", b"a" * 2**21, "not a CSV header"),
        ("a.csv.gz", b"a,b\n", "damaged"),
        ("a.csv.gz", gzip.compress(b"a,b\n" * 1000, mtime=0)[:15], "damaged"),
        ("a.parquet", b"a,b\n1,2\n", "is not a Parquet file"),
        ("a.parquet", b"PAR1" + b"\x00" * 100, "damaged"),
    ],
)
def test_files_that_hold_no_header_are_refused_without_quoting_them(tmp_path, name, content, part):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(BadInput) as caught:
        draft_schema(tmp_path / name)

    assert caught.value.message.startswith(f"{name}: ")
    assert part in caught.value.message
    assert "kim" not in caught.value.message


def test_a_folder_and_a_file_that_is_not_there_are_refused(tmp_path):
    with pytest.raises(BadInput, match="is a folder"):
        draft_schema(tmp_path)
    with pytest.raises(BadInput, match=r"x\.csv: there is no such file"):
        draft_schema(tmp_path / "x.csv")
