"""Drawing records that match tables more closely than independent draws do.

Read `drawing` first, then `series` (large sets). Imports `estimates` and `kernels`.
"""
