"""Saves a release in memory as a folder that is no bundle, and says so.

The folder has the sets, the noisy tables and a codebook in the form of a bundle. Its statement is
`in-memory.json`, not `release.json`: no ledger paid, so there are no receipts, and nothing in it
claims that the data are protected.
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_core.bundle.files.codebook import CODEBOOK, MARGINALS, package, set_paths
from dp_core.bundle.files.marginals_file import write_marginals
from dp_core.bundle.files.parquet_file import settle, write_failure, write_synthetic
from dp_core.bundle.statement.release_json import exact, file_record, plain, software_versions
from dp_core.bundle.writer import check_destination
from dp_core.errors import BadInput
from dp_core.plan.in_memory.stated_plan import NAME
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_decoding import TwoTables
from dp_core.schema.privacy import Privacy
from dp_core.text.indented_json import indented_json
from dp_core.wall.released import Released

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY = "in-memory.json"
"""Name of the statement of a saved release in memory."""
FORMAT_NAME = "dp-release in memory"
FORMAT_VERSION = 1
NOT_PROTECTED = (
    "This release was made in memory from public data, for tests and teaching. No ledger paid for"
    " it. It is not a differentially private release and protects nobody."
)
"""What a release in memory says about itself wherever it is shown or saved."""
SOURCE = "Public data, from which this release was made in memory; no ledger paid for it"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MadeInMemory:
    """Everything that a saved release in memory contains.

    Attributes:
        schema: The schema, including bins and levels that were chosen privately.
        privacy: The guarantee by which the noise was calibrated.
        plan: The plan's document.
        released: Everything that was measured.
        sets: The synthetic sets.
        inference: What a statement says about combining the sets.
        records: Estimated number of records.
    """

    schema: Schema
    privacy: Privacy
    plan: Mapping[str, object]
    released: Sequence[Released]
    sets: Sequence[pa.Table | TwoTables]
    inference: Mapping[str, object]
    records: float


def save_in_memory(folder: Path, made: MadeInMemory) -> Path:
    """Write a release in memory to a new or empty folder, completely or not at all; return it.

    Raises:
        BadInput: if the folder is neither new nor empty, or cannot be made.
        StageFailed: if the disk is full or a file cannot be written; nothing is left behind.
    """
    folder = folder.absolute()
    check_destination(folder)
    partial = folder.parent / f".{folder.name}.partial"
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _fill(partial, made)
        os.rename(partial, folder)
        settle(folder.parent)
    except OSError as error:
        raise write_failure(folder, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def refuse_in_memory(folder: Path) -> None:
    """Refuse a folder that holds a release in memory where a bundle is expected.

    Raises:
        BadInput: if it does.
    """
    if (folder / IN_MEMORY).is_file():
        raise BadInput(
            f"{folder} holds a release made in memory from public data, not a bundle: it has no"
            f" receipts, so there is nothing to verify. {IN_MEMORY} describes it."
        )


def _fill(folder: Path, made: MadeInMemory) -> None:
    created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    names: list[str] = []
    for number, one in enumerate(made.sets, start=1):
        paths = set_paths(made.schema, number)
        for name, table in zip(paths, _tables(one), strict=True):
            write_synthetic(folder / name, [table])
        names += paths
    write_marginals(folder / MARGINALS, made.released, made.schema)
    files = {name: file_record(folder / name) for name in (*names, MARGINALS)}
    described = package(
        made.schema,
        files,
        name=NAME,
        version=1,
        created=created,
        sets=len(made.sets),
        source=SOURCE,
    )
    described["description"] = " ".join(filter(None, (NOT_PROTECTED, made.schema.description)))
    _write(folder / CODEBOOK, described)
    files[CODEBOOK] = file_record(folder / CODEBOOK)
    _write(folder / IN_MEMORY, _statement(made, files, created))


def _tables(one: pa.Table | TwoTables) -> tuple[pa.Table, ...]:
    """Return the tables of a set: one, or those of households and persons."""
    return (one.households, one.persons) if isinstance(one, TwoTables) else (one,)


def _statement(
    made: MadeInMemory, files: Mapping[str, Mapping[str, object]], created: str
) -> dict[str, Any]:
    privacy = made.privacy
    return {
        "format": {"name": FORMAT_NAME, "version": FORMAT_VERSION},
        "in_words": NOT_PROTECTED,
        "release": {"title": made.schema.title, "created": created},
        "ledger": None,
        "guarantee": None,
        "noise_calibrated_to": {
            "epsilon": exact(privacy.epsilon),
            "delta": exact(privacy.delta),
            "neighbours": privacy.neighbours,
            "unit": privacy.unit,
            **privacy.stated_limit,
        },
        "method": {"plan": plain(made.plan), "schema": plain(made.schema.document)},
        "software": dict(sorted(software_versions().items())),
        "sets": {
            "m": len(made.sets),
            "rows": [_tables(one)[0].num_rows for one in made.sets],
            **(
                {"persons": [_tables(one)[1].num_rows for one in made.sets]}
                if made.schema.linked
                else {}
            ),
            "records": round(made.records, 3),
        },
        "inference": dict(made.inference),
        "files": {path: dict(files[path]) for path in sorted(files)},
    }


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(indented_json(document) + "\n", encoding="utf-8")
    settle(path)
