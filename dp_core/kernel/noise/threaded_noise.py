"""Noise for many cells, drawn on several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.counting.processors import threads
from dp_core.kernel.mechanisms.grant import Grant

Add = Callable[[NDArray[np.int64], Grant], NDArray[np.int64]]
PIECE_CELLS = 4096
"""Number of cells in a piece, which one thread draws at a time."""
FEW_CELLS = 8192
"""Number of cells up to which one thread draws all, because starting threads would take longer."""


def add_in_pieces(
    add: Add, exact: Sequence[NDArray[np.int64]], grants: Sequence[Grant]
) -> list[NDArray[np.int64]]:
    """Return tables with noise on every cell; if one draw fails, nothing is returned.

    Args:
        add: Function that adds independent noise to each cell and releases the interpreter lock.
        exact: Exact tables of any shapes. Confidential.
        grants: The grant that paid for each table.

    Returns:
        Noisy tables of the same shapes.

    Raises:
        Exception: any exception that `add` raises.

    Privacy:
        The noise of all cells is independent. It comes from the operating system's generator, which
        never gives two threads the same bytes, so the assignment of cells to threads has no effect.
    """
    at_once = threads()
    if at_once == 1 or sum(table.size for table in exact) <= FEW_CELLS:
        return [add(table, grant) for table, grant in zip(exact, grants, strict=True)]
    flat = [np.ascontiguousarray(table).ravel() for table in exact]
    pieces = [
        (cells[start : start + PIECE_CELLS], grant)
        for cells, grant in zip(flat, grants, strict=True)
        for start in range(0, cells.size, PIECE_CELLS)
    ]
    with ThreadPoolExecutor(at_once) as pool:
        drawn = np.concatenate(list(pool.map(lambda piece: add(*piece), pieces)))
    ends = np.cumsum([cells.size for cells in flat])[:-1]
    parts = np.split(drawn, ends)
    return [part.reshape(table.shape) for part, table in zip(parts, exact, strict=True)]
