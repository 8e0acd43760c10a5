"""Noisy tables made consistent, nonnegative and more accurate.

Read `consistency` first, then `shrinkage`. `raking` and `table_parts` do the arithmetic.
"""
