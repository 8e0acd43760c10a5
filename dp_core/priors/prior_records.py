"""Reads public records as a prior: a published release, a public file, or public frames.

Columns are matched by name, and levels by their text or label. A column that too few records match
has no prior; a note says so. Nothing here asks the ledger whether a file is confidential: the
caller does (`tasks.run.declared_public`).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dp_core.bundle.reading import Bundle, read_bundle
from dp_core.bundle.statement.release_json import STATEMENT
from dp_core.bundle.statement.sections import protected_by, source_in_words
from dp_core.confidential.data_files import kind_of
from dp_core.confidential.encoding import Encoder
from dp_core.confidential.source import Source, open_source
from dp_core.confidential.sources.frame_source import frame_table, open_frame
from dp_core.errors import BadInput
from dp_core.kernel.canonical import digest
from dp_core.kernel.coding.raw_rows import open_text
from dp_core.kernel.coding.stored_texts import canonical_texts
from dp_core.methods.prior import Codes, PublicPrior, as_codes
from dp_core.schema.definition import Column, Schema

MOST_UNKNOWN = 0.1
"""Largest part of the records that may have a value of a column that the schema does not have."""


def prior_of_release(folder: Path, schema: Schema) -> PublicPrior:
    """Return the sets of a published release as a prior.

    Args:
        folder: Folder of its bundle. That its statement and the files listed in it are unchanged is
            checked; its receipts are not (`dp-release verify` checks them).
        schema: Schema of the release that uses the prior.

    Raises:
        BadInput: if it is not a bundle, was changed, has no sets, or has linked tables.
    """
    bundle = read_bundle(folder)
    claims = bundle.claims
    if claims.schema.linked is not None:
        raise BadInput(f"{folder} is a release of linked tables, which cannot be a prior yet.")
    if not claims.sets:
        raise BadInput(f"{folder} has no synthetic sets, only noisy tables; name one with sets.")
    spec = claims.plan["spec"]
    statement = (folder / STATEMENT).read_bytes()
    document = (
        ("release", claims.name),
        ("sha256", hashlib.sha256(statement).hexdigest()),
        ("account", str(spec["account"])),
        ("epsilon", str(spec["privacy"]["epsilon"])),
        ("delta", str(spec["privacy"]["delta"])),
        ("protects", protected_by(spec["privacy"])),
        *((("made_with", source_in_words(spec["prior"])),) if "prior" in spec else ()),
    )
    # The differences between posterior sets show the noise of the release.
    apart = spec["synthesize"]["mode"] == "posterior"
    return prior_of_tables(_tables(bundle, schema), schema, apart=apart, document=document)


def prior_of_file(path: Path, schema: Schema, *, by: str, reason: str) -> PublicPrior:
    """Return the rows of a public file as a prior.

    Args:
        path: A CSV or Parquet file.
        schema: Schema of the release that uses the prior.
        by: Person who declares the file public.
        reason: Reason for the declaration.

    Raises:
        BadInput: if it cannot be read, or has no column of the schema.
    """
    kind, names = kind_of(path), {*schema.domain.columns}
    header = _header(path, kind)
    wanted = [name for name in schema.domain.columns if name in header]
    if not wanted:
        raise BadInput(f"{path.name} has none of the schema's columns.")
    source = open_source(str(path), Path(), wanted, [*header, *names])
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    document = (("file", path.name), ("sha256", found), ("by", by), ("reason", reason))
    return prior_of_tables([_rows(source)], schema, apart=False, document=document)


def prior_of_frames(
    frames: Sequence[object], schema: Schema, *, apart: bool = False
) -> PublicPrior:
    """Return public frames as a prior: one of public records, or the sets of a release in memory.

    Args:
        frames: The frames; at least one.
        schema: Schema of the release that uses the prior.
        apart: Whether differences between them show noise; False by default.

    Raises:
        BadInput: if a column cannot be read, or fewer than two columns match the schema.
        TypeError: if one is not a frame.
    """
    tables = []
    for frame in frames:
        table = frame_table(frame)
        wanted = [name for name in schema.domain.columns if name in table.column_names]
        tables.append(_rows(open_frame(table, wanted, table.column_names)))
    found = prior_of_tables(tables, schema, apart=apart, document=())
    hashes = [hashlib.sha256(np.ascontiguousarray(codes).tobytes()) for codes in found.sets]
    document = (
        ("frame", "in memory"),
        ("sha256", digest([found.domain.columns, [each.hexdigest() for each in hashes]])),
    )
    return dataclasses.replace(found, document=document)


def prior_of_tables(
    tables: Sequence[pa.Table],
    schema: Schema,
    *,
    apart: bool,
    document: Iterable[tuple[str, str]],
) -> PublicPrior:
    """Return tables of public records as a prior.

    Args:
        tables: The sets of an earlier release, or one table of public records.
        schema: Schema of the release that uses the prior.
        apart: Whether differences between the tables show noise.
        document: What the plan says about their source.

    Raises:
        BadInput: if no column of the schema can be used.
    """
    kept: list[str] = []
    codes: list[list[NDArray[np.int64]]] = []
    notes: list[str] = []
    for column in (schema.column(name) for name in schema.domain.columns):
        if any(column.name not in table.column_names for table in tables):
            notes.append(f"Column {column.name!r} is not in the prior.")
            continue
        found = [_codes(table.column(column.name), column) for table in tables]
        unknown = float(np.mean([np.mean(each == column.size) for each in found if each.size]))
        if not unknown <= MOST_UNKNOWN:
            notes.append(
                f"Column {column.name!r} has values in the prior that the schema does not have"
                f" ({unknown:.0%} of the records), so the prior is not used for it."
            )
            continue
        kept.append(column.name)
        codes.append(found)
    if len(kept) < 2:
        raise BadInput(
            "fewer than two columns of the prior match the schema, so it cannot predict anything. "
            + " ".join(notes)
        )
    sets: list[Codes] = [as_codes(each) for each in zip(*codes, strict=True)]
    return PublicPrior(
        schema.domain.project(kept), tuple(sets), apart, tuple(document), tuple(notes)
    )


def _rows(source: Source) -> pa.Table:
    return pa.Table.from_batches([batch.records for batch in source.batches()])


def _header(path: Path, kind: str) -> list[str]:
    """Return the names of a file's columns.

    Raises:
        BadInput: if it cannot be read.
    """
    import csv

    try:
        if kind == "parquet":
            return [str(name) for name in pq.read_schema(path).names]
        with open_text(path) as text:
            return next(csv.reader(text), [])
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, pa.ArrowException):
        raise BadInput(
            f"{path} does not exist or cannot be read; name a CSV or Parquet file."
        ) from (None)


def _tables(bundle: Bundle, schema: Schema) -> list[pa.Table]:
    known = {column.name for column in bundle.claims.schema.columns}
    wanted = [name for name in schema.domain.columns if name in known]
    return [bundle.read_set(number, wanted) for number in range(1, bundle.claims.sets + 1)]


def _codes(values: pa.ChunkedArray, column: Column) -> NDArray[np.int64]:
    """Return the codes of a column's values; `column.size` for a value that the schema lacks."""
    array = pa.array([], values.type) if not values.num_chunks else values.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if not column.levels:
        encoded = Encoder(column).encode(array)
        codes = encoded.codes.astype(np.int64)
        return codes if encoded.bad is None else np.where(encoded.bad, column.size, codes)
    known = _label_codes(column)
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array)
    texts = canonical_texts(array.dictionary).to_pylist()
    # The last entry is for null.
    missing = column.size if column.missing_code is None else column.missing_code
    code = np.array([*(known.get(text, column.size) for text in texts), missing], dtype=np.int64)
    index = array.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return np.asarray(code[index.astype(np.int64)])


def _label_codes(column: Column) -> Mapping[str, int]:
    """Return the code of each text and label of a column; a text takes precedence over a label."""
    found: dict[str, int] = {}
    missing = column.missing_code
    if missing is not None:
        found |= dict.fromkeys(column.missing_values, missing)
    return {**found, **column.label_codes(), **column.texts()}
