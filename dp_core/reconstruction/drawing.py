"""Independent records of a table that is held cell by cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_core.marginals import Table


def draw(
    table: Table, codes: NDArray[np.uint16], axes: tuple[int, ...], *, rng: np.random.Generator
) -> None:
    """Fill some columns of records with independent draws from their joint table, in place.

    Args:
        table: Nonnegative weights of any total; all zero is uniform.
        codes: Shape (columns, rows).
        axes: Row of `codes` of each of the table's columns.
        rng: Its state decides the draws.
    """
    from dp_core.reconstruction.kernels.alias import AliasTable

    alias = AliasTable.build(table.values)
    if len(axes) == 1:
        alias.draw(codes[axes[0]], rng=rng)
        return
    cells = np.empty(codes.shape[1], dtype=np.int64)
    alias.draw(cells, rng=rng)
    for axis, size in zip(reversed(axes), reversed(table.domain.sizes), strict=True):
        cells, codes[axis] = np.divmod(cells, size)
