"""What methods with thresholds share: how much delta a table may fail with, and its room."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from dp_core.accounting.sensitivity import count_l1
from dp_core.accounting.thresholds import continuous_threshold
from dp_core.domain import Clique
from dp_core.marginals import SparseTable

if TYPE_CHECKING:
    from dp_core.curator import Curator

Threshold: TypeAlias = Literal["least", "text", "algorithm"]
"""`least`: the least whole number that holds for the discrete noise. `text`, `algorithm`: those of
Li, Karwa, Slavkovic & Steorts (2018), section 2.2 and Algorithm 1, larger than need be."""

SPARE_CELLS = 100
"""Room for cells beyond what is expected at most."""


def delta_of(curator: Curator, cost: Fraction, replicate: int) -> Fraction:
    """Return what all tables of one replicate, that cost so much together, may fail with.

    All that the release set aside where one measurement serves every set; otherwise the part of it
    that their cost is of the whole budget, so that those of all sets fit together.

    Args:
        curator: The wall.
        cost: Of all tables of the replicate.
        replicate: As the selection is told.
    """
    currency = curator.currency
    return currency.own_delta if replicate == 0 else currency.own_delta * cost / currency.limit


def threshold_table(
    curator: Curator,
    clique: Clique,
    cost: Fraction,
    delta: Fraction,
    *,
    rows: float,
    form: Threshold,
    capacity: int | None,
    replicate: int,
) -> SparseTable:
    """Return the cells of a clique whose noisy counts reach the threshold; paid by `measure`.

    Args:
        curator: The wall.
        clique: Columns, of any number of cells.
        cost: Budget, in the release's currency; spent exactly.
        delta: What the table may fail with.
        rows: About how many rows there are, as far as that is public.
        form: Which threshold.
        capacity: Most cells that are kept; None for more than can be expected.
        replicate: Which of the independent measurements this is.
    """
    event = curator.currency.threshold_event(cost, delta, l1=count_l1(curator.neighbours))
    least = event.threshold
    if form != "least":
        least = max(least, math.ceil(continuous_threshold(float(event.scale), float(delta), form)))
    cells = curator.domain.size(clique)
    room = capacity or expected_cells(rows, least, float(delta)) + SPARE_CELLS
    return curator.threshold(
        "measure",
        clique,
        cost,
        delta,
        capacity=min(cells, room),
        least=least,
        replicate=replicate,
    )


def expected_cells(rows: float, threshold: int, delta: float) -> int:
    """Return a number of kept cells that is hardly ever exceeded, whatever the file holds.

    At most 2 rows / threshold cells hold half a threshold or more. Another is kept with a
    probability of at most sqrt(2 delta) or so, that of noise of half a threshold, and there are at
    most as many as rows; twice that is allowed for.

    Args:
        rows: About how many there are.
        threshold: Least noisy count that is kept.
        delta: What the table may fail with.
    """
    return math.ceil(rows * min(1.0, 2 / threshold + 2 * math.sqrt(2 * delta)))
