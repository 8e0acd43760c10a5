"""Declared statistics: means, totals and quantiles of skewed numbers that a release measures.

For a column and its groups, the release measures noisy counts by layers of values, chooses public
limits from these counts, and measures sums of the values clipped to the limits. This room
is post-processing only; the sums are in `dp_core.kernel.questions`.

Read `value_table` (what is measured), `layers` (ranges of values), `tail_counts` (how many records
are in each), `limits` (the question for the sums) and `sum_answers` (estimates), in this order.
`quantile_tree` has the counts from which quantiles are answered.
"""
