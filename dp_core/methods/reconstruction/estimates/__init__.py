"""Estimation of consistent, nonnegative and more accurate tables from noisy ones.

Read `consistency` first, then `pooled_parts`. `raking` and `table_parts` do the arithmetic.
"""
