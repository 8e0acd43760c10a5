"""Every question that the kernel answers: whole numbers with proven sensitivities.

Read `statistic` first, then `vetted`, the closed list. A method asks for a statistic on the list
and cannot bring its own. A new statistic needs a proof here and an audit in `tests/distributions`.
"""

from collections.abc import Mapping

STATISTICS: Mapping[str, tuple[str, str]] = {
    "binned-counts": ("linear_questions", "BinnedCounts"),
    "box-counts": ("linear_questions", "BoxCounts"),
    "cell-counts": ("linear_questions", "CellCounts"),
    "cell-sums": ("linear_questions", "CellSums"),
    "class-gradient": ("regressions.gradients", "ClassGradient"),
    "cosine-sums": ("linear_questions", "CosineSums"),
    "interaction": ("linear_questions", "Interaction"),
    "kernel-counts": ("linear_questions", "KernelCounts"),
    "limited-sums": ("limited_sums", "LimitedSums"),
    "number-gradient": ("regressions.gradients", "NumberGradient"),
    "products": ("products", "Products"),
    "query-counts": ("query_scores", "QueryCounts"),
    "query-distance": ("query_scores", "QueryDistance"),
    "scores": ("regressions.shortened", "Scores"),
    "second-moments": ("regressions.shortened", "SecondMoments"),
    "signed-queries": ("query_scores", "SignedQueries"),
    "table-checks": ("table_distance", "TableChecks"),
    "table-distance": ("table_distance", "TableDistance"),
}
"""File and class of each statistic that every release may ask, by its `name` in a receipt."""

CORE = frozenset({"table", *STATISTICS})
"""Names of the questions that every release may ask."""
