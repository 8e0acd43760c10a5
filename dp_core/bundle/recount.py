"""The published sets counted again, from their files alone: labels and values back to codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dp_core.bundle.codebook import synthetic_path
from dp_core.confidential.encoding import Encoder, Problem
from dp_core.errors import BadInput
from dp_core.metrics.marginal_error import Tally
from dp_core.schema.definition import Column, Schema
from dp_core.schema.grid import Coarsening
from dp_core.tables.dataset import Dataset
from dp_core.tables.domain import Clique

if TYPE_CHECKING:
    import pyarrow as pa


def tallies_of_files(
    folder: Path, schema: Schema, sets: int, cliques: Iterable[Clique]
) -> tuple[Tally, ...]:
    """Return for each set of a bundle its counts of some tables, in the schema's own codes.

    Args:
        folder: The bundle.
        schema: That the sets were decoded by; where numbers stood on a grid, that of the grid.
        sets: m.
        cliques: Tables.

    Raises:
        BadInput: if a file cannot be read, or holds what no set holds.
    """
    import pyarrow as pa

    from dp_core.bundle.parquet_file import read_parquet

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
                f"{synthetic_path(number)} cannot be counted: it holds values that no set has."
            ) from None
        found.append(tally)
    return tuple(found)


def codes_of(column: Column, values: pa.Array) -> NDArray[np.uint16]:
    """Return the codes of a column of a synthetic set; `decode` the other way round.

    Raises:
        ValueError: if a value is none that `decode` writes.
    """
    if not column.levels:
        encoded = Encoder(column).encode(values)
        known = set() if column.missing_code is None else {Problem.MISSING}
        if encoded.problems.keys() - known:
            raise ValueError("A synthetic set holds a value outside its column's range.")
        return encoded.codes
    import pyarrow as pa

    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    code_of = {level.label: code for code, level in reversed([*enumerate(column.levels)])}
    # One more than there are labels, for null; a column that has no missing level holds none.
    places: Sequence[Any] = [code_of[label] for label in values.dictionary.to_pylist()]
    table = np.array([*places, column.missing_code or 0], dtype=np.uint16)
    if values.null_count and column.missing_code is None:
        raise ValueError("A synthetic set has a missing value where none is.")
    indices = values.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
    found: NDArray[np.uint16] = table[indices.astype(np.int64)]
    return found
