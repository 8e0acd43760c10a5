"""Writes the code store of two linked tables: their pair rows. Confidential side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from dp_core.confidential.code_store import CodeStore, StoreWriter
from dp_core.confidential.linked.linked_source import LinkedSource, pair_row_pieces, read_households
from dp_core.schema.definition import Schema

_READ = 0.6
"""Part of the work, roughly, after both tables are read and linked."""


def write_pair_codes(
    source: LinkedSource,
    schema: Schema,
    folder: Path,
    progress: Callable[[float], None] | None = None,
) -> CodeStore:
    """Write the codes of the pair rows of all households.

    Args:
        source: The confidential tables.
        schema: Schema of linked tables.
        folder: Folder of the store, in the run's confidential folder.
        progress: Called with the part that is done, 0 to 1; None (the default) for no progress.

    Returns:
        The complete store; its rows are household by household in the order of the file.

    Raises:
        SchemaViolation: if keys, links or sizes are not as the schema says, values are not in the
            schema, or rows break a rule. The message names only tables, columns and rules.
    """
    assert schema.linked is not None
    told = progress or (lambda _: None)
    rows = read_households(schema, source, lambda done: told(_READ * done))
    with StoreWriter(folder, schema.domain) as store:
        for piece, done in pair_row_pieces(schema, schema.linked, rows):
            store.append(list(piece.codes))
            told(_READ + (1 - _READ) * done)
    pa.default_memory_pool().release_unused()
    return CodeStore(folder, schema.domain)
