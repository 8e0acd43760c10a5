"""The closed list of statistics whose sensitivity is proven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dp_core.schema.privacy import Neighbours, Relation
from dp_core.wall.accounting.sensitivity import Bounds, of_unit
from dp_core.wall.statistics.base import Statistic
from dp_core.wall.statistics.dependence.f_score import FScore
from dp_core.wall.statistics.dependence.indif import InDif
from dp_core.wall.statistics.dependence.mutual_information import MutualInformation
from dp_core.wall.statistics.dependence.r_score import RScore
from dp_core.wall.statistics.quantile import Quantile
from dp_core.wall.statistics.query_scores import QueryCounts, QueryDistance, SignedQueries
from dp_core.wall.statistics.sums import SUMS, sum_bounds, sum_from_json
from dp_core.wall.statistics.table_checks import TableChecks
from dp_core.wall.statistics.table_distance import TableDistance

_BY_NAME: Mapping[str, type[Statistic]] = {
    "indif": InDif,
    "query-counts": QueryCounts,
    "query-distance": QueryDistance,
    "table-distance": TableDistance,
    "table-checks": TableChecks,
    "r-score": RScore,
    "signed-queries": SignedQueries,
    "f-score": FScore,
    "mutual-information": MutualInformation,
    "quantile": Quantile,
}

VETTED: tuple[type, ...] = tuple(_BY_NAME.values())
"""Statistics whose sensitivity is proven in this package."""


def bounds(statistic: Statistic, relation: Relation) -> Bounds:
    """Return the largest change of an entry, and the L1 and squared L2 sensitivity of all.

    Every entry may move by its largest change, unless the statistic proves more of itself.

    Raises:
        TypeError: if the statistic is not one whose sensitivity is proven here.
        BadInput: if it is proven for a public number of rows only, and that is not public.
    """
    # privacy: a sensitivity is believed only where it is proven.
    if type(statistic) not in VETTED:
        raise TypeError(f"{type(statistic).__name__} has no proven sensitivity.")

    def of_row(rows: Neighbours) -> Bounds:
        change = statistic.largest_change(rows)
        if isinstance(statistic, QueryCounts):
            return change, statistic.l1(rows), statistic.l2_squared(rows)
        return change, change * statistic.length, change**2 * statistic.length

    return of_unit(relation, of_row)


def sensitivities(statistic: Statistic, relation: Relation) -> tuple[int, int]:
    """Return L1 and squared L2 sensitivity of a statistic; see `bounds`."""
    return bounds(statistic, relation)[1:]


def required(document: Mapping[str, Any], relation: Relation) -> Bounds:
    """Return the sensitivities of a statistic or sum from its `to_json` alone, for whoever checks.

    Args:
        document: The statistic as a receipt describes it; nothing in it is trusted but that it
            names what was computed.
        relation: Of the release.

    Returns:
        The largest change of an entry, and the L1 and squared L2 sensitivity of all entries.

    Raises:
        ValueError: or another error of its kind, if it describes no statistic of the list.
        BadInput: as of `bounds`.
    """
    if document["name"] in SUMS:
        return sum_bounds(sum_from_json(document), relation)
    statistic = _BY_NAME.get(document["name"])
    if statistic is None:
        raise ValueError("No statistic of that name has a proven sensitivity.")
    return of_unit(relation, lambda rows: statistic.required(document, rows))
