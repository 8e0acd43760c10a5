"""The closed list of sums whose sensitivity is proven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.schema.privacy import Relation
from dp_core.wall.accounting.sensitivity import Bounds, of_unit
from dp_core.wall.statistics.record_sum import Sum
from dp_core.wall.statistics.regressions.gradients import ClassGradient, NumberGradient
from dp_core.wall.statistics.regressions.minimisers import ClassMinimiser
from dp_core.wall.statistics.sums.binned_counts import BinnedCounts
from dp_core.wall.statistics.sums.interactions import Interaction
from dp_core.wall.statistics.sums.moments import CellCounts, CellSums, Products

SUMS: Mapping[str, type[Sum]] = {
    CellCounts.NAME: CellCounts,
    CellSums.NAME: CellSums,
    Products.NAME: Products,
    ClassGradient.NAME: ClassGradient,
    NumberGradient.NAME: NumberGradient,
    ClassMinimiser.NAME: ClassMinimiser,
    BinnedCounts.NAME: BinnedCounts,
    Interaction.NAME: Interaction,
}
"""Sums whose sensitivity is proven in this package, by the name in their description."""


def sum_bounds(sum: Sum, relation: Relation) -> Bounds:
    """Return the largest change of an entry (no more than all), and L1 and squared L2 sensitivity.

    Raises:
        TypeError: if the sum is not one whose sensitivity is proven here.
    """
    # privacy: a sensitivity is believed only where it is proven.
    if type(sum) is not SUMS.get(sum.NAME):
        raise TypeError(f"{type(sum).__name__} has no proven sensitivity.")
    return of_unit(relation, lambda rows: (sum.l1(rows), sum.l1(rows), sum.l2_squared(rows)))


def sum_from_json(document: Mapping[str, Any]) -> Sum:
    """Return the sum that a receipt or a file of noisy tables describes.

    Args:
        document: What `Sum.to_json` returned, or what somebody says it did.

    Raises:
        ValueError: or another error of its kind, if it describes no sum of the list.
    """
    kind = SUMS.get(document["name"])
    if kind is None:
        raise ValueError("No sum of that name has a proven sensitivity.")
    found = kind.from_json(document)
    # What it does not read, it would not vouch for either.
    if found.to_json() != document:
        raise ValueError("That is no description of a sum, or not all of it is.")
    return found
