"""A cell's code depends on the schema and on the cell alone, not on how a file stores its column.

The type of a column depends on all rows: one missing value makes pandas write whole numbers as
floats. So the same rows in every storage, permuted and in several files, give the same codes, and a
unit whose value changes the type of a column changes no code of another unit.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import itertools
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import sqlalchemy

from dp_core.confidential.coding import write_codes
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.panel.panel_source import PanelSource
from dp_core.confidential.panel.row_columns import row_columns
from dp_core.confidential.source import open_source
from dp_core.confidential.source_files import is_readable
from dp_core.confidential.sources.common_types import in_common_type, type_words
from dp_core.confidential.sources.frame_source import frame_table
from dp_core.errors import BadInput, SchemaViolation
from dp_core.kernel.coding.stored_texts import canonical_texts, identifier_texts
from dp_core.public_data.frame_codes import frame_codes
from dp_core.schema.reading.schema_file import parse_schema
from tasks.inputs import database_source
from tests.linked_frames import pair_row_codes

LENIENT = {"missing": "level", "out_of_range": "missing"}
COLUMNS = {
    "firm": {"type": "category", "levels": ["7", "12345678901", "20000000000"], **LENIENT}
    | {"missing_values": ["", "09", "99.", "-9.00", "+8", "1e3"]},
    "share": {"type": "category", "levels": ["0.5", "0.7", "3"], **LENIENT},
    "month": {"type": "category", "levels": ["01", "02", "10"], **LENIENT},
    "area": {"type": "category", "levels": ["1", "2", "07", "1e+05"], **LENIENT},
    "step": {"type": "category", "levels": [".5", "1.0", "1.50", "2"], **LENIENT},
    "visit": {"type": "category", "levels": ["2000-02-29 00:00:00", "2001-01-01T12:30"], **LENIENT},
    "works": {"type": "category", "levels": ["true", "false"], **LENIENT},
    "smokes": {"type": "category", "levels": ["0", "1"], **LENIENT},
    "moved": {"type": "category", "levels": ["2000-02-29", "2001-01-01"], **LENIENT},
    "starts": {"type": "category", "levels": ["08:00", "12:30:00", "20:15:30.50"], **LENIENT},
    "colour": {"type": "category", "levels": ["0x10", "0X1f", "42"], **LENIENT},
    "sick": {"type": "integer", "min": "0", "max": "1", **LENIENT},
    "age": {"type": "integer", "min": "0", "max": "99", "edges": ["0", "1", "18", "100"]}
    | {"missing": "level", "out_of_range": "clip", "missing_values": ["", "-9", "999"]},
    "debt": {
        "type": "integer",
        "min": "-30000000000",
        "max": "30000000000",
        "bins": "8",
        **LENIENT,
    },
    "pay": {"type": "number", "min": "0.1", "max": "0.9", "edges": ["0.1", "0.3", "0.7", "0.9"]}
    | {**LENIENT, "missing_values": ["", "99.9"]},
    "born": {"type": "date", "min": "1999-01-01", "max": "2001-12-31", "bins": "year"}
    | {**LENIENT, "missing_values": ["", "9999-12-31"]},
    "entry": {"type": "date", "min": "1999-01-01", "max": "2001-12-31", "bins": "year"}
    | {**LENIENT, "format": "%d.%m.%Y", "missing_values": ["", "31.12.9999"]},
    "exit": {"type": "date", "min": "1999-01-01", "max": "2001-12-31", "bins": "year"}
    | {**LENIENT, "format": "%Y%m%d"},
    "left": {"type": "date", "min": "1999-01-01", "max": "2001-12-31", "bins": "year"}
    | {**LENIENT, "format": "%d%m%Y"},
}
# Beside an edge, a level and a missing code, in the eighth digit.
COLUMNS["near"] = {**COLUMNS["pay"], "missing_values": ["", "0.55"]}
COLUMNS["ratio"] = {**COLUMNS["share"]}
NEAR = [0.69999999, 0.70000001, 0.3, 0.55000001, 0.1]
SMALL, LARGE = [0, 1, 7, 17, 18, 99, 999, -9], [7, 12345678901, 20000000000, -30000000000]
SHARES, DAYS = [0.5, 0.7, 3.0, 0.1, 0.3, 0.9, 99.9], ["2000-02-29", "2001-01-01", "9999-12-31"]
FLOATS = (pa.float32(), pa.float64())
TIMES = (pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
FORMS = ("{:f}", "{:.2f}", "{:e}", "{:+.3f}", " {:08.4f}")


def whole_numbers(values):
    """Yield arrays of the same whole numbers, of every type that holds them."""
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint64()]
    for kind in (*kinds, *FLOATS, pa.decimal128(20, 0), pa.decimal256(40, 10)):
        try:
            array = pa.array(values).cast(kind)
        except pa.ArrowInvalid:
            continue
        if array.cast(pa.float64() if pa.types.is_floating(kind) else kind).to_pylist() == values:
            yield array
    for form in ("{}", "{}.0", "{}.00", "{}.", " {} ", "{:+}", "{:07}", "{:.12e}"):
        yield pa.array([form.format(value) for value in values])
    yield pa.array([f"{Decimal(value).normalize():E}" for value in values])


def numbers(values):
    """Yield arrays of the same numbers, also as texts of what binary32 keeps of them."""
    decimals = [Decimal(str(value)) for value in values]
    short = pa.array(values, pa.float32())
    yield from (pa.array(values), short, short.cast(pa.float64()), short.cast(pa.string()))
    yield from (pa.array(decimals, kind) for kind in (pa.decimal128(10, 8), pa.decimal128(30, 12)))
    yield from (pa.array([form.format(value) for value in values]) for form in FORMS)
    yield pa.array([f"{value:g}".lstrip("0") for value in values])


def days(values, form="%Y-%m-%d"):
    """Yield arrays of the same days; as stored days and ISO texts only if the year is first."""
    found = [datetime.date.fromisoformat(value) for value in values]
    yield pa.array([day.strftime(form) for day in found])
    yield pa.array([f"{day.strftime(form)} 00:00:00" for day in found])
    if form.startswith("%Y"):
        yield from (pa.array(found, kind) for kind in (pa.date32(), pa.date64()))
        yield from (pa.array(found).cast(pa.timestamp(unit)) for unit in ("s", "ms", "us"))
    if form.startswith("%Y") and form != "%Y-%m-%d":
        yield pa.array(values)
        yield pa.array([f"{value} 12:30" for value in values])
    if form in ("%Y%m%d", "%d%m%Y"):
        yield from whole_numbers([int(day.strftime(form)) for day in found])


def truths(values):
    """Yield arrays of the same booleans."""
    yield pa.array(values)
    for words in (("false", "true"), ("False", "True")):
        yield pa.array([words[value] for value in values])
    yield from whole_numbers([int(value) for value in values])


def times(values):
    """Yield arrays of the same times."""
    found = [datetime.datetime.fromisoformat(value) for value in values]
    yield from (pa.array(found, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns"))
    for form in ("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f"):
        yield pa.array([time.strftime(form) for time in found])


def hours(values):
    """Yield arrays of the same times of a day."""
    found = [datetime.time.fromisoformat(value) for value in values]
    yield pa.array(values)
    yield from (pa.array(found, kind).cast(pa.string()) for kind in TIMES)
    yield pa.array([f" {time:%H:%M:%S.%f} " for time in found])
    yield pa.array([value.removeprefix("0") for value in values])


ARRAYS = {
    "firm": whole_numbers(LARGE[:3]),
    "share": numbers(SHARES),
    "month": whole_numbers([1, 2, 10, 3]),
    "area": whole_numbers([1, 2, 7, 100000, 3]),
    "step": numbers([0.5, 1.0, 1.5, 2.0, 0.7]),
    "visit": times(["2000-02-29", "2001-01-01 12:30", "2001-01-01 12:31"]),
    "works": truths([True, False]),
    "smokes": itertools.chain(whole_numbers([1, 0]), truths([True, False])),
    "moved": days(DAYS),
    "starts": hours(["08:00", "12:30", "20:15:30.500", "07:00"]),
    "colour": itertools.chain(
        [pa.array(["0x10", "0x1F", "0x2a", "0X7"])], whole_numbers([16, 31, 42, 7])
    ),
    "sick": itertools.chain(whole_numbers([1, 0]), truths([True, False])),
    "age": whole_numbers(SMALL),
    "debt": whole_numbers(LARGE),
    "pay": numbers(SHARES),
    "near": numbers(NEAR),
    "ratio": numbers([0.69999999, 0.70000001, 0.5, 0.3, 3.0]),
    "born": days(DAYS),
    "entry": days(DAYS, "%d.%m.%Y"),
    "exit": days(DAYS, "%Y%m%d"),
    "left": days(["2000-02-09", *DAYS], "%d%m%Y"),
}
CASES = [
    (name, number, array) for name, some in ARRAYS.items() for number, array in enumerate(some)
]
FIRST = {name: array for name, number, array in CASES if number == 0}


def code(column, array):
    encoded = Encoder(column).encode(array)
    assert encoded.bad is None
    return encoded.codes.tolist()


@pytest.fixture(scope="module")
def schema():
    return parse_schema({"version": "1", "title": "Storage", "columns": COLUMNS})


@pytest.mark.parametrize(
    ("name", "array"), [pytest.param(n, a, id=f"{n}-{a.type}-{k}") for n, k, a in CASES]
)
def test_a_value_has_one_code_in_every_storage(schema, name, array):
    column = schema.column(name)
    expected = code(column, FIRST[name])
    assert len({*expected}) > 1
    assert len({*expected} - {column.missing_code}) > 1
    assert code(column, array) == expected
    # By itself, in parts, in another order, beside a missing value, and in a dictionary.
    assert [code(column, array.slice(at, 1))[0] for at in range(len(array))] == expected
    assert code(column, array.take(pa.array(range(len(array))[::-1]))) == expected[::-1]
    with_null = pa.concat_arrays([pa.nulls(1, array.type), array])
    assert code(column, with_null) == [column.missing_code, *expected]
    assert code(column, pa.chunked_array([array.slice(0, 1), array.slice(1)])) == expected
    assert code(column, with_null.dictionary_encode()) == [column.missing_code, *expected]
    # As a panel keeps it.
    assert code(column, Encoder(column).reader.texts(array)) == expected


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ({"type": "category", "levels": ["1", str(2**53)]}, 1.0),
        ({"type": "category", "levels": ["1"], "missing_values": [str(-(2**53))]}, 1.0),
        ({"type": "integer", "min": "0", "max": str(2**53 + 9), "bins": "2"}, 1.0),
        ({"type": "integer", "min": "0", "max": "9", "bins": "2"}
         | {"missing_values": ["9" * 16]}, 1.0),
    ],
)  # fmt: skip
def test_floats_that_cannot_tell_whole_numbers_of_the_schema_apart_are_refused(definition, value):
    document = {"version": "1", "title": "t", "columns": {"id_of_firm": definition}}
    column = parse_schema(document).column("id_of_firm")
    for kind in (pa.int64(), pa.string(), pa.decimal128(30, 2)):
        Encoder(column).encode(pa.array([int(value)]).cast(kind))
    for kind in FLOATS:
        with pytest.raises(SchemaViolation, match="cannot tell such numbers apart"):
            Encoder(column).reader.texts(pa.array([value], kind))  # as a panel keeps it
        with pytest.raises(SchemaViolation, match=r"'id_of_firm' has whole numbers of .* or more"):
            Encoder(column).encode(pa.array([value], kind))


def test_floats_tell_all_whole_numbers_below_the_limit_apart():
    definition = {"type": "integer", "min": "0", "max": str(2**53 - 1), "bins": "2", **LENIENT}
    column = parse_schema({"version": "1", "title": "t", "columns": {"x": definition}}).column("x")
    values = pa.array([0, 2**53 - 1, 2**53, 2**53 + 2])
    floats = pa.array([float(value) for value in values.to_pylist()])
    assert code(column, floats) == code(column, values) == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("definition", "whole", "texts"),
    [
        ({"type": "integer", "min": "0", "max": str(9 * 10**17), "bins": "9"},
         10**15, ["1e+15", "1.2345678901234568e+17", "9007199254740992.0"]),
        ({"type": "category", "levels": ["7", "123456789012345678"]},
         123456789012345678, ["1.2345678901234568e+17", "123456789012345680.0", "1.23E+17"]),
        ({"type": "integer", "min": "0", "max": "9", "bins": "9", "missing_values": ["9" * 16]},
         7, ["9.999999999999999e+15", "1E16"]),
    ],
)  # fmt: skip
def test_texts_that_lost_digits_of_large_whole_numbers_are_refused(definition, whole, texts):
    document = {"version": "1", "title": "t", "columns": {"x": definition | LENIENT}}
    column = parse_schema(document).column("x")
    assert code(column, pa.array([f"{whole}", "7.0", "+07", "7e+00"]))[:2] == [
        code(column, pa.array([whole]))[0],
        code(column, pa.array([7]))[0],
    ]
    for text in texts:
        with pytest.raises(SchemaViolation, match=r"'x' has whole numbers .* a point or an exp"):
            Encoder(column).encode(pa.array(["7", text]))


@pytest.mark.parametrize(
    ("levels", "missing"),
    [
        (["007", "7", "250", "a"], [""]),
        (["2000-01-01", "2000-01-01 00:00"], [""]),
        (["12:30", "12:30:00.0"], [""]),
        (["0x10", "16"], [""]),
        (["true", "1"], [""]),
        (["1e5", "100000"], [""]),
        (["inf", "Infinity"], [""]),
        (["1", "9"], ["", "09"]),
    ],
)
def test_a_schema_with_two_texts_of_one_number_or_time_is_refused(levels, missing):
    definition = {"type": "category", "levels": levels, "missing_values": missing}
    document = {"version": "1", "title": "t", "columns": {"x": definition}}
    with pytest.raises(BadInput, match=r"Column 'x' of the schema has .* one number or time"):
        Encoder(parse_schema(document).column("x"))


@pytest.mark.parametrize("other", ["1", "true", "2000-01-01", "08:00"])
@pytest.mark.parametrize(
    "null", [null for null in pyarrow.csv.ConvertOptions().null_values if null]
)
def test_a_level_that_programs_read_as_missing_beside_numbers_and_times_is_refused(null, other):
    found = []
    for odd in ([], ["unknown"]):
        written = "\n".join(["x,z", *(f"{text},z" for text in [null, other, *odd])])
        found.append(pyarrow.csv.read_csv(io.BytesIO(written.encode()))["x"])
    assert [column[0].as_py() for column in found] == [None, null]
    definition = {"type": "category", "levels": [null, other], **LENIENT}
    described = {"version": "1", "title": "t", "columns": {"x": definition}}
    column = parse_schema(described).column("x")
    with pytest.raises(BadInput, match=r"'x' of the schema has the level .* as a missing value"):
        Encoder(column)
    listed = definition | {"levels": [other], "missing_values": ["", null]}
    column = parse_schema(described | {"columns": {"x": listed}}).column("x")
    assert [code(column, each)[:2] for each in found] == [[1, 0], [1, 0]]
    texts = definition | {"levels": [null, "a"]}
    column = parse_schema(described | {"columns": {"x": texts}}).column("x")
    assert code(column, pa.array([null, "a", None])) == [0, 1, 2]


# Texts that a program may read as numbers, dates or times, and writes in its own form.

WRITTEN_COLUMNS = COLUMNS | {
    "thousands": {"type": "integer", "min": "0", "max": "9999", "bins": "10", **LENIENT},
    "comma": {"type": "number", "min": "0", "max": "100", "bins": "10", **LENIENT},
    "american": COLUMNS["born"] | {"format": "%m/%d/%Y"},
    "endless": {"type": "category", "levels": ["Infinity", "-inf", "1"], **LENIENT},
}
TEXTS = {name: canonical_texts(array).to_pylist() for name, array in FIRST.items()} | {
    "visit": ["2000-02-29 00:00:00", "2001-01-01T12:30"],
    "thousands": ["1,000", "9,999", "12"],
    "comma": ["1,5", "50,25", "99,0"],
    "american": ["02/29/2000", "12/31/2001"],
    "endless": ["Infinity", "-inf", "1"],
}
ODD = ("", "NA", "abc", "unknown", "1.5", "1,5", "1,000", "0x10", "1e5", "inf", "true", "12:30",
       "99.9", "2000-02-29", "2000-02-29 10:00", "29.02.2000", "9" * 20, "-9")  # fmt: skip
PANDAS = {
    "": {
        "pandas": {},
        "nullable": {"dtype_backend": "numpy_nullable"},
        "no missing": {"keep_default_na": False},
        "arrow engine": {"engine": "pyarrow"},
    },
    "integer": {"thousands": {"thousands": ","}},
    "number": {"thousands": {"thousands": ","}, "comma": {"decimal": ","}},
    "date": {"dates": {"parse_dates": ["x"]}},
}
"""Options of pandas for columns of all types, and those for a column of one type."""


def rewritten(name, cells):
    """Yield arrays of the same cells as programs that infer a column's type write them."""
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows([["x", "z"], *([c, "z"] for c in cells)])
    written = buffer.getvalue().encode()
    yield "text", pa.array(cells)
    table = pyarrow.csv.read_csv(io.BytesIO(written))
    yield "arrow", table["x"].combine_chunks()
    definition = WRITTEN_COLUMNS[name]
    for how, options in (PANDAS[""] | PANDAS.get(definition["type"], {})).items():
        if "parse_dates" in options:
            options = {**options, "date_format": definition.get("format", "%Y-%m-%d")}
        frame = pd.read_csv(io.BytesIO(written), **options)
        with contextlib.suppress(pa.ArrowException, OverflowError):
            yield how, pa.table(frame)["x"].combine_chunks()
        lines = io.StringIO(frame.to_csv(index=False))
        yield f"{how}, csv", pa.array([row["x"] for row in csv.DictReader(lines)], pa.string())


def codes_or_refusal(column, array):
    if not is_readable(array.type):
        return None
    try:
        encoded = Encoder(column).encode(in_common_type(array))
    except SchemaViolation:
        return None
    return None if encoded.bad is not None else encoded.codes.tolist()


@pytest.mark.parametrize("name", TEXTS)
def test_an_odd_cell_by_which_programs_write_a_column_otherwise_changes_no_other_code(name):
    definition = WRITTEN_COLUMNS[name]
    listed = {"missing_values": [*definition.get("missing_values", [""]), "unknown"]}
    document = {"version": "1", "title": "t", "columns": {name: definition | listed}}
    column = parse_schema(document).column(name)
    cells = TEXTS[name]
    alone = {how: codes_or_refusal(column, array) for how, array in rewritten(name, cells)}
    assert any({*(codes or ())} - {column.missing_code} for codes in alone.values())
    for odd in ODD:
        for how, array in rewritten(name, [*cells, odd]):
            codes = codes_or_refusal(column, array)
            assert codes is None or alone.get(how) is None or codes[:-1] == alone[how], (how, odd)


@pytest.mark.parametrize("policy", ["clip", "missing"])
@pytest.mark.parametrize("seconds", [-9223372036, -9223372000, -9223372036854, 9223372036854, -1])
def test_a_time_at_the_end_of_its_unit_has_the_day_of_the_same_time_in_other_units(policy, seconds):
    born = {"type": "date", "min": "1600-01-01", "max": "2300-12-31", "bins": "year"}
    born |= {"missing": "level", "out_of_range": policy}
    column = parse_schema({"version": "1", "title": "t", "columns": {"x": born}}).column("x")
    found = []
    for unit, parts in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        with contextlib.suppress(OverflowError):
            stored = pa.array([seconds * parts], pa.int64()).cast(pa.timestamp(unit))
            found.append(codes_or_refusal(column, stored))
    assert len(found) > 1
    assert all(each == found[0] for each in found)
    assert (found[0] is None) == (abs(seconds) > 10**12)  # in no year from 1 to 9999


@pytest.mark.parametrize("policy", ["clip", "missing"])
@pytest.mark.parametrize("kind", ["number", "integer"])
@pytest.mark.parametrize("text", ["inf", "-Infinity", " INF ", "nan", "-NaN", "1e400", "-1e400"])
def test_a_float_without_a_number_is_read_as_its_text_is(kind, policy, text):
    limits = {"min": "0", "max": "9", "bins": "3", "missing": "level", "out_of_range": policy}
    document = {"version": "1", "title": "t", "columns": {"x": {"type": kind, **limits}}}
    column = parse_schema(document).column("x")
    found = [code(column, pa.array([float(text), 1.0], kind)) for kind in FLOATS]
    found.append(code(column, pa.array([float(text), 1.0]).dictionary_encode()))
    frame = pd.DataFrame({"x": [Decimal(text.strip()), Decimal(1)]})
    found.append(code(column, frame_table(frame)["x"].combine_chunks()))
    assert found == [code(column, pa.array([text, "1"]))] * 4


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["a\ud800", "b"], "text that is not Unicode"),
        (["a\ud800", 1], "text that is not Unicode"),
        ([Decimal("inf"), {}], "dict"),
        ([1, 2j], "complex"),
    ],
)
def test_a_value_that_arrow_cannot_hold_is_named_by_its_type(cells, kind):
    column = frame_table(pd.DataFrame({"x": pd.Series(cells, dtype=object)}))["x"]
    assert type_words(column.type) == kind


DAY_FORMS = ["2026-01-31", "20260131", "2026-W05-6", "2026-01-31T23:30:00-05:00", "unknown"]
DAY_FORMS += ["2026-01-31 23:30:00", "2026-01-31T23:30:00Z", "31.01.2026", ""]
NUMBER_FORMS = ["1", " 4 ", "1_0", "\u0663", "1e0", "0x1", "inf", "NaN", "many", "2.50", ""]


@pytest.mark.parametrize(
    ("declared", "kind", "texts"),
    [
        (sqlalchemy.Date(), "date", DAY_FORMS),
        (sqlalchemy.DateTime(), "date", DAY_FORMS),
        (sqlalchemy.Numeric(), "number", NUMBER_FORMS),
        (sqlalchemy.Numeric(5, 2), "integer", NUMBER_FORMS),
    ],
)
def test_a_text_in_sqlite_is_read_as_in_a_csv_file(declared, kind, texts):
    limits = {
        "date": {"min": "2026-01-01", "max": "2026-12-31", "bins": "day"},
        "number": {"min": "0", "max": "9", "bins": "9"},
        "integer": {"min": "0", "max": "9"},
    }[kind]
    document = {"version": "1", "title": "t", "columns": {}}
    document["columns"]["x"] = {"type": kind, **limits, **LENIENT}
    column = parse_schema(document).column("x")
    stored_there = database_source.storage_of(declared, "sqlite")
    for text in texts:
        there = codes_or_refusal(column, stored_there.array([text]))
        assert there == codes_or_refusal(column, pa.array([text]))


# Whole files, by units of privacy.

PERSONS = 40
WRITTEN = ("natural", "floats", "decimals", "text", "text of floats", "dictionaries", "csv")


def person_rows(persons=PERSONS, seed=0):
    """Return rows of persons in two waves, some with several rows in a wave."""
    rng = np.random.default_rng(seed)
    number = persons * 5
    return pd.DataFrame(
        {
            "id": np.repeat(np.arange(10**11, 10**11 + persons), 5),
            "year": rng.integers(2023, 2025, number),
            "firm": rng.choice([7, 12345678901, 20000000000], number),
            "age": rng.integers(0, 100, number),
            "pay": rng.choice([0.1, 0.3, 0.7, 0.9, 0.55], number),
        }
    )


def as_written(frame, how):
    """Return a frame as an Arrow table in another storage of its numbers."""
    arrays = []
    for name in frame:
        values = pa.array(frame[name], from_pandas=True)
        numeric = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        if numeric and how != "natural":
            decimals = [None if v is None else Decimal(str(v)) for v in values.to_pylist()]
            values = {
                "floats": lambda v=values: v.cast(pa.float64()),
                "decimals": lambda d=decimals: pa.array(d, pa.decimal128(20, 4)),
                "text": lambda d=decimals: pa.array(
                    ["" if v is None else f"{v.normalize():f}" for v in d]
                ),
                "text of floats": lambda d=decimals: pa.array(
                    ["" if v is None else f"{v:.2f}" for v in d]
                ),
                "dictionaries": lambda v=values: v.dictionary_encode(),
            }[how]()
        arrays.append(values)
    return pa.table(arrays, names=list(frame))


def write(folder, frame, how, parts=1):
    """Write a frame to one file or several; return their pattern."""
    for part in range(parts):
        some = frame.iloc[part::parts]
        if how == "csv":
            some.to_csv(folder / f"rows-{part}.csv", index=False)
        else:
            pq.write_table(as_written(some, how), folder / f"rows-{part}.parquet")
    return "rows-*.csv" if how == "csv" else "rows-*.parquet"


def of_rows(folder, schema, frame, how, parts):
    pattern = write(folder, frame, how, parts)
    source = open_source(pattern, folder, schema.reads, schema.ignore)
    return stored(write_codes(source, schema, folder / "codes"))


def of_panel(folder, schema, frame, how, parts):
    pattern = write(folder, frame, how, parts)
    rows = open_source(pattern, folder, *row_columns(schema))
    source = PanelSource(schema, schema.panel.parts, (rows,), folder / "records")
    return stored(write_codes(source, schema, folder / "codes"))


def stored(store):
    """Return how often each row of codes is stored."""
    chunks = [store.codes(chunk) for chunk in range(store.chunks)]
    return Counter(map(tuple, np.concatenate(chunks, axis=1).T.tolist()))


def document(*names, **keys):
    columns = {name: COLUMNS[name] for name in names}
    return {"version": "1", "title": "Storage", "columns": columns, **keys}


MODELLED = ("firm", "age", "pay")
PANEL = {"person": "id", "wave": "year", "waves": ["2023", "2024"]}
UNITS = {
    "rows": (document(*MODELLED, ignore=["id", "year"]), of_rows, 5),
    "persons": (
        document(*MODELLED, ignore=["year"], unit={"column": "id", "max_rows": "2"}),
        of_rows,
        2,
    ),
    "panel, keep_one": (document(*MODELLED, panel={**PANEL, "repeated": "keep_one"}), of_panel, 1),
    "panel, reject": (document(*MODELLED, panel={**PANEL, "repeated": "reject"}), of_panel, 1),
    "panel, constant": (
        document("age", panel={**PANEL, "repeated": "keep_one", "disagreeing": "first"})
        | {"columns": {"firm": COLUMNS["firm"] | {"constant": "true"}, "age": COLUMNS["age"]}}
        | {"ignore": ["pay"]},
        of_panel,
        1,
    ),
}
MORE = {
    "a missing whole number": {"age": [None] * 5},
    "a missing code": {"firm": [None, 7, 7, 7, 7]},
    "missing everywhere": {name: [None] * 5 for name in MODELLED},
    "a fraction": {"firm": [0.5] * 5},
    "a large number": {"age": [2.0**40] * 5, "pay": [1e300] * 5},
}
SHORT = pd.to_numeric(pd.Series([0.69999999] * 9 + [0.3] * 9), downcast="float")
LONG = pd.to_numeric(pd.Series([*[0.69999999] * 9, *[0.3] * 9, 123456789.123]), downcast="float")


@pytest.mark.parametrize("how", ["natural", "csv"])
def test_a_number_that_needs_64_bits_changes_no_other_number(tmp_path, how):
    pay = {**COLUMNS["pay"], "out_of_range": "clip"}
    schema = parse_schema({"version": "1", "title": "t", "columns": {"pay": pay}})
    assert (SHORT.dtype, LONG.dtype) == (np.float32, np.float64)
    counts = []
    for number, column in enumerate((SHORT, LONG)):
        (folder := tmp_path / str(number)).mkdir()
        counts.append(of_rows(folder, schema, pd.DataFrame({"pay": column}), how, 1))
    assert not counts[0] - counts[1]
    assert (counts[1] - counts[0]).total() == 1


def rows_of(unit):
    frame = person_rows()
    if unit == "panel, reject":
        frame = frame.drop_duplicates(["id", "year"])
    return frame


@pytest.mark.parametrize("unit", UNITS)
def test_rows_have_the_same_codes_in_every_storage_and_order(tmp_path, unit):
    described, codes_of, _ = UNITS[unit]
    schema, frame = parse_schema(described), rows_of(unit)
    expected = None
    for number, (how, parts) in enumerate(itertools.product(WRITTEN, (1, 3))):
        folder = tmp_path / str(number)
        folder.mkdir()
        shuffled = frame.sample(frac=1, random_state=number)
        found = codes_of(folder, schema, shuffled, how, parts)
        expected = found if expected is None else expected
        assert found == expected, (how, parts)
    assert len(expected) > 5


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("how", ["natural", "csv"])
def test_a_unit_that_changes_the_type_of_a_column_changes_no_other_unit(tmp_path, unit, more, how):
    described, codes_of, most = UNITS[unit]
    schema, frame = parse_schema(described), rows_of(unit)
    own = pd.DataFrame({"id": [5] * 5, "year": [2023] * 5, "firm": 7, "age": 9, "pay": 0.5})
    own = own.assign(**MORE[more])
    own = own.iloc[:1] if unit == "panel, reject" else own
    counts = []
    for number, rows in enumerate((frame, pd.concat([frame, own], ignore_index=True))):
        (folder := tmp_path / str(number)).mkdir()
        counts.append(codes_of(folder, schema, rows, how, 1))
    changed = [name for name in ("firm", "age") if name in MORE[more]]
    assert changed
    assert all(frame[name].dtype != pd.concat([frame, own])[name].dtype for name in changed)
    assert not counts[0] - counts[1]  # every code of the others is still there
    assert 0 < (counts[1] - counts[0]).total() <= most


@pytest.mark.parametrize("more", MORE)
def test_a_frame_in_memory_has_the_codes_of_a_file(tmp_path, more):
    schema = parse_schema(UNITS["persons"][0])
    own = pd.DataFrame({"id": [5] * 5, "year": [2023] * 5, "firm": 7, "age": 9, "pay": 0.5})
    frame = pd.concat([person_rows(), own.assign(**MORE[more])], ignore_index=True)
    expected = of_rows(tmp_path, schema, frame, "natural", 1)
    texts = as_written(frame, "text").to_pandas()
    for one in (frame, frame.convert_dtypes(), frame.astype(object), texts):
        codes = frame_codes(one, schema).codes.T.tolist()
        assert Counter(map(tuple, codes)) == expected


DAY, TIME = datetime.date(2001, 1, 1), datetime.datetime(2001, 1, 1, 12, 30)
EVENING = datetime.datetime(
    2001, 12, 31, 23, 30, tzinfo=datetime.timezone(-datetime.timedelta(0, 3600))
)
CELLS = [DAY, TIME, pd.Timestamp(TIME), EVENING, "unknown", None]


@pytest.mark.parametrize("of_categories", [False, True])
@pytest.mark.parametrize("name", ["born", "visit", "moved"])
def test_a_day_beside_a_time_or_a_zone_in_a_frame_changes_no_other_code(name, of_categories):
    column = parse_schema(document(name)).column(name)
    kind = "category" if of_categories else "object"
    found = {number: set() for number in range(len(CELLS))}
    for length in (1, 2, 3):
        for places in itertools.permutations(range(len(CELLS)), length):
            cells = pd.Series([CELLS[place] for place in places], dtype=object).astype(kind)
            stored_there = frame_table(pd.DataFrame({name: cells}))[name].combine_chunks()
            try:
                encoded = Encoder(column).encode(stored_there)
            except SchemaViolation:
                continue
            for at, place in enumerate(places):
                refused_here = encoded.bad is not None and encoded.bad[at]
                found[place].add("refused" if refused_here else int(encoded.codes[at]))
    assert all(len(codes) <= 1 for codes in found.values())
    assert len({code for codes in found.values() for code in codes}) > 1


@pytest.mark.parametrize("odd", [1.0, "AB", None])
def test_a_float_of_a_frame_that_stands_for_several_whole_numbers_is_refused(odd):
    cells = pd.Series([2.0**53, odd], dtype=object)
    stored_there = frame_table(pd.DataFrame({"x": cells}))["x"].combine_chunks()
    assert _identifiers(stored_there) is None
    definition = {"type": "category", "levels": [f"{2**53}", f"{2**53 + 1}"], **LENIENT}
    described = {"version": "1", "title": "t", "columns": {"x": definition}}
    assert codes_or_refusal(parse_schema(described).column("x"), stored_there) is None
    limits = {"type": "number", "min": "0", "max": str(2**60), "bins": "512", **LENIENT}
    column = parse_schema(described | {"columns": {"x": limits | {"missing_values": ["", "AB"]}}})
    codes = codes_or_refusal(column.column("x"), stored_there)
    assert codes[0] == code(column.column("x"), pa.array([2.0**53]))[0]


def test_a_constant_number_is_the_same_in_files_of_different_floats(tmp_path):
    pay = {"type": "number", "min": "0", "max": "1", "bins": "2", "constant": "true"}
    keys = {**PANEL, "repeated": "keep_one", "disagreeing": "reject"}
    described = {"version": "1", "title": "t", "panel": keys, "columns": {"pay": pay}}
    described["columns"]["age"] = {"type": "integer", "min": "0", "max": "9", "bins": "2"}
    schema = parse_schema(described)
    values = [0.11, 0.12, 0.7, 0.5]
    for year, kind in ((2023, pa.float32()), (2024, pa.float64())):
        rows = {"id": range(4), "year": [year] * 4, "age": [1] * 4, "pay": pa.array(values, kind)}
        pq.write_table(pa.table(rows), tmp_path / f"rows-{year}.parquet")
    source = open_source("rows-*.parquet", tmp_path, *row_columns(schema))
    panel = PanelSource(schema, schema.panel.parts, (source,), tmp_path / "records")
    assert stored(write_codes(panel, schema, tmp_path / "codes")).total() == 4


def _identifiers(values: pa.Array) -> list[str | None] | None:
    """Return identifiers as they are compared; None if they are refused."""
    try:
        found: list[str | None] = identifier_texts(values, "x").to_pylist()
    except SchemaViolation:
        return None
    return found


@pytest.mark.parametrize("length", [1, 2, 3])
def test_an_identifier_is_the_same_if_programs_read_it_as_a_number(length):
    """Or it is refused, as it stands or as they store and write it."""
    texts = {"".join(signs) for signs in itertools.product("01.eEx_-:n", repeat=length)}
    texts |= {"inf", "-Infinity", "NaN", "TRUE", "false", "0x1F", "1e400", "12E3", "2026-01-31"}
    texts |= {
        "12:30:00",
        "2026-01-31 12:30:00",
        "2026-01-31T12:30:00Z",
        "123e4567",
        "12e20",
        "1.50",
    }
    texts |= {"1234567890123456e1", "1.23457E+11", "9007199254740993e0", "1e-7", ".5e1", "0x7FFF"}
    texts |= {"0x20000000000001", "0xDEADBEEFDEADBEEF"}
    for text in sorted(texts):
        own = _identifiers(pa.array([text]))
        frame = pd.read_csv(io.StringIO(f"x,y\n{text},\n"), keep_default_na=False)[["x"]]
        table = pyarrow.csv.read_csv(io.BytesIO(f"x,y\n{text},\n".encode())).select(["x"])
        for stored in (pa.Table.from_pandas(frame), table):
            kept = stored.column("x").combine_chunks()
            if kept.null_count:
                continue  # programs take it for a missing value
            written = io.BytesIO()
            pyarrow.csv.write_csv(stored, written)
            rewritten = written.getvalue().decode().splitlines()[1].strip('"')
            for values in (kept, pa.array([rewritten])):
                found = _identifiers(values)
                assert own is None or found is None or found == own, (text, values)
    accepted = ["AB12", "12A", "e3", "1-2", "1.2.3", "a1e5", "0xg", "007", "-7", "7.00", "123e4567"]
    assert _identifiers(pa.array(accepted)) is not None
    assert _identifiers(pa.array(["12E3", "0x1F", "7.0"])) == ["12000", "31", "7"]


LINKED = {
    "version": "1",
    "title": "Homes",
    "unit": {"table": "homes", "max_members": "2", "larger": "clip"},
    "tables": {
        "homes": {"key": "hh", "columns": {"firm": COLUMNS["firm"]}},
        "persons": {
            "key": "nr",
            "parent": "homes",
            "link": "hh",
            "columns": {"age": COLUMNS["age"]},
        },
    },
}


def linked_frames(homes=20):
    rng = np.random.default_rng(1)
    keys = np.arange(10**11, 10**11 + homes)
    households = pd.DataFrame({"hh": keys, "firm": rng.choice([7, 12345678901], homes)})
    number = homes * 3
    persons = pd.DataFrame(
        {
            "hh": np.repeat(keys, 3),
            "nr": np.tile([8, 9, 10], homes),
            "age": rng.integers(0, 99, number),
        }
    )
    return households, persons


def pairs(schema, households, persons):
    codes = pair_row_codes(schema, households, persons).codes.T.tolist()
    return Counter(map(tuple, codes))


def test_linked_tables_have_the_same_codes_in_every_storage_and_order():
    schema, (households, persons) = parse_schema(LINKED), linked_frames()
    expected = pairs(schema, as_written(households, "natural"), as_written(persons, "natural"))
    for number, (one, other) in enumerate(itertools.product(WRITTEN[:-1], WRITTEN[:-1])):
        found = pairs(
            schema,
            as_written(households.sample(frac=1, random_state=number), one),
            as_written(persons.sample(frac=1, random_state=number), other),
        )
        assert found == expected, (one, other)
    lettered = persons.assign(nr="p" + persons["nr"].astype(str))
    for number in range(3):
        some = as_written(lettered.sample(frac=1, random_state=number), "natural")
        assert pairs(schema, as_written(households, "natural"), some) == expected


def test_a_household_that_changes_the_type_of_a_column_changes_no_other_household():
    schema, (households, persons) = parse_schema(LINKED), linked_frames()
    expected = pairs(schema, as_written(households, "natural"), as_written(persons, "natural"))
    home = pd.DataFrame({"hh": [5], "firm": [None]})
    for nr in (["a", "b"], [1, 2]):
        own = pd.DataFrame({"hh": [5, 5], "nr": nr, "age": [None, 9]})
        everyone = pd.concat([own, persons.astype({"nr": str} if nr[0] == "a" else {})])
        found = pairs(
            schema,
            as_written(pd.concat([home, households]), "natural"),
            as_written(everyone, "natural"),
        )
        assert not expected - found
        assert (found - expected).total() == 2
