"""How reliable the sets and tables of a release are, from public figures alone.

Read `table_fit` first: it gives the margin of error of every noisy table and its distance from the
sets. `report.table_precision` turns them into rows of the report.
"""
