"""The noise of the answers that a spec's `tables` ask for, before anything is measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_core.methods.selection.budget.wanted_shares import told_by
from dp_core.methods.selection.budget.workload import Told, WantedTable, mean_variance
from dp_core.wall.accounting.currency import NoiseScale

if TYPE_CHECKING:
    from dp_core.spec.plan import Plan


@dataclass(frozen=True, slots=True)
class Margin:
    """The margin of error that a wanted table will have.

    Attributes:
        table: The table.
        cells: Number of its cells.
        stddev: Standard deviation of the noise of a cell's pooled least-squares estimate or, with
            ranges or prefixes, the root mean square of those of all answers that are asked; in
            records. Infinite if it is not determined.
        half_width: 95 % half width of such an answer, in records.
    """

    table: WantedTable
    cells: int
    stddev: float
    half_width: float


def margins(plan: Plan) -> tuple[Margin, ...]:
    """Return the margin of each wanted table; empty without a workload.

    What a method measures besides, depending on the data, can only make them smaller.
    """
    told, found = _told(plan), []
    one = NoiseScale("laplace" if plan.currency.kind == "pure" else "gaussian", 1.0)
    domain, public = plan.spec.schema.domain, plan.spec.privacy.relation.rows_public
    for table in plan.spec.selector.workload or ():
        stddev = math.sqrt(mean_variance(table, told, domain, rows_public=public))
        # A sum of Laplace noises is treated as one, which has a wider range.
        half_width = stddev * one.half_width / one.stddev
        found.append(Margin(table, domain.size(table.of), stddev, half_width))
    return tuple(found)


def wanted_error(plan: Plan) -> float:
    """Return the weighted error of the workload, in records squared."""
    told = _told(plan)
    domain, public = plan.spec.schema.domain, plan.spec.privacy.relation.rows_public
    return sum(
        float(table.weight) * mean_variance(table, told, domain, rows_public=public)
        for table in plan.spec.selector.workload or ()
    )


def _told(plan: Plan) -> Sequence[Told]:
    """Return all measurements that are certain, as far as their noise is concerned."""
    if not plan.spec.selector.workload:
        return ()
    domain, terms = plan.spec.schema.domain, plan.terms
    certain = plan.spec.selector.certain(domain, terms)
    assert certain is not None
    terms = dataclasses.replace(terms, measure=terms.measure * certain.share)
    return told_by(certain.selection, domain, terms)
