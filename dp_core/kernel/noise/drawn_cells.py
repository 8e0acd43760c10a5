"""Records drawn from the cells of a table, each with added virtual records."""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.events import PerturbedDrawsEvent, PolyaUrnEvent
from dp_core.kernel.ledger.session import Grant


def draw(
    cells: NDArray[np.int64], counts: NDArray[np.int64], sizes: Sequence[int], grant: Grant
) -> NDArray[np.int64]:
    """Return records drawn from the counts of cells plus virtual records.

    Draws are exact: they use uniform integers from the operating system's entropy. Only cells that
    hold a record are visited. Every cell has the same number of virtual records, so drawing a
    virtual record means drawing a cell uniformly from all cells.

    Args:
        cells: Codes of the cells that hold a record, shape (cells, columns); a cell may occur
            several times. Confidential.
        counts: Number of records in each cell, shape (cells,). Confidential.
        sizes: Number of codes of each column; the product may be any number.
        grant: Paid-for `PerturbedDrawsEvent` for independent draws, or `PolyaUrnEvent` for one
            multinomial sample; the shape of its step is (records, columns).

    Returns:
        Codes, shape (records, columns).

    Raises:
        TypeError: if the grant is for another kind of event.
        ValueError: if the grant paid for fewer records than its shape has.

    Privacy:
        See the event. The guarantee holds under both neighbouring relations.
    """
    event = grant.step.event
    if isinstance(event, PerturbedDrawsEvent):
        paid, urn = event.draws, False
    elif isinstance(event, PolyaUrnEvent):
        paid, urn = event.records, True
    else:
        raise TypeError(f"The grant is for {type(event).__name__}, not for drawn records.")
    records, columns = grant.step.shape
    # privacy: every draw adds to the privacy loss.
    if records > paid:
        raise ValueError(f"The grant is for {paid:,} draws, not for {records:,}.")
    assert columns == len(sizes)
    # In units of 1/parts of a record, all weights are integers.
    virtual, parts = event.scale.numerator, event.scale.denominator
    ends = np.cumsum(counts).tolist()
    real = (ends[-1] if ends else 0) * parts
    both = real + math.prod(sizes) * virtual
    found = np.empty((records, columns), dtype=np.int64)
    for record in range(records):
        # privacy: an urn also holds a copy of every record drawn before; independent draws do not.
        place = secrets.randbelow(both + record * parts if urn else both)
        if place < real:
            found[record] = cells[bisect_right(ends, place // parts)]
        elif place < both:
            found[record] = _cell((place - real) // virtual, sizes)
        else:
            found[record] = found[(place - both) // parts]
    return found


def _cell(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the codes of the cell with a row-by-row number, an integer of any size."""
    codes = [0] * len(sizes)
    for column in range(len(sizes) - 1, -1, -1):
        number, codes[column] = divmod(number, sizes[column])
    return codes
