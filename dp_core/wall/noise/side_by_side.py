"""Noise of many cells drawn on several threads; exact samplers take microseconds for each cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dp_core.wall.ledger.session import Grant

Perturb = Callable[[NDArray[np.int64], Grant], NDArray[np.int64]]
PIECE_CELLS = 4096
"""Cells that one thread perturbs at a time."""
FEW_CELLS = 8192
"""Cells of all tables for which threads are not worth their start."""


def perturbed(
    perturb: Perturb, exact: Sequence[NDArray[np.int64]], grants: Sequence[Grant]
) -> list[NDArray[np.int64]]:
    """Return tables with their noise, each drawn once and whole or not at all.

    Args:
        perturb: Adds independent noise to each cell; it lets go of the interpreter.
        exact: Tables of any shapes. Confidential.
        grants: What paid for each.

    Raises:
        Exception: what a draw raises; nothing of what others drew is returned.

    Privacy:
        Noise is independent from cell to cell and comes from the operating system's generator,
        which no two threads get the same bytes of: it does not matter which of them draws a cell.
    """
    at_once = len(os.sched_getaffinity(0))
    if at_once == 1 or sum(table.size for table in exact) <= FEW_CELLS:
        return [perturb(table, grant) for table, grant in zip(exact, grants, strict=True)]
    flat = [np.ascontiguousarray(table).ravel() for table in exact]
    pieces = [
        (cells[start : start + PIECE_CELLS], grant)
        for cells, grant in zip(flat, grants, strict=True)
        for start in range(0, cells.size, PIECE_CELLS)
    ]
    with ThreadPoolExecutor(at_once) as pool:
        drawn = np.concatenate(list(pool.map(lambda piece: perturb(*piece), pieces)))
    ends = np.cumsum([cells.size for cells in flat])[:-1]
    parts = np.split(drawn, ends)
    return [part.reshape(table.shape) for part, table in zip(parts, exact, strict=True)]
