"""Rows above the limit are left out of the store of codes, over all parts of a file."""

from __future__ import annotations

import csv
import random
from collections import Counter
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential.code_store import MANIFEST, CodeStore
from dp_core.confidential.coding import Coding, write_codes
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.original_values import original_values
from dp_core.confidential.person_rows import without_identifier
from dp_core.confidential.source import open_source
from dp_core.errors import SchemaViolation, StageFailed
from dp_core.schema.reading.schema_file import parse_schema
from tasks.validation.expectations import validate

MOST = 3


def schema_of(**keys):
    columns = {"age": {"type": "integer", "min": "0", "max": "99"}}
    columns["health"] = {"type": "category", "levels": ["poor", "fair", "good"]}
    unit = {"column": "id", "max_rows": str(MOST)}
    return parse_schema({"version": "1", "title": "t", "unit": unit, "columns": columns} | keys)


def panel(persons=60, seed=5):
    rng = random.Random(seed)
    rows = [
        (f"p{person}", str(rng.randrange(100)), rng.choice(["poor", "fair", "good"]))
        for person in range(persons)
        for _ in range(rng.randrange(1, 8))
    ]
    rng.shuffle(rows)
    return rows


def write_parts(folder, rows, parts=3, kind="csv"):
    for number in range(parts):
        part = rows[number::parts]
        if kind == "parquet":
            ids, ages, healths = (list(column) for column in zip(*part, strict=True))
            table = {"id": [int(one[1:]) for one in ids], "age": list(map(int, ages))}
            pq.write_table(pa.table({**table, "health": healths}), folder / f"{number}.parquet")
            continue
        with (folder / f"{number}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "age", "health"), *part])
    schema = schema_of()
    return open_source(f"*.{kind}", folder, schema.reads, schema.ignore)


def stored(store: CodeStore):
    """Return the rows of a store, counted: age and health."""
    chunks = [store.codes(chunk) for chunk in range(store.chunks)]
    return Counter(map(tuple, np.concatenate(chunks, axis=1).T.tolist()))


def test_of_each_person_as_many_rows_are_stored_as_may_over_all_parts(tmp_path):
    rows, schema = panel(), schema_of()
    store = write_codes(write_parts(tmp_path, rows), schema, tmp_path / "codes")
    assert store.rows == sum(min(MOST, n) for n in Counter(row[0] for row in rows).values())
    assert store.rows < len(rows)
    # Nothing else of the file is left, but hashes of all identifiers under a forgotten key.
    assert {path.suffix for path in (tmp_path / "codes").iterdir()} == {".arrow", ".json", ".units"}


def test_the_same_rows_stay_whatever_part_they_are_in_and_in_either_format(tmp_path):
    rows, schema, found = panel(), schema_of(), []
    for number, (parts, order) in enumerate([(3, rows), (1, rows[::-1]), (5, sorted(rows))]):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = write_parts(folder, order, parts)
        found.append(stored(write_codes(source, schema, folder / "c")))
        validate(source, schema, folder / "internal", codes=folder / "left")
        found.append(stored(CodeStore(folder / "left", schema.domain)))
        suffixes = {path.suffix for path in (folder / "left").iterdir()}
        assert suffixes == {".arrow", ".json", ".units"}
    assert all(each == found[0] for each in found)
    folder = tmp_path / "parquet"
    folder.mkdir()
    source = write_parts(folder, [row for row in rows if row[0] != "p7"], kind="parquet")
    one = write_codes(source, schema, folder / "c")
    assert one.rows == sum(found[0].values()) - min(MOST, sum(row[0] == "p7" for row in rows))


def test_a_store_of_before_does_not_outlive_a_pass_that_fails(tmp_path):
    schema, source = schema_of(), write_parts(tmp_path, panel())
    write_codes(source, schema, tmp_path / "codes")
    with Coding(schema, tmp_path / "codes"):
        assert not (tmp_path / "codes" / MANIFEST).exists()
    assert list((tmp_path / "codes").iterdir()) == []


def test_two_attempts_at_once_do_not_share_their_rows(tmp_path):
    schema = schema_of()
    source = write_parts(tmp_path, panel())
    alone = stored(write_codes(source, schema, tmp_path / "alone"))
    encoders = [Encoder(column) for column in schema.columns]

    def add(coding, batch):
        found = zip(encoders, schema.domain.columns, strict=True)
        coding.add(batch.records, [e.encode(batch.records.column(name)) for e, name in found])

    with Coding(schema, tmp_path / "codes") as late, suppress(FileNotFoundError):
        again = source.batches(late.notes)
        add(late, next(again))
        with Coding(schema, tmp_path / "codes") as coding:
            for batch in source.batches(coding.notes):
                add(coding, batch)
                with suppress(FileNotFoundError, StopIteration):  # its folder is gone: it stops
                    add(late, next(again))
            coding.finish()
    assert stored(CodeStore(tmp_path / "codes", schema.domain)) == alone


def test_a_person_more_changes_the_store_by_that_persons_rows(tmp_path):
    rows, schema = panel(), schema_of()
    new = [("new", str(age), "good") for age in (3, 50, 51, 52, 99)]
    for name, file in (("a", rows), ("b", new[:2] + rows + new[2:])):
        (tmp_path / name).mkdir()
        write_codes(write_parts(tmp_path / name, file), schema, tmp_path / name / "codes")
    before, after = (stored(CodeStore(tmp_path / n / "codes", schema.domain)) for n in "ab")
    assert not before - after
    assert sum((after - before).values()) == MOST
    assert not (after - before) - Counter((int(row[1]), 2) for row in new)


def test_what_staff_compare_with_are_the_rows_that_the_release_uses(tmp_path):
    source, schema = write_parts(tmp_path, panel()), schema_of()
    store = write_codes(source, schema, tmp_path / "codes")
    table = original_values(source, schema, ["age", "health"])
    codes = np.concatenate([store.codes(chunk) for chunk in range(store.chunks)], axis=1)
    assert table.column("age").to_pylist() == codes[0].tolist()


@pytest.mark.parametrize("nobody", ["", "  ", "?"])
def test_a_row_without_an_identifier_is_refused_before_anything_is_stored(tmp_path, nobody):
    schema = schema_of(missing_values=["", "?"])
    source = write_parts(tmp_path, [*panel(), (nobody, "41", "good")])
    for check in (
        lambda: validate(source, schema, tmp_path / "internal"),
        lambda: write_codes(source, schema, tmp_path / "codes"),
        lambda: validate(source, schema, tmp_path / "internal", codes=tmp_path / "codes"),
    ):
        with pytest.raises(SchemaViolation) as caught:
            check()
        assert caught.value.message == without_identifier("id")
    with pytest.raises(StageFailed):
        CodeStore(tmp_path / "codes", schema.domain)
    assert not (tmp_path / "codes" / "persons").exists()


def test_rows_that_do_not_fit_are_refused_whether_they_would_stay_or_not(tmp_path):
    # All rows of one person have the same bad value but for their number: some would be left out.
    rows = [*panel(), *(("bad", str(100 + number), "good") for number in range(9))]
    for kept in (1, 9):
        schema = schema_of(unit={"column": "id", "max_rows": str(kept)})
        source = write_parts(tmp_path, rows)
        with pytest.raises(SchemaViolation, match="outside 0 to 99"):
            validate(source, schema, tmp_path / "internal")
        with pytest.raises(SchemaViolation) as caught:
            write_codes(source, schema, tmp_path / "codes")
        assert caught.value.internal == "9 rows: age"
    clipped = schema_of(out_of_range="clip")
    assert stored(write_codes(source, clipped, tmp_path / "codes"))[99, 2] >= MOST
