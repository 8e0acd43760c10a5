"""From the confidential files to the store of codes. Confidential side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from dp_core.code_store import CodeStore, StoreWriter
from dp_core.codec import Encoded, Encoder, settle_zeros
from dp_core.dependency_check import DependencyCheck
from dp_core.errors import SchemaViolation
from dp_core.schema import Schema
from dp_core.source import Source
from tasks.cluster import threads

SHOWN_RULES = 5


def write_codes(
    source: Source,
    schema: Schema,
    folder: Path,
    progress: Callable[[float], None] | None = None,
) -> CodeStore:
    """Write the codes of every row, streamed batch by batch.

    Args:
        source: The confidential files.
        schema: Its columns are the source's.
        folder: The store's, within the run's confidential folder.
        progress: Called with the part that is done, 0 to 1.

    Returns:
        The complete store.

    Raises:
        SchemaViolation: if rows break an `impossible` rule and no policy settles them, a column
            does not follow from another as the schema says, or a value is not in the schema (which
            validation reports better); the store is then incomplete. The message names rules and
            columns only, the counts are in `internal`.
    """
    encoders = [Encoder(column) for column in schema.columns]
    followers = DependencyCheck(schema)
    names = schema.domain.columns
    broken: dict[str, int] = {}
    disobeyed: dict[str, int] = {}
    misfits: dict[str, int] = {}
    # Arrow and numpy let go of the interpreter lock in the long loops.
    with StoreWriter(folder, schema.domain) as writer, ThreadPoolExecutor(threads()) as pool:
        for batch in source.batches():
            found = [batch.records.column(name) for name in names]
            encoded = list(pool.map(_encode, encoders, found))
            codes = [column.codes for column in encoded]
            for column, result in zip(schema.columns, encoded, strict=True):
                if result.bad is not None:
                    _count(misfits, column.name, int(result.bad.sum()))
            if not misfits:
                for name, rows in followers.refused(batch.records, codes).items():
                    _count(disobeyed, name, rows)
                for rule in settle_zeros(schema, codes):
                    _count(broken, rule.rule.text, rule.refused)
            # After the first misfit the pass goes on only to count them all.
            if not misfits and not broken and not disobeyed:
                writer.append(codes)
            if progress is not None:
                progress(batch.done)
        if misfits or broken or disobeyed:
            raise _violation(schema, misfits, broken, disobeyed)
    pa.default_memory_pool().release_unused()
    return CodeStore(folder, schema.domain)


def _encode(encoder: Encoder, values: pa.Array) -> Encoded:
    return encoder.encode(values)


def _count(counts: dict[str, int], name: str, rows: int) -> None:
    if rows:
        counts[name] = counts.get(name, 0) + rows


def _violation(
    schema: Schema,
    misfits: Mapping[str, int],
    broken: Mapping[str, int],
    disobeyed: Mapping[str, int],
) -> SchemaViolation:
    named = {f"{name} does not follow from its source": rows for name, rows in disobeyed.items()}
    counts = {**misfits, **broken, **named}
    detail = "\n".join(f"{rows} rows: {name}" for name, rows in counts.items())
    if misfits:
        names = ", ".join(repr(name) for name in list(misfits)[:SHOWN_RULES])
        message = f"Values of {names} are not in the schema; validate the file against it."
    elif disobeyed:
        sources = {one.column.name: one.source for one in schema.followers}
        said = "; ".join(
            f"column {name!r} does not follow from {sources[name]!r} in every row"
            for name in list(disobeyed)[:SHOWN_RULES]
        )
        message = (
            f"{said[0].upper()}{said[1:]}; correct the file or the schema's map, or give the column"
            " `out_of_range: missing`, by which the value that follows replaces the file's."
        )
    else:
        texts = "; ".join(f"{{{text}}}" for text in list(broken)[:SHOWN_RULES])
        more = f" and {len(broken) - SHOWN_RULES} more" if len(broken) > SHOWN_RULES else ""
        message = (
            f"The file has rows that break the `impossible` rule {texts}{more}; correct the file"
            " or the rule, or give the rule's last column `missing: level` and"
            " `out_of_range: missing`."
        )
    return SchemaViolation(message, internal=detail)
