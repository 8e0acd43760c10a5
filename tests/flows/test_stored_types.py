"""Every Arrow type in every type of column, for every command that reads a file or frame.

Each either has the expected codes or is refused with a sentence; nothing else is raised. All
commands agree.
"""

import contextlib
import datetime
from decimal import Decimal
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_core.confidential.coding import write_codes
from dp_core.confidential.original_values import original_values
from dp_core.confidential.source import open_source
from dp_core.confidential.sources.common_types import common_type
from dp_core.confidential.sources.frame_source import frame_source, frame_table
from dp_core.errors import BadInput
from dp_core.inspection.given_data import file_data
from dp_core.inspection.public_profile import public_codebook
from dp_core.priors.prior_records import prior_of_file
from dp_core.public_data.frame_codes import frame_codes
from dp_core.schema.reading.schema_file import load_schema
from flows.cli.actions.file_check import check
from tasks.validation import expectations
from tests.checked_files import check_frame
from tests.full import some
from tests.plain_judge import PlainJudge

COLUMNS = {
    "category": "{type: category, levels: [0, 1, 2], missing_values: [NA]}",
    "ordinal": "{type: ordinal, levels: [0, 1, 2], missing: level, missing_values: [NA]}",
    "integer": "{type: integer, min: 0, max: 2}",
    "number": "{type: number, min: 0, max: 3, bins: 3}",
    "date": "{type: date, min: 2000-01-01, max: 2002-12-31, bins: year}",
    "date in a format": (
        "{type: date, min: 2000-01-01, max: 2002-12-31, bins: year, format: '%Y%m%d'}"
    ),
}
LEVELS, WHOLE, DATES = ("category", "ordinal"), ("integer", "number"), ("date", "date in a format")
OUTCOMES = {
    "numbers": {kind: [0, 1, 2] for kind in (*LEVELS, *WHOLE)},
    "fractions": {"number": [0, 1, 2]},
    "booleans": {kind: [0, 1, 1] for kind in (*LEVELS, *WHOLE)},
    "days": {kind: [0, 1, 2] for kind in DATES},
    "written days": {kind: [0, 1, 2] for kind in DATES},
    "day numbers": {"date in a format": [0, 1, 2]},
    "nothing": {"ordinal": [3, 3, 3]},
    "unreadable": {},
}
"""For each family of values, the codes in each type of column that has them; others refuse."""

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
INTEGERS += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float32(), pa.float64()]
DECIMALS = [
    pa.decimal32(3, 0),
    pa.decimal32(9, 2),
    pa.decimal64(18, 4),
    pa.decimal128(3, 0),
    pa.decimal128(38, 10),
    pa.decimal256(60, 2),
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
DAYS = [datetime.date(2000, 5, 1), datetime.date(2001, 5, 1), datetime.date(2002, 5, 1)]
STAMPS = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]


def arrays():
    numbers = pa.array([0, 1, 2])
    for kind in (*INTEGERS, *FLOATS):
        yield "numbers", numbers.cast(kind)
    for kind in DECIMALS:
        yield "numbers", pa.array([Decimal(0), Decimal(1), Decimal(2)], kind)
        if kind.scale:
            yield "fractions", pa.array([Decimal("0.5"), Decimal("1.5"), Decimal("2.5")], kind)
    for kind in FLOATS:
        yield "fractions", pa.array([0.5, 1.5, 2.5], pa.float32()).cast(kind)
    for kind in TEXTS:
        yield "numbers", pa.array(["0", "1", "2"]).cast(kind)
        yield "fractions", pa.array(["0.5", "1.5", "2.5"]).cast(kind)
        yield "written days", pa.array([day.isoformat() for day in DAYS]).cast(kind)
        yield "day numbers", pa.array([f"{day:%Y%m%d}" for day in DAYS]).cast(kind)
    yield "day numbers", pa.array([int(f"{day:%Y%m%d}") for day in DAYS])
    yield "day numbers", pa.array([float(f"{day:%Y%m%d}") for day in DAYS])
    yield "booleans", pa.array([False, True, True])
    yield "days", pa.array(DAYS, pa.date32())
    yield "days", pa.array(DAYS, pa.date64())
    for kind in STAMPS:
        yield "days", pa.array(DAYS).cast(kind)
        yield "unreadable", pa.compute.assume_timezone(pa.array(DAYS).cast(kind), "Asia/Tokyo")
    yield "numbers", pa.array(["0", "1", "2"]).cast(pa.json_())
    yield "booleans", pa.array([False, True, True]).cast(pa.bool8())
    yield "nothing", pa.nulls(3)
    yield "nothing", pa.array([None] * 3, pa.decimal128(5, 2))
    yield "nothing", pa.array([float("nan")] * 3)
    yield "unreadable", pa.array([datetime.time(1)] * 3, pa.time32("s"))
    yield "unreadable", pa.array([datetime.time(1)] * 3, pa.time64("us"))
    yield "unreadable", pa.array([datetime.timedelta(1)] * 3, pa.duration("s"))
    yield "unreadable", pa.array([b"0", b"1", b"2"], pa.binary())
    yield "unreadable", pa.array([b"0", b"1", b"2"], pa.large_binary())
    yield "unreadable", pa.array([b"0", b"1", b"2"], pa.binary(1))
    yield "unreadable", pa.array([b"0", b"1", b"2"], pa.binary_view())
    yield "unreadable", pa.array([[0], [1], [2]])
    yield "unreadable", pa.array([0.0, 1.0, 2.0], pa.float32()).cast(pa.float16())
    yield "unreadable", pa.array([b"0" * 16] * 3, pa.uuid())
    yield "unreadable", pa.array([{"a": 0}] * 3)
    yield "unreadable", pa.array(pd.period_range("2024-01", periods=3, freq="M"))


def cases():
    for family, array in arrays():
        forms = [array]
        entries = pa.array(range(len(array)), pa.int32())
        if not isinstance(array.type, pa.BaseExtensionType):  # Arrow cannot read such Parquet files
            forms.append(pa.DictionaryArray.from_arrays(entries, array))
        forms.append(pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), array))
        for own in forms:
            for kind in COLUMNS:
                yield own, kind, OUTCOMES[family].get(kind)


def is_typical(case):
    array, kind, _ = case
    typical = (
        "int64",
        "uint64",
        "float",
        "decimal32(3, 0)",
        "decimal128(3, 0)",
        "string",
        "string_view",
        "bool",
        "date32[day]",
    )
    typical += ("timestamp[us]", "timestamp[ns, tz=Asia/Tokyo]", "null", "time64[us]", "binary")
    if pa.types.is_dictionary(array.type) or pa.types.is_run_end_encoded(array.type):
        return str(array.type.value_type) in typical and kind in ("category", "integer")
    return str(array.type) in typical


def name_of(value):
    if isinstance(value, pa.Array):
        return f"{value.type}".replace("values=", "").replace(", indices=int32, ordered=0", "")
    return value if isinstance(value, str) else "refused" if value is None else "coded"


@pytest.mark.parametrize(("array", "kind", "expected"), some(cases(), is_typical), ids=name_of)
def test_every_command_gives_the_codes_or_refuses(tmp_path, monkeypatch, array, kind, expected):
    monkeypatch.setattr(expectations, "SuiteJudge", PlainJudge)
    text = f"version: 1\ntitle: Types\ncolumns:\n  x: {COLUMNS[kind]}\n  y: {COLUMNS['number']}\n"
    (tmp_path / "s.yaml").write_text(text)
    schema = load_schema(tmp_path / "s.yaml")
    table = pa.table({"x": array, "y": pa.array([0.5, 0.5, 0.5])})
    path = tmp_path / "f.parquet"
    with contextlib.suppress(pa.ArrowException):
        pq.write_table(table, path)
    stored = path.exists() and path.stat().st_size > 4  # Parquet has no such type

    found = check_frame(table, schema)
    assert found.fits == (expected is not None)
    str(found)
    frames = []
    # Arrow ends the process when it converts such arrays for pandas, or forgets their time zone.
    entry = array.type.value_type if pa.types.is_dictionary(array.type) else None
    lost = pa.types.is_run_end_encoded(array.type) or (
        entry is not None and (common_type(entry) != entry or "tz=" in str(entry))
    )
    for mapper in (pd.ArrowDtype,) if lost else (None, pd.ArrowDtype):
        # pandas has no column of some types.
        with contextlib.suppress(NotImplementedError, TypeError, ValueError):
            frames.append(table.to_pandas(types_mapper=mapper))
    for frame in frames:
        assert check_frame(frame, schema).fits == (expected is not None)
        assert outcome(lambda f=frame: frame_codes(f, schema).codes[0]) == expected
    public_codebook(frame_source(frame_table(table)), "the frame")
    if not stored:
        return
    found = check(tmp_path / "s.yaml", [str(path)])
    str(found)
    assert found.fits == (expected is not None)

    def opened():
        return open_source("f.parquet", tmp_path, schema.reads, ())

    def coded():
        return write_codes(opened(), schema, tmp_path / "codes").read(0)[0]

    assert outcome(coded) == expected
    validate = partial(expectations.validate, codes=tmp_path / "validated")
    assert fits(lambda: validate(opened(), schema, tmp_path)) == (expected is not None)
    compare = partial(original_values, schema=schema, columns=schema.names)
    assert fits(lambda: compare(opened())) == (expected is not None)
    with contextlib.suppress(BadInput):  # fewer than two columns that fit
        prior = prior_of_file(path, schema, by="A", reason="B")
        assert ("x" in prior.domain.columns) == (expected is not None)
    public_codebook(file_data([str(path)]).source(["x", "y"]), path.name)


def fits(reads):
    """Return whether a command reads the file, or refuses it by a sentence."""
    try:
        reads()
    except (BadInput, ValueError):
        return False
    return True


def outcome(codes):
    """Return the codes as a list, None if the file is refused by a sentence."""
    try:
        return codes().tolist()
    except BadInput:
        return None
