"""Codes, tables and households beside the kernel: what it does not need to be right.

Imports the kernel only. `table_plan` chooses which tables are counted, and `coarse_counter` counts
coarse codes with a counter of finer ones. `cliques` are what methods choose among, and
`cell_keys` counts equal keys of cells. `household_rows` makes pair rows of households, and
`linked_records` finds households in them again.
"""
