"""Delta and thresholds of the tables of methods that keep frequent cells only."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from dp_core.schema.privacy import Relation
from dp_core.tables.domain import Clique, Domain
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.accounting.events import StabilityEvent
from dp_core.wall.accounting.sensitivity import count_l1
from dp_core.wall.accounting.stability_thresholds import continuous_threshold
from dp_core.wall.released import SparseTable

if TYPE_CHECKING:
    from dp_core.wall.curator import Curator

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
        cost: Budget of all tables of the replicate.
        replicate: Index of the independent measurement, 0 if shared.
    """
    return _delta(curator.currency, cost, shared=replicate == 0)


class Thresholding(Protocol):
    """A method that keeps frequent cells, as far as a plan has to know it."""

    @property
    def threshold(self) -> Threshold:
        """Form of the threshold."""

    def tables(self, domain: Domain) -> tuple[int, int]:
        """Return how many tables share cost and delta evenly, and the most cells of one."""


def planned_threshold(
    method: Thresholding,
    domain: Domain,
    currency: Currency,
    cost: Fraction,
    *,
    relation: Relation,
    split: int,
) -> int:
    """Return the least noisy count that will be kept; public arithmetic, of the plan alone.

    Args:
        method: The selection.
        domain: All columns.
        currency: Currency of the release.
        cost: Budget of all measuring.
        relation: Neighbouring relation of the release.
        split: Number of independent measurements, 0 for one that all sets share.
    """
    number, _ = method.tables(domain)
    each = cost / max(1, split)
    delta = _delta(currency, each, shared=not split) / number
    event = _event(currency, each / number, delta, relation)
    return _least(event, delta, method.threshold)


def _event(
    currency: Currency, cost: Fraction, delta: Fraction, relation: Relation
) -> StabilityEvent:
    return currency.threshold_event(cost, delta, l1=count_l1(relation), rows=relation.max_rows)


def _delta(currency: Currency, cost: Fraction, *, shared: bool) -> Fraction:
    return currency.own_delta if shared else currency.own_delta * cost / currency.limit


def _least(event: StabilityEvent, delta: Fraction, form: Threshold) -> int:
    """Return the least noisy count that is kept in a form, never below what the noise needs."""
    if form == "least":
        return event.threshold
    stated = continuous_threshold(float(event.scale), float(delta), form)
    return max(event.threshold, math.ceil(stated))


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
        delta: Failure probability allowed for the table.
        rows: About how many rows there are, as far as that is public.
        form: Form of the threshold.
        capacity: Most cells to keep; None makes room for more than are expected.
        replicate: Index of the independent measurement, 0 if shared.
    """
    event = _event(curator.currency, cost, delta, curator.relation)
    least = _least(event, delta, form)
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
        delta: Failure probability allowed for the table.
    """
    return math.ceil(rows * min(1.0, 2 / threshold + 2 * math.sqrt(2 * delta)))
