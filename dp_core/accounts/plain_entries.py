"""Entries and receipts as plain JSON values, also from untrusted ones, and hashes of results."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.canonical import canonical_json
from dp_core.kernel.ledger.entries import Entry
from dp_core.kernel.ledger.receipts import Receipt


def plain_entry(entry: Entry) -> dict[str, object]:
    """Return an entry as plain JSON values."""
    return {**asdict(entry), "receipt": entry.receipt.to_json()}


def read_entry(values: Mapping[str, Any]) -> Entry:
    """Return the entry that `plain_entry` wrote.

    Raises:
        ValueError: if it has other fields, or fields of other types.
    """
    texts, maybe = ("recorded", "salt", "link"), ("about", "key", "signer", "signature")
    whole = values.get("position"), values.get("reservation")
    if (
        set(values) != {"position", "receipt", "reservation", *texts, *maybe}
        or type(whole[0]) is not int
        or not (whole[1] is None or type(whole[1]) is int)
        or not isinstance(values["receipt"], Mapping)
        or not all(isinstance(values[name], str) for name in texts)
        or not all(values[name] is None or isinstance(values[name], str) for name in maybe)
    ):
        raise ValueError("The fields are not those of a ledger entry.")
    return Entry(**{**values, "receipt": read_receipt(values["receipt"])})


def read_receipt(values: Mapping[str, object]) -> Receipt:
    """Return the receipt that `Receipt.to_json` wrote.

    Raises:
        ValueError: if it has other fields, or fields of other types.
    """
    texts = ("kind", "account", "release", "at", "previous", "hash")
    number, body = values.get("number"), values.get("body")
    if (
        set(values) != {*texts, "number", "body"}
        or type(number) is not int
        or not isinstance(body, Mapping)
        or not all(isinstance(values[name], str) for name in texts)
    ):
        raise ValueError("The fields are not those of a receipt.")
    return Receipt(number=number, body=body, **{name: str(values[name]) for name in texts})


def result_hash(results: Iterable[tuple[int, NDArray[np.int64]]]) -> str:
    """Return the hash by which a commit identifies the noisy results of a batch, in hex.

    It covers the numbers of the charges, the shapes and the values. It does not cover the number of
    the draw: the hash is published, so that number could be found by trying all numbers.

    Args:
        results: Receipt number and noisy values of each charge, in the order of the charges.
    """
    found = hashlib.sha256()
    for number, values in results:
        found.update(canonical_json([number, list(values.shape)]))
        found.update(np.ascontiguousarray(values, dtype="<i8").tobytes())
    return found.hexdigest()
