"""Every question that the curator answers: whole numbers with proven sensitivities.

Read `statistic` first, then `vetted`, the closed list. A method asks for a statistic on the list
and cannot bring its own. A new statistic needs a proof here and an audit in `tests/distributions`.
"""

from dp_core.wall.statistics.dependence.f_score import FScore
from dp_core.wall.statistics.dependence.indif import InDif
from dp_core.wall.statistics.dependence.mutual_information import MutualInformation
from dp_core.wall.statistics.dependence.r_score import RScore
from dp_core.wall.statistics.histograms.cosines import CosineTails
from dp_core.wall.statistics.histograms.cuts import CutDeviations
from dp_core.wall.statistics.linear_questions import CosineSums
from dp_core.wall.statistics.quantile import Quantile
from dp_core.wall.statistics.query_scores import QueryCounts, QueryDistance, SignedQueries
from dp_core.wall.statistics.statistic import Statistic, Sum, TableStatistic, check_codes
from dp_core.wall.statistics.table_checks import TableChecks
from dp_core.wall.statistics.table_distance import TableDistance
from dp_core.wall.statistics.vetted import (
    SUMS,
    VETTED,
    asked_in_shares,
    bounds,
    required,
    sensitivities,
    sum_from_json,
)

__all__ = [
    "SUMS",
    "VETTED",
    "CosineSums",
    "CosineTails",
    "CutDeviations",
    "FScore",
    "InDif",
    "MutualInformation",
    "Quantile",
    "QueryCounts",
    "QueryDistance",
    "RScore",
    "SignedQueries",
    "Statistic",
    "Sum",
    "TableChecks",
    "TableDistance",
    "TableStatistic",
    "asked_in_shares",
    "bounds",
    "check_codes",
    "required",
    "sensitivities",
    "sum_from_json",
]
