"""Rules between columns in the confidential file: exact decimals, stored types, clipped values."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dp_core.errors import SchemaViolation
from dp_core.schema.reading.schema_file import parse_schema
from tests.broken_rules import broken_rules

MONEY = {"type": "number", "min": "0", "max": "100", "bins": "4", "decimals": "2"}
ROWS = [
    ("0.1", "0.2", "0.3"),
    ("0.10", "0.20", "0.31"),
    ("33.33", "33.33", "66.66"),
    ("1e1", " 2 ", "12"),
    ("70.01", "29.98", "99.99"),
    ("70.01", "29.98", "99.98"),
    ("0.1", "", "5"),
]
WRONG = [False, True, False, False, False, True, False]


def broken(columns, *rules, **own):
    definitions = {name: {**MONEY, "missing": "level", **own} for name in "abc"}
    schema = parse_schema(
        {"version": "1", "title": "t", "columns": definitions, "rules": list(rules)}
    )
    records = pa.record_batch(columns, names=["a", "b", "c"])
    return {text: rows.tolist() for text, rows in broken_rules(schema, records).items()}


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.float32(), pa.decimal128(10, 2)])
def test_a_sum_of_decimals_is_exact_however_it_is_stored(kind):
    columns = []
    for texts in zip(*ROWS, strict=True):
        values = [None if not text else Decimal(text.strip()) for text in texts]
        if kind == pa.string():
            columns.append(pa.array(texts))
        elif pa.types.is_decimal(kind):
            columns.append(pa.array(values, kind))
        else:
            columns.append(pa.array([v if v is None else float(v) for v in values], kind))
    assert broken(columns, "c = a + b") == {"c = a + b": WRONG}


def test_more_digits_than_decimals_are_rounded_to_the_nearest():
    columns = [pa.array(["0.104", "0.106", "0.104"]), pa.array(["0"] * 3), pa.array(["0.1"] * 3)]
    assert broken(columns, "a <= c") == {"a <= c": [False, True, False]}


def test_a_clipped_value_is_compared_where_it_was_moved_to():
    columns = [pa.array(["150", "90"]), pa.array(["0", "0"]), pa.array(["120", "100"])]
    assert broken(columns, "a <= c", out_of_range="clip") == {"a <= c": [False, False]}


def test_a_row_with_a_refused_value_breaks_no_rule():
    columns = [pa.array(["150", "90"]), pa.array(["0", "0"]), pa.array(["10", "80"])]
    assert broken(columns, "a <= c") == {"a <= c": [False, True]}


def test_a_sum_holds_to_the_cent_where_32_bits_have_lost_the_cents():
    rows = [("412345.67", "87654.32", "499999.99"), ("412345.67", "87654.32", "500000.00")]
    texts = [pa.array(column) for column in zip(*rows, strict=True)]
    numbers = [pa.array([float(text) for text in column.to_pylist()]) for column in texts]
    for columns in (texts, numbers):
        assert broken(columns, "c = a + b", max="600000") == {"c = a + b": [False, True]}


def test_beyond_the_digits_of_32_bits_texts_of_both_widths_have_the_same_units():
    """A program that keeps 32 bits, and writes texts, changes no value by more than 5e-4."""
    rng = np.random.default_rng(7)
    exact = np.rint(rng.uniform(9e4, 6e5, 20_000) * 100) / 100
    short = exact.astype(np.float32)
    kept = np.abs(short - exact) <= 5e-4
    assert kept.sum() > 300
    for one in (pa.array(exact[kept]), pa.array(short[kept]).cast(pa.string())):
        same = broken([one, one, pa.array(exact[kept])], "a = c", max="600000")
        assert not any(same["a = c"])


def test_beyond_the_digits_of_32_bits_a_compared_column_has_64():
    columns = [pa.array([1.0], pa.float32())] * 3
    assert broken(columns, "a <= c") == {"a <= c": [False]}
    with pytest.raises(SchemaViolation, match=r"'a'.*store it as double"):
        broken(columns, "a <= c", max="600000")
