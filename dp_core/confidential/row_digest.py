"""The keyed hash that identifies the rows of a table, in any order. Confidential side.

Each row gets a 256-bit message authentication code under a secret key (keyed BLAKE2b). The codes
are added modulo 2^256. The sum, the number of rows and the column names are then authenticated
together (HMAC-SHA256). This is MSet-Add-Hash of Clarke, Devadas, van Dijk, Gassend and Suh,
"Incremental multiset hash functions" (ASIACRYPT 2003, Section 4).

Their theorem applies: as long as the codes are indistinguishable from random numbers, two different
multisets of rows have the same sum with probability about 2^-256. The difference of the two sums is
a linear combination of independent uniform numbers in which some coefficient is not 0. (The
coefficients are differences of row counts, below 2^32; one that is divisible by 2^k loses k bits.)
Without a key the sum would be insecure, because finding rows that cancel is then a generalised
birthday problem. The last step replaces the nonce of the paper. Without it the hash of two tables
together would be the sum of their hashes, and hashes would reveal which inputs overlap.

A row is written as its values, in the order of the column names, each as a tag and 16 bytes. Equal
rows give equal bytes, whatever the database and the types of its columns:

- Numbers are written by value: 5, 5.0 and 5.00 are equal. Whole numbers of up to 64 bits are
  written as such, other floats as binary64, and decimals of up to 15 digits as the nearest
  binary64, which is unique among these decimals. Longer decimals are written by their digits.
- Null and NaN are written alike, because readers treat both as missing.
- Booleans, dates and timestamps (in microseconds; with a time zone they are instants) each have a
  tag.
- Texts are written by their keyed code, so a text never equals a number.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.coding.parsed_texts import NUMBER_TEXT

Bytes: TypeAlias = NDArray[np.uint8]

CELL_BYTES = 17
EXACT_DIGITS = 15
"""Decimals of up to this many digits each have a different nearest binary64 (IEEE 754, 5.12.2)."""
BLOCK_ROWS = 1 << 16
"""Rows that are written at a time; with 20 columns they take about 20 MB."""


class RowDigest:
    """Accumulates rows; `hexdigest` is the hash of all rows added."""

    def __init__(
        self, key: bytes, columns: Sequence[str], untyped: frozenset[str] = frozenset()
    ) -> None:
        """Start with no rows.

        Args:
            key: Secret key of the confidential side.
            columns: Column names, in the order of the batches.
            untyped: Names of the columns whose texts are numbers, dates or times, where they are
                written so; none by default.
        """
        self._final = _derived(key, "rows of a table, 1")
        # privacy: separate keys for rows and texts, so that their codes never coincide.
        self._row_key = _derived(key, "one row")
        self._text_key = _derived(key, "one text")
        self._columns = tuple(columns)
        self._order = sorted(range(len(columns)), key=lambda place: columns[place])
        self._untyped = untyped
        self._sum = 0
        self._rows = 0

    def add(self, records: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        for start in range(0, records.num_rows, BLOCK_ROWS):
            self._add(records.slice(start, BLOCK_ROWS))

    def hexdigest(self) -> str:
        """Return the keyed hash of the rows, 64 hex digits."""
        told = {"columns": sorted(self._columns), "rows": self._rows, "sum": f"{self._sum:064x}"}
        return hmac.new(self._final, canonical_json(told), "sha256").hexdigest()

    def _add(self, records: pa.RecordBatch) -> None:
        cells = [
            self._cells(records.column(place), self._columns[place] in self._untyped)
            for place in self._order
        ]
        width = CELL_BYTES * len(cells)
        written = np.concatenate(cells, axis=1).tobytes()
        key = self._row_key
        codes = b"".join(
            hashlib.blake2b(written[start : start + width], digest_size=32, key=key).digest()
            for start in range(0, len(written), width)
        )
        # 32-bit limbs of a block's codes do not overflow 64 bits.
        limbs = np.frombuffer(codes, "<u4").reshape(-1, 8).sum(axis=0, dtype=np.uint64)
        total = sum(int(limb) << (32 * place) for place, limb in enumerate(limbs))
        self._sum = (self._sum + total) % (1 << 256)
        self._rows += records.num_rows

    def _cells(self, values: pa.Array, untyped: bool) -> Bytes:
        """Return every value as a tag and 16 bytes."""
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if pa.types.is_null(kind):
            return np.zeros((len(values), CELL_BYTES), np.uint8)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._distinct(values, self._untyped_text if untyped else self._text)
        if pa.types.is_decimal(kind):
            if kind.precision > EXACT_DIGITS:
                texts = pc.cast(values, pa.string())
                return self._distinct(texts, self._decimal)
            # Convert through text, because Arrow's direct cast need not give the nearest number.
            values = pc.cast(pc.cast(values, pa.string()), pa.float64())
        missing = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        if pa.types.is_floating(values.type):
            cells = _floats(pc.cast(values, pa.float64()).fill_null(np.nan).to_numpy())
        elif pa.types.is_boolean(kind):
            cells = _packed(b"b", pc.cast(values, pa.int64()))
        elif pa.types.is_integer(kind):
            cells = _packed(b"n", pc.cast(values, pa.int64()))
        elif pa.types.is_date32(kind):
            cells = _packed(b"d", pc.cast(pc.cast(values, pa.int32()), pa.int64()))
        elif pa.types.is_timestamp(kind):
            microseconds = pc.cast(values, pa.timestamp("us", kind.tz))
            tag = b"t" if kind.tz is None else b"z"
            cells = _packed(tag, pc.cast(microseconds, pa.int64()))
        elif pa.types.is_time(kind):
            cells = _packed(b"c", pc.cast(pc.cast(values, pa.time64("ns")), pa.int64()))
        else:
            raise TypeError(f"Rows with values of type {kind} have no digest.")
        cells[missing] = 0
        return cells

    def _distinct(self, values: pa.Array, write: Any) -> Bytes:
        encoded = values
        if not pa.types.is_dictionary(values.type):
            encoded = pc.dictionary_encode(values)
        texts = encoded.dictionary.to_pylist()
        # The last entry is for null.
        codes = b"".join(map(write, texts)) + bytes(CELL_BYTES)
        index = encoded.indices.cast(pa.int64()).fill_null(len(texts))
        table = np.frombuffer(codes, np.uint8).reshape(-1, CELL_BYTES)
        cells: Bytes = table[index.to_numpy(zero_copy_only=False)]
        return cells

    def _text(self, text: str | None) -> bytes:
        if text is None:
            return bytes(CELL_BYTES)
        return b"s" + self._code(text)

    def _untyped_text(self, text: str | None) -> bytes:
        """Return the cell of the number, date or time that a text stands for, or of the text."""
        if text is None or text == "NaN" or re.fullmatch(NUMBER_TEXT, text, re.ASCII):
            return self._decimal(text)
        with contextlib.suppress(ValueError):
            if re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}", text):
                return _packed(b"d", pa.array([(_of(text) - _of("1970-01-01")).days])).tobytes()
            if re.fullmatch(
                r"[0-9]{4}(-[0-9]{2}){2}[ T][0-9]{2}(:[0-9]{2}){1,2}(\.[0-9]{1,6})?", text
            ):
                since = (_of(text) - _of("1970-01-01")) // datetime.timedelta(microseconds=1)
                return _packed(b"t", pa.array([since])).tobytes()
        return self._text(text)

    def _decimal(self, text: str | None) -> bytes:
        """Return the cell of a decimal number given as text."""
        if text is None:
            return bytes(CELL_BYTES)
        value = decimal.Decimal(text)
        if value.is_nan():
            return bytes(CELL_BYTES)
        digits = "".join(map(str, value.as_tuple().digits)).strip("0")
        if len(digits) <= EXACT_DIGITS or not value.is_finite():
            return _floats(np.array([float(value)])).tobytes()
        if value == value.to_integral_value() and -(2**63) <= value < 2**63:
            return b"n" + int(value).to_bytes(8, "little", signed=True) + bytes(8)
        sign, _, exponent = value.as_tuple()
        ending = len("".join(map(str, value.as_tuple().digits)).rstrip("0"))
        places = int(exponent) + len(value.as_tuple().digits) - ending
        return b"e" + self._code(f"{sign} {digits} {places}")

    def _code(self, text: str) -> bytes:
        return hashlib.blake2b(
            text.encode("utf-8", "surrogatepass"), digest_size=16, key=self._text_key
        ).digest()


def _of(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def _floats(values: NDArray[np.float64]) -> Bytes:
    """Return numbers as cells: as a whole number if it is one of 64 bits, NaN as missing."""
    nan = np.isnan(values)
    whole = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
    cells = np.zeros((len(values), CELL_BYTES), np.uint8)
    cells[:, 0] = np.where(whole, ord("n"), ord("f"))
    bits = values.astype("<f8").view("<i8")
    integers = np.where(whole, values, 0.0).astype("<i8")
    cells[:, 1:9] = np.where(whole, integers, bits).astype("<i8").view(np.uint8).reshape(-1, 8)
    cells[nan] = 0
    return cells


def _packed(tag: bytes, values: pa.Array) -> Bytes:
    cells = np.zeros((len(values), CELL_BYTES), np.uint8)
    cells[:, 0] = tag[0]
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype("<i8")
    cells[:, 1:9] = numbers.view(np.uint8).reshape(-1, 8)
    return cells


def _derived(key: bytes, purpose: str) -> bytes:
    return hmac.new(key, f"dp-release: {purpose}".encode(), "sha256").digest()
