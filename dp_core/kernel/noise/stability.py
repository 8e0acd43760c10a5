"""Stability-based histogram: noisy counts of the observed cells that reach a threshold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.codes import Codes
from dp_core.kernel.cost.events import StabilityEvent
from dp_core.kernel.counting.sparse_cells import sparse_result
from dp_core.kernel.ledger.session import Grant
from dp_core.kernel.noise.exact_samplers import add_noise


def release(
    cells: Codes, counts: NDArray[np.int64], sizes: Sequence[int], grant: Grant
) -> NDArray[np.int64]:
    """Return the cells whose noisy counts reach the threshold, in the stored form.

    Args:
        cells: Codes of every cell that holds a record, each once, ascending, shape (cells,
            columns). Confidential.
        counts: Exact numbers of records, shape (cells,), all positive. Confidential.
        sizes: Number of codes of each column.
        grant: Paid-for `StabilityEvent`; the first number of its step's shape is the capacity. If
            more cells reach the threshold, those with the largest noisy counts are kept; among
            equal counts, the first ones.

    Returns:
        A `sparse_result` that always has `capacity` rows.

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        (epsilon, own delta)-DP with the values of the event, for the neighbours of its sensitivity.
        Korolova, Kenthapadi, Mishra & Ntoulas (2009); Bun, Nissim & Stemmer (2016).
    """
    event = grant.step.event
    if not isinstance(event, StabilityEvent):
        raise TypeError(f"The grant is for {type(event).__name__}, not for a histogram.")
    # privacy: the proof is for distinct cells that hold a record. With noise on empty cells, more
    # cells could appear than the own delta accounts for.
    assert counts.min(initial=1) > 0
    noisy = add_noise("laplace", counts, event.scale)
    kept = np.flatnonzero(noisy >= event.threshold)
    # privacy: from here on only noisy counts and kept cells are used.
    capacity = grant.step.shape[0]
    if len(kept) > capacity:
        largest = np.argsort(-noisy[kept], kind="stable")[:capacity]
        kept = kept[np.sort(largest)]
    return sparse_result(cells[kept], noisy[kept], sizes, capacity)
