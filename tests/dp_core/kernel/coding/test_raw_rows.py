"""Columns are taken by their names in the header of the file itself."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.errors import StageFailed
from dp_core.kernel.coding.coding_rule import coding_rule
from dp_core.kernel.coding.raw_rows import UnitNotes, notes_file
from dp_core.kernel.document import A_ROW, ProtectedUnit

PERSON = ProtectedUnit("person", "who", 3, ("", "NA"))
SEX = coding_rule(
    {
        "name": "sex",
        "kind": "levels",
        "levels": [["f"], ["m"]],
        "codes": 2,
        "missing": "reject",
        "missing_values": [],
        "out_of_range": "reject",
    }
)


def notes_of(folder, unit=PERSON):
    return UnitNotes(unit, [SEX], folder, "A column")


def csv_batches(notes, path, names=("sex", "who")):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as stream:
        yield from notes.csv_rows(path, stream, names)


def noted(folder, unit=PERSON):
    return np.fromfile(folder / notes_file(unit, "identified_by"), np.uint64).tolist()


def finished(folder, notes, batches, codes=(0, 1)):
    for rows in batches:
        notes.require_coded(rows, [np.array(codes, np.uint16)])
    notes.finish(folder)
    return noted(folder)


FILES = {
    "a.csv": 'who,sex,x\np1,f,"a, ""b"""\n7,m,\n',
    "b.csv": '\ufeffx,"sex","who"\n,f,"p1"\n1,m,7.0\n',
    "c.csv.gz": "sex,who\nf, p1 \nm,007\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_same_units_are_noted_in_any_order_and_form_of_the_columns(tmp_path, name):
    content = FILES[name].encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    table = pa.table({"x": [1.5, None], "who": ["p1", "7"], "sex": ["f", "m"]})
    pq.write_table(table, tmp_path / "one.parquet")
    first = notes_of(tmp_path)
    rows = list(csv_batches(first, tmp_path / name))
    assert [each.to_pydict()["sex"] for each in rows] == [["f", "m"]]
    expected = finished(tmp_path, first, rows)
    again = UnitNotes(PERSON, [SEX], tmp_path, "A column", key=first.key)
    batches = again.parquet_rows(tmp_path / "one.parquet", ["sex", "who"], lambda one: one)
    assert finished(tmp_path, again, (found for _, found in batches)) == expected
    assert len({*expected}) == 2


@pytest.mark.parametrize("header", ["who,sex,who", "sex,x", "who,x", "sex;who"])
def test_a_header_without_a_name_or_with_it_twice_is_refused(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1,2,3\n")
    with pytest.raises(StageFailed, match="missing or repeated in the header"):
        list(csv_batches(notes_of(tmp_path), path))


def test_columns_of_one_name_in_a_parquet_file_are_refused(tmp_path):
    columns = [pa.array(["p1"]), pa.array(["f"]), pa.array(["p2"])]
    table = pa.Table.from_arrays(columns, ["who", "sex", "who"])
    pq.write_table(table, tmp_path / "a.parquet")
    batches = notes_of(tmp_path).parquet_rows(
        tmp_path / "a.parquet", ["who", "sex"], lambda one: one
    )
    with pytest.raises(StageFailed, match="missing or repeated in the header"):
        list(batches)


def test_a_file_is_read_once(tmp_path):
    path, notes = tmp_path / "a.csv", notes_of(tmp_path, A_ROW)
    path.write_text("sex,who\nf,1\n")
    assert len(list(csv_batches(notes, path))) == 1
    with pytest.raises(StageFailed, match="read twice"):
        list(csv_batches(notes, path))


@pytest.mark.parametrize("codes", [[1, 0], [0, 0], [1, 1]])
def test_codes_of_another_column_are_refused(tmp_path, codes):
    path, notes = tmp_path / "a.csv", notes_of(tmp_path)
    path.write_text("sex,who\nf,1\nm,2\n")
    with pytest.raises(StageFailed, match="other columns than those that were read"):
        finished(tmp_path, notes, csv_batches(notes, path), codes)


def test_an_equal_batch_is_not_the_one_that_was_read(tmp_path):
    path, notes = tmp_path / "a.csv", notes_of(tmp_path)
    path.write_text("sex,who\nf,1\nm,2\n")
    copies = (rows.slice(0) for rows in csv_batches(notes, path))
    with pytest.raises(StageFailed, match="other columns than those that were read"):
        finished(tmp_path, notes, copies)


def test_rows_that_were_read_and_not_coded_leave_no_notes(tmp_path):
    path, notes = tmp_path / "a.csv", notes_of(tmp_path)
    path.write_text("sex,who\nf,1\n")
    list(csv_batches(notes, path))
    with pytest.raises(StageFailed, match="were not coded"):
        notes.finish(tmp_path)
    assert not (tmp_path / notes_file(PERSON, "identified_by")).exists()


def test_public_rows_leave_no_file(tmp_path):
    notes = UnitNotes(A_ROW, (), None, "")
    path = tmp_path / "a.csv"
    path.write_text("sex,who\nf,1\n")
    assert [rows.num_rows for rows in csv_batches(notes, path)] == [1]
    notes.finish(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
