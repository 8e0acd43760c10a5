"""Counts of the published sets, recomputed from their files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dp_core.bundle.files.codebook import synthetic_path
from dp_core.errors import BadInput
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.decoding import codes_of
from dp_core.schema.definition import Schema
from dp_core.schema.grid import Coarsening
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique


def counts_of_sets(
    folder: Path, schema: Schema, sets: int, cliques: Iterable[Clique]
) -> tuple[Tally, ...]:
    """Return the counts of each set of a bundle in some tables, in the codes of the schema.

    Args:
        folder: The bundle.
        schema: Schema by which the sets were decoded; with a grid, the schema on the grid.
        sets: Number of sets, m.
        cliques: Columns of each table.

    Raises:
        BadInput: if a file cannot be read, or contains values that the schema does not allow.
    """
    import pyarrow as pa

    from dp_core.bundle.files.parquet_file import read_parquet

    wanted = tuple(dict.fromkeys(cliques))
    coarsening = Coarsening(schema) if schema.coarse is not None else None
    domain = schema.domain if coarsening is None else coarsening.domain
    names = [name for name in domain.columns if any(name in clique for clique in wanted)]
    columns = [schema.column(name) for name in names]
    fine, coarse = schema.domain.project(names), domain.project(names)
    found = []
    for number in range(1, sets + 1):
        path = folder / synthetic_path(number)
        tally = Tally(coarse, wanted)
        try:
            for batch in read_parquet(path, names):
                codes = [codes_of(column, batch.column(column.name)) for column in columns]
                if coarsening is not None:
                    codes = [
                        coarsening.codes(name, each)
                        for name, each in zip(names, codes, strict=True)
                    ]
                piece = coarse if coarsening is not None else fine
                tally.add(Dataset(piece, np.stack(codes)))
        except (OSError, pa.ArrowException, ValueError, LookupError):
            raise BadInput(
                f"{synthetic_path(number)} cannot be counted: it contains values that the schema"
                " does not allow."
            ) from None
        found.append(tally)
    return tuple(found)
