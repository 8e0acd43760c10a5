"""Bundles changed by someone who makes every checksum fit again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dp_core.accounts.plain_entries import read_receipt
from dp_core.bundle.statement.citation import CITATION, citation_text, suggested_citation
from dp_core.bundle.statement.deployment_registry import REGISTRY, registry_text
from dp_core.bundle.statement.release_json import file_record, render
from dp_core.bundle.statement.spent_budget import accounting_json
from dp_core.bundle.verification.claims import currency
from dp_core.bundle.verification.verify import Verification, verify
from dp_core.kernel.canonical import digest
from dp_core.kernel.counting.linked_columns import household_shares
from dp_core.kernel.errors import GARBAGE
from dp_core.kernel.ledger.receipts import START, make_receipt
from dp_core.kernel.privacy import Relation


def failed(verification: Verification) -> dict[str, str]:
    """Return the sentence of each check that failed."""
    return {check.name: check.sentence for check in verification.failures}


def reseal(folder: Path, document: dict) -> None:
    """Write a statement that a forger made consistent: file hashes and its own hash fit.

    What is made from the statement alone is made again, as far as it can be.
    """
    with contextlib.suppress(*GARBAGE):
        _follow(folder, document)
    for name in document["files"]:
        if (folder / name).is_file():
            document["files"][name] = file_record(folder / name)
    rehash(folder, document)


def rehash(folder: Path, document: dict) -> None:
    """Write a changed statement of which only its own hash is made to fit."""
    document.pop("sha256", None)
    document["sha256"] = digest(document)
    (folder / "release.json").write_bytes(render(document))


def _follow(folder: Path, document: dict) -> None:
    measured = document.get("measurements", document["ledger"])
    paid = measured["currency"]
    document["accounting"] = accounting_json(
        currency(paid["kind"], paid["limit"]["exact"], paid["own_delta"]["exact"]),
        Relation(
            document["guarantee"]["neighbours"],
            document["guarantee"].get("max_rows", 1),
            household_shares(document["guarantee"].get("max_members", 1)),
        ),
        [read_receipt(row) for row in measured["receipts"]],
    )
    document["release"]["cite_as"] = suggested_citation(document)
    for name, content in (
        (CITATION, citation_text(document)),
        (REGISTRY, registry_text(document)),
    ):
        if (folder / name).is_file():
            (folder / name).write_bytes(content)


def statement_of(folder: Path) -> dict:
    """Return the statement as plain values."""
    return json.loads((folder / "release.json").read_bytes())


def relink(document: dict) -> None:
    """Hash changed receipts again, as someone would who forges the ledger's entries."""
    last, receipts = START, []
    for values in document["ledger"]["receipts"]:
        fields = {name: value for name, value in values.items() if name != "hash"}
        receipt = make_receipt(**{**fields, "previous": last})
        receipts.append(receipt.to_json())
        last = receipt.hash
    document["ledger"]["receipts"] = receipts
    document["ledger"]["head"] = last


def resealed(folder: Path, document: dict) -> dict[str, str]:
    """Write a changed statement by `reseal`, and return the sentence of each check that fails."""
    reseal(folder, document)
    return failed(verify(folder))


def relinked(folder: Path, document: dict) -> dict[str, str]:
    """Hash changed receipts again, and return the sentence of each check that fails."""
    relink(document)
    return resealed(folder, document)


def edit_table(folder: Path, name: str, edit: Callable[[pa.Table], pa.Table]) -> None:
    """Replace a Parquet file of a bundle by what `edit` makes of it, and make all hashes fit."""
    table = pq.read_table(folder / name)
    made = edit(table).replace_schema_metadata(table.schema.metadata)
    pq.write_table(made, folder / name)
    reseal(folder, statement_of(folder))


def put(table: pa.Table, name: str, values: Iterable[Any]) -> pa.Table:
    """Return a table with other values in a column of the same type."""
    place, field = table.column_names.index(name), table.schema.field(name)
    return table.set_column(place, field, pa.array(values, field.type))


def edit_column(path: Path, name: str, edit: Callable[[list[Any]], None]) -> None:
    """Let `edit` change the values of a column in a Parquet file, and change nothing else."""
    table = pq.read_table(path)
    values = table[name].to_pylist()
    edit(values)
    pq.write_table(put(table, name, values).replace_schema_metadata(table.schema.metadata), path)
