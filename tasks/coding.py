"""From the confidential files to the store of codes. Confidential side."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from dp_core.code_store import CodeStore, StoreWriter
from dp_core.codec import Encoded, Encoder, settle_zeros
from dp_core.dependency_check import DependencyCheck
from dp_core.errors import SchemaViolation
from dp_core.person_rows import RowLimit, hashes, without_identifier
from dp_core.processors import threads
from dp_core.schema import Schema
from dp_core.source import Source

SHOWN_RULES = 5


def write_codes(
    source: Source,
    schema: Schema,
    folder: Path,
    progress: Callable[[float], None] | None = None,
) -> CodeStore:
    """Write the codes of every row, streamed batch by batch.

    Where the unit is a person, rows above the limit are left out: of all that pass, see
    `dp_core.person_rows`.

    Args:
        source: The confidential files.
        schema: Its columns are the source's.
        folder: The store's, within the run's confidential folder.
        progress: Called with the part that is done, 0 to 1.

    Returns:
        The complete store; its rows are in the order of the file.

    Raises:
        SchemaViolation: if rows have no identifier of their person, rows break an `impossible` rule
            and no policy settles them, a column does not follow from another as the schema says, or
            a value is not in the schema (which validation reports better); the store is then
            incomplete. The message names rules and columns only, the counts are in `internal`.
    """
    encoders = [Encoder(column) for column in schema.columns]
    followers = DependencyCheck(schema)
    names = schema.domain.columns
    broken: dict[str, int] = {}
    disobeyed: dict[str, int] = {}
    misfits: dict[str, int] = {}
    # Arrow and numpy let go of the interpreter lock in the long loops.
    unit = schema.unit
    everything = folder if unit.column is None else folder / "everything"
    with ExitStack() as stack:
        limit = None
        if unit.column is not None:
            stack.callback(shutil.rmtree, everything, ignore_errors=True)
            limit = stack.enter_context(RowLimit(folder / "persons", unit.max_rows))
        writer = stack.enter_context(StoreWriter(everything, schema.domain))
        pool = stack.enter_context(ThreadPoolExecutor(threads()))
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
                if limit is not None and unit.column is not None:
                    found = batch.records.column(unit.column)
                    persons, without = hashes(unit.column, found, unit.missing_values)
                    if without:
                        raise SchemaViolation(without_identifier(unit.column))
                    limit.add(persons, codes)
            if progress is not None:
                progress(batch.done)
        if misfits or broken or disobeyed:
            raise _violation(schema, misfits, broken, disobeyed)
        if limit is not None:
            writer.finish()
            _keep(CodeStore(everything, schema.domain), limit, folder)
    pa.default_memory_pool().release_unused()
    return CodeStore(folder, schema.domain)


def _keep(everything: CodeStore, limit: RowLimit, folder: Path) -> None:
    """Write the store of the rows that are kept."""
    kept, start = limit.kept(), 0
    with StoreWriter(folder, everything.domain) as writer:
        for chunk in range(everything.chunks):
            codes = everything.read(chunk)
            part = kept[start : start + len(codes[0])]
            start += len(part)
            writer.append([column[part] for column in codes])


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
