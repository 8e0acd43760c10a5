import datetime
import gzip
import os

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential.source import Source, keyed_digest, keyed_digests, open_source
from dp_core.errors import BadInput
from dp_core.kernel.coding import raw_rows

CANARY = "zq7canary"
KEY = b"0123456789abcdef"


def rows_of(source):
    return [tuple(row.values()) for b in source.batches() for row in b.records.to_pylist()]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(folder, pattern="*", columns=("a", "b"), ignore=()):
    """Return the message with which opening or reading is refused; it never holds the canary."""
    with pytest.raises(BadInput) as caught:
        rows_of(open_source(pattern, folder, columns, ignore))
    assert CANARY not in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value.message


def test_csv_texts_arrive_as_they_stand_in_the_file(tmp_path):
    write(tmp_path / "d.csv", 'a,b\n007,?\nNA,None\n"x,""y",\n1e-9,""\n')
    source = open_source("d.csv", tmp_path, ["b", "a"], [])
    assert rows_of(source) == [("?", "007"), ("None", "NA"), ("", 'x,"y'), ("", "1e-9")]


def test_a_later_block_of_another_type_is_read_as_text_too(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_rows, "BLOCK_BYTES", 64)
    rows = [(str(i), "1") for i in range(50)] + [("x", "é")] * 50
    write(tmp_path / "d.csv", "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert rows_of(open_source("d.csv", tmp_path, ["a", "b"], [])) == rows


def test_the_byte_order_mark_is_not_part_of_the_first_name(tmp_path):
    write(tmp_path / "d.csv", b"\xef\xbb\xbfa,b\r\n1,2\r\n")
    assert rows_of(open_source("d.csv", tmp_path, ["a", "b"], [])) == [("1", "2")]


def test_an_empty_line_of_a_one_column_file_is_a_record(tmp_path):
    write(tmp_path / "d.csv", "a\n1\n\n2\n")
    assert rows_of(open_source("d.csv", tmp_path, ["a"], [])) == [("1",), ("",), ("2",)]


def test_compressed_csv_is_read(tmp_path):
    write(tmp_path / "d.csv.gz", gzip.compress(b"a,b\n1,2\n"))
    assert rows_of(open_source("d.csv.gz", tmp_path, ["a", "b"], [])) == [("1", "2")]


def test_files_of_a_glob_are_read_in_the_order_of_their_names(tmp_path):
    for name in "cab":
        write(tmp_path / f"{name}.csv", f"a,b,n\n{name},1,0\n")
    source = open_source("*.csv", tmp_path, ["a"], ["b", "n"])
    assert rows_of(source) == [("a",), ("b",), ("c",)]
    assert {batch.partition for batch in source.batches()} == {0, 1, 2}


def test_a_column_may_stand_elsewhere_in_another_file(tmp_path):
    write(tmp_path / "1.csv", "a,b\n1,2\n")
    write(tmp_path / "2.csv", "b,a\n4,3\n")
    assert rows_of(open_source("*.csv", tmp_path, ["a", "b"], [])) == [("1", "2"), ("3", "4")]


def test_row_groups_are_partitions_and_large_ones_come_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_rows, "BATCH_ROWS", 30)
    table = pa.table({"a": range(200), "b": [f"t{i % 7}" for i in range(200)]})
    pq.write_table(table, tmp_path / "1.parquet", row_group_size=70)
    pq.write_table(table, tmp_path / "2.parquet")
    source = open_source("*.parquet", tmp_path, ["b", "a"], [])
    batches = list(source.batches())
    assert sorted({b.partition for b in batches}) == [0, 1, 2, 3]
    assert max(b.records.num_rows for b in batches) <= 30
    assert batches[-1].done == 1
    assert rows_of(source) == 2 * [(f"t{i % 7}", i) for i in range(200)]


def test_progress_ends_at_one(tmp_path):
    write(tmp_path / "1.csv", "a\n" + "1\n" * 1000)
    done = [batch.done for batch in open_source("1.csv", tmp_path, ["a"], []).batches()]
    assert done == sorted(done)
    assert done[-1] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("a,b\n", "no row"),
        ("a,b\n\n\n", "no row"),
        (f"a,b\n1,2\n{CANARY}\n", "more or fewer fields"),
        (f"a,b\n1,2\n{CANARY},2,3\n", "more or fewer fields"),
        (b"a,b\n1," + CANARY.encode() + b"\xff\n", "not UTF-8"),
        (b"a,b\n1,2\n3," + CANARY.encode() + b"\xff\n", "not UTF-8"),
        (b"a,\xff\n1,2\n", "not UTF-8"),
        (f"a\n{CANARY}\n", "lacks column 'b'"),
        (f"a,b,c\n1,2,{CANARY}\n", "has a column that the schema does not describe"),
        (f"a,b,{CANARY},x\n1,2,3,4\n", "has 2 columns that the schema does not describe"),
        (f"a,b,{CANARY},{CANARY}\n1,2,3,4\n", "repeats a column that the schema does not"),
        (f"a,b,a\n1,2,{CANARY}\n", "more than one column 'a'"),
        (f"{CANARY},3\n4,5\n", "names none of the schema's columns"),
        (f"a;b\n1;{CANARY}\n", "separated by ';'"),
    ],
)
def test_a_bad_csv_file_is_refused_without_a_value(tmp_path, text, words):
    write(tmp_path / "d.csv", text)
    assert words in refusal(tmp_path, "d.csv")
    assert "d.csv" in refusal(tmp_path, "d.csv")


def test_an_unclosed_quote_is_refused_without_a_value(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_rows, "BLOCK_BYTES", 100)
    write(tmp_path / "d.csv", f'a,b\n1,2\n3,"{CANARY}\n' + "5,6\n" * 200)
    assert "d.csv" in refusal(tmp_path, "d.csv")


@pytest.mark.parametrize(
    "text",
    [
        'a,b,note\n1,2,"open\n3,4,x\n5,6,"closed"\n',
        'a,b,note\n1,2,x\n3,4,"open\n5,6,x\n',
        'a,b,note\r\n1,2,"two\r\nlines"\r\n3,4,x\r\n',
        'a,b,note\r1,2,"two\rlines"\r3,4,x\r',
        'a,b,note\n1,2,"one\n\nempty"\n',
        'a,"b",note\n1,"2\n",x\n',
        '"a",b,"no\nte"\n1,2,x\n',
        'a,b,note\n1,2,"' + "x" * 140_000 + "\n3,4,x\n",
    ],
)
def test_a_row_that_goes_on_in_the_next_line_is_refused_in_any_column(tmp_path, text):
    """Other people's rows would become a part of one value."""
    write(tmp_path / "d.csv", text)
    ignore = ("note", "no\nte", "no\r\nte")
    assert "does not end with its line" in refusal(tmp_path, "d.csv", ("a", "b"), ignore)


def test_the_internal_text_names_the_line_that_goes_on(tmp_path):
    write(tmp_path / "d.csv", 'a,b\n1,2\n\n3,"x\n5,6\n')
    with pytest.raises(BadInput) as refused:
        rows_of(open_source("d.csv", tmp_path, ["a", "b"], []))
    assert refused.value.internal == "Line 4 goes on in the next line."


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_are_counted_as_the_parser_tells_them_apart(tmp_path, monkeypatch, end, last):
    monkeypatch.setattr(raw_rows, "BLOCK_BYTES", 32)
    rows = [f'{i},5" x' for i in range(40)]
    text = end.join(["a,b", "", *rows[:20], "", "", *rows[20:]]) + end * last
    write(tmp_path / "d.csv", text)
    assert len(rows_of(open_source("d.csv", tmp_path, ["a", "b"], []))) == 40
    write(tmp_path / "one.csv", end.join(["a", "1", "", "", "2"]) + end * last)
    assert rows_of(open_source("one.csv", tmp_path, ["a"], [])) == [("1",), ("",), ("",), ("2",)]


def test_every_missing_column_is_named(tmp_path):
    write(tmp_path / "d.csv", "a\n1\n")
    assert "columns 'b', 'c', 'd'" in refusal(tmp_path, "d.csv", ("a", "b", "c", "d"))


def test_unknown_columns_are_counted_and_only_the_internal_text_names_them(tmp_path):
    names = ",".join(f"x{i}" for i in range(9))
    write(tmp_path / "d.csv", f"a,b,{names}\n" + "1," * 10 + "1\n")
    with pytest.raises(BadInput, match="has 9 columns that the schema") as refused:
        open_source("d.csv", tmp_path, ["a", "b"], [])
    assert "x0" not in refused.value.message
    assert "'x0', 'x1', 'x2', 'x3', 'x4' and 4 more" in refused.value.internal


def test_files_with_differing_columns_are_refused(tmp_path):
    write(tmp_path / "1.csv", "a,b\n1,2\n")
    write(tmp_path / "2.csv", "a\n1\n")
    message = refusal(tmp_path, "*.csv")
    assert "2.csv" in message
    assert "'b'" in message


def test_nothing_matches_a_folder_and_unknown_kinds_are_refused(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path / "d.xlsx", "x")
    write(tmp_path / "d.csv", "a,b\n1,2\n")
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "d.parquet")
    assert "No data file matches" in refusal(tmp_path, "*.txt")
    assert "is a folder" in refusal(tmp_path, "sub")
    assert "pandas.read_excel" in refusal(tmp_path, "d.xlsx")
    assert "CSV and Parquet" in refusal(tmp_path, "d.[cp]*")


def test_a_parquet_file_cut_in_half_is_refused(tmp_path):
    table = pa.table({"a": [CANARY] * 1000, "b": range(1000)})
    pq.write_table(table, tmp_path / "d.parquet")
    content = (tmp_path / "d.parquet").read_bytes()
    write(tmp_path / "d.parquet", content[: len(content) // 2])
    assert "damaged" in refusal(tmp_path, "d.parquet")


def test_damage_inside_a_parquet_file_is_refused(tmp_path):
    table = pa.table({"a": [f"{CANARY}{i}" for i in range(3000)], "b": range(3000)})
    pq.write_table(table, tmp_path / "d.parquet")
    content = bytearray((tmp_path / "d.parquet").read_bytes())
    content[4:900] = os.urandom(896)
    write(tmp_path / "d.parquet", bytes(content))
    assert "damaged" in refusal(tmp_path, "d.parquet")


def test_other_bad_parquet_files_are_refused(tmp_path):
    write(tmp_path / "1.parquet", "a,b\n1,2\n")
    assert "is not a Parquet file" in refusal(tmp_path, "1.parquet")
    pq.write_table(
        pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())}),
        tmp_path / "2.parquet",
    )
    assert "no row" in refusal(tmp_path, "2.parquet")
    pq.write_table(pa.table({"a": [[1]], "b": [1]}), tmp_path / "3.parquet")
    assert "column 'a'" in refusal(tmp_path, "3.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "4.parquet")
    assert "lacks column 'b'" in refusal(tmp_path, "4.parquet")


def test_the_digest_depends_on_bytes_lengths_and_key_but_not_on_names(tmp_path):
    def digest(*texts, key=KEY, prefix="x"):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for number, text in enumerate(texts):
            write(folder / f"{prefix}{number}.csv", text)
        return keyed_digest(open_source("*.csv", folder, ["a"], []), key)

    base = digest("a\n1\n", "a\n2\n")
    assert base == digest("a\n1\n", "a\n2\n", prefix="y")
    others = [
        digest("a\n1\n", "a\n3\n"),
        digest("a\n1\na\n2\n"),
        digest("a\n1\n2\n", "a\n"),
        digest("a\n1\n", "a\n2\n", key=KEY[::-1]),
    ]
    assert base not in others
    assert len(set(others)) == len(others)


@pytest.mark.parametrize("name", ["csv", "csv.gz", "parquet"])
def test_each_of_several_files_that_is_not_small_has_the_digest_that_it_has_alone(tmp_path, name):
    """Small files about different people may be equal."""
    for place, rows in (("1", 100), ("2", 0), ("3", 101), ("4", 99)):
        frame = pd.DataFrame({"a": range(rows)})
        path = tmp_path / f"{place}.{name}"
        frame.to_parquet(path) if name == "parquet" else frame.to_csv(path, index=False)

    found_kind = "parquet" if name == "parquet" else "csv"

    def found(pattern):
        return keyed_digests(open_source(f"{pattern}.{name}", tmp_path, ["a"], []), KEY)

    alone = {f"file {place}": found(place).whole for place in ("1", "3")}
    assert found("*").parts == alone
    assert found("*").small == tuple(
        keyed_digest(Source([tmp_path / f"{place}.{name}"], found_kind, ["a"]), KEY)
        for place in ("2", "4")
    )
    assert found("*").whole not in alone.values()
    assert found("1").parts == {}


def test_a_file_that_changes_between_passes_is_refused(tmp_path):
    path = write(tmp_path / "d.csv", "a,b\n1,2\n")
    source = open_source("d.csv", tmp_path, ["a", "b"], [])
    source.assert_unchanged()
    write(path, "a,b\n1,2\n3,4\n")
    for look in (
        source.assert_unchanged,
        lambda: rows_of(source),
        lambda: keyed_digest(source, KEY),
    ):
        with pytest.raises(BadInput, match="changed while"):
            look()
    path.unlink()
    with pytest.raises(BadInput, match="changed while"):
        source.assert_unchanged()


def test_a_short_key_is_refused(tmp_path):
    write(tmp_path / "d.csv", "a\n1\n")
    with pytest.raises(ValueError, match="16 bytes"):
        keyed_digest(open_source("d.csv", tmp_path, ["a"], []), b"short")


def test_a_day_that_nanoseconds_cannot_hold_is_read_as_itself(tmp_path):
    """Spark writes 96-bit timestamps by default."""
    day = datetime.datetime(9999, 12, 31)
    table = pa.table({"day": pa.array([day], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "days.parquet", use_deprecated_int96_timestamps=True)
    (batch,) = open_source("days.parquet", tmp_path, ("day",), ()).batches()
    assert batch.records.column("day").to_pylist() == [day]
