"""Codes, tables and households beside the kernel: what it does not need to be right.

Imports the kernel only. `table_plan` chooses which tables are counted, and `coarse_counter` counts
coarse codes with a counter of finer ones. `results` are what crossed the wall; `linked_records` and
`stored_shares` find households and whole shares again in public values.
"""
