from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_core.confidential.sources.frame_source import frame_source, frame_table
from dp_core.inspection.public_profile import public_codebook
from dp_core.schema.codebooks.codebook_draft import draft_from_codebook
from dp_core.schema.reading.schema_file import parse_schema
from dp_core.text.documents.strict_yaml import Document, parse
from tests.checked_files import check_frame

RNG = np.random.default_rng(5)
ROWS = 400
FRAME = pd.DataFrame(
    {
        "id": np.arange(ROWS),
        "age": RNG.integers(17, 91, ROWS),
        "town": RNG.choice(["north", "south", "NA"], ROWS),
        "zip": RNG.choice(["01230", "99999"], ROWS),
        "pay": np.round(RNG.lognormal(8, 1, ROWS), 2),
        "hours": [f"{value}" if value > 3 else "" for value in RNG.integers(0, 60, ROWS)],
        "born": pd.to_datetime("1980-05-05") + pd.to_timedelta(RNG.integers(0, 9999, ROWS), "D"),
        "moved": [f"{1 + k % 28:02d}.03.2020" for k in range(ROWS)],
        "owner": RNG.choice([True, False], ROWS),
        "remark": [f"text {k}" for k in range(ROWS)],
    }
)


def shown(frame):
    return public_codebook(frame_source(frame_table(frame)), "the frame")


def draft(frame):
    return draft_from_codebook(shown(frame), frame_table(frame).column_names, "the frame")


def schema_of(text, tmp_path):
    filled = text.replace("title: ", "title: T ", 1)
    return parse_schema(Document(tmp_path / "s.yaml", parse(filled, source="s.yaml")))


def test_the_draft_of_a_public_frame_fits_the_frame(tmp_path):
    schema = schema_of(draft(FRAME), tmp_path)

    check = check_frame(FRAME, schema)

    assert check.fits, str(check)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "age": "integer",
        "town": "category",
        "zip": "category",
        "pay": "number",
        "hours": "integer",
        "born": "date",
        "moved": "date",
        "owner": "category",
    }
    assert set(schema.ignore) == {"id", "remark"}
    assert (schema.column("age").minimum, schema.column("age").maximum) == (10, 90)
    assert schema.column("town").missing_values == ("", "NA")
    assert schema.column("moved").format == "%d.%m.%Y"
    assert schema.column("pay").decimals == 2


@pytest.mark.parametrize("column", ["age", "town", "pay", "hours", "born", "moved"])
def test_the_same_values_as_texts_give_the_same_draft_but_for_missing(column):
    texts = FRAME[[column]].astype(str)
    (stored,), (typed,) = (
        shown(FRAME[[column]]).variables,
        shown(texts).variables,
    )

    assert (stored.kind, stored.levels) == (typed.kind, typed.levels)
    assert (stored.minimum, stored.maximum) == (typed.minimum, typed.maximum)


LARGE = {
    "int64": pa.array([10**15 + k for k in range(60)] * 2, pa.int64()),
    "int64 with gaps": pa.array([*range(2**60, 2**60 + 60), None] * 2, pa.int64()),
    "uint64": pa.array([2**63 + k for k in range(60)] * 2, pa.uint64()),
    "text": pa.array([str(10**15 + k) for k in range(60)] * 2),
    "text with points": pa.array([f"{10**15 + k}.0" for k in range(60)] * 2),
    "signed text": pa.array([f"+{2**55 + k}" for k in range(60)] * 2),
    "beyond int64": pa.array([str(10**20 + k) for k in range(60)] * 2),
    "decimal": pa.array([10**20 + k for k in range(60)] * 2, pa.decimal128(30, 0)),
    "small decimal": pa.array(["0.25", "1.50", "7.75"] * 50).cast(pa.decimal128(9, 2)),
    "number": pa.array([f"{10**15 + k}.5" for k in range(60)] * 2),
    "float": pa.array([1e20, 2.5e20, 3e20] * 50),
    "tiny": pa.array([1e-12, 2.5e-12, 3e-12] * 50),
    "infinite": pa.array([1.5, 2.5, float("nan")] * 50),
    "exponents": pa.array(["1.5e3", "2e17", "7"] * 50),
}


@pytest.mark.parametrize("storage", LARGE)
def test_the_draft_of_numbers_of_any_size_is_exact_and_fits(storage, tmp_path):
    table = pa.table({"big": LARGE[storage], "other": pa.array([1] * len(LARGE[storage]))})
    text = draft(table)
    schema = schema_of(text, tmp_path)

    assert "codebook" not in text
    assert check_frame(table, schema).fits, text
    if storage in ("int64 with gaps", "uint64", "beyond int64", "decimal", "number"):
        assert schema.ignore == ("big",)
        return
    values = [Fraction(str(one)) for one in LARGE[storage].to_pylist() if one and one == one]
    assert schema.column("big").minimum <= min(values)
    assert schema.column("big").maximum >= max(values)
    assert schema.column("big").maximum - max(values) <= max(max(values) - min(values), 1)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s")])
def test_days_outside_the_calendar_are_drafted_as_its_ends(kind):
    unit = 1 if pa.types.is_date32(kind) else 86_400
    days = pa.array([-(2**31) * unit + unit, 0, 3_000_000 * unit])
    days = days.cast(pa.int32() if unit == 1 else pa.int64()).view(kind)
    (found,) = shown(pa.table({"c": days})).variables
    assert (found.minimum, found.maximum) == ("0001-01-01", "9999-12-31")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Nowhere/Bad"])
def test_moments_with_a_zone_are_no_dates(zone):
    (found,) = shown(pa.table({"c": pa.array([1, 2], pa.timestamp("us", zone))})).variables
    assert found.kind is None
    assert zone in found.remarks[0]
