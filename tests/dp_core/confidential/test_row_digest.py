"""The hash of rows: equal for equal values, whatever holds them, and for nothing else."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from dp_core.confidential.row_digest import RowDigest

KEY = b"0123456789abcdef"
DAY = datetime.date(1970, 1, 2)
MOMENT = datetime.datetime(1970, 1, 1, 0, 0, 0, 1)


def digest(*values, kind=None, untyped=False, name="a"):
    found = RowDigest(KEY, [name], frozenset([name]) if untyped else frozenset())
    found.add(pa.RecordBatch.from_arrays([pa.array(values, kind)], names=[name]))
    return found.hexdigest()


SAME = {
    "5": [
        *(digest(5, kind=kind) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.float64())),
        digest(Decimal("5.00"), kind=pa.decimal128(7, 2)),
        digest(Decimal("5.00"), kind=pa.decimal128(30, 2)),
        *(digest(text, untyped=True) for text in ("5", "5.0", "05", "0.5e1")),
    ],
    "0.1": [
        digest(0.1),
        digest(Decimal("0.1"), kind=pa.decimal128(3, 1)),
        digest(Decimal("0.10000"), kind=pa.decimal128(25, 5)),
        *(digest(text, untyped=True) for text in ("0.1", "1e-1", "0.100000000000000000")),
    ],
    "missing": [
        digest(None, kind=pa.int64()),
        digest(None, kind=pa.string()),
        digest(None, kind=pa.bool_()),
        digest(float("nan")),
        digest("NaN", untyped=True),
        digest(None, kind=pa.null()),
    ],
    "time of day": [
        digest(datetime.time(7, 30), kind=kind)
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    ],
    "text": [
        digest("5"),
        digest("5", kind=pa.large_string()),
        digest("5", kind=pa.dictionary(pa.int32(), pa.string())),
    ],
    "infinite": [digest(float("inf")), digest("1e999", untyped=True)],
    "a long decimal": [
        digest("1.00000000000000000001", untyped=True),
        digest("1.000000000000000000010", untyped=True),
        digest(Decimal("1.00000000000000000001"), kind=pa.decimal128(30, 22)),
    ],
    "another": [digest("1.00000000000000000002", untyped=True)],
    "ten times it": [digest("10.0000000000000000001", untyped=True)],
    "its opposite": [digest("-1.00000000000000000001", untyped=True)],
    "a long whole number": [digest(2**62 + 1), digest(str(2**62 + 1), untyped=True)],
    "the next": [digest(2**62 + 2)],
    "two to the 63": [digest(2.0**63)],
    "less than any whole number of 64 bits": [digest(-(2.0**64))],
    "the least of them": [digest(-(2**63))],
    "true": [digest(True)],
    "one": [digest(1), digest(1.0)],
    "a day": [digest(DAY), digest("1970-01-02", untyped=True)],
    "a moment": [
        *(digest(MOMENT, kind=pa.timestamp(unit)) for unit in ("us", "ns")),
        *(digest(f"1970-01-01{sign}00:00:00.000001", untyped=True) for sign in "T "),
    ],
    "no number": [digest("1_0"), digest("1_0", untyped=True)],
    "no day": [digest("1970-02-30"), digest("1970-02-30", untyped=True)],
    "an instant": [digest(MOMENT, kind=pa.timestamp("us", "UTC"))],
    "twice": [digest(1, 1)],
    "with a missing one": [digest(1, None)],
    "of another column": [digest(1, name="b")],
    "no row": [digest(kind=pa.int64())],
}


@pytest.mark.parametrize("what", SAME)
def test_equal_values_are_one_input(what):
    assert len(set(SAME[what])) == 1


def test_other_values_are_other_inputs():
    found = {one for values in SAME.values() for one in values}
    assert len(found) == len(SAME)


def test_the_sum_of_two_tables_is_not_to_be_seen_in_their_hashes():
    numbers = [int(digest(*values), 16) for values in ((1,), (2,), (1, 2))]
    assert (numbers[0] + numbers[1] - numbers[2]) % 2**256


def test_batches_may_be_cut_anywhere(monkeypatch):
    rows = [f"t{n % 11}" for n in range(100)]
    whole = digest(*rows)
    monkeypatch.setattr("dp_core.confidential.row_digest.BLOCK_ROWS", 7)
    assert digest(*rows) == whole
    found = RowDigest(KEY, ["a"])
    for part in (rows[60:], rows[:13], rows[13:60]):
        found.add(pa.RecordBatch.from_arrays([pa.array(part)], names=["a"]))
    assert found.hexdigest() == whole
