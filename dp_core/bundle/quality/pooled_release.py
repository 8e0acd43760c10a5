"""All noisy tables and interactions of a release, pooled for answers about the file."""

from __future__ import annotations

from collections.abc import Sequence

from dp_core.bundle.quality.relations import as_table
from dp_core.methods.reconstruction.estimates.pooled_parts import Pooled, pool
from dp_core.schema.definition import Schema
from dp_core.wall.released import Released, interactions_of


def pool_release(
    schema: Schema, released: Sequence[Released], *, rows: float | None = None
) -> Pooled:
    """Return the pooled measurements of a release.

    Tables of single sets (mode `split`) are independent measurements of the same file, so those of
    all sets are used. Counts of cells that a parametric method measured are used as tables.

    Args:
        schema: The schema as written, not on a grid.
        released: Everything that was measured.
        rows: Number of records if it is public, otherwise None.
    """
    tables = [found for item in released if (found := as_table(item, schema)) is not None]
    return pool(schema.domain, [*tables, *interactions_of(released)], rows=rows)
