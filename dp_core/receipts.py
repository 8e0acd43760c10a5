"""Rows of the ledger as anyone can check them: canonical form, hashes, and the chain of a release.

The database is in `tasks.stores.ledger`; this module knows no database, so that a bundle can be
verified with nothing but itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_core.canonical import canonical_json

LEDGER_VERSION = 1
START = "0" * 64
"""What the first row of a chain names as the row before it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the ledger; never changed, never removed.

    Attributes:
        number: 1, 2, 3, ... over the whole ledger.
        kind: `ledger`, `open`, `reserve`, `charge`, `commit`, `settle` or `close`.
        account: Account it concerns, empty for the ledger itself.
        release: Release it concerns, empty for an account.
        at: Day in UTC, ISO 8601: a time of day would say how long the stages took.
        body: Plain values; costs are exact fractions as text.
        previous: Hash of the row before it.
        previous_in_release: Hash of the row before it of the same reservation; a reservation
            begins a chain of its own.
        hash: Of all of the above.
    """

    number: int
    kind: str
    account: str
    release: str
    at: str
    body: Mapping[str, object]
    previous: str
    previous_in_release: str
    hash: str

    def to_json(self) -> dict[str, object]:
        """Return the row as plain values."""
        return {
            "number": self.number,
            "kind": self.kind,
            "account": self.account,
            "release": self.release,
            "at": self.at,
            "body": dict(self.body),
            "previous": self.previous,
            "previous_in_release": self.previous_in_release,
            "hash": self.hash,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Row:
        """Return the row that `to_json` wrote.

        Raises:
            ValueError: if it has other fields, or fields of other types.
        """
        texts = ("kind", "account", "release", "at", "previous", "previous_in_release", "hash")
        number, body = values.get("number"), values.get("body")
        if (
            set(values) != {*texts, "number", "body"}
            or not isinstance(number, int)
            or not isinstance(body, Mapping)
            or not all(isinstance(values[name], str) for name in texts)
        ):
            raise ValueError("Not a row of a ledger.")
        return cls(number=number, body=body, **{name: str(values[name]) for name in texts})


def make_row(
    *,
    number: int,
    kind: str,
    account: str,
    release: str,
    at: str,
    body: Mapping[str, object],
    previous: str,
    previous_in_release: str,
) -> Row:
    """Return a row with its hash."""
    draft = Row(number, kind, account, release, at, body, previous, previous_in_release, "")
    return Row(
        number, kind, account, release, at, body, previous, previous_in_release, row_hash(draft)
    )


def row_hash(row: Row) -> str:
    """Return the SHA-256 of everything in a row but its own hash."""
    values = row.to_json()
    del values["hash"]
    return hashlib.sha256(canonical_json(values)).hexdigest()


def result_hash(results: Iterable[tuple[int, NDArray[np.int64]]]) -> str:
    """Return the hash by which a commit binds the noisy results that were drawn together.

    Of charges, shapes and values; not of the attempt. It is published, and whoever knows the
    published values could try attempts until it fits.

    Args:
        results: Number of each charge and its noisy values, in the order of the charges.
    """
    found = hashlib.sha256()
    for number, values in results:
        found.update(canonical_json([number, list(values.shape)]))
        found.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    return found.hexdigest()


def first_bad_link(rows: Sequence[Row]) -> str | None:
    """Return a sentence about the first row of one release that does not fit, None if all fit.

    Args:
        rows: All rows of one release, in order.
    """
    last = START
    for row in rows:
        if row_hash(row) != row.hash:
            return f"Receipt {row.number} ({row.kind}) was changed: its hash does not match."
        if row.previous_in_release != last:
            return f"Receipt {row.number} ({row.kind}) does not follow the receipt before it."
        last = row.hash
    return None
