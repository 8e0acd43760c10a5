"""Delta and thresholds of methods that keep only frequent cells of their tables."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

from dp_core.client.released import SparseTable
from dp_core.kernel.cost.currency import Currency
from dp_core.kernel.cost.sensitivity import count_l1
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.extensions.thresholds import StabilityEvent
from dp_core.kernel.privacy import Relation
from dp_core.methods import drawn_answers
from dp_core.methods.drawn_events import threshold_event
from dp_core.methods.method_inputs import MethodInputs

Form = Literal["sharp", "text", "algorithm"]
"""Formula for the threshold of continuous noise; see `continuous_threshold`."""

Threshold: TypeAlias = Literal["least", "text", "algorithm"]
"""`least`: the smallest integer that is valid for the discrete noise. `text`, `algorithm`: the
larger thresholds of Li, Karwa, Slavkovic & Steorts (2018), section 2.2 and Algorithm 1."""

SPARE_CELLS = 100
"""Number of cells that can be kept in addition to the bound on the expected number."""


def delta_of(inputs: MethodInputs) -> Fraction:
    """Return the delta of all tables of one replicate together.

    If one measurement serves all sets, that is the whole delta that the release reserved for
    failures. Otherwise it is a part in proportion to the replicate's part of the budget, so that
    the deltas of all sets add up to at most the reserved one.
    """
    return _delta(inputs.curator.currency, inputs.measure_cost, shared=inputs.replicate == 0)


class Thresholding(Protocol):
    """What a plan needs to know about a method that keeps frequent cells."""

    @property
    def threshold(self) -> Threshold:
        """Form of the threshold."""

    def tables(self, domain: Domain) -> tuple[int, int]:
        """Return the number of tables, which share cost and delta equally, and one's most cells."""


def planned_threshold(
    method: Thresholding,
    domain: Domain,
    currency: Currency,
    cost: Fraction,
    *,
    relation: Relation,
    split: int,
) -> int:
    """Return the smallest noisy count that will be kept, computed from the plan alone.

    Args:
        method: The selection.
        domain: All columns.
        currency: Currency of the release.
        cost: Budget of all measuring.
        relation: Neighbouring relation of the release.
        split: Number of independent measurements; 0 if all sets share one.
    """
    number, _ = method.tables(domain)
    each = cost / max(1, split)
    delta = _delta(currency, each, shared=not split) / number
    event = _event(currency, each / number, delta, relation)
    return _least(event, delta, method.threshold)


def _event(
    currency: Currency, cost: Fraction, delta: Fraction, relation: Relation
) -> StabilityEvent:
    return threshold_event(currency, cost, delta, l1=count_l1(relation), rows=relation.max_rows)


def _delta(currency: Currency, cost: Fraction, *, shared: bool) -> Fraction:
    return currency.own_delta if shared else currency.own_delta * cost / currency.limit


def _least(event: StabilityEvent, delta: Fraction, form: Threshold) -> int:
    """Return the smallest noisy count that is kept, never below what the noise requires."""
    if form == "least":
        return event.threshold
    stated = continuous_threshold(float(event.scale), float(delta), form)
    return max(event.threshold, math.ceil(stated))


def threshold_table(
    inputs: MethodInputs,
    clique: Clique,
    cost: Fraction,
    delta: Fraction,
    *,
    rows: float,
    form: Threshold,
) -> SparseTable:
    """Return the cells of a clique whose noisy counts reach the threshold; `measure` pays.

    Args:
        inputs: The inputs of `select`.
        clique: Columns, of any number of cells.
        cost: Budget, in the release's currency; spent exactly.
        delta: Failure probability allowed for the table.
        rows: Approximate number of rows, as far as it is public.
        form: Form of the threshold.
    """
    curator = inputs.curator
    event = _event(curator.currency, cost, delta, curator.relation)
    least = _least(event, delta, form)
    cells = curator.domain.size(clique)
    room = expected_cells(rows, least, float(delta)) + SPARE_CELLS
    return drawn_answers.threshold_table(
        curator,
        "measure",
        clique,
        cost,
        delta,
        capacity=min(cells, room),
        least=least,
        replicate=inputs.replicate,
    )


def expected_cells(rows: float, threshold: int, delta: float) -> int:
    """Return a number of kept cells that is very unlikely to be exceeded, for any file.

    At most 2 rows / threshold cells have at least half a threshold of records. Any other cell is
    kept only if its noise exceeds half a threshold, which has a probability of about sqrt(2 delta)
    at most. There are at most as many such cells as rows; twice their expected number is allowed
    for.

    Args:
        rows: Approximate number of rows.
        threshold: Smallest noisy count that is kept.
        delta: Failure probability allowed for the table.
    """
    return math.ceil(rows * min(1.0, 2 / threshold + 2 * math.sqrt(2 * delta)))


def continuous_threshold(scale: float, delta: float, form: Form) -> float:
    """Return the threshold of continuous Laplace noise, records.

    With Laplace noise of scale b a cell of one record reaches t = 1 + b log(c/delta) with
    probability delta / (2c).

    Args:
        scale: Scale of the noise, records: sensitivity (2 if a record is replaced) over epsilon.
        delta: Largest allowed probability that the cell is kept.
        form: `sharp` (c = 1/2) uses delta exactly. `text` (c = 1) and `algorithm` (c = 2) are the
            formulas of Li, Karwa, Slavkovic & Steorts (2018), section 2.2 and Algorithm 1; they use
            a half and a quarter of delta.

    >>> forms = ("algorithm", "text", "sharp")
    >>> [round(continuous_threshold(4.0, 1e-4, form), 6) for form in forms]
    [40.61395, 37.841361, 35.068773]
    """
    factor = {"sharp": 0.5, "text": 1.0, "algorithm": 2.0}[form]
    return 1 + scale * math.log(factor / delta)
