"""Sums over records of columns that are numbers: moments and what else parametric methods need.

This list is closed on purpose: a method asks for one of these, it cannot bring its own. To add one
is to add a proof here and an audit in `tests/distributions`.
"""

from dp_core.wall.statistics.record_sum import Sum
from dp_core.wall.statistics.vetted_sums import SUMS, sum_bounds, sum_from_json

__all__ = ["SUMS", "Sum", "sum_bounds", "sum_from_json"]
