"""Records drawn column by column from exact counts with added virtual records."""

from __future__ import annotations

import itertools
import secrets
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.kernel.cost.events import PerturbedDrawsEvent
from dp_core.kernel.ledger.session import Grant


def draw(
    tables: Sequence[NDArray[np.int64]],
    others: Sequence[Sequence[int]],
    sweeps: int,
    grant: Grant,
) -> NDArray[np.int64]:
    """Return records drawn column by column, each starting from the preceding record.

    The first record starts from uniform draws. Draws are exact: they use uniform integers from the
    operating system's entropy.

    Args:
        tables: For each column, the exact counts of its codes (first axis) by the codes of other
            columns (further axes). Confidential.
        others: For each column, the indices of the columns of the further axes.
        sweeps: Number of times each column of a record is drawn. For each combination of the other
            columns, a record uses the counts once; later draws are uniform.
        grant: Paid-for `PerturbedDrawsEvent`; the shape of its step is (records, columns).

    Returns:
        Codes, shape (records, columns).

    Raises:
        TypeError: if the grant is for another kind of event.

    Privacy:
        epsilon-DP, with the epsilon of the event. Park & Ghosh (2013), with uniform draws for a
        repeated combination.
    """
    event = grant.step.event
    if not isinstance(event, PerturbedDrawsEvent):
        raise TypeError(f"The grant is for {type(event).__name__}, not for drawn records.")
    records, columns = grant.step.shape
    assert columns == len(tables) == len(others)
    state = [secrets.randbelow(table.shape[0]) for table in tables]
    found = np.empty((records, columns), dtype=np.int64)
    for record in range(records):
        visited: set[tuple[int, ...]] = set()
        for _ in range(sweeps):
            for column, table in enumerate(tables):
                given = tuple(state[other] for other in others[column])
                # privacy: the event does not pay for a second use of the same counts by one record.
                if (column, *given) in visited:
                    state[column] = secrets.randbelow(table.shape[0])
                    continue
                visited.add((column, *given))
                place: tuple[Any, ...] = (slice(None), *given)
                counts = [int(count) for count in table[place]]
                state[column] = weighted(counts, event.scale.numerator, event.scale.denominator)
        found[record] = state
    return found


def weighted(counts: Sequence[int], virtual: int, parts: int) -> int:
    """Return an index with probability exactly proportional to its count plus virtual/parts."""
    ends = list(itertools.accumulate(count * parts + virtual for count in counts))
    return bisect_right(ends, secrets.randbelow(ends[-1]))
