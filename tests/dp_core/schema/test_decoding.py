"""`codes_of` reads what `decode` writes, and refuses everything else."""

from __future__ import annotations

import dataclasses
import datetime
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_core.confidential.encoding import Encoder
from dp_core.kernel.counting.dataset import Dataset
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.grid import on_grid
from dp_core.schema.reading.domain_reader import bins_of
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.schema.rules.possible_codes import decode

MANY = [str(number) for number in range(300)]
DEFINITIONS = {
    "levels": {"type": "category", "levels": ["north", "south", "5"]},
    "labels": {"type": "category", "levels": {"1": "male", "2": "female"}, "missing": "level"},
    "ordinal": {"type": "ordinal", "levels": ["poor", "fair", "good"], "missing": "level"},
    "127": {"type": "category", "levels": MANY[:127], "missing": "level"},
    "128": {"type": "category", "levels": MANY[:128], "missing": "level"},
    "300": {"type": "ordinal", "levels": MANY, "missing": "level"},
    "each": {"type": "integer", "min": -3, "max": 40},
    "integer": {"type": "integer", "min": 0, "max": 80, "edges": [0, 1, 5, 81], "missing": "level"},
    "huge": {"type": "integer", "min": -(10**18), "max": 10**18, "bins": 7, "missing": "level"},
    "number": {"type": "number", "min": "0", "max": "1/3", "bins": 7},
    "gap": {"type": "number", "min": -5, "max": 5, "bins": 3, "missing": "level"},
    "tenths": {"type": "number", "edges": ["0", "0.1", "0.3", "2.5"], "decimals": 1},
    "cents": {"type": "number", "min": 0, "max": 1, "bins": 3, "decimals": 2, "missing": "level"},
    "sums": {"type": "number", "min": 0, "max": 1e12, "bins": 1000, "decimals": 6},
    "weight": {"type": "number", "min": 0, "max": 10, "bins": 9, "role": "weight"},
    "day": {"type": "date", "min": "1899-12-25", "max": "1900-01-10", "bins": "day"},
    "year": {"type": "date", "min": "0001-01-01", "max": "9999-12-31", "bins": "year"},
    "born": {"type": "date", "min": "2000-02-29", "max": "2000-12-31", "bins": "month"}
    | {"missing": "level"},
    "group": {"type": "category", "follows": "levels", "levels": ["a", "b"]}
    | {"map": {"north": "a", "south": "b", "5": "a"}},
    "age": {"type": "ordinal", "follows": "integer", "levels": ["low", "high"], "edges": [5]},
}
PRIVATE = {
    "whole": {"type": "integer", "min": -9, "max": 900, "missing": "level"},
    "real": {"type": "number", "min": 0, "max": 7},
    "tens": {"type": "number", "min": 0, "max": 7, "decimals": 1, "missing": "level"},
    "when": {"type": "date", "min": "1970-01-01", "max": "2026-12-31", "missing": "level"},
}
CITY = {"type": "category", "missing": "level", "levels": {"private": 2}} | {
    "groups": {"east": ["a", "b", "c"], "west": ["d", "e"]}
}


def schema_of(definitions: dict[str, object]) -> Schema:
    return parse_schema({"version": 1, "title": "t", "columns": definitions})


SCHEMA = schema_of(DEFINITIONS)
UNCHOSEN = schema_of({name: {**keys, "bins": {"private": 3}} for name, keys in PRIVATE.items()})


def drawn(schema: Schema, seed: int, rows: int) -> tuple[Dataset, pa.Table]:
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in schema.domain.sizes]
    data = Dataset(schema.domain, np.array(codes, np.uint16).reshape(len(codes), rows))
    return data, decode(schema, data, rng=rng)


def column_of(table: pa.Table, name: str) -> pa.Array:
    return table[name].combine_chunks()


def chosen(column: Column, cuts: list[int], weights: list[int]) -> Column:
    """Return a column with private bins between cuts, and pieces that have the weights in turn.

    The first piece of each bin weighs at least 1: no bin has weight 0.
    """
    assert column.choice is not None
    among = column.choice.among
    ends = sorted({0, *cuts, *range(0, among.bins, max(among.bins // len(weights), 1))})
    pieces = tuple(
        (end, max(weights[place % len(weights)], int(end in (0, *cuts))))
        for place, end in enumerate(ends)
    )
    choice = dataclasses.replace(column.choice, codes=tuple(cuts), pieces=pieces)
    return dataclasses.replace(bins_of(among, tuple(cuts)), choice=choice)


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(0, 200))
@settings(deadline=None, max_examples=40)
def test_codes_of_undoes_decode(seed, rows):
    data, table = drawn(SCHEMA, seed, rows)
    for column in SCHEMA.columns:
        found = codes_of(column, column_of(table, column.name))
        assert found.dtype == np.uint16
        assert found.tolist() == data.column(column.name).tolist()


@given(seed=st.integers(0, 2**32 - 1), cuts=st.data(), weights=st.lists(st.integers(0, 5000)))
@settings(deadline=None, max_examples=40)
def test_codes_of_undoes_decode_of_bins_that_were_chosen_privately(seed, cuts, weights):
    columns = []
    for column in UNCHOSEN.columns:
        last = column.stored.bins - 1
        places = cuts.draw(st.lists(st.integers(1, last), min_size=1, max_size=9, unique=True))
        columns.append(chosen(column, sorted(places), [*weights, 1]))
    schema = dataclasses.replace(UNCHOSEN, columns=tuple(columns))

    data, table = drawn(schema, seed, 60)

    for column in schema.columns:
        values = column_of(table, column.name)
        expected = data.column(column.name).tolist()
        assert codes_of(column, values).tolist() == expected
        assert Encoder(column).encode(values).codes.tolist() == expected


def test_codes_of_undoes_decode_of_levels_that_were_chosen_privately():
    schema = schema_of({"city": CITY})
    assert schema.columns[0].choice is not None
    choice = dataclasses.replace(schema.columns[0].choice, codes=(0, 1))
    schema = dataclasses.replace(
        schema, columns=(dataclasses.replace(schema.columns[0], choice=choice),)
    )
    data, table = drawn(schema, 1, 100)

    found = codes_of(schema.columns[0], column_of(table, "city"))

    assert found.tolist() == data.column("city").tolist()


@pytest.mark.parametrize("positions", [2000, 65_534])
def test_codes_of_undoes_decode_on_a_grid(positions):
    schema = on_grid(
        schema_of({name: DEFINITIONS[name] for name in ("integer", "gap", "born")}), positions
    )
    data, table = drawn(schema, 2, 3000)
    for column in schema.columns:
        found = codes_of(column, column_of(table, column.name))
        assert found.tolist() == data.column(column.name).tolist()


def test_codes_of_agrees_with_the_encoder_of_the_file_on_what_decode_writes():
    _, table = drawn(SCHEMA, 3, 2000)
    for column in SCHEMA.released:
        values = column_of(table, column.name)
        texts = values
        if column.levels:
            # The file has texts where a synthetic set has labels.
            text_of = {level.label: level.text for level in column.levels}
            texts = pa.array([text_of.get(label) for label in values.to_pylist()], pa.string())
        encoded = Encoder(column).encode(texts)
        assert encoded.bad is None
        assert codes_of(column, values).tolist() == encoded.codes.tolist()


def test_codes_of_reads_what_a_parquet_file_makes_of_the_values(tmp_path):
    data, table = drawn(SCHEMA, 4, 500)
    pq.write_table(table, tmp_path / "set.parquet")
    for batch in pq.ParquetFile(tmp_path / "set.parquet").iter_batches(batch_size=10_000):
        for column in SCHEMA.columns:
            found = codes_of(column, batch.column(column.name))
            assert found.tolist() == data.column(column.name).tolist()


def test_codes_of_reads_plain_labels_and_dictionaries_of_narrow_indices():
    labels = ["male", None, "female"]
    column = SCHEMA.column("labels")
    for kind in (pa.string(), pa.dictionary(pa.int8(), pa.string())):
        assert codes_of(column, pa.array(labels, kind)).tolist() == [0, 2, 1]
    # With as many labels as the indices have values there is no index left for null.
    full = pa.array([*MANY[:256], None], pa.string()).cast(pa.dictionary(pa.uint8(), pa.string()))
    assert codes_of(SCHEMA.column("300"), full).tolist() == [*range(256), 300]


def test_a_value_on_an_edge_belongs_to_the_upper_bin_and_the_greatest_to_the_last():
    edges = pa.array([0.0, -0.0, 0.1, math.nextafter(0.1, 0), 0.3, 2.5])
    assert codes_of(SCHEMA.column("tenths"), edges).tolist() == [0, 0, 1, 0, 2, 2]
    assert codes_of(SCHEMA.column("integer"), pa.array([0, 1, 4, 5, 80])).tolist() == [
        0,
        1,
        1,
        2,
        2,
    ]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("number", pa.array([math.nan])),
        ("gap", pa.array([math.inf])),
        ("gap", pa.array([math.nextafter(5, 6)])),
        ("integer", pa.array([81])),
        ("each", pa.array([2**63 - 1, -(2**63)])),
        ("born", pa.array([datetime.date(2000, 2, 28), None])),
        ("number", pa.array([0.1, None])),
        ("levels", pa.array(["north", None])),
        ("levels", pa.array(["north", "east"])),
        ("labels", pa.array(["1", "2"])),
        ("levels", pa.DictionaryArray.from_arrays([0], pa.array(["north", "east"]))),
        ("labels", pa.DictionaryArray.from_arrays([0], pa.array([None, "male"]))),
        ("levels", pa.array([5])),
        ("number", pa.array(["0.1"])),
        ("number", pa.array([0.1], pa.float32())),
        ("integer", pa.array(["3"])),
        ("integer", pa.array([3], pa.int32())),
        ("integer", pa.nulls(1)),
        ("day", pa.array([datetime.datetime(1900, 1, 1)])),
    ],
)
def test_codes_of_refuses_what_decode_never_writes(name, values):
    with pytest.raises((ValueError, KeyError, pa.ArrowException)):
        codes_of(SCHEMA.column(name), values)


def test_a_column_that_is_not_chosen_yet_is_neither_decoded_nor_read():
    with pytest.raises(ValueError, match="whole"):
        drawn(UNCHOSEN, 0, 3)
    with pytest.raises(ValueError, match="whole"):
        codes_of(UNCHOSEN.column("whole"), pa.array([1]))


def test_two_levels_of_one_label_are_the_first():
    column = Column(name="c", kind="category", levels=(Level("1", "a"), Level("2", "a")))
    assert codes_of(column, pa.array(["a"])).tolist() == [0]


@pytest.mark.parametrize("missing", ["level", "reject"])
def test_levels_beyond_16_bits_survive_the_parquet_file(tmp_path, missing):
    levels = [f"area {number}" for number in range(70_000)]
    keys = {"type": "category", "levels": levels} | (
        {"missing": "level"} if missing == "level" else {}
    )
    schema = schema_of({"area": keys})
    column, size = schema.columns[0], schema.domain.sizes[0]
    codes = np.array([[0, 4463, 65_535, 65_536, 69_999, size - 1]], schema.domain.code_type)
    table = decode(schema, Dataset(schema.domain, codes), rng=np.random.default_rng(1))
    pq.write_table(table, tmp_path / "set.parquet")
    read = pq.read_table(tmp_path / "set.parquet")

    assert read["area"].to_pylist()[:5] == [levels[code] for code in codes[0, :5]]
    found = codes_of(column, column_of(read, "area"))
    assert (found.dtype, found.tolist()) == (np.uint32, codes[0].tolist())
