"""Codes, tables and households beside the kernel: what it does not need to be right.

Imports the kernel only. `table_plan` chooses which tables are counted, and `coarse_counter` counts
coarse codes with a counter of finer ones. `cliques` are what methods choose among, and `results`
are what crossed the wall; `interactions`, `linked_records` and `stored_shares` find tables,
households and whole shares again in public values.
"""
