"""Every question that the kernel answers: whole numbers with proven sensitivities.

Read `statistic` first, then `vetted`, the closed list. A method asks for a statistic on the list
and cannot bring its own. A new statistic needs a proof here and an audit in `tests/distributions`.
"""

CORE = frozenset(
    {
        *("table", "binned-counts", "box-counts", "cell-counts", "cell-sums", "class-gradient"),
        *("cosine-sums", "interaction", "kernel-counts", "limited-sums", "number-gradient"),
        *("products", "query-counts", "query-distance", "scores", "second-moments"),
        *("signed-queries", "table-checks", "table-distance"),
    }
)
"""Names of the questions that every release may ask."""
