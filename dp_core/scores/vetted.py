"""The closed list of statistics whose sensitivity is proven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.privacy import Neighbours
from dp_core.scores.base import Bounds, Statistic
from dp_core.scores.f_score import FScore
from dp_core.scores.indif import InDif
from dp_core.scores.mutual_information import MutualInformation
from dp_core.scores.quantile import Quantile
from dp_core.scores.queries import QueryCounts, QueryDistance, SignedQueries
from dp_core.scores.r_score import RScore
from dp_core.scores.table_distance import TableDistance
from dp_core.sums import SUMS, sum_from_json

_BY_NAME: Mapping[str, type[Statistic]] = {
    "indif": InDif,
    "query-counts": QueryCounts,
    "query-distance": QueryDistance,
    "table-distance": TableDistance,
    "r-score": RScore,
    "signed-queries": SignedQueries,
    "f-score": FScore,
    "mutual-information": MutualInformation,
    "quantile": Quantile,
}

VETTED: tuple[type, ...] = tuple(_BY_NAME.values())
"""Statistics whose sensitivity is proven in this package."""


def sensitivities(statistic: Statistic, neighbours: Neighbours) -> tuple[int, int]:
    """Return L1 and squared L2 sensitivity of a statistic.

    Every entry may move by its largest change, unless the statistic proves more of itself.

    Raises:
        TypeError: if the statistic is not one whose sensitivity is proven here.
    """
    # privacy: a sensitivity is believed only where it is proven.
    if type(statistic) not in VETTED:
        raise TypeError(f"{type(statistic).__name__} has no proven sensitivity.")
    if isinstance(statistic, QueryCounts):
        return statistic.l1(neighbours), statistic.l2_squared(neighbours)
    change = statistic.largest_change(neighbours)
    return change * statistic.length, change**2 * statistic.length


def required(document: Mapping[str, Any], neighbours: Neighbours) -> Bounds:
    """Return the sensitivities of a statistic or sum from its `to_json` alone, for whoever checks.

    Args:
        document: The statistic as a receipt describes it; nothing in it is trusted but that it
            names what was computed.
        neighbours: The relation.

    Returns:
        The largest change of an entry, and the L1 and squared L2 sensitivity of all entries.

    Raises:
        ValueError: or another error of its kind, if it describes no statistic of the list.
    """
    if document["name"] in SUMS:
        asked = sum_from_json(document)
        return asked.l1(neighbours), asked.l1(neighbours), asked.l2_squared(neighbours)
    statistic = _BY_NAME.get(document["name"])
    if statistic is None:
        raise ValueError("No statistic of that name has a proven sensitivity.")
    return statistic.required(document, neighbours)
