"""Whole-number statistics that the curator may release or choose by, with proven sensitivities.

This list is closed on purpose: a method asks for one of these, it cannot bring its own. To add a
statistic is to add a proof here and an audit in `tests/distributions`.
"""

from dp_core.wall.statistics.base import Statistic
from dp_core.wall.statistics.dependence.f_score import FScore
from dp_core.wall.statistics.dependence.indif import InDif
from dp_core.wall.statistics.dependence.mutual_information import MutualInformation
from dp_core.wall.statistics.dependence.r_score import RScore
from dp_core.wall.statistics.quantile import Quantile
from dp_core.wall.statistics.query_scores import QueryCounts, QueryDistance, SignedQueries
from dp_core.wall.statistics.table_checks import TableChecks
from dp_core.wall.statistics.table_distance import TableDistance
from dp_core.wall.statistics.vetted import VETTED, bounds, required, sensitivities

__all__ = [
    "VETTED",
    "FScore",
    "InDif",
    "MutualInformation",
    "Quantile",
    "QueryCounts",
    "QueryDistance",
    "RScore",
    "SignedQueries",
    "Statistic",
    "TableChecks",
    "TableDistance",
    "bounds",
    "required",
    "sensitivities",
]
