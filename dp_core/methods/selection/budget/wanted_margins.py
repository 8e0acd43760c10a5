"""The margins of error of wanted tables, before anything is measured."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from dp_core.methods.selection.budget.wanted_shares import told_by
from dp_core.methods.selection.budget.workload import WantedTable, mean_variance
from dp_core.methods.selection.selector import Selector, Terms
from dp_core.tables.domain import Domain
from dp_core.wall.accounting.currency import NoiseScale


@dataclass(frozen=True, slots=True)
class Margin:
    """The margin of error that a wanted table will have at most.

    Attributes:
        table: The table.
        cells: Number of its cells.
        stddev: Standard deviation of the noise of a cell's pooled least-squares estimate or, with
            ranges or prefixes, the root mean square of those of all answers that are asked; in
            records.
        half_width: 95 % half width of such an answer, in records.
    """

    table: WantedTable
    cells: int
    stddev: float
    half_width: float


def margins(selector: Selector, domain: Domain, terms: Terms) -> tuple[Margin, ...]:
    """Return the margin of each wanted table; empty without a workload.

    What a method measures besides, depending on the data, can only make them smaller.

    Args:
        selector: A selection, with its workload.
        domain: All columns.
        terms: Budget and earlier noise.
    """
    certain = selector.certain(domain, terms) if selector.workload else None
    if certain is None:
        return ()
    paid = dataclasses.replace(terms, measure=terms.measure * certain.share)
    told, found = told_by(certain.selection, domain, paid), []
    one = NoiseScale("laplace" if terms.currency.kind == "pure" else "gaussian", 1.0)
    public = terms.relation.rows_public
    for table in selector.workload or ():
        stddev = math.sqrt(mean_variance(table, told, domain, rows_public=public))
        # A sum of Laplace noises is treated as one, which has a wider range.
        half_width = stddev * one.half_width / one.stddev
        found.append(Margin(table, domain.size(table.of), stddev, half_width))
    return tuple(found)


def weighted_error(selector: Selector, domain: Domain, terms: Terms) -> float:
    """Return the weighted error of the workload, in records squared; 0 without one.

    Args:
        selector: A selection, with its workload.
        domain: All columns.
        terms: Budget and earlier noise.
    """
    found = margins(selector, domain, terms)
    return math.fsum(float(each.table.weight) * each.stddev**2 for each in found)
